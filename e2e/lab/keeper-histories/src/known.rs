//! Which write was which transaction, as answers and reads tell, and the rules about data: what is
//! read was written, and one transaction left one content.

use std::collections::BTreeMap;

use crate::history::{Change, History, Key, Outcome, Seen, Task, Value, Zxid};
use crate::verdict::{Rule, Verdict};

/// A write of a node whose transaction is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    /// Its place among the history's operations.
    pub(crate) operation: usize,
    /// Whether it was one of several done together.
    pub(crate) together: bool,
    /// Whether the node was gone after it.
    pub(crate) deleted: bool,
}

/// What is known of transactions.
#[derive(Debug, Default)]
pub(crate) struct Known {
    by_key: BTreeMap<Key, BTreeMap<Zxid, Done>>,
    by_operation: BTreeMap<usize, Zxid>,
}

impl Known {
    pub(crate) fn gather(history: &History, verdict: &mut Verdict) -> Self {
        let mut known = Self::default();
        known.note_answers(history, verdict);
        known.note_reads(history, verdict);
        known.spread(history, verdict);
        known
    }

    /// The last known write of a node up to a transaction.
    pub(crate) fn last(&self, key: Key, up_to: Zxid) -> Option<(Zxid, Done)> {
        let (zxid, done) = self.by_key.get(&key)?.range(..=up_to).next_back()?;
        Some((*zxid, *done))
    }

    /// The transaction of a write.
    pub(crate) fn zxid(&self, operation: usize) -> Option<Zxid> {
        self.by_operation.get(&operation).copied()
    }

    fn note_answers(&mut self, history: &History, verdict: &mut Verdict) {
        for (place, operation) in history.operations.iter().enumerate() {
            let Outcome::Written(parts) = &operation.outcome else {
                continue;
            };
            for zxid in parts.iter().flatten() {
                if *self.by_operation.entry(place).or_insert(*zxid) != *zxid {
                    let why = format!("parts of one write have different numbers: {operation}");
                    verdict.broken(Rule::Together, why);
                }
            }
        }
    }

    /// A read tells the transaction of the write whose value it saw.
    fn note_reads(&mut self, history: &History, verdict: &mut Verdict) {
        let writers = writers(history);
        let mut contents: BTreeMap<(Key, Zxid), Seen> = BTreeMap::new();
        for read in &history.operations {
            let (Task::Read { key, .. }, Outcome::Read(Some(seen))) = (&read.task, &read.outcome)
            else {
                continue;
            };
            let first = *contents.entry((*key, seen.mzxid)).or_insert(*seen);
            if first != *seen {
                let why = format!("{read} and another read of that transaction saw {first:?}");
                verdict.broken(Rule::Data, why);
            }
            let writer = writers.get(&(*key, seen.value)).copied();
            let Some((place, writer)) =
                writer.and_then(|place| Some((place, history.operations.get(place)?)))
            else {
                verdict.broken(Rule::Data, format!("nobody wrote what was read: {read}"));
                continue;
            };
            let too_early = read.ended.is_some_and(|ended| writer.begun > ended);
            if !writer.may_be_done() || too_early {
                let rule = if writer.writes().len() > 1 { Rule::Together } else { Rule::Data };
                let why = format!("{read} saw what was not written: {writer}");
                verdict.broken(rule, why);
                continue;
            }
            if *self.by_operation.entry(place).or_insert(seen.mzxid) != seen.mzxid {
                let why = format!("{read} saw another transaction than was answered: {writer}");
                let rule = if writer.writes().len() > 1 { Rule::Together } else { Rule::Data };
                verdict.broken(rule, why);
            }
        }
    }

    /// All parts of a write have its number.
    fn spread(&mut self, history: &History, verdict: &mut Verdict) {
        for (place, zxid) in &self.by_operation {
            let Some(operation) = history.operations.get(*place) else {
                continue;
            };
            let together = operation.writes().len() > 1;
            for write in operation.writes() {
                if matches!(write.change, Change::Check { .. }) {
                    continue;
                }
                let deleted = write.change.value().is_none();
                let done = Done { operation: *place, together, deleted };
                let before = self.by_key.entry(write.key).or_default().insert(*zxid, done);
                if before.is_some_and(|before| before.operation != *place) {
                    let why = format!("two writes of a node have number {zxid:?}: {operation}");
                    verdict.broken(Rule::Data, why);
                }
            }
        }
    }
}

fn writers(history: &History) -> BTreeMap<(Key, Value), usize> {
    let mut writers = BTreeMap::new();
    for (place, operation) in history.operations.iter().enumerate() {
        for write in operation.writes() {
            if let Some(value) = write.change.value() {
                writers.insert((write.key, value), place);
            }
        }
    }
    writers
}
