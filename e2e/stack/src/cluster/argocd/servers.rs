//! Argo CD's servers in the node: where each listens, how it is called, and that it is up.

use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;

use super::{ArgoCd, NAMESPACE, build, search_path};
use crate::binaries::{Binary, Download};
use crate::cluster::guest;
use crate::cluster::node::NODE_IP;
use crate::error::Result;
use crate::service::run;
use crate::stack::Stack;

/// Definitions and settings of its own installation, in the order that they are applied: kinds,
/// then settings with nothing of ours in them.
const MANIFESTS: [&str; 10] = [
    "crds/application-crd.yaml",
    "crds/applicationset-crd.yaml",
    "crds/appproject-crd.yaml",
    "base/config/argocd-cm.yaml",
    "base/config/argocd-cmd-params-cm.yaml",
    "base/config/argocd-gpg-keys-cm.yaml",
    "base/config/argocd-rbac-cm.yaml",
    "base/config/argocd-secret.yaml",
    "base/config/argocd-ssh-known-hosts-cm.yaml",
    "base/config/argocd-tls-certs-cm.yaml",
];

/// Its script that looks at signatures.
const VERIFIER: &str = "git-verify-wrapper.sh";

/// One of the servers, in the order that they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// Serves repositories.
    Git,
    /// What the others remember for a while.
    Redis,
    /// Renders what is in a repository.
    Repository,
    /// Its API, and what makes the default project.
    Api,
    /// Compares and syncs.
    Controller,
}

impl Server {
    pub(super) const ALL: [Self; 5] =
        [Self::Git, Self::Redis, Self::Repository, Self::Api, Self::Controller];

    /// The name of its process and log.
    fn name(self) -> &'static str {
        match self {
            Self::Git => "argocd-git",
            Self::Redis => "argocd-redis",
            Self::Repository => "argocd-repo-server",
            Self::Api => "argocd-server",
            Self::Controller => "argocd-application-controller",
        }
    }

    /// The port that shows that it is up. The controller serves metrics alone.
    pub(super) fn port(self) -> u16 {
        match self {
            Self::Git => 9418,
            Self::Redis => 6379,
            Self::Repository => 8081,
            Self::Api => 8080,
            Self::Controller => 8082,
        }
    }

    /// Where it listens.
    pub(super) fn address(self) -> SocketAddrV4 {
        SocketAddrV4::new(NODE_IP, self.port())
    }

    /// Starts it unless it runs, and waits until it listens.
    pub(super) fn start(self, argocd: &ArgoCd<'_>) -> Result<()> {
        let command = self.command(argocd);
        guest::start(argocd.stack.node(), self.name(), self.address(), &command)
    }

    fn command(self, argocd: &ArgoCd<'_>) -> Command {
        let paths = argocd.stack.paths();
        let (host, port) = (NODE_IP.to_string(), self.port().to_string());
        match self {
            Self::Git => {
                let mut command = Command::new("git");
                command
                    .args(["daemon", "--reuseaddr", "--export-all", "--informative-errors"])
                    .arg(format!("--listen={host}"))
                    .arg(format!("--port={port}"))
                    .arg(format!("--base-path={}", argocd.repositories().display()));
                command
            }
            Self::Redis => {
                let mut command = Command::new(build::redis(paths));
                command.arg(self.address().to_string());
                command
            }
            Self::Repository => {
                let mut command = self.of_argocd(argocd);
                command.args(["--address", &host, "--port", &port]);
                command
            }
            Self::Api => {
                let mut command = self.of_argocd(argocd);
                command.args(["--insecure", "--disable-auth", "--address", &host, "--port", &port]);
                command.args(["--repo-server", &Self::Repository.address().to_string()]);
                command.args(["--namespace", NAMESPACE]);
                command
            }
            Self::Controller => {
                let mut command = self.of_argocd(argocd);
                command.args(["--metrics-port", &port, "--namespace", NAMESPACE]);
                command.args(["--repo-server", &Self::Repository.address().to_string()]);
                // A resource's health stands beside it in the Application, for a test to read.
                command.arg("--persist-resource-health");
                command
            }
        }
    }

    /// The one program, under this server's name, with the administrator's rights.
    fn of_argocd(self, argocd: &ArgoCd<'_>) -> Command {
        let paths = argocd.stack.paths();
        let mut command = Command::new(build::program(paths));
        command
            .args(["--redis", &Self::Redis.address().to_string()])
            .env("ARGOCD_BINARY_NAME", self.name())
            .env("ARGOCD_FAKE_IN_CLUSTER", "true")
            .env("ARGOCD_GPG_ENABLED", "false")
            .env("KUBECONFIG", argocd.stack.kubeconfig())
            .env("HOME", argocd.home())
            .env("TMPDIR", argocd.scratch())
            .env("PATH", search_path(&argocd.home(), &Binary::Helm.path(paths)));
        for kind in ["TLS", "SSH"] {
            command.env(format!("ARGOCD_{kind}_DATA_PATH"), argocd.home());
        }
        command
    }
}

/// Its script that looks at a commit's signature, which its repository server calls whether or not
/// signatures are asked for.
pub(super) fn write_verifier(folder: &Path) -> Result<()> {
    let from = build::module(Download::Sources)?.join("hack").join(VERIFIER);
    let mut install = Command::new("install");
    install.arg("--mode=755").arg(from).arg(folder.join(VERIFIER));
    Ok(run("write Argo CD's script for signatures", &mut install)?)
}

/// Its namespace, its kinds and its settings, as its own installation has them.
pub(super) fn apply_settings(stack: &Stack) -> Result<()> {
    let sources = build::module(Download::Sources)?.join("manifests");
    let files = MANIFESTS.map(|file| sources.join(file));
    guest::install(stack, "Argo CD", NAMESPACE, &files)
}
