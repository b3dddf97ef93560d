//! Resting tables: the server takes no inserts into them for now (too many parts, read-only,
//! replicas missing), or doesn't answer them, while it may take others.
//!
//! An insert that waits for its table holds no place of the window, and while one waits the source
//! keeps further ones back, so a resting table costs the others nothing. One insert at a time tries
//! it, after each one's own delay; a successful one wakes the next. What a source can read again
//! doesn't wait while another insert does.

use std::sync::atomic::{AtomicUsize, Ordering};

use millrace_pipeline::sink::TableIndex;
use tokio::sync::{Mutex, MutexGuard, Notify};

/// One table's state.
#[derive(Debug, Default)]
struct Table {
    /// Inserts that wait for it, the one that tries included.
    waiting: AtomicUsize,
    /// Held while one of them tries.
    turn: Mutex<()>,
    next: Notify,
}

/// All tables, by index.
#[derive(Debug)]
pub(super) struct Rests {
    tables: Vec<Table>,
}

/// An insert that waits for its table. The table rests until none is left.
#[derive(Debug)]
pub(super) struct Rest<'a>(&'a Table);

impl Rests {
    pub(super) fn new(tables: usize) -> Self {
        Self { tables: std::iter::repeat_with(Table::default).take(tables).collect() }
    }

    pub(super) fn is_resting(&self, table: TableIndex) -> bool {
        let table = self.tables.get(usize::from(table.0));
        table.is_some_and(|table| table.waiting.load(Ordering::Acquire) > 0)
    }

    /// From now on this insert waits for its table. `None` for a table that isn't there.
    pub(super) fn begin(&self, table: TableIndex) -> Option<Rest<'_>> {
        let table = self.tables.get(usize::from(table.0))?;
        table.waiting.fetch_add(1, Ordering::AcqRel);
        Some(Rest(table))
    }
}

impl<'a> Rest<'a> {
    /// Leaves the waiting to others, if there are any; else this is the one that waits.
    pub(super) fn leave_to_others(self) -> Option<Self> {
        let others = |waiting: usize| (waiting > 1).then(|| waiting - 1);
        if self.0.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, others).is_err() {
            return Some(self);
        }
        // It has left without success: nobody is woken.
        std::mem::forget(self);
        None
    }

    /// The right to try, once no other insert of this table tries.
    pub(super) async fn turn(&self) -> MutexGuard<'a, ()> {
        self.0.turn.lock().await
    }

    /// Ends when another insert succeeded: it wakes one of those that wait.
    pub(super) async fn next(&self) {
        self.0.next.notified().await;
    }
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        // The last one leaves nobody to wake, and no wake-up for later ones.
        if self.0.waiting.fetch_sub(1, Ordering::AcqRel) > 1 {
            self.0.next.notify_one();
        }
    }
}
