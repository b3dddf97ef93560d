//! Limits the hosts to which the operator may connect for a spec, and the bytes of their responses
//! that it holds: anybody who may write a spec names hosts, and anything may listen there.
//!
//! Hosts are allowed by exact name or by domain (`*.example.com`). Without a list, all are allowed
//! except the operator's own machine and the API server, which a list may name exactly, and
//! link-local addresses (a cloud's metadata service), which never are. Names are also refused by
//! the addresses that they resolve to. Brokers that a cluster names are checked when a connection
//! to it is made. Limits: the API server is known by the address of its Service in the pods'
//! environment; the client library connects, unchecked, to brokers named later; brokers' responses
//! are bounded per connection (`receive.message.max.bytes`), not by the budget here.

pub mod credentials;

use std::net::{IpAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;

use millrace_ddl::{AddressRule, Budget, RefusedAddresses};

/// Maximum size of all responses held at once, from ClickHouse and collectors' metrics together. A
/// metrics page has 100 kB and tables with a thousand columns 200 kB, so about sixty fit at once.
/// It is a part of the limit in the chart's values.
pub const ANSWERS_BYTES_MAX: usize = 12 * 1024 * 1024;

/// Maximum size of a response of ClickHouse: a third of the budget, and twenty times a normal one.
pub const CLICKHOUSE_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Limits on connections and responses. Clones share the budget.
#[derive(Clone, Debug)]
pub struct Outbound {
    /// Allowed hosts; empty: all but the API server.
    hosts: Arc<[Pattern]>,
    /// The API server's address, as pods find it.
    api_server: Option<Arc<str>>,
    /// Namespaces for whose specs the operator signs with its own AWS identity; `*` for all.
    aws_namespaces: Arc<[String]>,
    /// Refuses addresses, whatever name resolves to them.
    pub addresses: RefusedAddresses,
    /// The budget for the bytes of responses.
    pub response_budget: Budget,
}

impl Default for Outbound {
    /// Allows all hosts but link-local ones, for a process whose servers are on its own machine.
    fn default() -> Self {
        Self { addresses: AddressRule::NoLinkLocal.into(), ..Self::new(Vec::new(), None) }
    }
}

/// The API server's names in a cluster, and in its domain (`kubernetes.default.svc.cluster.local`).
const API_SERVER: [&str; 3] = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// A host, or all of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// This exact name or address.
    Host(String),
    /// Every name with this suffix, which begins with a dot.
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
        Ok(match domain {
            true => Self::Domain(host.to_owned()),
            false => Self::Host(canonical_host(host)),
        })
    }
}

/// Returns a host in the form in which hosts are compared: in lower case, without a final dot, and
/// an address without brackets in its shortest spelling.
fn canonical_host(host: &str) -> String {
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => bare.trim_end_matches('.').to_ascii_lowercase(),
    }
}

impl Outbound {
    /// Allows only these hosts; if there are none, all but this machine and the API server, which
    /// is at `api_server`.
    #[must_use]
    pub fn new(hosts: Vec<Pattern>, api_server: Option<String>) -> Self {
        let api_server: Option<Arc<str>> = api_server.map(|host| canonical_host(&host).into());
        let names = |is_it: &dyn Fn(&str) -> bool| {
            hosts.iter().any(|it| matches!(it, Pattern::Host(host) if is_it(host)))
        };
        let local = match names(&|host| is_loopback_name(host) || is_local_address(host)) {
            true => AddressRule::NoLinkLocal,
            false => AddressRule::NoLocal,
        };
        let names_api_server = names(&|host| is_api_server(host, api_server.as_deref()));
        let address = api_server.as_deref().and_then(|host| host.parse().ok());
        let addresses =
            RefusedAddresses { local, api_server: address.filter(|_| !names_api_server) };
        let response_budget = Budget::new(ANSWERS_BYTES_MAX);
        let aws_namespaces = Arc::default();
        Self { hosts: hosts.into(), api_server, aws_namespaces, addresses, response_budget }
    }

    /// Lets specs in these namespaces use the operator's own AWS identity; `*` means all.
    #[must_use]
    pub fn allowing_aws_identity(self, namespaces: Vec<String>) -> Self {
        Self { aws_namespaces: namespaces.into(), ..self }
    }

    /// Returns whether specs in a namespace may use the operator's own AWS identity.
    #[must_use]
    pub fn may_use_aws_identity(&self, namespace: &str) -> bool {
        self.aws_namespaces.iter().any(|it| it == "*" || it == namespace)
    }

    /// Returns why a host, as a spec names it, may not be connected to; `None`: it may.
    #[must_use]
    pub fn refusal_of_host(&self, host: &str) -> Option<String> {
        let host = canonical_host(host);
        let kind = host.parse().ok().and_then(|address| self.addresses.refused_kind(address));
        let refuses_names = self.addresses.local == AddressRule::NoLocal;
        let is_loopback = refuses_names && is_loopback_name(&host);
        if let Some(kind) = kind.or(is_loopback.then_some("a loopback address")) {
            return Some(format!(
                "{host} is {kind}, to which the operator does not connect for a spec"
            ));
        }
        let is_named = self.hosts.iter().any(|it| matches!(it, Pattern::Host(it) if *it == host));
        if is_named {
            return None;
        }
        // A domain may contain the API server, so only its exact name allows it.
        if is_api_server(&host, self.api_server.as_deref()) {
            return Some(format!(
                "{host} is the API server, to which the operator does not connect for a spec \
                 unless allowedHosts has this exact name"
            ));
        }
        let is_in_domain = self
            .hosts
            .iter()
            .any(|it| matches!(it, Pattern::Domain(domain) if host.ends_with(domain.as_str())));
        (!is_in_domain && !self.hosts.is_empty()).then(|| {
            format!("{host} is not among the hosts that the operator may connect to (allowedHosts)")
        })
    }

    /// Returns the first of these `host:port` that resolves to a refused address, and the kind of
    /// that address; unresolvable names fail when connecting. Blocks.
    pub(crate) fn refused_among(&self, servers: &str) -> Option<(String, &'static str)> {
        servers.split(',').find_map(|server| {
            let mut resolved = server.to_socket_addrs().ok()?;
            let kind = resolved.find_map(|address| self.addresses.refused_kind(address.ip()))?;
            Some((server.to_owned(), kind))
        })
    }
}

/// Returns whether a host is the API server, which is at `address`, by one of its names.
fn is_api_server(host: &str, address: Option<&str>) -> bool {
    let in_its_domain = host.starts_with("kubernetes.default.svc.");
    in_its_domain || API_SERVER.contains(&host) || address == Some(host)
}

fn is_local_address(host: &str) -> bool {
    let refused = RefusedAddresses::from(AddressRule::NoLocal);
    host.parse().is_ok_and(|address| refused.refused_kind(address).is_some())
}

/// Returns whether a name is this machine's (RFC 6761).
fn is_loopback_name(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests;
