//! Discovers objects in the cluster for pools that scrape: monitors (`monitoring.coreos.com`), and
//! the pods, Services, EndpointSlices, nodes and namespaces from which their targets are built.
//!
//! A kind is watched while some pool needs it ([`Discovery::watch_needed`]), and dropped when none
//! does. A kind that the cluster doesn't serve is no error: the watch retries. Stored objects are
//! stripped ([`strip`]) and bounded ([`state`]). Decides nothing and writes nothing.

mod select;
mod state;
mod strip;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use millrace_monitors::{
    AnnotationSources, Cluster, Monitor, MonitorId, MonitorKind, Namespaces, Selector,
};
use tokio_util::task::AbortOnDropHandle;

use crate::telemetry::metrics::Metrics;
use state::{DiscoveryState, WatchStage};

pub use select::needed_watches;
pub use state::Watched;

/// All watches, and the state that they report.
pub struct Discovery {
    client: Client,
    metrics: Metrics,
    /// The namespaces that this operator manages; empty for all.
    within: Vec<String>,
    /// The namespaces whose pools may select objects in others.
    widely: WideNamespaces,
    state: Arc<Mutex<DiscoveryState>>,
    running: Mutex<BTreeMap<Watched, Vec<AbortOnDropHandle<()>>>>,
}

/// The namespaces whose pools may select objects outside their own; `*` for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WideNamespaces(pub Vec<String>);

impl WideNamespaces {
    fn has_namespace(&self, namespace: &str) -> bool {
        self.0.iter().any(|name| name == "*" || name == namespace)
    }
}

/// The objects that a pool selects.
#[derive(Clone, Debug, Default)]
pub struct DiscoveryRequest {
    /// The selected monitors, by kind.
    pub monitors: BTreeMap<MonitorKind, Pick>,
    /// The selected annotated objects, with the pool's relabeling rules.
    pub annotated: Option<(Pick, Vec<millrace_scrape::relabel::Rule>)>,
    /// The scrape interval of objects that name none.
    pub interval_seconds: u32,
}

/// A selection of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pick {
    /// The labels of selected objects.
    pub selector: Selector,
    /// The labels of selected namespaces; `None`: the pool's own namespace.
    pub namespaces: Option<Selector>,
}

/// The objects discovered for a pool.
#[derive(Clone, Debug)]
pub struct PoolDiscovery {
    /// Changes whenever anything that targets depend on changes.
    pub version: u64,
    /// The cluster's pods, Services, EndpointSlices and nodes.
    pub cluster: Cluster,
    /// The namespaces that the pool may discover in.
    pub reach: Namespaces,
    /// The monitors that the pool selects.
    pub monitors: Vec<Arc<Monitor>>,
    /// Uids of monitors, for events.
    pub uids: BTreeMap<MonitorId, String>,
    /// Annotated objects.
    pub annotated: Option<AnnotationSources>,
}

/// Why a pool's targets are unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// Some objects are not read yet.
    #[error("{watched} are not read yet{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Waiting {
        /// The kind.
        watched: String,
        /// The reason, if known.
        why: Option<String>,
    },
    /// The pool selects other namespaces without permission.
    #[error(
        "receivers.prometheus.kubernetes: {0} has a namespaceSelector, and pools in {1} may not \
         use other namespaces: omit it, or allow it by discovery.acrossNamespaces of the \
         operator's chart"
    )]
    Across(&'static str, String),
    /// A rule of the pool is invalid.
    #[error("receivers.prometheus.kubernetes.annotations.relabel: {0}")]
    Rule(#[from] millrace_scrape::relabel::RelabelRuleError),
}

impl std::fmt::Debug for Discovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Discovery").finish_non_exhaustive()
    }
}

impl Discovery {
    /// Creates a discovery without any watch.
    #[must_use]
    pub fn new(
        client: Client,
        metrics: Metrics,
        within: Vec<String>,
        widely: WideNamespaces,
    ) -> Self {
        let (state, running) = (Arc::default(), Mutex::default());
        Self { client, metrics, within, widely, state, running }
    }

    /// Starts the watches in `needed` and stops all others. Must be called in a runtime.
    pub fn watch_needed(&self, needed: &BTreeSet<Watched>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let unneeded: Vec<Watched> =
            running.keys().filter(|it| !needed.contains(it)).copied().collect();
        for watched in unneeded {
            // Abort the watch first: it must not write after its kind was dropped.
            running.remove(&watched);
            self.lock_state().remove_kind(watched);
        }
        for watched in needed {
            running.entry(*watched).or_insert_with(|| {
                let scopes = watch::watch_scopes(*watched, &self.within);
                let tasks = scopes.into_iter().enumerate().map(|(scope, namespace)| {
                    self.lock_state().set_stage(*watched, scope, WatchStage::Waiting(None));
                    let watch = watch::KindWatch {
                        client: self.client.clone(),
                        metrics: self.metrics.clone(),
                        watched: *watched,
                        scope,
                        namespace,
                        state: self.state.clone(),
                    };
                    AbortOnDropHandle::new(tokio::spawn(watch.run()))
                });
                tasks.collect()
            });
        }
    }

    /// Returns the objects discovered for a pool.
    ///
    /// # Errors
    /// The objects are not read yet, or the pool selects what it may not.
    pub fn find_targets(
        &self,
        namespace: &str,
        name: &str,
        request: &DiscoveryRequest,
    ) -> Result<PoolDiscovery, DiscoveryError> {
        let is_wide = self.widely.has_namespace(namespace);
        select::select_for_pool(&self.lock_state(), (namespace, name), request, is_wide)
    }

    /// Changes whenever anything that targets depend on changes.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.lock_state().version
    }

    fn lock_state(&self) -> MutexGuard<'_, DiscoveryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
