//! The operator's console, through a port that kubectl forwards.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use millrace_stack::Stack;

use crate::cluster::OPERATOR_NAMESPACE;
use crate::process::Process;
use crate::wait;

/// Kubectl says its port within a second; the operator may be restarting.
const LIMIT: Duration = Duration::from_secs(60);

/// Where it answers on this machine, for as long as the process runs; its log is in `folder`.
///
/// # Errors
/// When kubectl can't be started, ends or names no port.
pub fn forwarded(stack: &Stack, folder: &Path) -> Result<(Process, SocketAddr)> {
    let mut command = Command::new(stack.tool("kubectl").context("the stack has no kubectl")?);
    command.env("KUBECONFIG", stack.kubeconfig());
    command.args(["-n", OPERATOR_NAMESPACE, "port-forward"]);
    command.args(["deployment/millrace-operator", ":8081"]);
    let mut process = Process::start("kubectl", &mut command, &folder.join("forward.log"))?;
    // `Forwarding from 127.0.0.1:PORT -> 8081`
    let port = wait::until("kubectl to forward a port", LIMIT, || {
        process.still_runs()?;
        let said = process.output();
        let port = said.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
        Ok(port.context("no port yet")?.parse::<u16>()?)
    })?;
    Ok((process, (Ipv4Addr::LOCALHOST, port).into()))
}
