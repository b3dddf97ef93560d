//! A network of the servers' own: each in a namespace, joined by a bridge in the namespace that this
//! program was started in again ([`namespaces`](millrace_stack::namespaces)). It goes with the last process in it.
//!
//! Servers are parted by wrong entries in their tables of neighbours: what they send each other
//! reaches nobody, without an error, and clients still reach both.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use anyhow::{Context, Result, bail};
use millrace_stack::zookeeper::Host;

const BRIDGE: &str = "keepers";
/// Nobody has it: the second bit says that it is given out locally.
const NOWHERE: &str = "02:00:00:00:00:01";

/// The network.
#[derive(Debug)]
pub struct Network {
    servers: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    name: String,
    address: Ipv4Addr,
}

impl Network {
    /// Makes it, for so many servers.
    ///
    /// # Errors
    /// When `ip` (iproute2) refuses.
    pub fn new(count: u8) -> Result<Self> {
        // `ip` keeps names of namespaces as files there: these are to be seen by this program alone.
        run(Command::new("mount").args(["-t", "tmpfs", "millrace-keeper", "/run"]))?;
        ip(&["link", "set", "lo", "up"])?;
        ip(&["link", "add", BRIDGE, "type", "bridge"])?;
        ip(&["address", "add", "10.196.0.1/24", "dev", BRIDGE])?;
        ip(&["link", "set", BRIDGE, "up"])?;
        let mut servers = Vec::new();
        for number in 1..=count {
            let name = format!("keeper{number}");
            let address = Ipv4Addr::new(10, 196, 0, 10 + number);
            ip(&["netns", "add", &name])?;
            ip(&["link", "add", &name, "type", "veth", "peer", "name", "eth0", "netns", &name])?;
            ip(&["link", "set", &name, "master", BRIDGE, "up"])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
            ip(&["-n", &name, "address", "add", &format!("{address}/24"), "dev", "eth0"])?;
            ip(&["-n", &name, "link", "set", "eth0", "up"])?;
            servers.push(Node { name, address });
        }
        Ok(Self { servers })
    }

    /// Where the servers run.
    #[must_use]
    pub fn hosts(&self) -> Vec<Host> {
        let host = |node: &Node| Host {
            address: IpAddr::V4(node.address),
            prefix: ["ip", "netns", "exec", &node.name].map(str::to_owned).to_vec(),
        };
        self.servers.iter().map(host).collect()
    }

    /// Parts a server from the others, both ways.
    ///
    /// # Errors
    /// When `ip` refuses, or there is no such server.
    pub fn part(&self, index: usize) -> Result<()> {
        self.each_pair(index, |from, to| {
            let to = to.address.to_string();
            let entry = [&to, "lladdr", NOWHERE, "dev", "eth0", "nud", "permanent"];
            ip(&[&["-n", &from.name, "neighbour", "replace"], &entry[..]].concat())
        })
    }

    /// Joins it to the others again.
    ///
    /// # Errors
    /// As for [`Self::part`].
    pub fn join(&self, index: usize) -> Result<()> {
        self.each_pair(index, |from, to| {
            let to = to.address.to_string();
            ip(&["-n", &from.name, "neighbour", "delete", &to, "dev", "eth0"])
        })
    }

    fn each_pair(&self, index: usize, act: impl Fn(&Node, &Node) -> Result<()>) -> Result<()> {
        let one = self.servers.get(index).context("there is no such server")?;
        for other in self.servers.iter().filter(|other| other.address != one.address) {
            act(one, other)?;
            act(other, one)?;
        }
        Ok(())
    }
}

fn ip(words: &[&str]) -> Result<()> {
    run(Command::new("ip").args(words))
}

/// Runs a command to its end.
fn run(command: &mut Command) -> Result<()> {
    let output = command.output();
    let output = output.with_context(|| format!("{command:?} can't be started"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
