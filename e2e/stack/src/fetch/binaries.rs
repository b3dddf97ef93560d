//! Builds Kubernetes and its companions from their Go modules, once, into the cache.
//!
//! Each program is built by a small module of our own that requires the one it comes from; Go's
//! checksum database vouches for what is downloaded. A build that was broken off goes on where it
//! stopped, since Go keeps its own build cache. Several processes may ask at once: a lock puts them
//! in order.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Result;
use crate::paths::Paths;
use crate::progress::Progress;
use crate::service::{ServiceError, create_dir, io_error, run, write_file};
use crate::versions;

/// Where a program's source comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Kubernetes,
    Etcd,
    CoreDns,
    Helm,
    Pause,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Etcd => "etcd",
            Self::CoreDns => "coredns",
            Self::Helm => "helm",
            Self::Pause => "pause",
        }
    }

    fn version(self) -> &'static str {
        match self {
            Self::Kubernetes => versions::KUBERNETES,
            Self::Etcd => versions::ETCD,
            Self::CoreDns => versions::COREDNS,
            Self::Helm => versions::HELM,
            Self::Pause => versions::PAUSE,
        }
    }

    /// The module on the proxy; none for a source in this crate.
    fn module(self) -> Option<&'static str> {
        match self {
            Self::Kubernetes => Some("k8s.io/kubernetes"),
            Self::Etcd => Some("go.etcd.io/etcd/server/v3"),
            Self::CoreDns => Some("github.com/coredns/coredns"),
            Self::Helm => Some("helm.sh/helm/v3"),
            Self::Pause => None,
        }
    }

    /// The main package, where it is this crate's own.
    fn program(self) -> Option<&'static str> {
        match self {
            Self::Pause => Some(include_str!("../../pause/main.go")),
            Self::CoreDns => Some(include_str!("../../coredns/main.go")),
            Self::Kubernetes | Self::Etcd | Self::Helm => None,
        }
    }

    /// What is set at link time so that `--version` tells the truth.
    fn link_flags(self) -> String {
        let version = self.version();
        let set = match self {
            Self::Kubernetes => ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"]
                .map(|package| {
                    format!(
                        " -X {package}.gitVersion={version} -X {package}.gitMajor=1 \
                         -X {package}.gitMinor=34 -X {package}.gitTreeState=clean"
                    )
                })
                .concat(),
            Self::Helm => format!(" -X helm.sh/helm/v3/internal/version.version={version}"),
            Self::Etcd | Self::CoreDns | Self::Pause => String::new(),
        };
        format!("-s -w{set}")
    }
}

/// A program the stack runs or gives to its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Binary {
    /// First process of the node and of every pod sandbox.
    Pause,
    /// The Kubernetes API server. It is built first of Kubernetes: what it shares with the rest
    /// (client, API types) makes the others fast.
    ApiServer,
    /// The node agent.
    Kubelet,
    /// Kubernetes' own controllers.
    ControllerManager,
    /// The pod scheduler.
    Scheduler,
    /// Services, as nftables rules.
    Proxy,
    /// The command line.
    Kubectl,
    /// The store of the API server.
    Etcd,
    /// Names inside the cluster.
    CoreDns,
    /// Installs charts.
    Helm,
}

impl Binary {
    /// All of them, in the order they are built.
    pub const ALL: [Self; 10] = [
        Self::Pause,
        Self::ApiServer,
        Self::Kubelet,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Proxy,
        Self::Kubectl,
        Self::Etcd,
        Self::CoreDns,
        Self::Helm,
    ];

    /// The program's usual name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::ApiServer => "kube-apiserver",
            Self::Kubelet => "kubelet",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Proxy => "kube-proxy",
            Self::Kubectl => "kubectl",
            Self::Etcd => "etcd",
            Self::CoreDns => "coredns",
            Self::Helm => "helm",
        }
    }

    /// The program of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|binary| binary.name() == name)
    }

    fn source(self) -> Source {
        match self {
            Self::Pause => Source::Pause,
            Self::Etcd => Source::Etcd,
            Self::CoreDns => Source::CoreDns,
            Self::Helm => Source::Helm,
            Self::ApiServer
            | Self::Kubelet
            | Self::ControllerManager
            | Self::Scheduler
            | Self::Proxy
            | Self::Kubectl => Source::Kubernetes,
        }
    }

    fn package(self) -> String {
        match self {
            Self::Pause | Self::CoreDns => ".".to_owned(),
            Self::Etcd => "go.etcd.io/etcd/server/v3".to_owned(),
            Self::Helm => "helm.sh/helm/v3/cmd/helm".to_owned(),
            _ => format!("k8s.io/kubernetes/cmd/{}", self.name()),
        }
    }

    /// Seconds a first build takes on two idle cores, downloads included: measured, for progress.
    fn usual_seconds(self) -> u32 {
        match self {
            Self::Pause => 8,
            Self::ApiServer => 150,
            Self::Kubelet | Self::ControllerManager => 40,
            Self::Scheduler | Self::Proxy => 8,
            Self::Kubectl => 12,
            Self::Etcd => 30,
            Self::CoreDns | Self::Helm => 60,
        }
    }

    /// Where the built program is, under its own name so that it can stand on a PATH.
    #[must_use]
    pub fn path(self, paths: &Paths) -> PathBuf {
        let folder = format!("{}-{}", self.source().name(), self.source().version());
        paths.cache().join("bin").join(folder).join(self.name())
    }
}

/// Builds every program that is not in the cache yet.
///
/// # Errors
/// When a module cannot be fetched or a build fails, with the end of what Go said.
pub fn build_all(paths: &Paths, progress: &dyn Progress) -> Result<()> {
    if Binary::ALL.iter().all(|binary| binary.path(paths).exists()) {
        return Ok(());
    }
    let _lock = locked(paths, progress)?;
    for binary in Binary::ALL {
        build(binary, paths, progress)?;
    }
    Ok(())
}

/// Builds one program unless the cache has it, and gives its path.
///
/// # Errors
/// When a module cannot be fetched or the build fails, with the end of what Go said.
pub fn build_one(binary: Binary, paths: &Paths, progress: &dyn Progress) -> Result<PathBuf> {
    let path = binary.path(paths);
    if !path.exists() {
        let _lock = locked(paths, progress)?;
        build(binary, paths, progress)?;
    }
    Ok(path)
}

/// The right to build into the cache, until it is dropped.
pub(crate) fn locked(paths: &Paths, progress: &dyn Progress) -> Result<File> {
    let lock_path = paths.cache().join("go.lock");
    create_dir(paths.cache())?;
    let lock =
        File::create(&lock_path).map_err(io_error(format!("create {}", lock_path.display())))?;
    if lock.try_lock().is_err() {
        progress.tell("waiting for another process that builds the same programs");
        lock.lock().map_err(io_error(format!("lock {}", lock_path.display())))?;
    }
    Ok(lock)
}

fn build(binary: Binary, paths: &Paths, progress: &dyn Progress) -> Result<()> {
    let target = binary.path(paths);
    if target.exists() {
        return Ok(());
    }
    let (name, source) = (binary.name(), binary.source());
    progress.tell(&format!(
        "building {name} {} (about {} s)",
        source.version(),
        binary.usual_seconds()
    ));
    let folder = paths.cache().join("go").join(format!("{}-{}", source.name(), source.version()));
    create_dir(&folder)?;
    prepare_module(source, &folder)?;
    let partial = target.with_extension("partial");
    if let Some(parent) = target.parent() {
        create_dir(parent)?;
    }
    let mut command = go();
    command
        .args(["build", "-mod=mod", "-trimpath", "-ldflags", &source.link_flags(), "-o"])
        .arg(&partial)
        .arg(binary.package())
        .current_dir(&folder);
    run(&format!("build {name}"), &mut command)?;
    fs::rename(&partial, &target)
        .map_err(io_error(format!("rename {} into place", partial.display())))?;
    Ok(())
}

/// Go, shielded from the user's own settings: no C compiler, no other toolchain, no workspace.
pub(crate) fn go() -> Command {
    let mut command = Command::new("go");
    command
        .env("CGO_ENABLED", "0")
        .env("GOTOOLCHAIN", "local")
        .env("GOFLAGS", "-buildvcs=false")
        .env("GOWORK", "off");
    command
}

/// The same with a newer toolchain, which Go fetches through the module proxy: some programs are
/// written for one.
pub(crate) fn newer_go() -> Command {
    let mut command = go();
    command.env("GOTOOLCHAIN", versions::NEWER_GO);
    command
}

/// Writes the module that requires the source, unless a broken-off build already did.
fn prepare_module(source: Source, folder: &Path) -> Result<()> {
    let module_file = folder.join("go.mod");
    if let Some(program) = source.program() {
        write_file(&folder.join("main.go"), program)?;
    }
    if module_file.exists() {
        return Ok(());
    }
    let (major, minor) = versions::OLDEST_GO;
    let mut text = format!("module millrace.dev/cache/{}\n\ngo {major}.{minor}\n", source.name());
    if let Some(module) = source.module() {
        text.push_str(&format!("\nrequire {module} {}\n", source.version()));
    }
    if source == Source::Kubernetes {
        text.push_str(&replacements(&upstream_module_file()?));
    }
    Ok(write_file(&module_file, &text)?)
}

/// The `go.mod` of Kubernetes itself, from the module proxy.
fn upstream_module_file() -> Result<String> {
    let module = format!("k8s.io/kubernetes@{}", versions::KUBERNETES);
    let path = downloaded(go(), &module, Download::ModuleFile)?;
    Ok(fs::read_to_string(&path).map_err(io_error(format!("read {}", path.display())))?)
}

/// What of a module is wanted, by the name that Go's answer has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Download {
    /// Its `go.mod`.
    ModuleFile,
    /// The folder of its sources, which is read-only.
    Sources,
}

impl Download {
    fn field(self) -> &'static str {
        match self {
            Self::ModuleFile => "GoMod",
            Self::Sources => "Dir",
        }
    }
}

/// Fetches a module (`PATH@VERSION`) from the module proxy, and says where it is now.
pub(crate) fn downloaded(mut go: Command, module: &str, what: Download) -> Result<PathBuf> {
    let action = format!("download {module}");
    let output = go
        .args(["mod", "download", "-json", module])
        .current_dir("/")
        .output()
        .map_err(io_error(action.as_str()))?;
    let path = serde_json::from_slice::<serde_json::Value>(&output.stdout)
        .ok()
        .and_then(|answer| answer.get(what.field())?.as_str().map(PathBuf::from));
    path.ok_or_else(|| {
        // What Go could not do stands in its answer, which is on standard output.
        let said = [output.stderr, output.stdout].concat();
        let tail = String::from_utf8_lossy(&said).trim().to_owned();
        ServiceError::Command { action, status: output.status, tail }.into()
    })
}

/// Kubernetes' staging modules are folders of its own repository; outside of it each has to be
/// replaced by its published version.
fn replacements(upstream: &str) -> String {
    let mut text = String::from("\nreplace (\n");
    for line in upstream.lines() {
        let Some((module, path)) = line.trim().split_once(" => ") else {
            continue;
        };
        if path.starts_with("./staging/") {
            let module = module.trim_start_matches("replace ").trim();
            text.push_str(&format!("\t{module} => {module} {}\n", versions::KUBERNETES_STAGING));
        }
    }
    text.push_str(")\n");
    text
}

#[cfg(test)]
mod tests {
    use super::{Binary, replacements};

    /// Both forms of a replace line are found, and modules from elsewhere stay as they are.
    #[test]
    fn only_staging_modules_are_replaced() {
        let upstream = "replace k8s.io/api => ./staging/src/k8s.io/api\nreplace (\n\
                        \tk8s.io/client-go => ./staging/src/k8s.io/client-go\n\
                        \texample.com/x => ../x\n)\n";
        let text = replacements(upstream);
        assert!(text.contains("\tk8s.io/api => k8s.io/api v0.34.4\n"), "{text}");
        assert!(text.contains("\tk8s.io/client-go => k8s.io/client-go v0.34.4\n"), "{text}");
        assert!(!text.contains("example.com"), "{text}");
    }

    /// Users name programs by their usual names.
    #[test]
    fn every_binary_is_found_by_its_name() {
        for binary in Binary::ALL {
            assert_eq!(Binary::from_name(binary.name()), Some(binary));
        }
    }
}
