//! The table of known pods. Readers look up pods in memory, under a lock that is held briefly.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millrace_pipeline::pods::{PodInfo, PodLookup};

use crate::metadata::reading::AnnotationFault;
use crate::metadata::{Metadata, MetadataRules, PodDescription};

/// The most pods that are known, deleted ones included: a node has 110 by default and rarely over
/// 500. With 8 KiB each they take 8 MiB.
pub const PODS_MAX: usize = 1024;

/// How long a deleted pod stays known: the kubelet removes its logs soon after it, and open files
/// are read to their end.
pub const DELETED_RETENTION: Duration = Duration::from_secs(600);

#[derive(Debug)]
struct PodEntry {
    namespace: String,
    name: String,
    pod: Arc<PodInfo>,
    is_mirror: bool,
    deleted_at: Option<Instant>,
    /// The number of the list, or of the watch after it, that had this pod.
    list: u64,
    faults: Vec<AnnotationFault>,
}

/// The omissions and faults of a stored pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StoreOutcome {
    /// Attributes that exceed the limit.
    pub omitted: u64,
    /// Invalid annotations, unless they were reported for this pod before.
    pub faults: Vec<AnnotationFault>,
}

/// All known pods, by the uid in their logs' path.
#[derive(Debug, Default)]
pub struct PodTable {
    pods: Mutex<HashMap<String, PodEntry>>,
    version: AtomicU64,
    /// The number of the current list.
    list: AtomicU64,
}

impl PodTable {
    /// Stores a pod's current state. Returns `None` if the table is full.
    pub fn store_pod(
        &self,
        metadata: &Metadata,
        rules: &MetadataRules,
        now: Instant,
    ) -> Option<StoreOutcome> {
        let (uid, is_mirror) = metadata.path_uid();
        let PodDescription { pod, omitted: left_out, faults } = metadata.describe_pod(rules);
        let mut new_faults = faults.clone();
        let list = self.list.load(Ordering::Acquire);
        let mut pods = self.lock_pods();
        let before = pods.get_mut(uid);
        if let Some(before) = before {
            // A pod that names another pod's uid in an annotation must not replace it.
            if is_mirror && !before.is_mirror {
                return Some(StoreOutcome::default());
            }
            before.deleted_at = None;
            before.list = list;
            new_faults.retain(|fault| !before.faults.contains(fault));
            let is_same = before.is_mirror == is_mirror
                && before.name == metadata.name
                && before.namespace == metadata.namespace
                && *before.pod == pod
                && before.faults == faults;
            if is_same {
                return Some(StoreOutcome { omitted: left_out, faults: new_faults });
            }
        } else if pods.len() >= PODS_MAX && !evict_oldest(&mut pods, list, now) {
            return None;
        }
        let entry = PodEntry {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            pod: Arc::new(pod),
            is_mirror,
            deleted_at: None,
            list,
            faults,
        };
        pods.insert(uid.to_owned(), entry);
        self.version.fetch_add(1, Ordering::Release);
        Some(StoreOutcome { omitted: left_out, faults: new_faults })
    }

    /// Marks a pod as deleted. It stays known for [`DELETED_RETENTION`].
    pub fn mark_deleted(&self, metadata: &Metadata, now: Instant) {
        let (uid, is_mirror) = metadata.path_uid();
        if let Some(entry) =
            self.lock_pods().get_mut(uid).filter(|entry| entry.is_mirror == is_mirror)
        {
            entry.deleted_at.get_or_insert(now);
        }
    }

    /// Begins a list of all pods. Known ones stay.
    pub fn begin_list(&self) {
        self.list.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends the list: pods that it doesn't have are deleted.
    pub fn finish_list(&self, now: Instant) {
        let current = self.list.load(Ordering::Acquire);
        for entry in self.lock_pods().values_mut().filter(|entry| entry.list < current) {
            entry.deleted_at.get_or_insert(now);
        }
    }

    /// Removes pods that were deleted long ago. Returns the number of known pods.
    pub fn evict_deleted(&self, now: Instant) -> usize {
        let mut pods = self.lock_pods();
        evict_expired(&mut pods, now);
        pods.len()
    }

    fn lock_pods(&self) -> MutexGuard<'_, HashMap<String, PodEntry>> {
        // Each change under the lock is one insertion or removal.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn evict_expired(pods: &mut HashMap<String, PodEntry>, now: Instant) {
    pods.retain(|_, entry| {
        entry.deleted_at.is_none_or(|at| now.saturating_duration_since(at) < DELETED_RETENTION)
    });
}

/// Removes the pod that was deleted longest ago, or one that the current list doesn't have so far.
/// Returns whether there is capacity now.
fn evict_oldest(pods: &mut HashMap<String, PodEntry>, list: u64, now: Instant) -> bool {
    evict_expired(pods, now);
    let is_obsolete = |entry: &PodEntry| entry.deleted_at.is_some() || entry.list < list;
    let obsolete = pods.iter().filter(|(_, entry)| is_obsolete(entry));
    let oldest = obsolete.min_by_key(|(_, entry)| (entry.deleted_at.is_none(), entry.deleted_at));
    let oldest = oldest.map(|(uid, _)| uid.clone());
    pods.len() < PODS_MAX || oldest.is_some_and(|uid| pods.remove(&uid).is_some())
}

impl PodLookup for PodTable {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn find_pod(&self, uid: &str, namespace: &str, name: &str) -> Option<Arc<PodInfo>> {
        let pods = self.lock_pods();
        let entry = pods.get(uid)?;
        (entry.namespace == namespace && entry.name == name).then(|| Arc::clone(&entry.pod))
    }
}

#[cfg(test)]
mod tests;
