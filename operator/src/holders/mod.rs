//! Who holds a topic, a consumer group or tables, recorded in Kafka and ClickHouse themselves.
//!
//! [`crate::cache::claims`] decides among the objects that this process sees. Others (in other
//! clusters, unwatched namespaces, or under another name of the server) leave a record in the
//! shared system: whoever comes second reads it and is refused. Records are read before a change,
//! written after it, and read again: of two simultaneous writers the last one holds, and the other
//! learns that at its next check. A record is renewed daily and expires after a week. Where the
//! credentials may not keep records, work continues without them, and this is reported. Limits: one
//! entry per existing object, about 2 kB.

mod gone;
mod kafka;
mod tables;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Resource};
use millrace_crds::EventReason;

pub use self::gone::gone;
pub(crate) use self::gone::keeps;
pub(crate) use self::kafka::{Thing, look, of_pool, write};
pub(crate) use self::tables::{look_at_tables, write_of_tables};
use crate::cache::key_of;
use crate::context::Context;
use crate::report::events::Notice;

/// How often it is checked again.
const POLL: std::time::Duration = std::time::Duration::from_secs(2);
/// A namespace that every cluster has, with the same uid for the cluster's life.
const CLUSTERS_OWN_NAMESPACE: &str = "kube-system";

/// Whether a record's holder is no obstacle: this process would see it, and no such object exists,
/// or it doesn't want the same, or it is younger.
fn is_passed_over<K: Resource<DynamicType = ()>>(context: &Context, object: &K, who: &str) -> bool {
    let seen = context.holders.seen(who);
    seen.is_some_and(|key| !context.claims.is_held_by(object, &key))
}

/// Reports, once, that there is no record of what an object holds.
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
    let notice = Notice::warning(EventReason::HolderNotRecorded, "Observe", note);
    context.events.publish(&object.object_ref(&()), notice).await;
}

/// The cluster's name in records: the user's, or the uid of a namespace that every cluster has.
/// `None`, with a warning, if that may not be read: then no records are kept.
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
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}
