//! Salvage jobs that wait, and the threads that work on them.
//!
//! A job whose table takes nothing for now isn't begun; if one is already running, another thread
//! works in its place until it is done. So a table in trouble delays only its own jobs: [`THREADS`]
//! work for tables that take inserts, and at most as many more wait for each table that doesn't.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use millrace_ledger::{Apart, OffsetRange, PartName, Ticket};
use millrace_pipeline::sink::{Completion, Origin, Rejection, Sink, TableIndex};

use super::partition::Key;

/// Jobs of one table that may wait: each is one refused insert, and the sink has at most 64 in
/// flight.
const MAX_JOBS: usize = 64;
/// Jobs done at once. One at a time, at 0.7 s each on a slow machine, delayed refused rows for half
/// a minute where 20 of them came a second.
pub(super) const THREADS: usize = 4;

/// A refused insert.
pub(super) struct Job {
    pub(super) origin: Origin,
    pub(super) table: TableIndex,
    pub(super) day: i32,
    /// The piece of the range to begin with: those before it are done.
    pub(super) from: OffsetRange,
    pub(super) rejection: Rejection,
    pub(super) record: Record,
    pub(super) completion: Completion,
}

/// Where a job records that a piece was refused, before it sends that one's halves.
pub(super) struct Record {
    pub(super) ticket: Ticket<Key>,
    pub(super) part: PartName,
    /// The session's end: it has at most one request of each job.
    pub(super) session: SyncSender<Question>,
}

/// A job's request to continue with a piece.
pub(super) struct Question {
    pub(super) ticket: Ticket<Key>,
    pub(super) apart: Apart,
    /// Answered once that is recorded; dropped when nobody waits for the job any more.
    pub(super) answer: SyncSender<()>,
}

/// State shared by all workers and all threads of the salvage.
#[derive(Default)]
pub(super) struct Jobs {
    waiting: Mutex<VecDeque<Job>>,
    came: Condvar,
    /// Threads that replace waiting ones.
    reliefs: Mutex<Vec<JoinHandle<()>>>,
}

impl Jobs {
    /// The job again when too many of its table wait.
    pub(super) fn offer(&self, job: Job) -> Option<Job> {
        let mut waiting = self.waiting();
        if waiting.iter().filter(|other| other.table == job.table).count() >= MAX_JOBS {
            return Some(job);
        }
        waiting.push_back(job);
        self.came.notify_one();
        None
    }

    /// The oldest job that can be done now, waiting for one at most `wait`.
    pub(super) fn take(&self, sink: &dyn Sink, wait: Duration) -> Option<Job> {
        let next = |waiting: &mut VecDeque<Job>| {
            let at = waiting.iter().position(|job| !sink.is_blocked(job.table))?;
            waiting.remove(at)
        };
        let mut waiting = self.waiting();
        next(&mut waiting).or_else(|| {
            let waited = self.came.wait_timeout(waiting, wait);
            next(&mut waited.unwrap_or_else(PoisonError::into_inner).0)
        })
    }

    /// Starts a thread that does `work` instead of one that waits for a table. False when it can't
    /// be started.
    pub(super) fn relieve(&self, table: TableIndex, work: impl FnOnce() + Send + 'static) -> bool {
        match super::spawn(format!("kafka-salvage-for-{}", table.0), work) {
            Ok(thread) => {
                let mut reliefs = self.reliefs.lock().unwrap_or_else(PoisonError::into_inner);
                // Those that were relieved in turn have ended.
                reliefs.retain(|thread| !thread.is_finished());
                reliefs.push(thread);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "cannot start a thread to tell rows apart");
                false
            }
        }
    }

    /// A thread that replaced another, to wait for its end.
    pub(super) fn relief(&self) -> Option<JoinHandle<()>> {
        self.reliefs.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Job>> {
        // Each change leaves a whole queue behind.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
