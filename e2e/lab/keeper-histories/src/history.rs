//! A history as data: what was asked, what was answered, in which order. It decides nothing but
//! whether it is well formed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A place in the history: every beginning, end and notification has its own, in real order.
pub type Stamp = u64;

/// A session, numbered by the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u32);

/// A node, numbered by the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u32);

/// What a write leaves in a node. No two writes of a history have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub u64);

/// ZooKeeper's number of a transaction: later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(pub i64);

/// A watch, numbered by the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub u64);

/// How often a watch fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchKind {
    /// Once.
    Once,
    /// At each change.
    Persistent,
}

/// What is done to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is made.
    Create {
        /// Its data.
        value: Value,
        /// Whether it goes with its session.
        ephemeral: bool,
    },
    /// Its data is replaced.
    Set {
        /// The new data.
        value: Value,
        /// Only if it has this version.
        version: Option<i32>,
    },
    /// It is removed.
    Delete {
        /// Only if it has this version.
        version: Option<i32>,
    },
    /// Nothing, but all that is written with it depends on the version.
    Check {
        /// The version that it must have.
        version: i32,
    },
}

impl Change {
    /// What it leaves in the node.
    #[must_use]
    pub const fn value(self) -> Option<Value> {
        match self {
            Self::Create { value, .. } | Self::Set { value, .. } => Some(value),
            Self::Delete { .. } | Self::Check { .. } => None,
        }
    }
}

/// One node's part of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The node.
    pub key: Key,
    /// What is done to it.
    pub change: Change,
}

/// What a session asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// One write, or several that are done together or not at all; each of another node.
    Write(Vec<Write>),
    /// A node's data.
    Read {
        /// The node.
        key: Key,
        /// The watch that is left on it.
        watch: Option<(WatchId, WatchKind)>,
    },
    /// The server is to catch up with the leader.
    Sync,
}

/// A node as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its data.
    pub value: Value,
    /// How often it was set since it was made.
    pub version: i32,
    /// The transaction that made it.
    pub czxid: Zxid,
    /// The last one that made or set it.
    pub mzxid: Zxid,
}

/// Why a write was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such node.
    NoNode,
    /// There is one.
    NodeExists,
    /// It has another version.
    BadVersion,
}

/// What came of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody knows: the answer was lost. A write may have been done, or may be done yet.
    Unknown,
    /// It was not done, for reasons outside the data (never sent, a session that is over).
    NotDone,
    /// Written. The transaction's number as each part's answer had it, where it had one.
    Written(Vec<Option<Zxid>>),
    /// Refused, for this part.
    Refused {
        /// The place among the parts.
        part: usize,
        /// Why.
        why: Refusal,
    },
    /// Read: the node, or that there was none.
    Read(Option<Seen>),
    /// The server has caught up.
    Synced,
}

/// An operation of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Whose.
    pub session: Session,
    /// When it was handed to the client. A session sends in this order.
    pub begun: Stamp,
    /// When the answer came. Of an outcome that is unknown it is when its client gave up, or none, and
    /// bounds nothing.
    pub ended: Option<Stamp>,
    /// What was asked.
    pub task: Task,
    /// What came of it.
    pub outcome: Outcome,
}

/// A watch that fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fired {
    /// The watch.
    pub watch: WatchId,
    /// When its session was told.
    pub at: Stamp,
    /// The transaction that it told of; servers before 3.9 don't say, nor does a new connection.
    pub zxid: Option<Zxid>,
}

/// A session that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// The session.
    pub session: Session,
    /// From here it may have ended: its last sign of life, if that is later, counts.
    pub from: Stamp,
    /// From here its nodes must be gone: it was closed and that was answered, or its time-out was
    /// waited for.
    pub gone_by: Option<Stamp>,
}

/// A session that lost its connection, and goes on with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The session.
    pub session: Session,
    /// When its client noticed.
    pub at: Stamp,
}

/// Everything that was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Operations, in any order.
    pub operations: Vec<Operation>,
    /// Notifications, in any order.
    pub fired: Vec<Fired>,
    /// Lost connections.
    pub moved: Vec<Moved>,
    /// Sessions that ended; those that are missing here live.
    pub endings: Vec<Ending>,
}

/// A history that no recorder should write; it says nothing about the servers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Two writes leave the same data.
    #[error("two writes leave {0:?}: every write needs a value of its own")]
    ValueTwice(Value),
    /// An operation ends before it begins.
    #[error("the operation that begins at {0} ends before that")]
    EndsEarly(Stamp),
    /// An answer that the question can't have.
    #[error("the operation that begins at {0} has an outcome of another kind of task")]
    WrongOutcome(Stamp),
    /// One write has two parts for a node.
    #[error("the write that begins at {0} has two parts for {1:?}")]
    KeyTwice(Stamp, Key),
    /// Two reads leave the same watch, or one fires that nobody left.
    #[error("{0:?} was left twice, or never")]
    Watch(WatchId),
}

impl History {
    /// Whether a judge can make sense of it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), Malformed> {
        let (mut values, mut watches) = (BTreeSet::new(), BTreeSet::new());
        for operation in &self.operations {
            operation.check()?;
            for value in operation.writes().iter().filter_map(|write| write.change.value()) {
                if !values.insert(value) {
                    return Err(Malformed::ValueTwice(value));
                }
            }
            if let Task::Read { watch: Some((watch, _)), .. } = operation.task
                && !watches.insert(watch)
            {
                return Err(Malformed::Watch(watch));
            }
        }
        match self.fired.iter().find(|fired| !watches.contains(&fired.watch)) {
            Some(fired) => Err(Malformed::Watch(fired.watch)),
            None => Ok(()),
        }
    }

    /// Each session's operations as they were sent, by their places in `operations`.
    pub(crate) fn sessions(&self) -> BTreeMap<Session, Vec<usize>> {
        let mut sessions: BTreeMap<Session, Vec<usize>> = BTreeMap::new();
        for (place, operation) in self.operations.iter().enumerate() {
            sessions.entry(operation.session).or_default().push(place);
        }
        for places in sessions.values_mut() {
            places.sort_by_key(|place| self.operations.get(*place).map(|one| one.begun));
        }
        sessions
    }
}

impl Operation {
    /// Its parts, if it is a write.
    #[must_use]
    pub fn writes(&self) -> &[Write] {
        match &self.task {
            Task::Write(writes) => writes,
            Task::Read { .. } | Task::Sync => &[],
        }
    }

    /// Whether it was, or may have been, done.
    pub(crate) fn may_be_done(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown | Outcome::Written(_))
    }

    /// The transaction that a write was, where an answer tells.
    pub(crate) fn zxid(&self) -> Option<Zxid> {
        match &self.outcome {
            Outcome::Written(parts) => parts.iter().flatten().max().copied(),
            _ => None,
        }
    }

    fn check(&self) -> Result<(), Malformed> {
        if self.ended.is_some_and(|ended| ended <= self.begun) {
            return Err(Malformed::EndsEarly(self.begun));
        }
        let fits = match (&self.task, &self.outcome) {
            (_, Outcome::Unknown | Outcome::NotDone) => true,
            (Task::Write(writes), Outcome::Written(parts)) => writes.len() == parts.len(),
            (Task::Write(writes), Outcome::Refused { part, .. }) => *part < writes.len(),
            (Task::Read { .. }, Outcome::Read(_)) | (Task::Sync, Outcome::Synced) => true,
            _ => false,
        };
        let is_told = !matches!(self.outcome, Outcome::Unknown | Outcome::NotDone);
        if !fits || (is_told && self.ended.is_none()) {
            return Err(Malformed::WrongOutcome(self.begun));
        }
        let mut keys = BTreeSet::new();
        match self.writes().iter().find(|write| !keys.insert(write.key)) {
            Some(write) => Err(Malformed::KeyTwice(self.begun, write.key)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {} [{}, ", self.session.0, self.begun)?;
        match self.ended {
            Some(ended) => write!(f, "{ended}]")?,
            None => f.write_str("?]")?,
        }
        write!(f, " {:?} -> {:?}", self.task, self.outcome)
    }
}
