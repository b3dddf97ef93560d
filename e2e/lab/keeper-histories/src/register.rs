//! Each node as a register with a version and an owner, whose operations are placed by the search.
//!
//! Nodes are independent of each other: a write of several becomes a step of each. The end of a
//! session becomes a step of its ephemeral nodes.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{
    Change, History, Key, Operation, Outcome, Refusal, Seen, Session, Stamp, Task, Value, Zxid,
};
use crate::known::Known;
use crate::search::{Found, Step, order};
use crate::verdict::{Rule, Undecided, Verdict};

/// A node's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Register {
    node: Option<Node>,
    /// The last transaction whose number is known: no earlier one may follow.
    last: Option<Zxid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    value: Value,
    version: i32,
    /// The number of the last write, where it is known.
    mzxid: Option<Zxid>,
    owner: Option<Session>,
}

/// What is placed.
#[derive(Debug, Clone)]
enum Action {
    Write { session: Session, change: Change, zxid: Option<Zxid> },
    Refused { change: Change, why: Refusal },
    Read(Option<Seen>),
    End(Session),
}

pub(crate) fn judge(history: &History, known: &Known, budget: u64, verdict: &mut Verdict) {
    let keys: BTreeSet<Key> = history.operations.iter().flat_map(keys).collect();
    let syncs = Syncs::of(history);
    for key in keys {
        let writes = writes(history, known, key);
        let ephemeral = writes.iter().any(|(step, _)| {
            matches!(
                step.what,
                Action::Write { change: Change::Create { ephemeral: true, .. }, .. }
            )
        });
        let rule = if ephemeral { Rule::Ephemerals } else { Rule::LinearizableWrites };
        if !place(history, key, rule, &writes, budget, verdict) {
            continue;
        }
        let mut with_reads = writes;
        with_reads.extend(synced_reads(history, key, &syncs));
        let rule = if ephemeral { Rule::Ephemerals } else { Rule::SyncedReads };
        place(history, key, rule, &with_reads, budget, verdict);
    }
}

/// Steps, and the operations that they are of.
type Steps = Vec<(Step<Action>, Option<usize>)>;

/// Whether all was decided and kept.
fn place(
    history: &History,
    key: Key,
    rule: Rule,
    steps: &Steps,
    budget: u64,
    verdict: &mut Verdict,
) -> bool {
    let only: Vec<Step<Action>> = steps.iter().map(|(step, _)| step.clone()).collect();
    let mut left = budget;
    let found = order(&only, Register::default(), apply, &mut left);
    verdict.steps += budget - left;
    match found {
        Found::Order => return true,
        Found::Spent => verdict.undecided.push(Undecided { key, rule }),
        Found::None { stuck } => {
            let stuck = steps.get(stuck);
            let operation = stuck.and_then(|(_, place)| history.operations.get((*place)?));
            let what = match (operation, stuck) {
                (Some(operation), _) => operation.to_string(),
                (None, Some((step, _))) => format!("{step:?}"),
                (None, None) => String::new(),
            };
            let why = format!("no order of {key:?}'s operations has a place for {what}");
            verdict.broken(rule, why);
        }
    }
    false
}

/// The state after a step, or none where it can't come.
fn apply(before: &Register, action: &Action) -> Option<Register> {
    match action {
        Action::Refused { change, why } => {
            (refusal(before, *change) == Some(*why)).then_some(*before)
        }
        Action::Read(seen) => match (before.node, seen) {
            (None, None) => Some(*before),
            (Some(node), Some(seen)) => {
                let same = node.value == seen.value
                    && node.version == seen.version
                    && node.mzxid.is_none_or(|mzxid| mzxid == seen.mzxid);
                same.then_some(*before)
            }
            _ => None,
        },
        Action::End(session) => {
            let gone = before.node.filter(|node| node.owner != Some(*session));
            Some(Register { node: gone, ..*before })
        }
        Action::Write { session, change, zxid } => {
            let in_order = zxid.is_none_or(|zxid| before.last.is_none_or(|last| last < zxid));
            if refusal(before, *change).is_some() || !in_order {
                return None;
            }
            let version = before.node.map_or(0, |node| node.version);
            let node = match *change {
                Change::Create { value, ephemeral } => {
                    let owner = ephemeral.then_some(*session);
                    Some(Node { value, version: 0, mzxid: *zxid, owner })
                }
                Change::Set { value, .. } => before.node.map(|node| Node {
                    value,
                    version: version.wrapping_add(1),
                    mzxid: *zxid,
                    ..node
                }),
                Change::Delete { .. } => None,
                Change::Check { .. } => before.node,
            };
            Some(Register { node, last: before.last.max(*zxid) })
        }
    }
}

/// Why a change would be refused.
fn refusal(before: &Register, change: Change) -> Option<Refusal> {
    let expected = match change {
        Change::Create { .. } => return before.node.map(|_| Refusal::NodeExists),
        Change::Set { version, .. } | Change::Delete { version } => version,
        Change::Check { version } => Some(version),
    };
    match before.node {
        None => Some(Refusal::NoNode),
        Some(node) => {
            expected.filter(|version| *version != node.version).map(|_| Refusal::BadVersion)
        }
    }
}

fn keys(operation: &Operation) -> Vec<Key> {
    match &operation.task {
        Task::Write(writes) => writes.iter().map(|write| write.key).collect(),
        Task::Read { key, .. } => vec![*key],
        Task::Sync => Vec::new(),
    }
}

/// A node's writes, refusals and ends of owners.
fn writes(history: &History, known: &Known, key: Key) -> Steps {
    let mut steps = Steps::new();
    let mut owners = BTreeSet::new();
    for (place, operation) in history.operations.iter().enumerate() {
        for (part, write) in operation.writes().iter().enumerate().filter(|(_, w)| w.key == key) {
            let change = write.change;
            let what = match operation.outcome {
                Outcome::Unknown | Outcome::Written(_) => {
                    let session = operation.session;
                    let zxid =
                        known.zxid(place).filter(|_| !matches!(change, Change::Check { .. }));
                    Action::Write { session, change, zxid }
                }
                Outcome::Refused { part: refused, why } if refused == part => {
                    Action::Refused { change, why }
                }
                _ => continue,
            };
            if matches!(change, Change::Create { ephemeral: true, .. }) {
                owners.insert(operation.session);
            }
            let Operation { begun, ended, ref outcome, .. } = *operation;
            // One that a read has seen was done, answered or not.
            let seen = matches!(what, Action::Write { zxid: Some(_), .. });
            let optional = *outcome == Outcome::Unknown && !seen;
            let ended = ended.filter(|_| *outcome != Outcome::Unknown);
            steps.push((Step { begun, ended, optional, what }, Some(place)));
        }
    }
    let endings = history.endings.iter().filter(|ending| owners.contains(&ending.session));
    for ending in endings {
        let session = ending.session;
        let begun = ending.from.max(last_sign(history, session));
        let step = Step {
            begun,
            ended: ending.gone_by.map(|by| by.max(begun + 1)),
            optional: ending.gone_by.is_none(),
            what: Action::End(session),
        };
        steps.push((step, None));
    }
    steps
}

/// The beginning of the last operation that was answered: the session lived then.
fn last_sign(history: &History, session: Session) -> Stamp {
    let answered = |operation: &&Operation| {
        operation.session == session
            && !matches!(operation.outcome, Outcome::Unknown | Outcome::NotDone)
    };
    history.operations.iter().filter(answered).map(|one| one.begun).max().unwrap_or(0)
}

/// Of each session, where it began a `sync` that was answered.
struct Syncs(BTreeMap<Session, Vec<(Stamp, Stamp)>>);

impl Syncs {
    fn of(history: &History) -> Self {
        let mut syncs: BTreeMap<Session, Vec<(Stamp, Stamp)>> = BTreeMap::new();
        for operation in &history.operations {
            if let (Outcome::Synced, Some(ended)) = (&operation.outcome, operation.ended) {
                syncs.entry(operation.session).or_default().push((operation.begun, ended));
            }
        }
        for of_session in syncs.values_mut() {
            of_session.sort_unstable();
        }
        Self(syncs)
    }

    /// The last one that a session sent before this.
    fn before(&self, session: Session, begun: Stamp) -> Option<Stamp> {
        let of_session = self.0.get(&session)?;
        of_session.iter().rev().find(|(sent, _)| *sent < begun).map(|(sent, _)| *sent)
    }
}

/// Reads after a `sync`, which see at least what was there when it was sent.
fn synced_reads(history: &History, key: Key, syncs: &Syncs) -> Steps {
    let mut steps = Steps::new();
    for (place, operation) in history.operations.iter().enumerate() {
        let (Task::Read { key: of, .. }, Outcome::Read(seen)) =
            (&operation.task, &operation.outcome)
        else {
            continue;
        };
        let synced = syncs.before(operation.session, operation.begun);
        if let (true, Some(begun)) = (*of == key, synced) {
            let what = Action::Read(*seen);
            let step = Step { begun, ended: operation.ended, optional: false, what };
            steps.push((step, Some(place)));
        }
    }
    steps
}
