//! The rules, and what came of holding a history against them.

use std::fmt;

use crate::history::Key;

/// A promise of ZooKeeper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// What is read was written, and not by a write that was refused; one transaction left one
    /// content.
    Data,
    /// Each node's writes, and the refusals of writes, are in one order, in which what ended before
    /// another began comes first.
    LinearizableWrites,
    /// A read after `sync` sees every write that ended before the `sync` began.
    SyncedReads,
    /// A session's writes are done in the order in which it sent them.
    SessionOrder,
    /// A session that saw a transaction sees all before it, its own among them, on whichever server.
    SequentialReads,
    /// Writes that were sent together are seen together, under one number.
    Together,
    /// A one-time watch fires at most once.
    WatchOnce,
    /// A session's notifications come in the order of the changes.
    WatchOrder,
    /// A session is told of a change that it watches before it sees it, or anything later.
    WatchBeforeData,
    /// An ephemeral node is there while its session lives, and gone once that has ended.
    Ephemerals,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Data,
        Self::LinearizableWrites,
        Self::SyncedReads,
        Self::SessionOrder,
        Self::SequentialReads,
        Self::Together,
        Self::WatchOnce,
        Self::WatchOrder,
        Self::WatchBeforeData,
        Self::Ephemerals,
    ];
}

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// What shows it, with the operations.
    pub why: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.why)
    }
}

/// A node whose operations could not be placed with the steps allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecided {
    /// The node.
    pub key: Key,
    /// The rule that stays open.
    pub rule: Rule,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Broken rules. A rule may be broken more than once.
    pub findings: Vec<Finding>,
    /// What stays open.
    pub undecided: Vec<Undecided>,
    /// Steps that the searches took, all nodes together.
    pub steps: u64,
}

impl Verdict {
    /// Whether every rule was kept, for certain.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.findings.is_empty() && self.undecided.is_empty()
    }

    pub(crate) fn broken(&mut self, rule: Rule, why: String) {
        self.findings.push(Finding { rule, why });
    }
}
