//! What is found in the cluster for pools that scrape: monitors (`monitoring.coreos.com`), and the
//! pods, Services, EndpointSlices, nodes and namespaces that their targets are made of.
//!
//! A kind is watched as long as some pool asks for it ([`Discovery::need`]), and forgotten when
//! none does. A kind that the cluster doesn't serve is no fault: the watch looks again. What is
//! kept is stripped ([`strip`]) and bounded ([`state`]). Decides nothing and writes nothing.

mod select;
mod state;
mod strip;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use millrace_monitors::{
    Annotated, Cluster, Monitor, MonitorId, MonitorKind, Namespaces, Selector,
};
use tokio_util::task::AbortOnDropHandle;

use crate::telemetry::metrics::Metrics;
use state::{Stage, State};

pub use select::needs;
pub use state::Watched;

/// All watches, and what they told.
pub struct Discovery {
    client: Client,
    metrics: Metrics,
    /// Namespaces that this operator looks after; all if there is none.
    within: Vec<String>,
    /// Namespaces whose pools may look into others.
    widely: Widely,
    state: Arc<Mutex<State>>,
    running: Mutex<BTreeMap<Watched, Vec<AbortOnDropHandle<()>>>>,
}

/// Whose pools may look into other namespaces than their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Widely(pub Vec<String>);

impl Widely {
    fn has(&self, namespace: &str) -> bool {
        self.0.iter().any(|name| name == "*" || name == namespace)
    }
}

/// What a pool asks for.
#[derive(Clone, Debug, Default)]
pub struct Wants {
    /// Which monitors, by kind.
    pub monitors: BTreeMap<MonitorKind, Pick>,
    /// Which annotated objects, with rules of the pool.
    pub annotated: Option<(Pick, Vec<millrace_scrape::relabel::Rule>)>,
    /// The interval of what names none.
    pub interval_seconds: u32,
}

/// Which objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pick {
    /// By labels.
    pub selector: Selector,
    /// In namespaces with such labels; in the pool's own if none is given.
    pub namespaces: Option<Selector>,
}

/// What is found for a pool.
#[derive(Clone, Debug)]
pub struct Found {
    /// Changes with whatever its targets depend on.
    pub version: u64,
    /// The cluster.
    pub cluster: Cluster,
    /// The namespaces that the pool may look into.
    pub reach: Namespaces,
    /// The monitors that it selects, with their uids.
    pub monitors: Vec<Arc<Monitor>>,
    /// Uids of monitors, for events.
    pub uids: BTreeMap<MonitorId, String>,
    /// Annotated objects.
    pub annotated: Option<Annotated>,
}

/// Why nothing can be said of a pool's targets yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// Something is not read yet.
    #[error("{watched} are not read yet{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Waiting {
        /// The kind.
        watched: String,
        /// Why, if that is known.
        why: Option<String>,
    },
    /// The pool looks into other namespaces, and may not.
    #[error(
        "receivers.prometheus.kubernetes: {0} has a namespaceSelector, and pools in {1} may not look \
         into other namespaces: leave it out, or allow it by discovery.acrossNamespaces of the \
         operator's chart"
    )]
    Across(&'static str, String),
    /// A rule of the pool can't be used.
    #[error("receivers.prometheus.kubernetes.annotations.relabel: {0}")]
    Rule(#[from] millrace_scrape::relabel::RuleError),
}

impl std::fmt::Debug for Discovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Discovery").finish_non_exhaustive()
    }
}

impl Discovery {
    /// Without any watch.
    #[must_use]
    pub fn new(client: Client, metrics: Metrics, within: Vec<String>, widely: Widely) -> Self {
        let (state, running) = (Arc::default(), Mutex::default());
        Self { client, metrics, within, widely, state, running }
    }

    /// Watches what is needed, and nothing else. Must be called in a runtime.
    pub fn need(&self, needed: &BTreeSet<Watched>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<Watched> =
            running.keys().filter(|it| !needed.contains(it)).copied().collect();
        for watched in gone {
            // Aborted first: it must not write after the kind was forgotten.
            running.remove(&watched);
            self.state().forget(watched);
        }
        for watched in needed {
            running.entry(*watched).or_insert_with(|| {
                let places = watch::places(*watched, &self.within);
                let tasks = places.into_iter().enumerate().map(|(place, namespace)| {
                    self.state().stage(*watched, place, Stage::Waiting(None));
                    let watch = watch::Watch {
                        client: self.client.clone(),
                        metrics: self.metrics.clone(),
                        watched: *watched,
                        place,
                        namespace,
                        state: self.state.clone(),
                    };
                    AbortOnDropHandle::new(tokio::spawn(watch.run()))
                });
                tasks.collect()
            });
        }
    }

    /// What there is for a pool in a namespace.
    ///
    /// # Errors
    /// Nothing can be said yet, or the pool asks for what it may not.
    pub fn find(&self, namespace: &str, name: &str, wants: &Wants) -> Result<Found, NotFound> {
        let is_wide = self.widely.has(namespace);
        select::find(&self.state(), (namespace, name), wants, is_wide)
    }

    /// Changes with whatever targets depend on.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.state().version
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
