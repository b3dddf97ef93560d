//! Argo CD in the local cluster, for syncing our manifests with: built once from its Go module into
//! the cache, run beside the cluster's own servers in the node.
//!
//! Its servers are processes, as on a developer's machine, with the administrator's rights; the
//! applications that they sync are in the cluster. There is no UI, no log-in, no Kustomize, and no
//! notification or ApplicationSet controller. It ends with the stack, and is no part of it.

mod build;
mod servers;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::cluster::node::NODE_IP;
use crate::error::Result;
use crate::paths::Paths;
use crate::progress::Progress;
use crate::service::{find_tool, io_error};
use crate::stack::Stack;
pub use build::{build, own_health_tests};
use servers::Server;

/// The namespace of its applications and settings.
pub const NAMESPACE: &str = "argocd";
/// Its folder in the state: repositories, and what its servers keep.
const FOLDER: &str = "argocd";

/// Argo CD on a stack that is up.
#[derive(Debug)]
pub struct ArgoCd<'s> {
    stack: &'s Stack,
}

impl<'s> ArgoCd<'s> {
    /// The one of a stack, started or not.
    #[must_use]
    pub fn of(stack: &'s Stack) -> Self {
        Self { stack }
    }

    /// Builds it unless the cache has it, applies its definitions and settings, and starts what
    /// does not run of its servers.
    ///
    /// # Errors
    /// When a build fails, the API server refuses a manifest, or a server does not come up: the
    /// error quotes the end of its log.
    pub fn start(&self, progress: &dyn Progress) -> Result<()> {
        find_tool("git", "apt-get install git")?;
        build(self.stack.paths(), progress)?;
        progress.tell("starting Argo CD");
        for folder in [self.repositories(), self.home(), self.scratch()] {
            crate::service::create_dir(&folder)?;
        }
        servers::write_verifier(&self.home())?;
        servers::apply_settings(self.stack)?;
        Server::ALL.into_iter().try_for_each(|server| server.start(self))
    }

    /// The folder of git repositories that are served; a bare one in it is served by its name.
    #[must_use]
    pub fn repositories(&self) -> PathBuf {
        self.folder().join("git")
    }

    /// Where Argo CD finds a repository of that folder.
    #[must_use]
    pub fn repository_url(&self, name: &str) -> String {
        format!("git://{NODE_IP}:{}/{name}", Server::Git.port())
    }

    /// Runs its command line against its API server, and returns what it printed, whatever its
    /// exit code.
    ///
    /// # Errors
    /// When it cannot be run at all.
    pub fn cli<I, S>(&self, arguments: I) -> Result<Output>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = cli(self.stack.paths());
        command
            .args(["--plaintext", "--server", &Server::Api.address().to_string()])
            .args(arguments)
            .env("HOME", self.home());
        Ok(command.output().map_err(io_error("run argocd"))?)
    }

    fn folder(&self) -> PathBuf {
        self.stack.paths().state().join(FOLDER)
    }

    fn home(&self) -> PathBuf {
        self.folder().join("home")
    }

    fn scratch(&self) -> PathBuf {
        self.folder().join("tmp")
    }
}

/// Its command line, for what needs no server.
#[must_use]
pub fn cli(paths: &Paths) -> Command {
    let mut command = Command::new(build::program(paths));
    command.env("ARGOCD_BINARY_NAME", "argocd");
    command
}

/// The folders that a server's programs are found in: Argo CD's own script, Helm, the machine's.
fn search_path(home: &Path, helm: &Path) -> String {
    let helm = helm.parent().unwrap_or(Path::new("/"));
    let machine = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
    format!("{}:{}:{machine}", home.display(), helm.display())
}
