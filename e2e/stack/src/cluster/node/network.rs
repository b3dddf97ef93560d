//! The node's network: one veth pair to the host, and routes to pods and services through it.
//!
//! Three private ranges are used; if the host already routes one of them, nothing is touched.

use std::net::Ipv4Addr;
use std::process::Command;

use super::Node;
use crate::error::{Result, StackError};
use crate::service::{io_error, run};

/// The node's address: the API server, Kafka and the ClickHouse engine listen on it.
pub const NODE_IP: Ipv4Addr = Ipv4Addr::new(10, 197, 0, 2);
/// The host's end of the link.
pub const HOST_IP: Ipv4Addr = Ipv4Addr::new(10, 197, 0, 1);
/// Where pods get their addresses.
pub const POD_RANGE: &str = "10.198.0.0/16";
/// Where services get theirs.
pub const SERVICE_RANGE: &str = "10.199.0.0/16";
/// The API server's service: the first address of the range.
pub const SERVICE_API: Ipv4Addr = Ipv4Addr::new(10, 199, 0, 1);
/// The cluster's name server.
pub const CLUSTER_DNS: Ipv4Addr = Ipv4Addr::new(10, 199, 0, 10);

const LINK_RANGE: &str = "10.197.0.0/24";
/// The host's end. The name is at most 15 bytes (IFNAMSIZ less the final zero).
const HOST_LINK: &str = "millrace0";
const NODE_LINK: &str = "eth0";
const RANGES: [&str; 3] = [LINK_RANGE, POD_RANGE, SERVICE_RANGE];

/// Refuses ranges that the host already routes somewhere.
pub(super) fn check_free() -> Result<()> {
    let output = Command::new("ip")
        .args(["-4", "route", "show", "table", "all"])
        .output()
        .map_err(io_error("run ip route"))?;
    let routes = String::from_utf8_lossy(&output.stdout);
    for route in routes.lines() {
        if let Some(range) = RANGES.into_iter().find(|range| covers(route, range)) {
            return Err(StackError::RangeTaken { range, route: route.trim().to_owned() });
        }
    }
    Ok(())
}

/// Whether a line of `ip route` is about addresses of the range. The default route is not: a more
/// specific one wins over it without harm.
fn covers(route: &str, range: &str) -> bool {
    let kinds = ["local", "broadcast", "unreachable", "blackhole", "prohibit", "throw"];
    let target = route.split_whitespace().find(|word| !kinds.contains(word));
    match (target.and_then(parse_range), parse_range(range)) {
        (Some((_, 0)), _) | (None, _) | (_, None) => false,
        (Some((a, a_bits)), Some((b, b_bits))) => {
            let mask = u32::MAX << (32 - a_bits.min(b_bits));
            a & mask == b & mask
        }
    }
}

/// `10.1.0.0/16` as its first address and its number of leading bits.
fn parse_range(text: &str) -> Option<(u32, u32)> {
    let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
    let bits = bits.parse().ok().filter(|bits| *bits <= 32)?;
    Some((u32::from(address.parse::<Ipv4Addr>().ok()?), bits))
}

/// Joins the node to the host.
pub(super) fn connect(node: &Node, init: u32) -> Result<()> {
    let (node_ip, host_ip) = (NODE_IP.to_string(), HOST_IP.to_string());
    let init = init.to_string();
    ip(
        None,
        &["link", "add", HOST_LINK, "type", "veth", "peer", "name", NODE_LINK, "netns", &init],
    )?;
    ip(None, &["address", "add", &format!("{HOST_IP}/24"), "dev", HOST_LINK])?;
    ip(None, &["link", "set", HOST_LINK, "up"])?;
    ip(Some(node), &["link", "set", "lo", "up"])?;
    ip(Some(node), &["address", "add", &format!("{NODE_IP}/24"), "dev", NODE_LINK])?;
    ip(Some(node), &["link", "set", NODE_LINK, "up"])?;
    ip(Some(node), &["route", "add", "default", "via", &host_ip])?;
    for range in [POD_RANGE, SERVICE_RANGE] {
        ip(None, &["route", "add", range, "via", &node_ip])?;
    }
    // The setting belongs to the network namespace: the host's own stays as it is.
    let mut forward = Command::new("sh");
    forward.args(["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
    Ok(run("let the node forward packets", &mut node.inside(&forward)?)?)
}

/// Removes the host's end if it is still there. It goes with the namespace, a moment after the last
/// process of it; whoever starts again at once would meet it.
pub(super) fn disconnect() -> Result<()> {
    let output = Command::new("ip")
        .args(["link", "delete", HOST_LINK])
        .output()
        .map_err(io_error("run ip link delete"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || said.contains("Cannot find device") {
        return Ok(());
    }
    Err(StackError::LeftBehind { what: format!("interface {HOST_LINK} ({})", said.trim()) })
}

fn ip(node: Option<&Node>, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(arguments);
    if let Some(node) = node {
        command = node.inside(&command)?;
    }
    Ok(run(&format!("run ip {}", arguments.join(" ")), &mut command)?)
}

#[cfg(test)]
mod tests {
    use super::{POD_RANGE, RANGES, covers};

    /// A route inside, around or equal to a range is in the way; the default route is not.
    #[test]
    fn only_routes_of_our_ranges_are_in_the_way() {
        assert!(covers("10.198.3.0/24 dev docker0 proto kernel scope link", POD_RANGE));
        assert!(covers("10.0.0.0/8 via 192.0.2.1 dev tun0", POD_RANGE));
        assert!(covers("local 10.198.0.1 dev lo table local", POD_RANGE));
        assert!(!covers("default via 192.0.2.1 dev eth0", POD_RANGE));
        assert!(!covers("192.0.2.0/24 dev eth0 proto kernel", POD_RANGE));
        assert!(!covers("10.196.0.0/16 dev br0", POD_RANGE));
        assert!(RANGES.iter().all(|range| covers(range, range)));
    }
}
