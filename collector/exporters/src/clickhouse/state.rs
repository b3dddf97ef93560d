//! This sink's readiness: reachable, and no table blocked.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millrace_pipeline::readiness::Part;
use tokio::sync::Notify;

/// The state of the sink.
#[derive(Debug)]
pub(super) struct State {
    part: Part,
    inner: Mutex<Inner>,
    /// Wakes inserts that wait for a table.
    unblocked: Notify,
}

#[derive(Debug)]
struct Inner {
    /// Why the servers can't be reached; none when one of them answered last.
    unreachable: Option<String>,
    /// Tables that take no inserts, and why.
    blocked: BTreeMap<String, String>,
}

impl State {
    pub(super) fn new(part: Part) -> Self {
        let unreachable = Some("no answer from clickhouse yet".to_owned());
        let inner = Mutex::new(Inner { unreachable, blocked: BTreeMap::new() });
        Self { part, inner, unblocked: Notify::new() }
    }

    /// A server answered, whatever it said.
    pub(super) fn reached(&self) {
        self.change(|inner| inner.unreachable = None);
    }

    /// No server answers.
    pub(super) fn unreachable(&self, reason: String) {
        self.change(|inner| inner.unreachable = Some(reason));
    }

    pub(super) fn is_reachable(&self) -> bool {
        self.lock().unreachable.is_none()
    }

    pub(super) fn is_blocked(&self, table: &str) -> bool {
        self.lock().blocked.contains_key(table)
    }

    /// What needs attention although inserts are taken.
    pub(super) fn note(&self, note: Option<String>) {
        self.part.note(note);
    }

    /// Ends when a table may take inserts again, which only an attempt can show.
    pub(super) async fn unblocked(&self) {
        self.unblocked.notified().await;
    }

    fn block(&self, table: &str, reason: String) {
        self.change(|inner| {
            inner.blocked.insert(table.to_owned(), reason);
        });
    }

    fn unblock(&self, table: &str) {
        self.change(|inner| {
            inner.blocked.remove(table);
        });
        self.unblocked.notify_waiters();
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.lock();
        change(&mut inner);
        let reason = match (&inner.unreachable, inner.blocked.first_key_value()) {
            (Some(reason), _) => Some(reason.clone()),
            (None, Some((table, reason))) => Some(format!("{table}: {reason}")),
            (None, None) => None,
        };
        let news = match &reason {
            Some(reason) => self.part.not_ready(reason),
            None => self.part.ready(),
        };
        if news {
            tracing::info!(reason, "clickhouse sink state");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Each change leaves whole values behind.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One insert that waits for its table. When it ends, however it does, the table counts as open
/// again: the next insert will show.
#[derive(Debug)]
pub(super) struct Blocked<'a> {
    state: &'a State,
    table: &'a str,
}

impl<'a> Blocked<'a> {
    pub(super) fn new(state: &'a State, table: &'a str) -> Self {
        Self { state, table }
    }

    /// The table still takes nothing, for this reason.
    pub(super) fn because(&self, reason: String) {
        self.state.block(self.table, reason);
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.state.unblock(self.table);
    }
}

#[cfg(test)]
mod tests {
    use millrace_pipeline::readiness::Readiness;

    use super::*;

    /// Scenario: a server answers, two inserts of a table wait, one ends, the other fails again and
    /// then ends. Guarantee: ready exactly while a server answers and no table is known to be
    /// blocked.
    #[test]
    fn the_sink_is_ready_while_reachable_and_unblocked() {
        let readiness = Readiness::default();
        let state = State::new(readiness.part("clickhouse"));
        assert!(!readiness.is_ready());
        state.reached();
        assert!(readiness.is_ready());
        let (first, second) = (Blocked::new(&state, "otel.t"), Blocked::new(&state, "otel.t"));
        first.because("unknown table".to_owned());
        second.because("unknown table".to_owned());
        assert_eq!(readiness.reasons(), ["clickhouse: otel.t: unknown table"]);
        assert!(state.is_blocked("otel.t") && !state.is_blocked("otel.u"));
        drop(first);
        assert!(readiness.is_ready() && !state.is_blocked("otel.t"));
        second.because("unknown table".to_owned());
        assert!(!readiness.is_ready());
        drop(second);
        assert!(readiness.is_ready());
        state.unreachable("db:8123 does not answer".to_owned());
        assert!(!readiness.is_ready());
    }
}
