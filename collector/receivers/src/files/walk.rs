//! A look at the directories: which regular files are there. Each directory is watched before it is
//! read, so that nothing that appears in it meanwhile is missed.

use std::collections::HashSet;
use std::fs::{self, DirEntry, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use millrace_tail::{Identity, Paused, Seen};

use super::source::{Root, Source};
use super::watch::Watch;

/// The most names of what isn't read that are kept so as to be named once: 1,024 of 100 bytes are
/// 0.1 MB.
const NAMED_MAX: usize = 1024;

/// What looks, and what it said already.
#[derive(Debug, Default)]
pub(super) struct Walk {
    named: HashSet<PathBuf>,
}

/// What a look showed.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) seen: Vec<Seen>,
    /// Whether every directory could be read.
    pub(super) complete: bool,
    /// Files that may change without an event in their directory: links that are followed, and
    /// files with several names.
    pub(super) apart: Vec<Apart>,
    /// What is there and isn't read for now.
    pub(super) paused: Paused,
}

/// A name, and the file that it led to, if to any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Apart {
    pub(super) path: PathBuf,
    pub(super) file: Option<Identity>,
}

impl Walk {
    pub(super) fn look(&mut self, sources: &[Source], watch: &mut Watch) -> Look {
        let mut look = Look { complete: true, ..Look::default() };
        for (index, source) in sources.iter().enumerate() {
            if !source.is_known() {
                look.paused.sources.insert(index);
                continue;
            }
            for Root { folder, levels } in &source.roots {
                self.folder((index, source), (folder, *levels), watch, &mut look);
            }
        }
        look.seen.sort_by(|one, other| one.path.cmp(&other.path));
        look
    }

    fn folder(
        &mut self,
        (index, source): (usize, &Source),
        (folder, levels): (&Path, usize),
        watch: &mut Watch,
        look: &mut Look,
    ) {
        watch.cover(folder);
        for entry in self.entries(folder, look) {
            let path = entry.path();
            let inside = source.reads(&path);
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if source.leaves_out(&path) {
                    self.pass(source, (&path, levels), look);
                } else if levels > 0 {
                    self.folder((index, source), (&path, levels - 1), watch, look);
                } else if inside {
                    self.name(&path, "it is a directory");
                }
                continue;
            }
            // A link to a directory is none of these: it isn't walked, so there are no circles.
            let followed = kind.is_symlink() && source.links.are_followed() && inside;
            if !kind.is_file() && !followed {
                if inside && kind.is_symlink() {
                    self.name(&path, &source.links.refusal());
                } else if inside {
                    self.name(&path, "it is not a regular file");
                }
                continue;
            }
            let found = match followed.then(|| source.links.target(&path)) {
                None => fs::metadata(&path),
                Some(Ok(Some(target))) => fs::metadata(target),
                Some(Ok(None)) => {
                    self.name(&path, &source.links.refusal());
                    continue;
                }
                Some(Err(error)) => Err(error),
            };
            let is_apart = |found: &Metadata| inside && found.nlink() > 1;
            if followed || found.as_ref().is_ok_and(is_apart) {
                let file = found.as_ref().ok().map(identity);
                look.apart.push(Apart { path: path.clone(), file });
            }
            match found {
                Ok(found) if found.is_file() => {
                    look.seen.push(seen(path, index, inside, &found));
                }
                Ok(_) => self.name(&path, "it is a link to something that is no regular file"),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    look.complete = false;
                    self.name(&path, &error.to_string());
                }
            }
        }
    }

    /// What is in a directory; nothing if it isn't there, or not any more.
    fn entries(&mut self, folder: &Path, look: &mut Look) -> Vec<DirEntry> {
        match fs::read_dir(folder) {
            Ok(entries) => {
                let entries = entries.filter_map(|entry| {
                    look.complete &= entry.is_ok();
                    entry.ok()
                });
                entries.collect()
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                // One that isn't ours to read stays so, and hides nothing that is read.
                look.complete &= error.kind() == ErrorKind::PermissionDenied;
                self.name(folder, &format!("its directory can't be read: {error}"));
                Vec::new()
            }
        }
    }

    /// Takes the files of a pod that isn't read for now as there. Its directories aren't watched.
    fn pass(&mut self, source: &Source, (folder, levels): (&Path, usize), look: &mut Look) {
        for entry in self.entries(folder, look) {
            let found = match entry.metadata() {
                Ok(found) if found.is_symlink() && source.links.are_followed() => {
                    match source.links.target(&entry.path()) {
                        Ok(Some(target)) => fs::metadata(target),
                        Ok(None) => continue,
                        Err(error) => Err(error),
                    }
                }
                found => found,
            };
            match found {
                Ok(found) if found.is_file() => _ = look.paused.files.insert(identity(&found)),
                Ok(found) if found.is_dir() && levels > 1 => {
                    self.pass(source, (&entry.path(), levels - 1), look);
                }
                Ok(_) => {}
                Err(error) => look.complete &= error.kind() == ErrorKind::NotFound,
            }
        }
    }

    /// Says once why something isn't read.
    pub(super) fn name(&mut self, path: &Path, why: &str) {
        if self.named.len() < NAMED_MAX && self.named.insert(path.to_owned()) {
            tracing::warn!(path = %path.display(), why, "not read");
        }
    }
}

/// Which file it is.
pub(super) fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

/// Size and stamp.
pub(super) fn stamps(found: &Metadata) -> (u64, u64) {
    let seconds = u64::try_from(found.mtime()).unwrap_or_default();
    let nanos = u64::try_from(found.mtime_nsec()).unwrap_or_default();
    (found.size(), seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

fn seen(path: PathBuf, source: usize, inside: bool, found: &Metadata) -> Seen {
    let ((device, inode), (size, modified)) = (identity(found), stamps(found));
    Seen { path: path.into(), source, inside, device, inode, size, modified }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use millrace_config::FilesReceiver;

    use super::super::SourceSettings;
    use super::*;

    /// Scenario: a FIFO, a socket, a directory, and links to a device and a directory, all named
    /// like logs, beside a log and a link to one elsewhere. Guarantee: the logs are seen, each of
    /// the others is named, and the look is complete.
    #[test]
    fn what_is_no_log_is_named() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |name: &str| folder.path().join(name);
        assert!(Command::new("mkfifo").arg(path("fifo.log")).status().unwrap().success());
        let _socket = UnixListener::bind(path("socket.log")).unwrap();
        fs::create_dir(path("folder.log")).unwrap();
        symlink("/dev/zero", path("device.log")).unwrap();
        symlink(elsewhere.path(), path("away.log")).unwrap();
        fs::write(path("app.log"), "a line\n").unwrap();
        fs::write(elsewhere.path().join("text"), "a line\n").unwrap();
        symlink(elsewhere.path().join("text"), path("link.log")).unwrap();
        let include = vec![format!("{}/*.log", folder.path().display())];
        let settings = FilesReceiver { include, ..FilesReceiver::default() };
        let source = Source::compile(&SourceSettings::Files(settings)).unwrap();
        let mut walk = Walk::default();
        let look = walk.look(&[source], &mut Watch::new(0));
        let seen: Vec<_> = look.seen.into_iter().map(|seen| seen.path.to_path_buf()).collect();
        assert_eq!((seen, look.complete), (vec![path("app.log"), path("link.log")], true));
        let mut named: Vec<_> = walk.named.into_iter().collect();
        named.sort();
        let others = ["away.log", "device.log", "fifo.log", "folder.log", "socket.log"];
        assert_eq!(named, others.map(path));
    }
}
