//! Which shared libraries a program needs, as the dynamic loader itself finds them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Result, StackError};
use crate::service::io_error;

/// Absolute paths of the loader and the libraries of `binary`; none for a static one.
pub(super) fn of(binary: &Path) -> Result<BTreeSet<PathBuf>> {
    let output =
        Command::new("ldd").arg(binary).env("LC_ALL", "C").output().map_err(io_error("run ldd"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("not a dynamic executable") {
        return Ok(BTreeSet::new());
    }
    let fail = |problem: String| StackError::Image { image: binary.display().to_string(), problem };
    if !output.status.success() {
        return Err(fail(errors.trim().to_owned()));
    }
    parse(&text).map_err(|library| {
        fail(format!("the shared library {library} is not on this machine: install its package"))
    })
}

/// Reads what ldd prints; the error is the library it did not find.
fn parse(text: &str) -> Result<BTreeSet<PathBuf>, String> {
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        let (library, target) = line.split_once(" => ").unwrap_or((line, line));
        if target.starts_with("not found") {
            return Err(library.to_owned());
        }
        // What is not a path is not a file: the kernel's own library, or "statically linked".
        if let Some(path) = target.split_whitespace().next().filter(|path| path.starts_with('/')) {
            found.insert(PathBuf::from(path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::parse;

    /// The loader stands alone on its line, the kernel's library has no file.
    #[test]
    fn what_ldd_prints_is_read() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f1)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f2)\n";
        let found: Vec<PathBuf> = parse(text).unwrap().into_iter().collect();
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert_eq!(parse("\tstatically linked\n"), Ok(Default::default()));
    }

    /// An image without one of its libraries would start nowhere.
    #[test]
    fn a_missing_library_is_named() {
        assert_eq!(parse("\tlibx.so.1 => not found\n"), Err("libx.so.1".to_owned()));
    }
}
