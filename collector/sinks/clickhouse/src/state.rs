//! This sink's readiness: ready while a server is reachable and no table is blocked.

use std::collections::BTreeMap;
use std::sync::Mutex;

use millrace_pipeline::mutex::lock;
use millrace_pipeline::readiness::ReadinessPart;

#[derive(Debug)]
pub(super) struct SinkReadiness {
    part: ReadinessPart,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Why the servers can't be reached; `None` when one of them answered last.
    unreachable: Option<String>,
    /// The tables that accept no inserts at a shard, and why.
    blocked: BTreeMap<(String, usize), String>,
}

impl SinkReadiness {
    pub(super) fn new(part: ReadinessPart) -> Self {
        let unreachable = Some("no answer from clickhouse yet".to_owned());
        let inner = Mutex::new(Inner { unreachable, blocked: BTreeMap::new() });
        Self { part, inner }
    }

    /// Records that a server answered, whatever the answer.
    pub(super) fn set_reachable(&self) {
        self.update_state(|inner| inner.unreachable = None);
    }

    /// Records that no server answers.
    pub(super) fn set_unreachable(&self, reason: String) {
        self.update_state(|inner| inner.unreachable = Some(reason));
    }

    pub(super) fn is_reachable(&self) -> bool {
        lock(&self.inner).unreachable.is_none()
    }

    /// Publishes a problem that needs attention although inserts are accepted.
    pub(super) fn set_warning(&self, note: Option<String>) {
        self.part.set_warning(note);
    }

    fn update_state(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = lock(&self.inner);
        change(&mut inner);
        let reason = match (&inner.unreachable, inner.blocked.first_key_value()) {
            (Some(reason), _) => Some(reason.clone()),
            (None, Some(((table, _), reason))) => Some(format!("{table}: {reason}")),
            (None, None) => None,
        };
        let news = match &reason {
            Some(reason) => self.part.set_not_ready(reason),
            None => self.part.set_ready(),
        };
        if news {
            tracing::info!(reason, "clickhouse sink state");
        }
    }
}

/// One insert that waits for its table at a shard. When it ends in any way, the table counts as
/// open again until the next insert shows otherwise.
#[derive(Debug)]
pub(super) struct BlockedTable<'a> {
    state: &'a SinkReadiness,
    table: &'a str,
    shard: usize,
}

impl<'a> BlockedTable<'a> {
    pub(super) fn new(state: &'a SinkReadiness, table: &'a str, shard: usize) -> Self {
        Self { state, table, shard }
    }

    /// Records why the table still accepts nothing.
    pub(super) fn set_reason(&self, reason: String) {
        let key = (self.table.to_owned(), self.shard);
        self.state.update_state(|inner| drop(inner.blocked.insert(key, reason)));
    }
}

impl Drop for BlockedTable<'_> {
    fn drop(&mut self) {
        let key = (self.table.to_owned(), self.shard);
        self.state.update_state(|inner| drop(inner.blocked.remove(&key)));
    }
}

#[cfg(test)]
mod tests {
    use millrace_pipeline::readiness::Readiness;

    use super::*;

    /// Scenario: a server answers, inserts of a table wait at two shards, one ends, the other fails
    /// again and then ends. Guarantee: ready exactly while a server answers and no table is known
    /// to be blocked at any shard.
    #[test]
    fn the_sink_is_ready_while_reachable_and_unblocked() {
        let readiness = Readiness::default();
        let state = SinkReadiness::new(readiness.add_part("clickhouse"));
        assert!(!readiness.is_ready());
        state.set_reachable();
        assert!(readiness.is_ready());
        let first = BlockedTable::new(&state, "otel.t", 0);
        let second = BlockedTable::new(&state, "otel.t", 1);
        first.set_reason("unknown table".to_owned());
        second.set_reason("access denied".to_owned());
        assert_eq!(readiness.reasons(), ["clickhouse: otel.t: unknown table"]);
        drop(first);
        assert_eq!(readiness.reasons(), ["clickhouse: otel.t: access denied"]);
        drop(second);
        assert!(readiness.is_ready());
        state.set_unreachable("db:8123 does not answer".to_owned());
        assert!(!readiness.is_ready());
    }
}
