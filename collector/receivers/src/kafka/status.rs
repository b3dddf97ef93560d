//! Whether the source works, as one sentence over all its workers.

use std::sync::{Mutex, PoisonError};

use millrace_pipeline::readiness::Part;

/// The state of all workers of a source.
#[derive(Debug)]
pub(super) struct Status {
    part: Part,
    /// Why each worker doesn't work; none when it does.
    workers: Mutex<Vec<Option<String>>>,
}

impl Status {
    pub(super) fn new(part: Part, workers: u16) -> Self {
        let starting = Some("joining the consumer group".to_owned());
        Self { part, workers: Mutex::new(vec![starting; workers.into()]) }
    }

    /// Notes a worker's state: `None` when it works.
    pub(super) fn set(&self, worker: u16, reason: Option<String>) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(own) = workers.get_mut(usize::from(worker)) else { return };
        if *own == reason {
            return;
        }
        *own = reason;
        let news = match workers.iter().flatten().next() {
            Some(reason) => self.part.not_ready(reason),
            None => self.part.ready(),
        };
        if news {
            tracing::info!(worker, reasons = ?*workers, "kafka source state");
        }
    }
}
