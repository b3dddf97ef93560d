//! Where the stack keeps things: one folder of state, removed by `down`, and one cache of what was
//! built or downloaded, which is kept.

use std::path::{Path, PathBuf};

use crate::error::{Result, StackError};
use crate::service::{cache_dir, create_dir};

/// Where state goes unless `MILLRACE_STATE` says otherwise.
const DEFAULT_STATE: &str = "/var/lib/millrace-stack";
/// Folders that are empty inside the node, so that its processes share no file with the host's.
pub(crate) const HIDDEN_FOLDERS: [&str; 2] = ["/run", "/var/log"];

/// The stack's folders and files.
#[derive(Debug, Clone)]
pub struct Paths {
    state: PathBuf,
    cache: PathBuf,
}

impl Paths {
    /// From `MILLRACE_STATE` and `MILLRACE_CACHE`, or their defaults.
    ///
    /// # Errors
    /// When the state folder is one that the node cannot see.
    pub fn from_env() -> Result<Self> {
        let state = std::env::var_os("MILLRACE_STATE").filter(|value| !value.is_empty());
        Self::new(state.map_or_else(|| PathBuf::from(DEFAULT_STATE), PathBuf::from), cache_dir())
    }

    /// From two folders, which need not exist yet.
    ///
    /// # Errors
    /// When the state folder is one that the node cannot see.
    pub fn new(state: PathBuf, cache: PathBuf) -> Result<Self> {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let (state, cache) = (absolute(state), absolute(cache));
        match HIDDEN_FOLDERS.into_iter().find(|hidden| state.starts_with(hidden)) {
            Some(hidden) => Err(StackError::HiddenState { path: state, hidden }),
            None => Ok(Self { state, cache }),
        }
    }

    /// The folder of all state.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The folder of built and downloaded things.
    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// A folder inside the state, made if it is not there.
    pub(crate) fn state_dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.state.join(name);
        create_dir(&path)?;
        Ok(path)
    }

    /// The log of one component.
    #[must_use]
    pub fn log(&self, component: &str) -> PathBuf {
        self.state.join("logs").join(format!("{component}.log"))
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.state.join("kubeconfig")
    }

    /// A key or certificate.
    pub(crate) fn pki(&self, file: &str) -> PathBuf {
        self.state.join("pki").join(file)
    }

    /// A rendered configuration file.
    pub(crate) fn conf(&self, file: &str) -> PathBuf {
        self.state.join("conf").join(file)
    }

    /// A name or password of one of the servers, readable by root only.
    pub(crate) fn secret(&self, name: &str) -> PathBuf {
        self.state.join("secrets").join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::Paths;

    /// `/run` is replaced inside the node: state there would be lost, so it is refused at once.
    #[test]
    fn a_state_folder_that_the_node_hides_is_refused() {
        let error = Paths::new("/run/millrace".into(), "/tmp/cache".into()).unwrap_err();
        assert!(error.to_string().contains("MILLRACE_STATE"), "{error}");
        assert!(Paths::new("/var/lib/elsewhere".into(), "/tmp/cache".into()).is_ok());
    }
}
