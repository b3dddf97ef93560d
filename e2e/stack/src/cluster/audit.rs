//! The API server's audit log: each request that a pod's account made since the log was emptied. The
//! rules of what is written are in `kubernetes::configs`.

use std::fs::{self, File};
use std::path::PathBuf;

use crate::error::Result;
use crate::paths::Paths;
use crate::service::io_error;

/// The log's name among those of components.
pub(crate) const AUDIT_LOG: &str = "audit";

/// The files, the current one among them: the API server renames a full one to
/// `audit-TIME.log`.
///
/// # Errors
/// When their folder can't be read.
pub fn files(paths: &Paths) -> Result<Vec<PathBuf>> {
    let current = paths.log(AUDIT_LOG);
    let Some(folder) = current.parent().filter(|folder| folder.is_dir()) else {
        return Ok(Vec::new());
    };
    let failed = || io_error(format!("read {}", folder.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path == current || name.starts_with("audit-") && name.ends_with(".log") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Empties the log. The API server appends to its open file, which is therefore truncated, not
/// removed.
///
/// # Errors
/// When a file can't be changed.
pub fn clear(paths: &Paths) -> Result<()> {
    let current = paths.log(AUDIT_LOG);
    for file in files(paths)? {
        let cleared = match file == current {
            true => File::options().write(true).truncate(true).open(&file).map(drop),
            false => fs::remove_file(&file),
        };
        cleared.map_err(io_error(format!("empty {}", file.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{AUDIT_LOG, clear, files};
    use crate::paths::Paths;

    /// Scenario: a log with an older file, next to a component's log; it is emptied. Guarantee: both
    /// files are listed, the older one is removed, the current one stays, and the component's log is
    /// unchanged.
    #[test]
    fn the_log_is_emptied_where_the_server_appends() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().join("state"), folder.path().join("cache")).unwrap();
        assert!(files(&paths).unwrap().is_empty());
        let logs = paths.state_dir("logs").unwrap();
        let older = logs.join("audit-2026-01-02T03-04-05.678.log");
        for file in [&older, &paths.log(AUDIT_LOG), &paths.log("kafka")] {
            fs::write(file, "{}\n").unwrap();
        }
        assert_eq!(files(&paths).unwrap(), [older, paths.log(AUDIT_LOG)]);
        clear(&paths).unwrap();
        assert_eq!(files(&paths).unwrap(), [paths.log(AUDIT_LOG)]);
        assert_eq!(fs::read_to_string(paths.log(AUDIT_LOG)).unwrap(), "");
        assert_eq!(fs::read_to_string(paths.log("kafka")).unwrap(), "{}\n");
    }
}
