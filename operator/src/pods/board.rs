//! The newest answer of each pod, at once; pods are asked in the background.
//!
//! So hanging pods (a policy drops their packets, a node is lost) delay no reconcile. A figure
//! comes from the scrape before the present one, and carries its age. Limits: a pod is asked once
//! at a time and at most every [`FRESH`]; [`LOOKS_MAX`] scrapes at once; a pod unused for ten
//! minutes is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::{LOOK_MAX, Look, PODS_MAX, PodSource, Sample, ScrapeError, Target};

/// An answer younger than this is not asked for again. Just under the pools' interval, so that
/// every reconcile gets a new one.
const FRESH: Duration = Duration::from_secs(8);
/// Scrapes at once: 16 of 100 pods are at most 1,600 sockets.
const LOOKS_MAX: usize = 16;
/// A scrape without an answer by now was given up: its timeout, and its wait for a turn.
const GIVEN_UP_AFTER: Duration = LOOK_MAX.saturating_mul(30);
/// A pod unused for this long is gone.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// The newest answers of a slow source.
pub struct PodBoard {
    source: Arc<dyn PodSource>,
    entries: Arc<Mutex<HashMap<Target, Entry>>>,
    looks: Arc<Semaphore>,
}

/// The state of one pod.
struct Entry {
    wanted_at: Instant,
    asked_at: Option<Instant>,
    answered: bool,
    newest: Option<Result<Sample, ScrapeError>>,
}

impl Entry {
    /// Whether it is time to ask.
    fn is_due(&self, now: Instant) -> bool {
        let least = if self.answered { FRESH } else { GIVEN_UP_AFTER };
        self.asked_at.is_none_or(|asked| now.duration_since(asked) >= least)
    }
}

impl PodBoard {
    /// A board in front of `source`.
    #[must_use]
    pub fn new(source: Arc<dyn PodSource>) -> Self {
        Self { source, entries: Arc::default(), looks: Arc::new(Semaphore::new(LOOKS_MAX)) }
    }

    /// The cached answers, and whom to ask.
    fn newest(&self, targets: &[Target]) -> (Look, Vec<Target>) {
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| now.duration_since(entry.wanted_at) < FORGOTTEN_AFTER);
        let (mut look, mut due) = (Look::new(), Vec::new());
        for target in targets {
            let entry = entries.entry(target.clone()).or_insert_with(|| Entry {
                wanted_at: now,
                asked_at: None,
                answered: false,
                newest: None,
            });
            entry.wanted_at = now;
            if entry.is_due(now) {
                (entry.asked_at, entry.answered) = (Some(now), false);
                due.push(target.clone());
            }
            look.extend(entry.newest.clone().map(|newest| (target.pod.clone(), newest)));
        }
        (look, due)
    }

    /// Asks, behind the caller's back.
    fn ask(&self, due: Vec<Target>, now: Timestamp) {
        let (source, looks) = (self.source.clone(), self.looks.clone());
        let entries = self.entries.clone();
        tokio::spawn(async move {
            let Ok(_permit) = looks.acquire().await else { return };
            let mut look = source.look(&due, now).await;
            let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
            for target in due {
                if let Some(entry) = entries.get_mut(&target) {
                    entry.answered = true;
                    entry.newest = look.remove(&target.pod).or(entry.newest.take());
                }
            }
        });
    }
}

impl PodSource for PodBoard {
    fn look<'a>(&'a self, targets: &'a [Target], now: Timestamp) -> BoxFuture<'a, Look> {
        let (look, due) = self.newest(targets);
        // Each scrape takes one of the places.
        for some in due.chunks(PODS_MAX) {
            self.ask(some.to_vec(), now);
        }
        async move { look }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::sync::Notify;

    use super::*;

    /// Answers when told to.
    #[derive(Default)]
    struct Slow {
        go: Notify,
        asked: Mutex<usize>,
    }

    impl PodSource for Slow {
        fn look<'a>(&'a self, targets: &'a [Target], now: Timestamp) -> BoxFuture<'a, Look> {
            *self.asked.lock().unwrap() += targets.len();
            async move {
                self.go.notified().await;
                let sample = Sample { at: now.as_second(), ..Sample::default() };
                targets.iter().map(|it| (it.pod.clone(), Ok(sample.clone()))).collect()
            }
            .boxed()
        }
    }

    /// Scenario: a pod that is slow to answer, looked at three times meanwhile. Guarantee: no look
    /// waits for it, it is asked once, and its answer is there when it has come.
    #[tokio::test]
    async fn nobody_waits_for_a_pod_and_it_is_asked_once() {
        let slow = Arc::new(Slow::default());
        let board = PodBoard::new(slow.clone());
        let targets = [Target { pod: "a-0".into(), address: IpAddr::V4(Ipv4Addr::LOCALHOST) }];
        let now = Timestamp::from_second(7).unwrap();
        for _ in 0..3 {
            assert!(board.look(&targets, now).await.is_empty());
            tokio::task::yield_now().await;
        }
        slow.go.notify_one();
        let look = loop {
            let look = board.look(&targets, now).await;
            if !look.is_empty() {
                break look;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(look["a-0"].as_ref().map(|sample| sample.at), Ok(7));
        assert_eq!(*slow.asked.lock().unwrap(), 1);
    }

    /// Scenario: a pool of more pods than one look asks at once. Guarantee: each of them is asked
    /// once, and all their answers are there in the end.
    #[tokio::test]
    async fn all_pods_of_a_large_pool_are_asked() {
        let slow = Arc::new(Slow::default());
        let board = PodBoard::new(slow.clone());
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let target = |at| Target { pod: format!("a-{at}"), address };
        let targets: Vec<_> = (0..PODS_MAX * 2 + 1).map(target).collect();
        let now = Timestamp::from_second(7).unwrap();
        while board.look(&targets, now).await.len() < targets.len() {
            slow.go.notify_waiters();
            tokio::task::yield_now().await;
        }
        assert_eq!(*slow.asked.lock().unwrap(), targets.len());
    }
}
