//! To whom the operator may connect because a spec says so, and how many bytes of their answers it
//! holds: anybody who may write a spec names hosts, and anything may listen there.
//!
//! Hosts are allowed by exact name or by domain (`*.example.com`). Without a list, all are allowed
//! except link-local addresses (a cloud's metadata service), which never are. Brokers that a
//! cluster names are checked when a connection to it is made. Limits: the client library connects,
//! unchecked, to brokers named later; brokers' answers are bounded per connection
//! (`receive.message.max.bytes`), not by the budget here.

pub mod credentials;

use std::net::{IpAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;

use millrace_ddl::{Budget, is_link_local};

/// Bytes of answers held at once, from ClickHouse and collectors' metrics together: an eighth of
/// the chart's 96 MiB, beside 40 MiB at rest and 18 MiB that reconciles hold. A metrics page has
/// 100 kB and tables with a thousand columns 200 kB, so about sixty fit at once.
const ANSWERS_BYTES_MAX: usize = 12 * 1024 * 1024;

/// The longest answer of ClickHouse: a third of the budget, and twenty times a normal one.
pub const CLICKHOUSE_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Limits on connections and answers. Clones share the budget.
#[derive(Clone, Debug)]
pub struct Outbound {
    /// Allowed hosts; empty: all.
    hosts: Arc<[Pattern]>,
    /// Bytes of answers left.
    pub answers: Budget,
}

impl Default for Outbound {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

/// A host, or all of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// This very name or address.
    Host(String),
    /// Everything that ends so, from its dot on.
    Domain(String),
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim().to_ascii_lowercase();
        let (domain, host) = match text.strip_prefix('*') {
            Some(domain) => (true, domain),
            None => (false, text.as_str()),
        };
        let known = |it: char| it.is_ascii_alphanumeric() || "-._:[]".contains(it);
        let is_well_formed = host.chars().all(known) && !host.is_empty();
        if !is_well_formed || domain != host.starts_with('.') {
            return Err(format!("{text:?} is neither a host nor a domain such as *.example.com"));
        }
        Ok(if domain { Self::Domain(host.to_owned()) } else { Self::Host(bare(host).to_owned()) })
    }
}

/// Without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host)
}

impl Outbound {
    /// These hosts alone; without any, all.
    #[must_use]
    pub fn new(hosts: Vec<Pattern>) -> Self {
        Self { hosts: hosts.into(), answers: Budget::new(ANSWERS_BYTES_MAX) }
    }

    /// Why a host, as a spec names it, may not be connected to; `None`: it may.
    #[must_use]
    pub fn refuses(&self, host: &str) -> Option<String> {
        let host = bare(host).trim_end_matches('.').to_ascii_lowercase();
        if host.parse::<IpAddr>().is_ok_and(is_link_local) {
            return Some(format!("{host} is a link-local address, which is not connected to"));
        }
        let allows = |pattern: &Pattern| match pattern {
            Pattern::Host(allowed) => *allowed == host,
            Pattern::Domain(domain) => host.ends_with(domain.as_str()),
        };
        let is_allowed = self.hosts.is_empty() || self.hosts.iter().any(allows);
        (!is_allowed).then(|| {
            format!("{host} is not among the hosts that the operator may connect to (allowedHosts)")
        })
    }
}

/// Whether one of these `host:port` resolves to a link-local address; unresolvable names fail when
/// connecting. Blocks.
pub(crate) fn link_local_among(servers: &str) -> Option<String> {
    let resolved = |server: &&str| {
        server.to_socket_addrs().is_ok_and(|mut all| all.any(|address| is_link_local(address.ip())))
    };
    servers.split(',').find(resolved).map(ToOwned::to_owned)
}

#[cfg(test)]
#[path = "../../tests/unit/outbound.rs"]
mod tests;
