//! SHA256SUMS of a folder: what `sha256sum --check` reads, sorted, with paths below the folder.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use millrace_stack::image::digest;

use crate::release::plan;

/// The file's name.
pub(crate) const FILE: &str = "SHA256SUMS";

/// Digests (`sha256:...`) of all files below a folder, by path.
pub(crate) fn of(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        let listed = || format!("cannot list {}", next.display());
        for entry in std::fs::read_dir(&next).with_context(listed)? {
            let path = entry.with_context(listed)?.path();
            if path.is_dir() {
                open.push(path);
            } else if let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str) {
                found.insert(name.to_owned(), digest(&plan::read(&path)?));
            }
        }
    }
    Ok(found)
}

/// Writes the file into the folder that the digests are of.
pub(crate) fn write(folder: &Path, digests: &BTreeMap<String, String>) -> Result<()> {
    plan::write(&folder.join(FILE), text(digests).as_bytes())
}

fn text(digests: &BTreeMap<String, String>) -> String {
    let hex = |digest: &str| digest.trim_start_matches("sha256:").to_owned();
    digests.iter().map(|(name, digest)| format!("{}  {name}\n", hex(digest))).collect()
}

#[cfg(test)]
mod tests {
    use super::{FILE, of, write};

    /// Scenario: a folder in a folder; then a byte changes. Guarantee: `sha256sum` takes the file,
    /// and refuses it afterwards.
    #[test]
    fn the_systems_own_program_checks_the_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("below")).unwrap();
        let file = folder.path().join("below/a");
        std::fs::write(&file, "1").unwrap();
        std::fs::write(folder.path().join("b"), "2").unwrap();
        write(folder.path(), &of(folder.path()).unwrap()).unwrap();
        let check = || {
            let mut command = std::process::Command::new("sha256sum");
            command.args(["--check", "--quiet", FILE]).current_dir(folder.path());
            command.output().unwrap().status.success()
        };
        assert!(check());
        std::fs::write(&file, "3").unwrap();
        assert!(!check());
    }
}
