//! A monitor, read once from its JSON and used for any number of pools and discoveries.

mod access;
mod by_address;
mod by_labels;
pub(crate) mod endpoint;
pub(crate) mod fields;
pub(crate) mod rules;
pub(crate) mod secrets;
pub(crate) mod supported;

use serde_json::Value;

use crate::monitor::endpoint::MonitorEndpoint;
use crate::monitor::fields::MonitorReader;
use crate::monitor::secrets::SecretUse;
use crate::scraped::{MonitorFault, MonitorId, MonitorKind};

/// A monitor.
#[derive(Clone, Debug)]
pub struct Monitor {
    id: MonitorId,
    pub(crate) endpoints: Vec<MonitorEndpoint>,
    faults: Vec<MonitorFault>,
}

impl Monitor {
    /// Reads a monitor's `spec`. Parts that can't be used are omitted and noted as faults.
    #[must_use]
    pub fn new(id: MonitorId, spec: &Value) -> Self {
        let mut reader = MonitorReader::new(&id);
        let endpoints = match id.kind {
            MonitorKind::ServiceMonitor | MonitorKind::PodMonitor => {
                by_labels::read_monitor(&mut reader, spec)
            }
            MonitorKind::Probe => by_address::read_probe(&mut reader, spec).into_iter().collect(),
            MonitorKind::ScrapeConfig => {
                by_address::read_scrape_config(&mut reader, spec).into_iter().collect()
            }
            // Annotated objects have no spec.
            MonitorKind::Pod | MonitorKind::Service => Vec::new(),
        };
        let faults = reader.into_faults();
        Self { id, endpoints, faults }
    }

    /// Returns its identity.
    #[must_use]
    pub fn id(&self) -> &MonitorId {
        &self.id
    }

    /// Returns the faults that do not depend on the cluster.
    #[must_use]
    pub fn faults(&self) -> &[MonitorFault] {
        &self.faults
    }

    /// Returns the keys of Secrets and ConfigMaps that it names, in its own namespace.
    pub fn secret_uses(&self) -> impl Iterator<Item = &SecretUse> {
        self.endpoints.iter().flat_map(|endpoint| endpoint.uses.iter().map(|(_, used)| used))
    }
}
