//! Cached records of holders ([`record`]), and this process's identity in them. [`crate::holders`]
//! reads and writes the records.

pub(crate) mod record;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use millrace_crds::TAKES_OVER_ANNOTATION;
use millrace_ddl as ddl;

use self::record::{Claimant, Holder};
use crate::error::Invalid;
use crate::kafka::{Place, Settings};

/// Cached records, and this process's identity.
#[derive(Default)]
pub struct Holders {
    /// The cluster's unique name; without it there are no records.
    pub(crate) cluster: Option<String>,
    /// The watched namespaces; empty for all.
    namespaces: Vec<String>,
    kept: Mutex<HashMap<String, Kept>>,
}

/// What is remembered of an object.
#[derive(Default)]
pub(crate) struct Kept {
    /// Why there is no record, as last reported.
    pub(crate) unrecorded: Option<String>,
    /// The result of the last check, of what, and when: for pools, which reconcile often.
    pub(crate) looked: Option<(Timestamp, String, Option<Invalid>)>,
    /// What it has on record, to be released when it is deleted.
    pub(crate) holds: Option<Held>,
}

/// What an object put on record.
#[derive(Clone)]
pub(crate) enum Held {
    Kafka { settings: Settings, place: Place },
    Tables { servers: Vec<ddl::Client>, declared: Box<ddl::Declared> },
}

impl Holders {
    /// Records carry this cluster's name; `namespaces` are those watched, or none for all.
    #[must_use]
    pub fn new(cluster: Option<String>, namespaces: Vec<String>) -> Self {
        Self { cluster, namespaces, kept: Mutex::default() }
    }

    /// An object's identity as a holder; `None`: no records are kept.
    pub(crate) fn claimant<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        shared: bool,
    ) -> Option<Claimant> {
        let cluster = self.cluster.as_ref()?;
        let who = format!("{cluster}/{}", by_kind(object));
        let takes_over = object.annotations().get(TAKES_OVER_ANNOTATION).cloned();
        Some(Claimant { holder: Holder { who, shared }, takes_over })
    }

    /// A holder's kind, namespace and name, if this process would see it wherever it exists.
    pub(crate) fn seen(&self, who: &str) -> Option<String> {
        let parts: Vec<&str> = who.rsplitn(4, '/').collect();
        let [name, kind, namespace, cluster] = parts[..] else { return None };
        let all = self.namespaces.is_empty();
        let looked_after = all || self.namespaces.iter().any(|it| it == namespace);
        let is_ours = looked_after && self.cluster.as_deref() == Some(cluster);
        is_ours.then(|| super::key(kind, namespace, name))
    }

    pub(crate) fn kept(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an object's record, and that it could be read.
    pub(crate) fn note(&self, key: &str, holds: Held) {
        let mut kept = self.kept();
        let kept = kept.entry(key.to_owned()).or_default();
        kept.holds = Some(holds);
        kept.unrecorded = None;
    }
}

/// Namespace, kind and name, with slashes in between.
fn by_kind<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let namespace = object.namespace().unwrap_or_default();
    format!("{namespace}/{}/{}", K::kind(&()), object.name_any())
}
