//! The source's readiness, as one sentence for all its workers.

use std::sync::Mutex;

use millrace_pipeline::mutex::lock;
use millrace_pipeline::readiness::ReadinessPart;

/// The state of all workers of a source.
#[derive(Debug)]
pub(crate) struct SourceStatus {
    part: ReadinessPart,
    workers: Mutex<Vec<WorkerStatus>>,
}

#[derive(Clone, Debug, Default)]
struct WorkerStatus {
    joined: bool,
    /// librdkafka's last error. It doesn't report when the error ends.
    trouble: Option<String>,
    /// Why its commits are refused. A broker that answers other requests doesn't clear it.
    commit_refusal: Option<String>,
}

impl SourceStatus {
    pub(crate) fn new(part: ReadinessPart, workers: u16) -> Self {
        part.set_not_ready("joining the consumer group");
        Self { part, workers: Mutex::new(vec![WorkerStatus::default(); workers.into()]) }
    }

    /// Records that a worker has joined the group.
    pub(crate) fn set_joined(&self, worker: u16) {
        let joined = WorkerStatus { joined: true, ..WorkerStatus::default() };
        self.update_worker(worker, |worker| *worker = joined);
    }

    /// Sets or clears why a worker's commits are refused.
    pub(crate) fn set_commit_refusal(&self, worker: u16, reason: Option<String>) {
        self.update_worker(worker, |worker| worker.commit_refusal = reason);
    }

    /// Records an error of a worker's client.
    pub(crate) fn set_trouble(&self, worker: u16, reason: String) {
        self.update_worker(worker, |worker| worker.trouble = Some(reason));
    }

    /// Clears the errors when the brokers answer: an error that lasts is reported again.
    pub(crate) fn clear_trouble(&self) {
        let mut workers = lock(&self.workers);
        workers.iter_mut().for_each(|worker| worker.trouble = None);
        self.publish_readiness(&workers);
    }

    /// Publishes a problem to investigate although the source works.
    pub(crate) fn set_notice(&self, note: Option<String>) {
        self.part.set_warning(note);
    }

    pub(crate) fn is_troubled(&self) -> bool {
        lock(&self.workers).iter().any(|worker| worker.trouble.is_some())
    }

    fn update_worker(&self, worker: u16, change: impl FnOnce(&mut WorkerStatus)) {
        let mut workers = lock(&self.workers);
        if let Some(own) = workers.get_mut(usize::from(worker)) {
            change(own);
        }
        self.publish_readiness(&workers);
    }

    fn publish_readiness(&self, workers: &[WorkerStatus]) {
        let trouble = workers
            .iter()
            .find_map(|worker| worker.trouble.as_deref().or(worker.commit_refusal.as_deref()));
        let joining = workers.iter().any(|worker| !worker.joined);
        let reason = trouble.or(joining.then_some("joining the consumer group"));
        let news = match reason {
            Some(reason) => self.part.set_not_ready(reason),
            None => self.part.set_ready(),
        };
        if news {
            tracing::info!(reason, "kafka source state");
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_pipeline::readiness::Readiness;

    use super::*;

    /// Scenario: two workers join, the brokers go down and return. Guarantee: ready exactly while
    /// both are in the group and no client reports an error.
    #[test]
    fn the_source_is_ready_when_all_workers_are_in_and_none_complains() {
        let readiness = Readiness::default();
        let status = SourceStatus::new(readiness.add_part("kafka source"), 2);
        status.set_joined(0);
        assert_eq!(readiness.reasons(), ["kafka source: joining the consumer group"]);
        status.set_joined(1);
        assert!(readiness.is_ready());
        status.set_trouble(1, "all brokers are down".to_owned());
        assert_eq!(readiness.reasons(), ["kafka source: all brokers are down"]);
        assert!(status.is_troubled());
        status.clear_trouble();
        assert!(readiness.is_ready());
    }

    /// Scenario: commits of one worker are refused while the brokers answer all else, then
    /// accepted. Guarantee: not ready for exactly that time.
    #[test]
    fn refused_commits_end_with_the_next_accepted_one_only() {
        let readiness = Readiness::default();
        let status = SourceStatus::new(readiness.add_part("kafka source"), 1);
        status.set_joined(0);
        status.set_commit_refusal(0, Some("commits are refused".to_owned()));
        status.clear_trouble();
        assert_eq!(readiness.reasons(), ["kafka source: commits are refused"]);
        status.set_commit_refusal(0, None);
        assert!(readiness.is_ready());
    }
}
