//! The rules about one session's view: its writes are done as it sent them, and what it saw it never
//! unsees.

use crate::history::{Change, History, Key, Operation, Outcome, Task, Zxid};
use crate::known::Known;
use crate::verdict::{Rule, Verdict};

pub(crate) fn judge(history: &History, known: &Known, verdict: &mut Verdict) {
    for places in history.sessions().values() {
        session(history, places, known, verdict);
    }
}

/// One session's operations in the order sent. Whatever came before one of them, it has seen.
fn session(history: &History, places: &[usize], known: &Known, verdict: &mut Verdict) {
    let mut written: Option<Zxid> = None;
    let mut floor: Option<Zxid> = None;
    for place in places {
        let Some(operation) = history.operations.get(*place) else {
            continue;
        };
        // The number of a write that was not answered may be known from reads: it has its place in
        // the order all the same, but its session has not seen it.
        if let (Some(zxid), true) = (known.zxid(*place), !operation.writes().is_empty()) {
            if written.is_some_and(|before| before >= zxid) {
                let why = format!("done before what the session sent earlier: {operation}");
                verdict.broken(Rule::SessionOrder, why);
            }
            let answered = matches!(operation.outcome, Outcome::Written(_));
            if answered && floor.is_some_and(|floor| floor >= zxid) {
                let why = format!("done before what the session had seen: {operation}");
                verdict.broken(Rule::SessionOrder, why);
            }
            written = written.max(Some(zxid));
            if answered {
                floor = floor.max(Some(zxid));
            }
        }
        if let (Task::Read { key, .. }, Outcome::Read(seen)) = (&operation.task, &operation.outcome)
        {
            if let Some(floor) = floor {
                read(history, operation, *key, floor, known, verdict);
            }
            floor = floor.max(seen.map(|seen| seen.mzxid.max(seen.czxid)));
        }
    }
}

/// A read of a session that has seen everything up to `floor`.
fn read(
    history: &History,
    read: &Operation,
    key: Key,
    floor: Zxid,
    known: &Known,
    verdict: &mut Verdict,
) {
    let (Outcome::Read(seen), Some((zxid, done))) = (&read.outcome, known.last(key, floor)) else {
        return;
    };
    let stale = match seen {
        Some(seen) => seen.mzxid < zxid,
        None => !done.deleted && !may_be_deleted(history, key, done.operation, read),
    };
    if stale {
        let missed = history.operations.get(done.operation);
        let missed = missed.map(ToString::to_string).unwrap_or_default();
        let rule = if done.together { Rule::Together } else { Rule::SequentialReads };
        let why = format!("{read} missed {missed}, of the session's past (up to {floor:?})");
        verdict.broken(rule, why);
    }
}

/// Whether something may have removed the node after a write and before a read ended: a deletion, or
/// the end of its session.
fn may_be_deleted(history: &History, key: Key, writer: usize, read: &Operation) -> bool {
    let Some(writer) = history.operations.get(writer) else {
        return true;
    };
    let before_read = |begun| read.ended.is_none_or(|ended| begun < ended);
    let deletes = |operation: &Operation| {
        let of_key = |change: &Change| matches!(change, Change::Delete { .. });
        operation.may_be_done()
            && operation.writes().iter().any(|write| write.key == key && of_key(&write.change))
            // One whose answer was lost may be done at any later time.
            && (operation.outcome == Outcome::Unknown
                || operation.ended.is_none_or(|ended| ended > writer.begun))
            && before_read(operation.begun)
    };
    let owns = |session| {
        history.operations.iter().any(|operation| {
            operation.session == session
                && operation.writes().iter().any(|write| {
                    write.key == key
                        && matches!(write.change, Change::Create { ephemeral: true, .. })
                })
        })
    };
    history.operations.iter().any(deletes)
        || history.endings.iter().any(|end| before_read(end.from) && owns(end.session))
}
