//! Flux in the local cluster, for applying our manifests with: its controller of Kustomizations,
//! built once from its Go module into the cache, run in the node with the administrator's rights.
//!
//! The controller of sources isn't there: the module proxy refuses a part of it. In its place a
//! folder is served, and who uses this puts an archive there and says so in a source's status.
//! There is no controller of notifications, of Helm releases or of images, and no command line. It
//! ends with the stack, and is no part of it.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::Command;

use crate::binaries::{Download, downloaded, newer_go};
use crate::clickhouse::install::python;
use crate::cluster::guest;
use crate::cluster::node::NODE_IP;
use crate::error::Result;
use crate::fetch::module::{cached, prepare};
use crate::paths::Paths;
use crate::progress::Progress;
use crate::service::{create_dir, run};
use crate::stack::Stack;
use crate::versions;

/// The namespace that Flux' own installation has its objects in.
pub const NAMESPACE: &str = "flux-system";
/// Its folder in the state: archives, and what the controller keeps.
const FOLDER: &str = "flux";

/// The last part of the controller's module, and its program's name.
const CONTROLLER: &str = "kustomize-controller";
/// The modules that have the kinds.
const MODULES: [&str; 2] =
    ["github.com/fluxcd/kustomize-controller", "github.com/fluxcd/source-controller"];
/// Where the controller says that it is up.
const HEALTH: SocketAddrV4 = SocketAddrV4::new(NODE_IP, 9790);
/// Where it finds archives.
const ARCHIVES: SocketAddrV4 = SocketAddrV4::new(NODE_IP, 9791);

/// Flux on a stack that is up.
#[derive(Debug)]
pub struct Flux<'s> {
    stack: &'s Stack,
}

impl<'s> Flux<'s> {
    /// The one of a stack, started or not.
    #[must_use]
    pub fn of(stack: &'s Stack) -> Self {
        Self { stack }
    }

    /// Builds its controller unless the cache has it, applies its definitions, and starts what does
    /// not run.
    ///
    /// # Errors
    /// When the build fails, the API server refuses a definition, or a server does not come up: the
    /// error quotes the end of its log.
    pub fn start(&self, progress: &dyn Progress) -> Result<()> {
        build(self.stack.paths(), progress)?;
        progress.tell("starting Flux");
        create_dir(&self.archives())?;
        create_dir(&self.home())?;
        let mut kinds = Vec::new();
        for module in MODULES {
            let module = format!("{module}@{}", versions::FLUX);
            let sources = downloaded(newer_go(), &module, Download::Sources)?;
            kinds.push(sources.join("config/crd/bases"));
        }
        guest::install(self.stack, "Flux", NAMESPACE, &kinds)?;
        let node = self.stack.node();
        guest::start(node, "flux-archives", ARCHIVES, &self.server()?)?;
        guest::start(node, "flux-controller", HEALTH, &self.controller())
    }

    /// The folder of archives that are served.
    #[must_use]
    pub fn archives(&self) -> PathBuf {
        self.folder().join("archives")
    }

    /// Where the controller finds an archive of that folder.
    #[must_use]
    pub fn archive_url(&self, name: &str) -> String {
        format!("http://{ARCHIVES}/{name}")
    }

    fn folder(&self) -> PathBuf {
        self.stack.paths().state().join(FOLDER)
    }

    fn home(&self) -> PathBuf {
        self.folder().join("home")
    }

    fn server(&self) -> Result<Command> {
        let (host, port) = (ARCHIVES.ip().to_string(), ARCHIVES.port().to_string());
        let mut command = Command::new(python()?.path);
        command.args(["-m", "http.server", &port, "--bind", &host, "--directory"]);
        command.arg(self.archives());
        Ok(command)
    }

    fn controller(&self) -> Command {
        let mut command = Command::new(program(self.stack.paths()));
        command
            .args(["--health-addr", &HEALTH.to_string(), "--metrics-addr", "0"])
            .env("KUBECONFIG", self.stack.kubeconfig())
            .env("RUNTIME_NAMESPACE", NAMESPACE)
            .env("HOME", self.home())
            .env("TMPDIR", self.home());
        command
    }
}

/// Its folder in the cache, for sources as for the program.
fn folder() -> String {
    format!("{CONTROLLER}-{}", versions::FLUX)
}

fn program(paths: &Paths) -> PathBuf {
    paths.cache().join("bin").join(folder()).join(CONTROLLER)
}

/// Builds the controller unless the cache has it.
fn build(paths: &Paths, progress: &dyn Progress) -> Result<()> {
    let (module, version) = (MODULES[0], versions::FLUX);
    prepare(&paths.cache().join("go").join(folder()), (module, version))?;
    let told = format!("building Flux' {CONTROLLER} {version} (about 150 s)");
    cached((paths, progress), (&folder(), CONTROLLER), &told, |folder, target| {
        let mut command = newer_go();
        command.args(["build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o"]);
        command.arg(target).arg(module).current_dir(folder);
        run(&format!("build {CONTROLLER}"), &mut command)
    })?;
    Ok(())
}
