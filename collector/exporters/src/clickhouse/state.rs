//! What this sink's state is, as readiness: reachable, and no table blocked.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millrace_pipeline::readiness::Part;

/// The state of the sink.
#[derive(Debug)]
pub(super) struct State {
    part: Part,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Why the servers can't be reached; none when one of them answered last.
    unreachable: Option<String>,
    /// Tables that take no inserts, how many inserts wait for each, and why.
    blocked: BTreeMap<String, (usize, String)>,
}

impl State {
    pub(super) fn new(part: Part) -> Self {
        let unreachable = Some("no answer from clickhouse yet".to_owned());
        Self { part, inner: Mutex::new(Inner { unreachable, blocked: BTreeMap::new() }) }
    }

    /// A server answered, whatever it said.
    pub(super) fn reached(&self) {
        self.change(|inner| inner.unreachable = None);
    }

    /// No server answers.
    pub(super) fn unreachable(&self, reason: String) {
        self.change(|inner| inner.unreachable = Some(reason));
    }

    pub(super) fn block(&self, table: &str, reason: String) {
        self.change(|inner| {
            let entry = inner.blocked.entry(table.to_owned()).or_insert((0, String::new()));
            *entry = (entry.0 + 1, reason);
        });
    }

    pub(super) fn unblock(&self, table: &str) {
        self.change(|inner| {
            if let Some(entry) = inner.blocked.get_mut(table) {
                entry.0 -= 1;
                if entry.0 == 0 {
                    inner.blocked.remove(table);
                }
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.lock();
        change(&mut inner);
        let reason = match (&inner.unreachable, inner.blocked.first_key_value()) {
            (Some(reason), _) => Some(reason.clone()),
            (None, Some((table, (_, reason)))) => Some(format!("{table}: {reason}")),
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

/// One insert's hold on a table's blocked state; let go when the insert ends, however it does.
#[derive(Debug)]
pub(super) struct Blocked<'a> {
    state: &'a State,
    table: &'a str,
}

impl<'a> Blocked<'a> {
    pub(super) fn new(state: &'a State, table: &'a str, reason: String) -> Self {
        state.block(table, reason);
        Self { state, table }
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

    /// Scenario: a server answers, two inserts of a table wait, both end. Guarantee: ready exactly
    /// while a server answers and no insert waits for a table.
    #[test]
    fn the_sink_is_ready_while_reachable_and_unblocked() {
        let readiness = Readiness::default();
        let state = State::new(readiness.part("clickhouse"));
        assert!(!readiness.is_ready());
        state.reached();
        assert!(readiness.is_ready());
        let first = Blocked::new(&state, "otel.t", "unknown table".to_owned());
        let second = Blocked::new(&state, "otel.t", "unknown table".to_owned());
        assert_eq!(readiness.reasons(), ["clickhouse: otel.t: unknown table"]);
        drop(first);
        assert!(!readiness.is_ready());
        drop(second);
        assert!(readiness.is_ready());
        state.unreachable("db:8123 does not answer".to_owned());
        assert!(!readiness.is_ready());
    }
}
