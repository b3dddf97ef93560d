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
mod others;
mod release;
mod tables;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};

pub(crate) use self::kafka::{
    ClaimedResource, DueRecord, check_claim, check_pool_claim, write_claim,
};
pub(crate) use self::release::reason_to_retain;
pub use self::release::release_record;
pub(crate) use self::tables::{TablesClaim, check_tables_claim, write_tables_claim};

/// The time between attempts to read the cluster's uid.
const POLL: std::time::Duration = std::time::Duration::from_secs(2);
/// A namespace that every cluster has, with the same uid for the cluster's life.
const CLUSTER_ID_NAMESPACE: &str = "kube-system";

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
