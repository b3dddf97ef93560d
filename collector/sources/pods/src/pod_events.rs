//! What a watch of pods updates: the table for log files, the table for clients' records, or both.

use std::sync::Arc;
use std::time::Instant;

use millrace_pipeline::budget::Reservation;
use millrace_processing::enrich::PodMetadataConfig;

use crate::api::event::Object;
use crate::identity::PodIdentity;
use crate::identity_table::IdentityTable;
use crate::metadata::MetadataRules;
use crate::pod_table::{PodTable, StoreOutcome};

/// The tables that a watch of pods updates.
#[derive(Debug, Default)]
pub(crate) struct PodTables {
    /// The pods of this node, for log files.
    pub(crate) logs: Option<(MetadataRules, Arc<PodTable>)>,
    /// Pods by address, uid and name, for clients' records.
    pub(crate) identities: Option<IdentityPods>,
}

/// A table of pods by address, uid and name, with its memory.
#[derive(Debug)]
pub(crate) struct IdentityPods {
    pub(crate) config: PodMetadataConfig,
    pub(crate) table: Arc<IdentityTable>,
    /// The table's share of the memory budget.
    pub(crate) _reservation: Reservation,
}

/// The number of known pods, and the memory of those by address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownPods {
    pub(crate) pods: usize,
    pub(crate) identity_bytes: u64,
}

impl PodTables {
    /// Begins a list of all pods.
    pub(crate) fn begin_list(&self) {
        if let Some((_, table)) = &self.logs {
            table.begin_list();
        }
        if let Some(identities) = &self.identities {
            identities.table.begin_list();
        }
    }

    /// Ends the list.
    pub(crate) fn finish_list(&self, now: Instant) {
        if let Some((_, table)) = &self.logs {
            table.finish_list(now);
        }
        if let Some(identities) = &self.identities {
            identities.table.finish_list(now);
        }
    }

    /// Stores a pod's current state. Returns `None` if a table is full.
    pub(crate) fn store_pod(&self, pod: &Object, now: Instant) -> Option<StoreOutcome> {
        let mut outcome = StoreOutcome::default();
        if let Some((rules, table)) = &self.logs
            && is_on_node(pod, &rules.node)
        {
            outcome = table.store_pod(&pod.metadata, rules, now)?;
        }
        if let Some(IdentityPods { config, table, .. }) = &self.identities {
            let (identity, omitted) = PodIdentity::from_pod(pod, config);
            if !table.store_pod(identity, now) {
                return None;
            }
            outcome.omitted += omitted;
        }
        Some(outcome)
    }

    /// Marks a pod as deleted.
    pub(crate) fn mark_deleted(&self, pod: &Object, now: Instant) {
        if let Some((_, table)) = &self.logs {
            table.mark_deleted(&pod.metadata, now);
        }
        if let Some(identities) = &self.identities {
            identities.table.mark_deleted(&pod.metadata.uid, now);
        }
    }

    /// Removes pods that were deleted long ago.
    pub(crate) fn evict_deleted(&self, now: Instant) -> KnownPods {
        let logs = self.logs.as_ref().map_or(0, |(_, table)| table.evict_deleted(now));
        let (pods, identity_bytes) =
            self.identities.as_ref().map_or((0, 0), |it| it.table.evict_ended(now));
        KnownPods { pods: pods.max(logs), identity_bytes }
    }
}

/// Whether a pod's log files are on this node. Metadata alone doesn't have the node: then the
/// watch has only this node's pods.
fn is_on_node(pod: &Object, node: &str) -> bool {
    pod.spec.node_name.is_empty() || pod.spec.node_name == node
}
