//! Ledgers of several members under the broker's own group protocol (KIP-848): partitions come and
//! go one by one while the others go on, nobody waits for anybody, a commit under an old member
//! epoch is refused whole, and a fenced member has lost everything before it knows.
//!
//! What is around the ledgers is the least that shows it: a broker that keeps one commit for each
//! partition, and a sink that stores an insert once by its offsets, as ClickHouse does by its token.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use millrace_ledger::{Commit, Cut, Intent, Ledger, OffsetRange, Ticket, decode, encode};
use proptest::prelude::*;

const MEMBERS: usize = 3;
const PARTITIONS: usize = 4;
/// Messages of each partition.
const END: i64 = 60;
const ONE: Option<NonZeroU32> = NonZeroU32::new(1);

#[derive(Debug, Clone)]
enum Action {
    /// The broker gives a partition that nobody has.
    Give { partition: usize, to: usize },
    /// The broker asks for a partition back; its owner gives it up, the others go on.
    Take { partition: usize },
    /// The broker gives up on a member: its partitions are free at once.
    Fence(usize),
    /// A member hears that it was fenced, and is let in again.
    Learn(usize),
    /// The process ends without a word and another takes its place.
    Kill { member: usize, lands: bool },
    /// A member reads and cuts a batch.
    Cut { partition: usize, length: i64 },
    /// A member asks for a commit.
    Commit(usize),
    /// Its request arrives, and the answer comes back or is lost.
    Land { member: usize, heard: bool },
    /// Inserts that a commit has named are sent.
    Send(usize),
    /// One of them is stored; the answer may be lost, and it is sent again.
    Store { which: usize, heard: bool },
}

fn action() -> impl Strategy<Value = Action> {
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
    ]
}

/// A process in the group.
#[derive(Default)]
struct Member {
    ledger: Ledger<usize>,
    /// Its epoch as it knows it; the broker may know a later one.
    epoch: u64,
    /// What it thinks is its own, and what it reads next there.
    reads: BTreeMap<usize, i64>,
    /// Cut, and not sent yet.
    held: Vec<Ticket<usize>>,
    in_flight: Option<(u64, Vec<Commit<usize>>)>,
}

#[derive(Default)]
struct World {
    members: [Member; MEMBERS],
    /// The members' epochs as the broker has them.
    epochs: [u64; MEMBERS],
    owners: [Option<usize>; PARTITIONS],
    committed: [Option<(i64, String)>; PARTITIONS],
    /// Inserts under way: who sent them, the process's number, what.
    under_way: Vec<(usize, u64, Ticket<usize>)>,
    /// How often each member's process was replaced.
    processes: [u64; MEMBERS],
    /// What the sink has: for each message the inserts that brought it.
    stored: BTreeMap<(usize, i64), BTreeSet<OffsetRange>>,
}

impl World {
    fn apply(&mut self, action: &Action) {
        match *action {
            Action::Give { partition, to } => self.give(partition, to),
            Action::Take { partition } => self.take(partition),
            Action::Fence(member) => self.fence(member),
            Action::Learn(member) => self.learn(member),
            Action::Kill { member, lands } => {
                if lands {
                    self.land(member, false);
                }
                self.fence(member);
                self.members[member] = Member { epoch: self.epochs[member], ..Member::default() };
                self.processes[member] += 1;
            }
            Action::Cut { partition, length } => self.cut(partition, length),
            Action::Commit(member) => self.commit(member),
            Action::Land { member, heard } => self.land(member, heard),
            Action::Send(member) => self.send(member),
            Action::Store { which, heard } => self.store(which, heard),
        }
    }

    fn knows(&self, member: usize) -> bool {
        self.members[member].epoch == self.epochs[member]
    }

    fn give(&mut self, partition: usize, to: usize) {
        if self.owners[partition].is_some() || !self.knows(to) {
            return;
        }
        self.owners[partition] = Some(to);
        let (offset, promised) = match &self.committed[partition] {
            Some((offset, text)) => (Some(*offset), decode(*offset, text).unwrap()),
            None => (None, Vec::new()),
        };
        let member = &mut self.members[to];
        member.ledger.assign(partition, offset, promised);
        member.reads.insert(partition, offset.unwrap_or(0));
    }

    /// The owner finishes what was asked of the broker, commits for the last time, and lets go.
    fn take(&mut self, partition: usize) {
        let Some(owner) = self.owners[partition] else { return };
        if !self.knows(owner) {
            return;
        }
        self.land(owner, true);
        let member = &mut self.members[owner];
        let generation = member.ledger.generation(partition).unwrap();
        let revoked = member.ledger.revoke(partition, generation, true).unwrap();
        member.reads.remove(&partition);
        member.held.retain(|ticket| ticket.key != partition);
        if let Some(commit) = revoked.final_commit {
            self.write(&commit);
        }
        self.owners[partition] = None;
        // Letting go is a step of the group for this member alone.
        self.epochs[owner] += 1;
        self.members[owner].epoch = self.epochs[owner];
    }

    fn fence(&mut self, member: usize) {
        self.epochs[member] += 1;
        for owner in self.owners.iter_mut().filter(|owner| **owner == Some(member)) {
            *owner = None;
        }
    }

    fn learn(&mut self, member: usize) {
        if self.knows(member) {
            return;
        }
        self.land(member, true);
        let epoch = self.epochs[member];
        let lost = &mut self.members[member];
        for partition in std::mem::take(&mut lost.reads).into_keys() {
            let generation = lost.ledger.generation(partition).unwrap();
            lost.ledger.revoke(partition, generation, false).unwrap();
        }
        lost.held.clear();
        lost.epoch = epoch;
    }

    /// Whoever thinks that the partition is its own reads on: a fenced member does too.
    fn cut(&mut self, partition: usize, length: i64) {
        for member in &mut self.members {
            let Some(first) = member.reads.get(&partition).copied() else { continue };
            let free = |limit: i64| OffsetRange::new(first, limit.min(first + length).min(END));
            let range = match member.ledger.cut_at(partition, first) {
                Cut::Free => free(END),
                Cut::Before { limit } => free(limit),
                Cut::Exactly(batch) => Ok(batch.range),
            };
            let Ok(range) = range else { continue };
            if member.ledger.has_room(partition) {
                let ticket =
                    member.ledger.track(partition, Intent::new(range, first), ONE).unwrap();
                member.held.push(ticket);
                member.reads.insert(partition, range.next());
            }
        }
    }

    fn commit(&mut self, member: usize) {
        let member = &mut self.members[member];
        if member.in_flight.is_none() {
            let due = member.ledger.commits_due(true);
            member.in_flight = (!due.is_empty()).then_some((member.epoch, due));
        }
    }

    fn land(&mut self, member: usize, heard: bool) {
        let Some((epoch, commits)) = self.members[member].in_flight.take() else { return };
        let taken = epoch == self.epochs[member];
        if taken {
            commits.iter().for_each(|commit| self.write(commit));
        }
        for commit in &commits {
            self.members[member].ledger.commit_answered(commit, taken && heard);
        }
    }

    fn write(&mut self, commit: &Commit<usize>) {
        let Commit { key, offset, open, .. } = commit;
        let before = self.committed[*key].as_ref().map_or(0, |(offset, _)| *offset);
        assert!(*offset >= before, "partition {key}: {before} was committed, then {offset}");
        for at in before..*offset {
            assert!(self.stored.contains_key(&(*key, at)), "{key} {at} is committed, not stored");
        }
        self.committed[*key] = Some((*offset, encode(*offset, open)));
    }

    fn send(&mut self, member: usize) {
        let process = self.processes[member];
        let Member { ledger, held, .. } = &mut self.members[member];
        let (named, rest) = held.drain(..).partition(|ticket| ledger.is_announced(ticket));
        *held = rest;
        let named: Vec<_> = named;
        self.under_way.extend(named.into_iter().map(|ticket| (member, process, ticket)));
    }

    fn store(&mut self, which: usize, heard: bool) {
        if self.under_way.is_empty() {
            return;
        }
        let at = which % self.under_way.len();
        let (member, process, ticket) = self.under_way[at];
        for offset in ticket.range.first()..ticket.range.next() {
            self.stored.entry((ticket.key, offset)).or_default().insert(ticket.range);
        }
        if heard {
            self.under_way.remove(at);
            if self.processes[member] == process {
                self.members[member].ledger.ack(&ticket);
            }
        }
    }

    /// Everybody hears what happened, one member takes what is free, and all of it is finished.
    fn finish(&mut self) {
        for member in 0..MEMBERS {
            self.learn(member);
        }
        for partition in 0..PARTITIONS {
            self.give(partition, 0);
        }
        for _ in 0..END * 3 {
            for partition in 0..PARTITIONS {
                self.cut(partition, 7);
            }
            for member in 0..MEMBERS {
                self.commit(member);
                self.land(member, true);
                self.send(member);
            }
            while !self.under_way.is_empty() {
                self.store(0, true);
            }
        }
        for partition in 0..PARTITIONS {
            let committed = self.committed[partition].as_ref().map(|(offset, _)| *offset);
            assert_eq!(committed, Some(END), "partition {partition}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Scenario: up to 300 steps of three members and four partitions. Guarantee: no commit goes
    /// back or covers what isn't stored, whoever asks for it; in the end everything is stored and
    /// committed, and no message was ever in two different inserts.
    #[test]
    fn members_that_come_go_and_are_fenced_store_everything_once(
        actions in proptest::collection::vec(action(), 1..300)
    ) {
        let mut world = World::default();
        actions.iter().for_each(|action| world.apply(action));
        world.finish();
        for partition in 0..PARTITIONS {
            for offset in 0..END {
                let inserts = &world.stored[&(partition, offset)];
                prop_assert_eq!(inserts.len(), 1, "{} {}: {:?}", partition, offset, inserts);
            }
        }
    }
}
