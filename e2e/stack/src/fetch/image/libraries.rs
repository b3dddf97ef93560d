//! Which shared libraries a program needs, as the dynamic loader itself finds them; of another
//! architecture's program, as its headers name them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Platform;
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

/// The loader and the libraries of a program of another architecture: where the image has each, and
/// where it is below `root`.
pub(super) fn below(
    binary: &Path,
    platform: Platform,
    root: &Path,
) -> Result<BTreeMap<PathBuf, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut open = vec![binary.to_path_buf()];
    while let Some(file) = open.pop() {
        let output = Command::new("readelf")
            .args(["--wide", "--program-headers", "--dynamic"])
            .arg(&file)
            .env("LC_ALL", "C")
            .output()
            .map_err(io_error("run readelf"))?;
        for name in named(&String::from_utf8_lossy(&output.stdout)) {
            let folder = PathBuf::from("/lib").join(platform.multiarch());
            let places = match name.starts_with('/') {
                true => vec![PathBuf::from(&name)],
                false => vec![
                    folder.join(&name),
                    Path::new("/usr").join(folder.strip_prefix("/").unwrap_or(&folder)).join(&name),
                ],
            };
            let within = |place: &PathBuf| root.join(place.strip_prefix("/").unwrap_or(place));
            let Some(place) = places.into_iter().find(|place| within(place).exists()) else {
                let problem = format!("the shared library {name} is not below {}", root.display());
                return Err(StackError::Image { image: file.display().to_string(), problem });
            };
            let file = within(&place);
            if found.insert(place, file.clone()).is_none() {
                open.push(file);
            }
        }
    }
    Ok(found)
}

/// The loader and libraries that headers name, as readelf prints them.
fn named(text: &str) -> Vec<String> {
    let between = |line: &str, from: &str, to: char| {
        let (_, rest) = line.split_once(from)?;
        rest.split(to).next().map(str::to_owned)
    };
    let lines = text.lines();
    lines
        .filter_map(|line| match line.contains("(NEEDED)") {
            true => between(line, "[", ']'),
            false => between(line, "program interpreter: ", ']'),
        })
        .collect()
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

    use super::{named, parse};

    /// Scenario: what readelf prints of a program. Guarantee: its loader and its libraries.
    #[test]
    fn what_readelf_prints_is_read() {
        let text = "  INTERP 0x238\n      [Requesting program interpreter: /lib/ld-linux-aarch64.so.1]\n\
                    0x0000000000000001 (NEEDED)  Shared library: [libc.so.6]\n\
                    0x000000000000001e (FLAGS)   BIND_NOW\n";
        assert_eq!(named(text), ["/lib/ld-linux-aarch64.so.1", "libc.so.6"]);
    }

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
