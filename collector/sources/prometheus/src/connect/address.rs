//! Resolves names to permitted addresses and connects to them.
//!
//! The address that was checked is the one that is connected to: a name that resolves to another
//! address a moment later changes nothing.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::fault::ConnectError;
use super::names::{HostNames, Lookups};
use super::tls::Roots;

/// The most idle connections, so that 10,000 targets don't hold as many files and buffers: with
/// [`IDLE_BYTES`] each they take 40 MB, within the byte budget.
pub(super) const IDLE_MAX: usize = 1000;

/// The most addresses of a name that are tried.
const TRIES_MAX: usize = 8;

/// The state that all connections of the process share.
#[derive(Debug, Clone)]
pub(in super::super) struct Network {
    lookups: Lookups,
    pub(super) roots: Arc<Roots>,
    /// One permit for each idle connection.
    pub(super) idle_permits: Arc<Semaphore>,
    allows_local: bool,
}

impl Network {
    pub(in super::super) fn new(allows_local: bool, hosts: HostNames) -> Self {
        let lookups = Lookups::new(hosts);
        let idle_permits = Arc::new(Semaphore::new(IDLE_MAX));
        Self { lookups, roots: Arc::default(), idle_permits, allows_local }
    }

    /// Connects to the first permitted address of a host that accepts.
    pub(super) async fn connect_host(
        &self,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, ConnectError> {
        let mut failed = None;
        for address in self.resolve_host(host, port).await?.into_iter().take(TRIES_MAX) {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    // This fails only for a closed connection, which the next call reports.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(source) => failed = Some(ConnectError::Connect { address, source }),
            }
        }
        Err(failed.unwrap_or_else(|| no_address(host)))
    }

    /// Refuses a plainly local name where a proxy will resolve it.
    pub(super) fn check_name(&self, host: &str) -> Result<(), ConnectError> {
        let localhost = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let is_localhost = host == "localhost" || host.ends_with(".localhost");
        let address = host.parse().ok().or(localhost.filter(|_| is_localhost));
        match address {
            Some(address) if !self.allows_local && is_local(address) => {
                Err(ConnectError::Local { host: host.to_owned(), address })
            }
            _ => Ok(()),
        }
    }

    async fn resolve_host(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.allowed_addresses(host, vec![SocketAddr::new(address, port)]);
        }
        let found = self.lookups.find_addresses(host).await;
        let found = found
            .map_err(|source| ConnectError::Resolve { host: host.to_owned(), source })?
            .iter()
            .map(|address| {
                let mut address = *address;
                address.set_port(port);
                address
            })
            .collect();
        self.allowed_addresses(host, found)
    }

    fn allowed_addresses(
        &self,
        host: &str,
        found: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, ConnectError> {
        let first = found.first().copied().ok_or_else(|| no_address(host))?;
        let allowed: Vec<_> =
            found.into_iter().filter(|it| self.allows_local || !is_local(it.ip())).collect();
        if allowed.is_empty() {
            return Err(ConnectError::Local { host: host.to_owned(), address: first.ip() });
        }
        Ok(allowed)
    }
}

fn no_address(host: &str) -> ConnectError {
    let source = Arc::new(io::ErrorKind::NotFound.into());
    ConnectError::Resolve { host: host.to_owned(), source }
}

/// Clouds' machine-local services outside the link-local ranges: Alibaba's and Azure's.
const CLOUD_V4: [Ipv4Addr; 2] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];

/// The same for Amazon, all of `fd00:ec2::/32`, and Google.
const CLOUD_V6: [(Ipv6Addr, u32); 2] = [
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128),
];

/// Prefixes of addresses that embed an IPv4 address, and its distance from the right in bits:
/// NAT64, 6to4 and IPv4-compatible addresses.
const EMBEDDING: [(Ipv6Addr, u32, u32); 3] = [
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, 0),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 80),
    (Ipv6Addr::UNSPECIFIED, 96, 0),
];

/// Whether an address belongs to this machine or its link only, or can't be a target's. Private
/// networks and unique-local addresses are permitted: targets are there.
fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            address.is_loopback()
                || address.is_link_local()
                // Linux connects 0.0.0.0 to this machine.
                || address.octets()[0] == 0
                || address.is_multicast()
                || address.is_broadcast()
                || CLOUD_V4.contains(&address)
        }
        IpAddr::V6(address) => {
            let has = |prefix: Ipv6Addr, bits: u32| {
                (address.to_bits() ^ prefix.to_bits()) >> (128 - bits) == 0
            };
            let embedded = EMBEDDING.into_iter().find(|(prefix, bits, _)| has(*prefix, *bits));
            let inner = embedded.map(|(_, _, shift)| (address.to_bits() >> shift) as u32);
            address.is_loopback()
                || address.is_unicast_link_local()
                || address.is_multicast()
                || CLOUD_V6.into_iter().any(|(prefix, bits)| has(prefix, bits))
                || inner.is_some_and(|bits| is_local(Ipv4Addr::from_bits(bits).into()))
        }
    }
}

#[cfg(test)]
mod tests;
