//! The rules about watches: once, in order, and before what they tell of is seen.

use std::collections::BTreeMap;

use crate::history::{
    Fired, History, Moved, Operation, Outcome, Seen, Session, Stamp, Task, WatchId, WatchKind, Zxid,
};
use crate::verdict::{Rule, Verdict};

/// A watch as it was left.
struct Left<'a> {
    session: Session,
    kind: WatchKind,
    by: &'a Operation,
}

pub(crate) fn judge(history: &History, verdict: &mut Verdict) {
    let left = left(history);
    let mut fired: BTreeMap<WatchId, Vec<&Fired>> = BTreeMap::new();
    for one in &history.fired {
        fired.entry(one.watch).or_default().push(one);
    }
    for (watch, times) in &mut fired {
        times.sort_by_key(|fired| fired.at);
        let once = left.get(watch).is_some_and(|left| left.kind == WatchKind::Once);
        if once && times.len() > 1 {
            let why = format!("{watch:?} fired {} times", times.len());
            verdict.broken(Rule::WatchOnce, why);
        }
    }
    in_order(history, &left, verdict);
    // A persistent watch misses what happens while its client has no connection.
    for (watch, left) in left.iter().filter(|(_, left)| left.kind == WatchKind::Once) {
        let first = fired.get(watch).and_then(|times| times.first()).map(|fired| fired.at);
        before_data(history, *watch, left, first, verdict);
    }
}

fn left(history: &History) -> BTreeMap<WatchId, Left<'_>> {
    let left = history.operations.iter().filter_map(|by| match (&by.task, &by.outcome) {
        (Task::Read { watch: Some((watch, kind)), .. }, Outcome::Read(_)) => {
            Some((*watch, Left { session: by.session, kind: *kind, by }))
        }
        _ => None,
    });
    left.collect()
}

/// Of each session, notifications with numbers never go back, and none comes after the session has
/// seen its number or a later one. A client tells its next server what it has read, not what it was
/// told: a new connection may begin before the last notification.
fn in_order(history: &History, left: &BTreeMap<WatchId, Left<'_>>, verdict: &mut Verdict) {
    let mut by_session: BTreeMap<Session, Vec<&Fired>> = BTreeMap::new();
    for fired in &history.fired {
        if let Some(left) = left.get(&fired.watch) {
            by_session.entry(left.session).or_default().push(fired);
        }
    }
    for (session, mut told) in by_session {
        told.sort_by_key(|fired| fired.at);
        let mut last: Option<(Zxid, Stamp)> = None;
        for fired in told {
            let Some(zxid) = fired.zxid else {
                continue;
            };
            let before = last.replace((zxid, fired.at));
            let before = before.filter(|(_, at)| {
                let between = |moved: &Moved| (*at..fired.at).contains(&moved.at);
                !history.moved.iter().any(|moved| moved.session == session && between(moved))
            });
            if before.is_some_and(|(before, _)| before > zxid) {
                let why = format!("{fired:?} of {session:?} came after {before:?}");
                verdict.broken(Rule::WatchOrder, why);
            }
            let seen_before = |operation: &&Operation| {
                operation.session == session
                    && operation.ended.is_some_and(|ended| ended < fired.at)
                    && seen_zxid(operation).is_some_and(|seen| seen >= zxid)
            };
            if let Some(operation) = history.operations.iter().find(seen_before) {
                let why = format!("{fired:?} came after {operation}");
                verdict.broken(Rule::WatchBeforeData, why);
            }
        }
    }
}

/// A later read of the node by the same session that sees a change ends after the notification.
fn before_data(
    history: &History,
    watch: WatchId,
    left: &Left<'_>,
    first: Option<Stamp>,
    verdict: &mut Verdict,
) {
    let (Task::Read { key, .. }, Outcome::Read(was)) = (&left.by.task, &left.by.outcome) else {
        return;
    };
    for read in &history.operations {
        let (Task::Read { key: of, .. }, Outcome::Read(is)) = (&read.task, &read.outcome) else {
            continue;
        };
        let later = read.session == left.session && read.begun > left.by.begun && of == key;
        let number = |seen: &Option<Seen>| seen.map(|seen| seen.mzxid);
        if !later || number(is) == number(was) {
            continue;
        }
        let told = first.is_some_and(|at| read.ended.is_some_and(|ended| at < ended));
        if !told {
            let why =
                format!("{read} saw a change before {watch:?} told of it, left by {}", left.by);
            verdict.broken(Rule::WatchBeforeData, why);
            return;
        }
    }
}

fn seen_zxid(operation: &Operation) -> Option<Zxid> {
    match &operation.outcome {
        Outcome::Read(seen) => seen.map(|seen| seen.mzxid),
        Outcome::Written(_) => operation.zxid(),
        _ => None,
    }
}
