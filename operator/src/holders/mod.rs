//! Records the holders of topics, consumer groups and tables, in Kafka and ClickHouse themselves.
//!
//! [`crate::cache::claims`] decides among the objects that this process observes. Others (in other
//! clusters, unwatched namespaces, or under another name of the server) leave a record in the
//! shared system: a later claimant reads it and is refused. Records are read before a change,
//! written after it, and read again: of two simultaneous writers the last one holds, and the other
//! learns that at its next check. A record is renewed daily and expires after a week. Where the
//! credentials may not write records, work continues without them, with a warning. Limits: one
//! entry per existing object, about 2 kB.

mod kafka;
mod release;
mod tables;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Resource};
use millrace_crds::EventReason;

pub(crate) use self::kafka::{ClaimedResource, check_claim, check_pool_claim, write_claim};
pub(crate) use self::release::reason_to_retain;
pub use self::release::release_record;
pub(crate) use self::tables::{check_tables_claim, write_tables_claim};
use crate::cache::key_of;
use crate::context::Context;
use crate::report::events::Notice;

/// The time between attempts to read the cluster's uid.
const POLL: std::time::Duration = std::time::Duration::from_secs(2);
/// A namespace that every cluster has, with the same uid for the cluster's life.
const CLUSTER_ID_NAMESPACE: &str = "kube-system";

/// Returns whether a record's holder is no obstacle: this process would observe it, and no such
/// object exists, or it claims something else, or it is younger.
fn is_passed_over<K: Resource<DynamicType = ()>>(context: &Context, object: &K, who: &str) -> bool {
    let watched = context.holders.watched_key(who);
    watched.is_some_and(|key| !context.claims.is_held_by(object, &key))
}

/// Reports, once, that there is no record of what an object holds.
async fn report_unrecorded<K: Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    why: &str,
) {
    {
        let mut states = context.holders.lock_cached();
        let reported = &mut states.entry(key_of(object)).or_default().unrecorded;
        if reported.as_deref() == Some(why) {
            return;
        }
        *reported = Some(why.to_owned());
    }
    tracing::warn!(object = key_of(object), why, "the holder is not recorded");
    let note = format!(
        "the holder is not recorded, so another cluster does not detect this object: {why}"
    );
    let notice = Notice::warning(EventReason::HolderNotRecorded, "Observe", note);
    context.events.publish(&object.object_ref(&()), notice).await;
}

/// Returns the cluster's name in records: the user's, or the uid of a namespace that every cluster
/// has. `None`, with a warning, if that namespace may not be read: then no records are written.
pub async fn cluster_id(client: &Client, configured: Option<&str>) -> Option<String> {
    if let Some(name) = configured {
        return Some(name.to_owned());
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    loop {
        match namespaces.get_metadata(CLUSTER_ID_NAMESPACE).await {
            Ok(found) => return found.metadata.uid,
            Err(kube::Error::Api(refused)) if matches!(refused.code, 401 | 403 | 404) => {
                let cause = refused.message;
                tracing::warn!(
                    cause,
                    "namespace {CLUSTER_ID_NAMESPACE} can't be read, so the holders of topics, \
                     consumer groups and tables are not recorded; name the cluster (--cluster-id)"
                );
                return None;
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}
