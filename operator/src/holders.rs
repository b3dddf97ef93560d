//! Who holds a topic, a consumer group or tables, on record in Kafka and ClickHouse themselves.
//!
//! [`crate::cache::claims`] decides among the objects that this process sees. What it can't see (other
//! clusters, namespaces not looked after, a server under another name) has left a record in the
//! system it shares with us: who comes second reads it and is refused. Read before anything is
//! changed, written after it, and read again: of two who write at once the last one holds, the
//! other finds out at its next look. A record is renewed once a day; one that was not for a week
//! counts for nothing. Where the user in the credentials may not keep records, everything goes on
//! without them, which is told. Limits: one entry for each object that exists, some 2 kB.

mod gone;
mod kafka;
mod record;
mod tables;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Resource, ResourceExt};
use millrace_crds::TAKES_OVER_ANNOTATION;
use millrace_ddl as ddl;

pub use self::gone::gone;
pub(crate) use self::gone::keeps;
pub(crate) use self::kafka::{Thing, look, of_pool, write};
use self::record::{Claimant, Holder};
pub(crate) use self::tables::{look_at_tables, write_of_tables};
use crate::context::Context;
use crate::kafka::{Place, Settings};
use crate::pool::Invalid;
use crate::reconcile::controller::{key, key_of};
use crate::report::events::Notice;

/// The namespace that every cluster has, and whose uid stays for as long as the cluster does.
const CLUSTERS_OWN_NAMESPACE: &str = "kube-system";

/// What is known of holders, and as whom this process keeps its records.
#[derive(Default)]
pub struct Holders {
    /// The cluster, unlike any other; without it there are no records.
    cluster: Option<String>,
    /// The namespaces looked after; all if there are none.
    namespaces: Vec<String>,
    kept: Mutex<HashMap<String, Kept>>,
}

/// What is remembered of an object.
#[derive(Default)]
struct Kept {
    /// Why there is no record, as it was told.
    unrecorded: Option<String>,
    /// What a look came to, of what, and when: for pools, which are reconciled often.
    looked: Option<(Timestamp, String, Option<Invalid>)>,
    /// What it put on record, to be given up when it is gone.
    holds: Option<Held>,
}

/// What an object put on record.
#[derive(Clone)]
enum Held {
    Kafka { settings: Settings, place: Place },
    Tables { servers: Vec<ddl::Client>, declared: Box<ddl::Declared> },
}

impl Holders {
    /// Records are kept as this cluster's; `namespaces` are those looked after, or none for all.
    #[must_use]
    pub fn new(cluster: Option<String>, namespaces: Vec<String>) -> Self {
        Self { cluster, namespaces, kept: Mutex::default() }
    }

    /// Who an object is as a holder; `None`: no records are kept.
    fn claimant<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        shared: bool,
    ) -> Option<Claimant> {
        let cluster = self.cluster.as_ref()?;
        let who = format!("{cluster}/{}", by_kind(object));
        let takes_over = object.annotations().get(TAKES_OVER_ANNOTATION).cloned();
        Some(Claimant { holder: Holder { who, shared }, takes_over })
    }

    /// What a holder is called in this process, if it is one that this process sees wherever it
    /// exists: kind, namespace and name.
    fn seen(&self, who: &str) -> Option<String> {
        let parts: Vec<&str> = who.rsplitn(4, '/').collect();
        let [name, kind, namespace, cluster] = parts[..] else { return None };
        let all = self.namespaces.is_empty();
        let looked_after = all || self.namespaces.iter().any(|it| it == namespace);
        let is_ours = looked_after && self.cluster.as_deref() == Some(cluster);
        is_ours.then(|| key(kind, namespace, name))
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what an object has on record, and that it could be read.
    fn note(&self, key: &str, holds: Held) {
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

/// Whether a record's holder is no hindrance: this process would see it, and no such object exists,
/// or it doesn't want the same, or it is younger.
fn is_passed_over<K: Resource<DynamicType = ()>>(context: &Context, object: &K, who: &str) -> bool {
    let seen = context.holders.seen(who);
    seen.is_some_and(|key| !context.claims.is_held_by(object, &key))
}

/// Tells, once, that there is no record of what an object holds.
async fn tell_unrecorded<K: Resource<DynamicType = ()>>(context: &Context, object: &K, why: &str) {
    {
        let mut kept = context.holders.kept();
        let told = &mut kept.entry(key_of(object)).or_default().unrecorded;
        if told.as_deref() == Some(why) {
            return;
        }
        *told = Some(why.to_owned());
    }
    tracing::warn!(object = key_of(object), why, "who holds this is not on record");
    let note = format!(
        "who holds this is not on record, so nobody in another cluster is kept from it: {why}"
    );
    let notice = Notice::warning("HolderNotRecorded", "Observe", note);
    context.events.publish(&object.object_ref(&()), notice).await;
}

/// What the cluster is called in records: what the user says, or the uid of a namespace that every
/// cluster has. `None`, with a warning: it may not be read, and no records are kept.
pub async fn cluster(client: &Client, said: Option<&str>) -> Option<String> {
    if let Some(said) = said {
        return Some(said.to_owned());
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    loop {
        match namespaces.get_metadata(CLUSTERS_OWN_NAMESPACE).await {
            Ok(found) => return found.metadata.uid,
            Err(kube::Error::Api(refused)) if matches!(refused.code, 401 | 403 | 404) => {
                let cause = refused.message;
                tracing::warn!(
                    cause,
                    "namespace {CLUSTERS_OWN_NAMESPACE} can't be read: who holds topics, consumer \
                     groups and tables is not put on record; give the cluster a name (--cluster-id)"
                );
                return None;
            }
            Err(_) => tokio::time::sleep(crate::run::CRD_POLL).await,
        }
    }
}
