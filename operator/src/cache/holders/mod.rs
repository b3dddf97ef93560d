//! Caches the records of holders ([`record`]), and this process's identity in them.
//! [`crate::holders`] reads and writes the records.

pub(crate) mod record;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use millrace_crds::MillraceKind;
use millrace_ddl as ddl;

use self::record::{Claimant, Holder};
use crate::error::Invalid;
use crate::kafka::{ConnectionSettings, KafkaResource};

/// Cached records, and this process's identity.
#[derive(Default)]
pub struct Holders {
    /// The cluster's unique name; without it there are no records.
    pub(crate) cluster: Option<String>,
    /// The watched namespaces; empty for all.
    namespaces: Vec<String>,
    cached: Mutex<HashMap<String, HolderState>>,
}

#[derive(Default)]
pub(crate) struct HolderState {
    /// Why there is no record, as last reported.
    pub(crate) unrecorded: Option<String>,
    /// The time, subject and result of the last check: for pools, which reconcile often.
    pub(crate) checked: Option<(Timestamp, String, Option<Invalid>)>,
    /// What the object has on record, to be released when it is deleted.
    pub(crate) holds: Option<HeldResource>,
}

/// What an object has on record.
#[derive(Clone)]
pub(crate) enum HeldResource {
    Kafka { settings: Box<ConnectionSettings>, resource: KafkaResource },
    Tables { servers: Vec<ddl::DdlClient>, declared: Box<ddl::Declared> },
}

impl Holders {
    /// Creates an empty cache. Records carry the name `cluster`; `namespaces` are those watched,
    /// empty for all.
    #[must_use]
    pub fn new(cluster: Option<String>, namespaces: Vec<String>) -> Self {
        Self { cluster, namespaces, cached: Mutex::default() }
    }

    /// Returns an object's identity as a holder; `None` if the operator writes no records.
    pub(crate) fn claimant_of<K: Resource<DynamicType = ()> + MillraceKind>(
        &self,
        object: &K,
        shared: bool,
    ) -> Option<Claimant> {
        let cluster = self.cluster.as_ref()?;
        let who = format!("{cluster}/{}", by_kind(object));
        let takes_over = object.takes_over().map(str::to_owned);
        Some(Claimant { holder: Holder { who, shared }, takes_over })
    }

    /// Returns a holder's kind, namespace and name, if this process would observe it wherever it
    /// exists.
    pub(crate) fn watched_key(&self, who: &str) -> Option<String> {
        let parts: Vec<&str> = who.rsplitn(4, '/').collect();
        let [name, kind, namespace, cluster] = parts[..] else { return None };
        let all = self.namespaces.is_empty();
        let is_watched = all || self.namespaces.iter().any(|it| it == namespace);
        let is_ours = is_watched && self.cluster.as_deref() == Some(cluster);
        is_ours.then(|| super::object_key(kind, namespace, name))
    }

    pub(crate) fn lock_cached(&self) -> MutexGuard<'_, HashMap<String, HolderState>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what an object has on record, and that the record could be read.
    pub(crate) fn record_held(&self, key: &str, holds: HeldResource) {
        let mut states = self.lock_cached();
        let state = states.entry(key.to_owned()).or_default();
        state.holds = Some(holds);
        state.unrecorded = None;
    }
}

/// Returns namespace, kind and name, separated by slashes.
fn by_kind<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let namespace = object.namespace().unwrap_or_default();
    format!("{namespace}/{}/{}", K::kind(&()), object.name_any())
}
