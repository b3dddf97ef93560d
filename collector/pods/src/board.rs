//! The pods that are known now. Answers readers from memory, under a lock that is held for a
//! lookup.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millrace_pipeline::pods::{Pod, Pods};

use crate::metadata::{Metadata, Rules};

/// Pods that are known at most, with those that are gone: a node has 110 by default and rarely over
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
}

/// All pods that are known, by the uid in their logs' path.
#[derive(Debug, Default)]
pub struct Board {
    pods: Mutex<HashMap<String, Entry>>,
    version: AtomicU64,
}

impl Board {
    /// Takes in what a pod is now. How many of its attributes had no room; none if the pod itself
    /// had none.
    pub fn put(&self, metadata: &Metadata, rules: &Rules, now: Instant) -> Option<u64> {
        let (uid, is_mirror) = metadata.path_uid();
        let (pod, left_out) = metadata.pod(rules);
        let mut pods = self.lock();
        let before = pods.get_mut(uid);
        if let Some(before) = before {
            // Who may name a pod's uid in an annotation isn't that pod.
            if is_mirror && !before.is_mirror {
                return Some(0);
            }
            before.gone_at = None;
            let is_same = before.is_mirror == is_mirror
                && before.name == metadata.name
                && before.namespace == metadata.namespace
                && *before.pod == pod;
            if is_same {
                return Some(left_out);
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
        };
        pods.insert(uid.to_owned(), entry);
        self.version.fetch_add(1, Ordering::Release);
        Some(left_out)
    }

    /// A pod is gone. It stays known for [`GONE_KEPT`].
    pub fn gone(&self, metadata: &Metadata, now: Instant) {
        let (uid, is_mirror) = metadata.path_uid();
        if let Some(entry) = self.lock().get_mut(uid).filter(|entry| entry.is_mirror == is_mirror) {
            entry.gone_at.get_or_insert(now);
        }
    }

    /// All pods are about to be told anew: those that aren't are gone.
    pub fn begin_anew(&self, now: Instant) {
        for entry in self.lock().values_mut() {
            entry.gone_at.get_or_insert(now);
        }
    }

    /// Forgets those that are gone for long. How many are known.
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

/// Forgets the pod that is gone for longest. Whether there was one.
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
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules { node: "n".into(), labels: vec!["*".into()], annotations: Vec::new() }
    }

    fn metadata(uid: &str, label: &str, more: &str) -> Metadata {
        let text = format!(
            r#"{{"uid": "{uid}", "name": "p", "namespace": "s",
                "labels": {{"a": "{label}"}}{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn label(board: &Board, uid: &str) -> Option<String> {
        Some(board.find(uid, "s", "p")?.attributes.last()?.1.clone())
    }

    /// Scenario: a pod comes, is told again unchanged, changes, goes, and its time is over.
    /// Guarantee: it is known until then and as it is; only changes give another version.
    #[test]
    fn a_pod_is_known_until_a_while_after_it_is_gone() {
        let (board, now) = (Board::default(), Instant::now());
        assert_eq!(board.put(&metadata("1", "x", ""), &rules(), now), Some(0));
        let version = board.version();
        board.put(&metadata("1", "x", ""), &rules(), now);
        assert_eq!((board.version(), label(&board, "1")), (version, Some("x".into())));
        board.put(&metadata("1", "y", ""), &rules(), now);
        assert!(board.version() != version);
        board.gone(&metadata("1", "y", ""), now);
        assert_eq!(board.sweep(now + GONE_KEPT / 2), 1);
        assert_eq!(label(&board, "1"), Some("y".into()));
        assert_eq!(board.sweep(now + GONE_KEPT), 0);
        assert_eq!(label(&board, "1"), None);
    }

    /// Scenario: all pods are told anew, one of two is missing. Guarantee: that one is gone.
    #[test]
    fn a_pod_that_is_not_told_again_is_gone() {
        let (board, now) = (Board::default(), Instant::now());
        board.put(&metadata("1", "x", ""), &rules(), now);
        board.put(&metadata("2", "x", ""), &rules(), now);
        board.begin_anew(now);
        board.put(&metadata("1", "x", ""), &rules(), now);
        board.sweep(now + GONE_KEPT);
        assert_eq!((label(&board, "1"), label(&board, "2")), (Some("x".into()), None));
    }

    /// Scenario: more pods than may be known, with one that is gone among them, and without.
    /// Guarantee: the one that is gone makes room; else the new one isn't known, and none of the
    /// others is lost.
    #[test]
    fn pods_that_are_known_are_bounded() {
        let (board, now) = (Board::default(), Instant::now());
        for number in 0..PODS_MAX {
            board.put(&metadata(&number.to_string(), "x", ""), &rules(), now);
        }
        assert_eq!(board.put(&metadata("new", "x", ""), &rules(), now), None);
        board.gone(&metadata("7", "x", ""), now);
        assert_eq!(board.put(&metadata("new", "x", ""), &rules(), now), Some(0));
        assert_eq!((label(&board, "7"), label(&board, "8")), (None, Some("x".into())));
        assert_eq!(board.sweep(now), PODS_MAX);
    }

    /// Scenario: a pod claims another's uid, by the annotation of pods from files; a path has the
    /// uid of one pod and the name of another. Guarantee: the other's labels stay, and nothing is
    /// found.
    #[test]
    fn no_pod_can_take_anothers_place() {
        let (board, now) = (Board::default(), Instant::now());
        board.put(&metadata("1", "right", ""), &rules(), now);
        let claim = r#", "annotations": {"kubernetes.io/config.mirror": "1"},
            "ownerReferences": [{"kind": "Node"}]"#;
        board.put(&metadata("2", "wrong", claim), &rules(), now);
        board.gone(&metadata("2", "wrong", claim), now);
        assert_eq!(label(&board, "1"), Some("right".into()));
        assert_eq!(board.find("1", "s", "other"), None);
        assert_eq!(board.find("1", "other", "p"), None);
    }
}
