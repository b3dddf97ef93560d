//! Which symbolic links are followed, and to which files.
//!
//! The kubelet's own directory has links with Docker alone, whose files lie in a directory of its
//! own. A link there may lead to one of Docker's log files and to nothing else: whoever can write
//! there must not be able to name a file to be read.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::open::{self, Found};

/// The end of Docker's names: `ID/ID-json.log`.
const DOCKER_ENDING: &str = "-json.log";

/// Which links a source follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Links {
    /// None.
    Unfollowed,
    /// Those to any regular file.
    Followed,
    /// Those to Docker's log files below this directory.
    Docker(PathBuf),
}

impl Links {
    /// Whether any are.
    pub(super) fn are_followed(&self) -> bool {
        *self != Self::Unfollowed
    }

    /// The file to be read for a link; none if it isn't followed.
    ///
    /// # Errors
    /// When it leads nowhere.
    pub(super) fn target(&self, link: &Path) -> io::Result<Option<PathBuf>> {
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
    pub(super) fn refusal(&self) -> String {
        match self {
            Self::Docker(folder) => {
                format!("it is a link to no log file of Docker below {}", folder.display())
            }
            Self::Unfollowed | Self::Followed => {
                "it is a symbolic link: with Docker (cri-dockerd), name its dockerDirectory".into()
            }
        }
    }

    /// Opens a file, or the one that a link leads to.
    ///
    /// # Errors
    /// Those of the system; and when it is no regular file, or a link that isn't followed.
    pub(super) fn open(&self, path: &Path) -> io::Result<Found> {
        match self {
            Self::Unfollowed => open::open(path, false),
            Self::Followed => open::open(path, true),
            Self::Docker(_) if fs::symlink_metadata(path)?.is_symlink() => {
                let target = self.target(path)?;
                let target = target.ok_or_else(|| io::Error::other(self.refusal()))?;
                open::open(&target, false)
            }
            Self::Docker(_) => open::open(path, false),
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

    /// Scenario: links to Docker's log file, directly and by another link, to its settings (which
    /// have secrets), out of its directory, to another directory of that name, and to nothing.
    /// Guarantee: the first two are followed to the file itself; the others are refused, whether
    /// they are looked at or opened.
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
            (links.target(&at(name)).ok().flatten(), links.open(&at(name)).is_ok())
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
        assert!(links.open(&at("secret")).is_ok(), "what is no link is opened as ever");
    }
}
