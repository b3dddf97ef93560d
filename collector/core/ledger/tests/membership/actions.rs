//! The steps of the members' model, and what is sent to the sink.

use millrace_ledger::{OffsetRange, PartName, Ticket};
use proptest::prelude::*;

use super::{MEMBERS, PARTITIONS, TABLES};

#[derive(Debug, Clone)]
pub(super) enum Action {
    /// The broker assigns a partition that no member has.
    Give { partition: usize, to: usize },
    /// The broker revokes a partition; its owner releases it, the other members continue.
    Take { partition: usize },
    /// The broker fences a member: its partitions are free at once.
    Fence(usize),
    /// A member learns that it was fenced, and joins again.
    Learn(usize),
    /// The process is killed and another replaces it.
    Kill { member: usize, lands: bool },
    /// A member reads and cuts a batch.
    Cut { partition: usize, length: i64 },
    /// A member requests a commit.
    Commit(usize),
    /// The request reaches the broker; the answer comes back or is lost.
    Land { member: usize, heard: bool },
    /// A member sends inserts that a commit has named.
    Send(usize),
    /// The sink stores or refuses one of them; if the answer is lost, the insert is sent again.
    Store { which: usize, heard: bool },
    /// A table refuses one row in `period` from now on, or none.
    Constrain { table: usize, period: Option<i64> },
    /// A table's circuit breaker opens: the partition is read again from its commit point.
    Rewind { partition: usize },
}

pub(super) fn action() -> impl Strategy<Value = Action> {
    let (member, partition) = (0..MEMBERS, 0..PARTITIONS);
    prop_oneof![
        6 => (partition.clone(), member.clone())
            .prop_map(|(partition, to)| Action::Give { partition, to }),
        2 => partition.clone().prop_map(|partition| Action::Take { partition }),
        1 => member.clone().prop_map(Action::Fence),
        2 => member.clone().prop_map(Action::Learn),
        1 => (member.clone(), any::<bool>())
            .prop_map(|(member, lands)| Action::Kill { member, lands }),
        12 => (partition, 1..8_i64)
            .prop_map(|(partition, length)| Action::Cut { partition, length }),
        8 => member.clone().prop_map(Action::Commit),
        8 => (member.clone(), prop_oneof![4 => Just(true), 1 => Just(false)])
            .prop_map(|(member, heard)| Action::Land { member, heard }),
        8 => member.prop_map(Action::Send),
        10 => (any::<usize>(), prop_oneof![4 => Just(true), 1 => Just(false)])
            .prop_map(|(which, heard)| Action::Store { which, heard }),
        1 => (0..TABLES, prop::option::of(1..9_i64))
            .prop_map(|(table, period)| Action::Constrain { table, period }),
        3 => (0..PARTITIONS).prop_map(|partition| Action::Rewind { partition }),
    ]
}

/// One insert: a batch's rows for a table.
#[derive(Clone, Copy)]
pub(super) struct Insert {
    pub(super) ticket: Ticket<usize>,
    pub(super) table: usize,
    /// It has one message, which becomes a dead letter if it is refused.
    pub(super) is_final: bool,
}

impl Insert {
    pub(super) fn token(&self) -> (usize, OffsetRange, usize) {
        (self.ticket.key, self.ticket.range, self.table)
    }

    pub(super) fn offsets(&self) -> std::ops::Range<i64> {
        self.ticket.range.first()..self.ticket.range.next()
    }
}

pub(super) fn name(table: usize) -> PartName {
    PartName { table: table as u32, day: 0 }
}
