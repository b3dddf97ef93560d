//! Several brokers of one cluster, for tests in which one of them ends.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use super::{Broker, BrokerOptions, Prepared, Quorum, START_ATTEMPTS};
use crate::servers::service::{self, Result, ServiceError};

impl Broker {
    /// Starts `count` brokers of one cluster, each a controller too, in folders of `dir` by node id,
    /// and returns when all serve. Topics have up to three replicas, and of three two acknowledge.
    /// [`Self::restart`] brings one back as long as most of the others run.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    pub fn start_cluster(count: usize, dir: &Path, options: &BrokerOptions) -> Result<Vec<Self>> {
        let mut attempt = 1;
        loop {
            match start_all(count, dir, options) {
                // A port that was free was taken before a broker bound it.
                Err(ServiceError::Exited { .. }) if attempt < START_ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    /// Replicas of each topic in a cluster of so many brokers.
    #[must_use]
    pub fn count_replicas(count: usize) -> usize {
        super::settings::count_replicas(count)
    }
}

fn start_all(count: usize, dir: &Path, options: &BrokerOptions) -> Result<Vec<Broker>> {
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let controller = |_| service::free_port(host).map(|port| SocketAddr::new(host, port));
    let controllers: Vec<_> = (0..count).map(controller).collect::<Result<_>>()?;
    let start = |node_id: usize| {
        let quorum = Some(Quorum { controllers: controllers.clone(), node_id });
        let options = BrokerOptions { quorum, ..options.clone() };
        let prepared = Prepared::new(&dir.join(node_id.to_string()), &options)?;
        let service = prepared.launch(prepared.command(), None)?;
        Ok(Broker { service, prepared, scratch: None })
    };
    // None serves before most of them run.
    let mut brokers: Vec<Broker> = (1..=count).map(start).collect::<Result<_>>()?;
    for Broker { service, prepared, .. } in &mut brokers {
        prepared.wait_ready(service)?;
    }
    Ok(brokers)
}
