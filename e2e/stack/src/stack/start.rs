//! Bringing the stack up: in parallel where nothing waits for anything, and always from where an
//! earlier run stopped.

use std::fs;
use std::process::Command;

use super::{Stack, health, servers};
use crate::binaries;
use crate::cluster::kubernetes::{self, commands};
use crate::component::Component;
use crate::error::{Result, StackError};
use crate::prerequisites;
use crate::progress::Progress;
use crate::service::{io_error, write_file};
use crate::versions;

/// What runs beside Kubernetes and needs nothing of it.
const SERVERS: [Component; 2] = [Component::ClickHouse, Component::Kafka];

/// See [`Stack::up`].
pub(super) fn up(stack: &Stack, progress: &dyn Progress) -> Result<()> {
    if stack.status().is_up() {
        progress.tell("the local stack is up");
        return Ok(());
    }
    check_version(stack)?;
    install(stack, progress)?;
    configure(stack)?;
    stack.node.start()?;
    start_all(stack, progress)?;
    progress.tell("the local stack is up");
    Ok(())
}

/// A cluster made by other versions is not resumed: its state could mean something else now.
fn check_version(stack: &Stack) -> Result<()> {
    let file = stack.paths.state().join("version");
    match fs::read_to_string(&file) {
        Ok(found) if found == versions::fingerprint() => Ok(()),
        Ok(_) => Err(StackError::OtherVersion { path: stack.paths.state().to_path_buf() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error(format!("read {}", file.display()))(error).into()),
    }
}

/// See [`Stack::install`]. Packages first, since they are quick and most likely to fail. Then Go's
/// builds, which keep the processor busy, beside downloads, which keep the network busy.
pub(super) fn install(stack: &Stack, progress: &dyn Progress) -> Result<()> {
    prerequisites::check()?;
    prerequisites::install_packages(progress)?;
    std::thread::scope(|scope| {
        let downloads = scope.spawn(|| servers::install(progress));
        let built = binaries::build_all(&stack.paths, progress);
        let downloaded = downloads.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        built.and(downloaded)
    })
}

fn configure(stack: &Stack) -> Result<()> {
    stack.paths.state_dir("logs")?;
    stack.paths.state_dir("conf")?;
    write_file(&stack.paths.state().join("version"), &versions::fingerprint())?;
    servers::write_secrets(&stack.paths)?;
    kubernetes::write_pki(&stack.paths)?;
    kubernetes::write_configs(&stack.paths)
}

fn start_all(stack: &Stack, progress: &dyn Progress) -> Result<()> {
    progress.tell("starting Kubernetes, Kafka and the ClickHouse engine (about 20 s)");
    for component in [Component::Etcd, Component::Containerd, Component::ApiServer] {
        ensure_running(stack, component)?;
    }
    std::thread::scope(|scope| {
        // They need nothing of Kubernetes, and take a while to get going.
        let others = scope.spawn(|| {
            SERVERS.into_iter().try_for_each(|component| ensure_running(stack, component))
        });
        let cluster = start_cluster(stack, progress);
        let others = others.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        cluster.and(others)
    })?;
    for component in SERVERS {
        health::wait_for(stack, component)?;
        progress.tell(&format!("{component} answers"));
    }
    Ok(())
}

fn start_cluster(stack: &Stack, progress: &dyn Progress) -> Result<()> {
    health::wait_for(stack, Component::Containerd)?;
    stack.load_own_images()?;
    health::wait_for(stack, Component::ApiServer)?;
    progress.tell("the Kubernetes API answers");
    use Component::{ControllerManager, Kubelet, Proxy, Scheduler};
    for component in [Kubelet, ControllerManager, Scheduler, Proxy] {
        ensure_running(stack, component)?;
    }
    stack.apply(&kubernetes::coredns_manifest())?;
    for component in [Kubelet, ControllerManager, Scheduler, Proxy] {
        health::wait_for(stack, component)?;
    }
    progress.tell("the node is ready");
    health::wait_for_names(stack)?;
    progress.tell("names and services answer inside the cluster");
    Ok(())
}

/// Starts a component unless it runs.
pub(super) fn ensure_running(stack: &Stack, component: Component) -> Result<()> {
    if stack.node.is_alive(component.name()) {
        return Ok(());
    }
    stack.node.spawn(component.name(), &command(stack, component)?)
}

fn command(stack: &Stack, component: Component) -> Result<Command> {
    let paths = &stack.paths;
    Ok(match component {
        Component::Etcd => commands::etcd(paths),
        Component::ApiServer => commands::api_server(paths),
        Component::ControllerManager => commands::controller_manager(paths),
        Component::Scheduler => commands::scheduler(paths),
        Component::Containerd => commands::containerd(paths),
        Component::Kubelet => commands::kubelet(paths),
        Component::Proxy => commands::proxy(paths),
        Component::Kafka => servers::kafka_command(paths)?,
        Component::ClickHouse => servers::clickhouse_command(paths)?,
    })
}
