//! Whether the source works, as one sentence for all its workers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use millrace_pipeline::readiness::Part;

/// The state of all workers of a source.
#[derive(Debug)]
pub(super) struct Status {
    part: Part,
    workers: Mutex<Vec<Worker>>,
}

#[derive(Clone, Debug, Default)]
struct Worker {
    joined: bool,
    /// What librdkafka complained of last. It doesn't say when it is over.
    trouble: Option<String>,
}

impl Status {
    pub(super) fn new(part: Part, workers: u16) -> Self {
        part.not_ready("joining the consumer group");
        Self { part, workers: Mutex::new(vec![Worker::default(); workers.into()]) }
    }

    /// A worker is in the group.
    pub(super) fn joined(&self, worker: u16) {
        self.change(worker, |worker| *worker = Worker { joined: true, trouble: None });
    }

    /// A worker's client complains.
    pub(super) fn trouble(&self, worker: u16, reason: String) {
        self.change(worker, |worker| worker.trouble = Some(reason));
    }

    /// The brokers answer: what was complained of is over, or will be complained of again.
    pub(super) fn recovered(&self) {
        let mut workers = self.lock();
        workers.iter_mut().for_each(|worker| worker.trouble = None);
        self.tell(&workers);
    }

    /// What to look into although the source works.
    pub(super) fn note(&self, note: Option<String>) {
        self.part.note(note);
    }

    pub(super) fn is_troubled(&self) -> bool {
        self.lock().iter().any(|worker| worker.trouble.is_some())
    }

    fn change(&self, worker: u16, change: impl FnOnce(&mut Worker)) {
        let mut workers = self.lock();
        if let Some(own) = workers.get_mut(usize::from(worker)) {
            change(own);
        }
        self.tell(&workers);
    }

    fn tell(&self, workers: &[Worker]) {
        let trouble = workers.iter().find_map(|worker| worker.trouble.as_deref());
        let joining = workers.iter().any(|worker| !worker.joined);
        let reason = trouble.or(joining.then_some("joining the consumer group"));
        let news = match reason {
            Some(reason) => self.part.not_ready(reason),
            None => self.part.ready(),
        };
        if news {
            tracing::info!(reason, "kafka source state");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Worker>> {
        // Each change leaves whole values behind.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use millrace_pipeline::readiness::Readiness;

    use super::*;

    /// Scenario: two workers join, the brokers go away and come back. Guarantee: ready exactly
    /// while both are in the group and nobody complains.
    #[test]
    fn the_source_is_ready_when_all_workers_are_in_and_none_complains() {
        let readiness = Readiness::default();
        let status = Status::new(readiness.part("kafka source"), 2);
        status.joined(0);
        assert_eq!(readiness.reasons(), ["kafka source: joining the consumer group"]);
        status.joined(1);
        assert!(readiness.is_ready());
        status.trouble(1, "all brokers are down".to_owned());
        assert_eq!(readiness.reasons(), ["kafka source: all brokers are down"]);
        assert!(status.is_troubled());
        status.recovered();
        assert!(readiness.is_ready());
    }
}
