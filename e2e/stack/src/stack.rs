//! The whole stack: started, looked at, and removed. What xtask and the tests call.
//!
//! Every call blocks. `up` and `down` hold a lock, so two of them never work at once; whatever an
//! earlier run left, `up` goes on from there.

mod health;
mod servers;
mod start;
mod status;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::binaries::{self, Binary};
use crate::cluster::kubernetes::{CONTAINERD_SOCKET, COREDNS_IMAGE, PAUSE_IMAGE};
use crate::component::Component;
use crate::error::{Result, StackError};
use crate::image::{self, ImageName, ImageSpec};
use crate::node::{NODE_IP, Node};
use crate::paths::Paths;
use crate::progress::{Progress, Silent};
use crate::service::{create_dir, io_error, run};
pub use status::Status;

/// What the stack puts into its state folder. `down` removes these and nothing else, so that a
/// MILLRACE_STATE pointed at the wrong folder costs nobody their files.
const STATE_ENTRIES: [&str; 20] = [
    "argocd",
    "clickhouse",
    "cni",
    "conf",
    "containerd",
    "etcd",
    "flux",
    "host",
    "kafka",
    "kubeconfig",
    "kubelet",
    "logs",
    "opt",
    "pids",
    "pki",
    "pod-logs",
    "positions",
    "secrets",
    "version",
    "volume-plugins",
];

/// The local stack of this machine, up or not.
#[derive(Debug, Clone)]
pub struct Stack {
    paths: Paths,
    node: Node,
}

impl Stack {
    /// The stack of `MILLRACE_STATE` and `MILLRACE_CACHE`. Touches nothing.
    ///
    /// # Errors
    /// When the state folder is one the node cannot see.
    pub fn open() -> Result<Self> {
        Ok(Self::with_paths(Paths::from_env()?))
    }

    /// The stack of given folders.
    #[must_use]
    pub fn with_paths(paths: Paths) -> Self {
        Self { node: Node::new(paths.clone()), paths }
    }

    /// Builds what is missing, starts what does not run, and returns when everything answers.
    ///
    /// # Errors
    /// A missing tool; a failing download or build; a process that ends or does not get ready. The
    /// error names the log and quotes its end. Calling it again goes on from there.
    pub fn up(&self, progress: &dyn Progress) -> Result<()> {
        let _lock = self.lock(progress)?;
        start::up(self, progress)
    }

    /// Installs, downloads and builds what is missing, and starts nothing: to fill the cache before
    /// it is needed.
    ///
    /// # Errors
    /// A missing tool; a failing download or build.
    pub fn install(&self, progress: &dyn Progress) -> Result<()> {
        let _lock = self.lock(progress)?;
        start::install(self, progress)
    }

    /// Ends every process of the stack and removes its state; the cache stays.
    ///
    /// # Errors
    /// When something cannot be removed; it says what.
    pub fn down(&self, progress: &dyn Progress) -> Result<()> {
        let _lock = self.lock(progress)?;
        progress.tell("stopping the local stack");
        self.node.destroy()?;
        for entry in STATE_ENTRIES {
            remove(&self.paths.state().join(entry))?;
        }
        // Fails when the folder holds something that is not ours: then it stays.
        let _ = fs::remove_dir(self.paths.state());
        progress.tell("the local stack is gone");
        Ok(())
    }

    /// What runs now. Touches nothing and is quick.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::of(self)
    }

    /// Stops one component, starts it again, and returns when it answers.
    ///
    /// # Errors
    /// When the stack is not up or the component does not come back.
    pub fn restart(&self, component: Component) -> Result<()> {
        self.stop(component)?;
        self.start(component)
    }

    /// Stops one component in good order and leaves it down, for tests of what others do then.
    ///
    /// # Errors
    /// When the stack is not up or the component does not end.
    pub fn stop(&self, component: Component) -> Result<()> {
        self.require_up()?;
        self.node.stop(component.name(), component.grace())
    }

    /// Kills one component with SIGKILL and leaves it down.
    ///
    /// # Errors
    /// When the stack is not up.
    pub fn kill(&self, component: Component) -> Result<()> {
        self.require_up()?;
        self.node.stop(component.name(), std::time::Duration::ZERO)
    }

    /// Starts one component if it does not run, and returns when it answers.
    ///
    /// # Errors
    /// When the stack is not up or the component does not get ready.
    pub fn start(&self, component: Component) -> Result<()> {
        self.require_up()?;
        start::ensure_running(self, component)?;
        health::wait_for(self, component)
    }

    /// Imports an image archive (see [`crate::image`]); does nothing when the cluster has that very
    /// image under that name already. Says whether it imported.
    ///
    /// # Errors
    /// When the archive is not an image, or containerd refuses it.
    pub fn load_image(&self, archive: &Path) -> Result<bool> {
        let content = image::inspect(archive)?;
        let mut list = self.containerd_client();
        list.args(["images", "list", &format!("name=={}", content.name)]);
        let output = self
            .node
            .inside(&list)?
            .output()
            .map_err(io_error("list the images of the cluster"))?;
        let known = String::from_utf8_lossy(&output.stdout);
        if known.lines().any(|line| line.contains(&content.digest)) {
            return Ok(false);
        }
        let mut import = self.containerd_client();
        import.args(["images", "import"]).arg(archive);
        run(&format!("import {}", content.name), &mut self.node.inside(&import)?)?;
        Ok(true)
    }

    fn containerd_client(&self) -> Command {
        let mut command = Command::new("ctr");
        command.args(["--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"]);
        command
    }

    /// Images that the stack itself needs, made from what was built.
    fn load_own_images(&self) -> Result<()> {
        for (name, binary) in [(PAUSE_IMAGE, Binary::Pause), (COREDNS_IMAGE, Binary::CoreDns)] {
            let name = ImageName::new(name)?;
            let archive = self.paths.cache().join("images");
            let archive = archive.join(format!("{}-{}.tar", binary.name(), name.tag()));
            if !archive.exists() {
                ImageSpec::new(name, &binary.path(&self.paths))?.write(&archive)?;
            }
            self.load_image(&archive)?;
        }
        Ok(())
    }

    /// The administrator's kubeconfig; there once the stack has been up.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.paths.kubeconfig()
    }

    /// Runs our kubectl against the stack and returns what it printed, whatever its exit code.
    ///
    /// # Errors
    /// When it cannot be run at all.
    pub fn kubectl<I, S>(&self, arguments: I) -> Result<Output>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = self.tool_command(Binary::Kubectl);
        Ok(command.args(arguments).output().map_err(io_error("run kubectl"))?)
    }

    /// Applies a manifest by server-side apply.
    ///
    /// # Errors
    /// When kubectl refuses it, with what it said.
    pub fn apply(&self, manifest: &str) -> Result<()> {
        let file = self.paths.conf(&format!("apply-{}.yaml", std::process::id()));
        crate::service::write_file(&file, manifest)?;
        let mut command = self.tool_command(Binary::Kubectl);
        command.args(["apply", "--server-side", "--force-conflicts", "-f"]).arg(&file);
        let applied = run("apply a manifest", &mut command);
        let _ = fs::remove_file(&file);
        Ok(applied?)
    }

    /// Runs our Helm against the stack, built if need be, and returns what it printed, whatever its
    /// exit code.
    ///
    /// # Errors
    /// When it cannot be built or run at all.
    pub fn helm<I, S>(&self, arguments: I) -> Result<Output>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        binaries::build_one(Binary::Helm, &self.paths, &Silent)?;
        let mut command = self.tool_command(Binary::Helm);
        Ok(command.args(arguments).output().map_err(io_error("run helm"))?)
    }

    /// A command of one of the built tools with its KUBECONFIG set, for callers that stream.
    #[must_use]
    pub fn tool_command(&self, binary: Binary) -> Command {
        let mut command = Command::new(binary.path(&self.paths));
        command.env("KUBECONFIG", self.kubeconfig()).stdin(Stdio::null());
        command
    }

    /// Where one of the built programs is, by its usual name (`kubectl`, `helm`, ...).
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<PathBuf> {
        Binary::from_name(name).map(|binary| binary.path(&self.paths))
    }

    /// The address on which the API server, Kafka and the ClickHouse engine are reached, from the
    /// host as from pods.
    #[must_use]
    pub fn node_ip(&self) -> Ipv4Addr {
        NODE_IP
    }

    /// The node, to run other things inside it.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The folders of this stack.
    #[must_use]
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The log of one component.
    #[must_use]
    pub fn log(&self, component: Component) -> PathBuf {
        self.paths.log(component.name())
    }

    fn require_up(&self) -> Result<()> {
        if self.node.is_running() { Ok(()) } else { Err(StackError::NotUp) }
    }

    /// One at a time on a machine, whatever the state folder: the addresses are the same.
    fn lock(&self, progress: &dyn Progress) -> Result<File> {
        create_dir(self.paths.cache())?;
        let path = self.paths.cache().join("stack.lock");
        let lock = File::create(&path).map_err(io_error(format!("create {}", path.display())))?;
        if lock.try_lock().is_err() {
            progress.tell("waiting for another process that starts or stops the stack");
            lock.lock().map_err(io_error(format!("lock {}", path.display())))?;
        }
        Ok(lock)
    }
}

fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => return Ok(()),
    };
    Ok(removed.map_err(io_error(format!("remove {}", path.display())))?)
}
