//! A monitor as read once from its JSON, for any number of pools and of looks at the cluster.

use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::fields::Reader;
use crate::scraped::{Fault, MonitorId, MonitorKind};
use crate::secrets::SecretUse;
use crate::{by_address, by_labels};

/// A monitor.
#[derive(Clone, Debug)]
pub struct Monitor {
    id: MonitorId,
    pub(crate) endpoints: Vec<Endpoint>,
    faults: Vec<Fault>,
}

impl Monitor {
    /// Reads a monitor's `spec`. What of it can't be used is left out and noted.
    #[must_use]
    pub fn new(id: MonitorId, spec: &Value) -> Self {
        let mut reader = Reader::new(&id);
        let endpoints = match id.kind {
            MonitorKind::ServiceMonitor | MonitorKind::PodMonitor => {
                by_labels::monitor(&mut reader, spec)
            }
            MonitorKind::Probe => by_address::probe(&mut reader, spec).into_iter().collect(),
            MonitorKind::ScrapeConfig => {
                by_address::scrape_config(&mut reader, spec).into_iter().collect()
            }
            // They have annotations, no spec.
            MonitorKind::Pod | MonitorKind::Service => Vec::new(),
        };
        let faults = reader.into_faults();
        Self { id, endpoints, faults }
    }

    /// Which one it is.
    #[must_use]
    pub fn id(&self) -> &MonitorId {
        &self.id
    }

    /// What of it can't be used, whatever the cluster has.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Keys of Secrets and ConfigMaps that it names, in its own namespace.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretUse> {
        self.endpoints.iter().flat_map(|endpoint| endpoint.uses.iter().map(|(_, used)| used))
    }
}
