//! Decides which symbolic links are followed, and to which files.
//!
//! The kubelet's directory contains links only with Docker, whose files are in a separate
//! directory. Such a link may lead only to one of Docker's log files: whoever can write to the
//! kubelet's directory must not be able to name a file to be read.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::open::{self, OpenedFile};

/// The suffix of Docker's file names: `ID/ID-json.log`.
const DOCKER_ENDING: &str = "-json.log";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Links {
    /// None.
    Unfollowed,
    /// Links to any regular file.
    Followed,
    /// Links to Docker's log files below this directory.
    Docker(PathBuf),
}

impl Links {
    /// Whether any links are followed.
    pub(super) fn are_followed(&self) -> bool {
        *self != Self::Unfollowed
    }

    /// The file to read for a link; None if it isn't followed.
    ///
    /// # Errors
    /// If the link leads nowhere.
    pub(super) fn resolve_link(&self, link: &Path) -> io::Result<Option<PathBuf>> {
        match self {
            Self::Unfollowed => Ok(None),
            Self::Followed => Ok(Some(link.to_owned())),
            Self::Docker(folder) => {
                let target = fs::canonicalize(link)?;
                let folder = fs::canonicalize(folder);
                let is_log = folder.is_ok_and(|folder| is_of_docker(&folder, &target));
                Ok(is_log.then_some(target))
            }
        }
    }

    /// Why a link isn't followed.
    pub(super) fn refusal_reason(&self) -> String {
        match self {
            Self::Docker(folder) => {
                format!("it does not link to a log file of Docker below {}", folder.display())
            }
            Self::Unfollowed | Self::Followed => {
                "it is a symbolic link: with Docker (cri-dockerd), set dockerDirectory".into()
            }
        }
    }

    /// Opens a file, or the file to which a link leads.
    ///
    /// # Errors
    /// System errors; also if it is no regular file, or a link that isn't followed.
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<OpenedFile> {
        match self {
            Self::Unfollowed => open::open_regular(path, false),
            Self::Followed => open::open_regular(path, true),
            Self::Docker(_) if fs::symlink_metadata(path)?.is_symlink() => {
                let target = self.resolve_link(path)?;
                let target = target.ok_or_else(|| io::Error::other(self.refusal_reason()))?;
                open::open_regular(&target, false)
            }
            Self::Docker(_) => open::open_regular(path, false),
        }
    }
}

/// Whether a path without links is `ID/ID-json.log` below a directory without links.
fn is_of_docker(folder: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(folder) else { return false };
    let parts: Vec<Component<'_>> = below.components().collect();
    let [Component::Normal(id), Component::Normal(name)] = parts.as_slice() else { return false };
    let name = name.to_str().and_then(|name| name.strip_suffix(DOCKER_ENDING));
    name.is_some_and(|name| !name.is_empty() && id.to_str() == Some(name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Scenario: links to Docker's log file (direct and through another link), to its settings
    /// (which contain secrets), out of its directory, to another directory of that name, and to
    /// nothing. Guarantee: the first two are followed to the file itself; the others are refused by
    /// a scan and by an open.
    #[test]
    fn a_link_leads_to_a_log_file_of_docker_or_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str| {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), "x\n").unwrap();
        };
        write("docker/ab/ab-json.log");
        write("docker/ab/config.v2.json");
        write("docker/ab/cd-json.log");
        write("docker-other/ab/ab-json.log");
        write("secret");
        let links = Links::Docker(at("docker"));
        let link = |name: &str, to: &Path| {
            symlink(to, at(name)).unwrap();
            (links.resolve_link(&at(name)).ok().flatten(), links.open_file(&at(name)).is_ok())
        };
        let log = at("docker/ab/ab-json.log").canonicalize().unwrap();
        assert_eq!(link("0.log", &log), (Some(log.clone()), true));
        assert_eq!(link("1.log", &at("0.log")), (Some(log), true));
        for (name, to) in [
            ("2.log", "docker/ab/config.v2.json"),
            ("3.log", "docker/ab/cd-json.log"),
            ("4.log", "docker/ab/../../secret"),
            ("5.log", "docker-other/ab/ab-json.log"),
            ("6.log", "docker/ab/gone-json.log"),
            ("7.log", "docker/ab"),
        ] {
            assert_eq!(link(name, &at(to)), (None, false), "{to}");
        }
        assert!(links.open_file(&at("secret")).is_ok(), "what is no link is opened as ever");
    }
}
