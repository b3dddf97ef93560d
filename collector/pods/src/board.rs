//! The pods that are known now. Answers readers from memory, under a lock that is held for a
//! lookup.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millrace_pipeline::pods::{Pod, Pods};

use crate::metadata::{Made, Metadata, Rules};
use crate::reading::Fault;

/// Most pods known, deleted ones included: a node has 110 by default and rarely over
/// 500. With 8 KiB each they take 8 MiB.
pub const PODS_MAX: usize = 1024;

/// How long a pod is known after it is gone: the kubelet removes its logs soon after it, and what
/// is open is read to its end.
pub const GONE_KEPT: Duration = Duration::from_secs(600);

#[derive(Debug)]
struct Entry {
    namespace: String,
    name: String,
    pod: Arc<Pod>,
    is_mirror: bool,
    gone_at: Option<Instant>,
    faults: Vec<Fault>,
}

/// What storing a pod leaves to be told.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Attributes that had no room.
    pub left_out: u64,
    /// Annotations that can't be used, unless they were told of this pod before.
    pub faults: Vec<Fault>,
}

/// All pods that are known, by the uid in their logs' path.
#[derive(Debug, Default)]
pub struct Board {
    pods: Mutex<HashMap<String, Entry>>,
    version: AtomicU64,
}

impl Board {
    /// Stores a pod as it is now. None if there was no room for it.
    pub fn put(&self, metadata: &Metadata, rules: &Rules, now: Instant) -> Option<Stored> {
        let (uid, is_mirror) = metadata.path_uid();
        let Made { pod, left_out, faults } = metadata.made(rules);
        let mut told = faults.clone();
        let mut pods = self.lock();
        let before = pods.get_mut(uid);
        if let Some(before) = before {
            // A pod that names another pod's uid in an annotation isn't that pod.
            if is_mirror && !before.is_mirror {
                return Some(Stored::default());
            }
            before.gone_at = None;
            told.retain(|fault| !before.faults.contains(fault));
            let is_same = before.is_mirror == is_mirror
                && before.name == metadata.name
                && before.namespace == metadata.namespace
                && *before.pod == pod
                && before.faults == faults;
            if is_same {
                return Some(Stored { left_out, faults: told });
            }
        } else if pods.len() >= PODS_MAX && !make_room(&mut pods, now) {
            return None;
        }
        let entry = Entry {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            pod: Arc::new(pod),
            is_mirror,
            gone_at: None,
            faults,
        };
        pods.insert(uid.to_owned(), entry);
        self.version.fetch_add(1, Ordering::Release);
        Some(Stored { left_out, faults: told })
    }

    /// A pod was deleted. It stays known for [`GONE_KEPT`].
    pub fn gone(&self, metadata: &Metadata, now: Instant) {
        let (uid, is_mirror) = metadata.path_uid();
        if let Some(entry) = self.lock().get_mut(uid).filter(|entry| entry.is_mirror == is_mirror) {
            entry.gone_at.get_or_insert(now);
        }
    }

    /// A full list begins: pods that it lacks are deleted.
    pub fn begin_anew(&self, now: Instant) {
        for entry in self.lock().values_mut() {
            entry.gone_at.get_or_insert(now);
        }
    }

    /// Forgets those deleted long ago; returns how many are known.
    pub fn sweep(&self, now: Instant) -> usize {
        let mut pods = self.lock();
        forget(&mut pods, now);
        pods.len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        // Each change under the lock is one insertion or removal.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget(pods: &mut HashMap<String, Entry>, now: Instant) {
    pods.retain(|_, entry| {
        entry.gone_at.is_none_or(|at| now.saturating_duration_since(at) < GONE_KEPT)
    });
}

/// Forgets the pod deleted longest ago; returns whether there was one.
fn make_room(pods: &mut HashMap<String, Entry>, now: Instant) -> bool {
    forget(pods, now);
    let gone = pods.iter().filter_map(|(uid, entry)| Some((entry.gone_at?, uid)));
    let oldest = gone.min().map(|(_, uid)| uid.clone());
    pods.len() < PODS_MAX || oldest.is_some_and(|uid| pods.remove(&uid).is_some())
}

impl Pods for Board {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn find(&self, uid: &str, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let pods = self.lock();
        let entry = pods.get(uid)?;
        (entry.namespace == namespace && entry.name == name).then(|| Arc::clone(&entry.pod))
    }
}

#[cfg(test)]
#[path = "../tests/unit/board.rs"]
mod tests;
