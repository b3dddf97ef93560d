//! Servers in the node that are no part of the stack: Argo CD, Flux. How one is started there, and
//! how the cluster learns its kinds. They end with the stack.

use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::binaries::Binary;
use crate::cluster::node::Node;
use crate::error::Result;
use crate::service::run;
use crate::stack::Stack;

/// How long a server may take until it listens: on a busy machine its program is read first.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Starts a server unless it runs, and waits until it listens. Its name is that of its log too.
pub(crate) fn start(
    node: &Node,
    name: &str,
    address: SocketAddrV4,
    command: &Command,
) -> Result<()> {
    if !node.is_alive(name) {
        node.spawn(name, command)?;
    }
    let (began, address) = (Instant::now(), SocketAddr::V4(address));
    loop {
        let Err(error) = TcpStream::connect_timeout(&address, LOOK) else {
            return Ok(());
        };
        if !node.is_alive(name) {
            return Err(node.ended(name));
        }
        if began.elapsed() > PATIENCE {
            return Err(node.not_ready(name, name, PATIENCE, &error.to_string()));
        }
        sleep(LOOK);
    }
}

/// Makes a namespace, applies what an installation of `name` has (files, or folders of them) in it,
/// and waits until its kinds are served: a server that starts before that ends.
pub(crate) fn install(stack: &Stack, name: &str, namespace: &str, files: &[PathBuf]) -> Result<()> {
    stack.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n"))?;
    let mut command = stack.tool_command(Binary::Kubectl);
    command.args(["apply", "--server-side", "--force-conflicts", "--namespace", namespace]);
    for file in files {
        command.arg("-f").arg(file);
    }
    run(&format!("apply the manifests of {name}"), &mut command)?;
    let mut served = stack.tool_command(Binary::Kubectl);
    served.args(["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]);
    let began = Instant::now();
    // kubectl gives up on a definition that has no conditions yet.
    loop {
        match run(&format!("wait until the kinds of {name} are served"), &mut served) {
            Err(_) if began.elapsed() < PATIENCE => sleep(LOOK),
            outcome => return Ok(outcome?),
        }
    }
}
