//! The committed fuzz corpus: one tar archive per target, so that thousands of small inputs are
//! not thousands of files of the repository.
//!
//! The same inputs always give the same bytes: entries are sorted by name and carry no time, owner
//! or mode of their own. Archives are not compressed, because git compresses what it stores.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Replaces `folder` by the inputs of an archive. An archive that is missing is an empty one.
pub(crate) fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    if !archive.exists() {
        return Ok(());
    }
    let opened = File::open(archive).with_context(|| format!("no {}", archive.display()))?;
    let mut opened = tar::Archive::new(opened);
    opened.set_preserve_mtime(false);
    opened.unpack(folder).with_context(|| format!("cannot unpack {}", archive.display()))
}

/// Replaces an archive by the inputs in `folder`.
pub(crate) fn pack(folder: &Path, archive: &Path) -> Result<()> {
    let mut inputs = files(folder)?;
    inputs.sort();
    let made =
        File::create(archive).with_context(|| format!("cannot make {}", archive.display()))?;
    let mut builder = tar::Builder::new(made);
    for (path, bytes) in inputs {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes);
        header.set_mode(0o644);
        let name = path.file_name().unwrap_or_default();
        let opened = File::open(&path).with_context(|| format!("no {}", path.display()))?;
        builder
            .append_data(&mut header, name, opened)
            .with_context(|| format!("cannot pack {}", path.display()))?;
    }
    builder.finish().with_context(|| format!("cannot end {}", archive.display()))
}

/// The files of a folder and their lengths.
pub(crate) fn files(folder: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))? {
        let entry = entry?;
        files.push((entry.path(), entry.metadata()?.len()));
    }
    Ok(files)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{pack, unpack};
    use std::fs;

    /// Scenario: inputs are packed, unpacked beside an old input, and packed again. Guarantee: the
    /// inputs come back unaltered and alone, and both archives have the same bytes.
    #[test]
    fn inputs_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("in")).unwrap();
        fs::write(at("in/b"), [0, 159, 146, 150]).unwrap();
        fs::write(at("in/a"), []).unwrap();
        pack(&at("in"), &at("one.tar")).unwrap();
        fs::create_dir(at("out")).unwrap();
        fs::write(at("out/old"), "left by an earlier run").unwrap();
        unpack(&at("one.tar"), &at("out")).unwrap();
        assert_eq!(fs::read(at("out/b")).unwrap(), [0, 159, 146, 150]);
        assert!(fs::read(at("out/a")).unwrap().is_empty());
        assert_eq!(fs::read_dir(at("out")).unwrap().count(), 2);
        pack(&at("out"), &at("two.tar")).unwrap();
        assert_eq!(fs::read(at("one.tar")).unwrap(), fs::read(at("two.tar")).unwrap());
    }
}
