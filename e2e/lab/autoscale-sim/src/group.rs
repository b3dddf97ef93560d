//! The consumer group: who reads what, and what stands still while that changes.
//!
//! Assignment is balanced by count and sticky: only as many partitions move as must. What a change
//! stops depends on the protocol. Limits: pods join and leave in rounds of `ROUND_SECONDS`, as
//! brokers coalesce them.

use crate::rng::Rng;

/// Members that come or go within this time share one rebalance.
pub const ROUND_SECONDS: usize = 5;

/// How the group agrees on who reads what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Everybody stops until everybody has agreed.
    Eager,
    /// Only partitions that move stop, for two rounds.
    Cooperative,
    /// KIP-848: only partitions that move stop, until the broker has heard both sides.
    Kip848,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Eager, Self::Cooperative, Self::Kip848];

    /// Seconds that consumption stops: join and sync time-outs of the client library's defaults for
    /// the eager protocol, two heartbeats for the cooperative one, one for KIP-848.
    fn pause_seconds(self, rng: &mut Rng) -> usize {
        let (low, high) = match self {
            Self::Eager => (10.0, 20.0),
            Self::Cooperative => (4.0, 8.0),
            Self::Kip848 => (1.0, 4.0),
        };
        rng.between(low, high).round() as usize
    }
}

/// Who reads what.
#[derive(Clone, Debug)]
pub struct Group {
    protocol: Protocol,
    members: Vec<u32>,
    /// Owner of each partition; `None` before the first member joined.
    pub owners: Vec<Option<u32>>,
    /// Until when each partition stands still.
    pub paused_until: Vec<usize>,
    /// Rebalances so far.
    pub rebalances: u32,
}

impl Group {
    /// A settled group.
    #[must_use]
    pub fn new(protocol: Protocol, partitions: usize, members: Vec<u32>) -> Self {
        let owners = vec![None; partitions];
        let paused_until = vec![0; partitions];
        let mut group = Self { protocol, members, owners, paused_until, rebalances: 0 };
        group.assign();
        group
    }

    /// Takes the members there are now; a change is a rebalance.
    pub fn settle(&mut self, members: Vec<u32>, now: usize, rng: &mut Rng) {
        if members == self.members {
            return;
        }
        self.members = members;
        self.rebalances += 1;
        let before = self.owners.clone();
        self.assign();
        let until = now + self.protocol.pause_seconds(rng);
        for (partition, owner) in self.owners.iter().enumerate() {
            if self.protocol == Protocol::Eager || before[partition] != *owner {
                self.paused_until[partition] = self.paused_until[partition].max(until);
            }
        }
    }

    /// Balanced and sticky: members give up what they have too much of, others take it.
    fn assign(&mut self) {
        let (count, members) = (self.owners.len(), self.members.len().max(1));
        let mut larger = count % members;
        let mut held = vec![0usize; self.members.len()];
        let mut room = vec![count / members; self.members.len()];
        // Those who have most keep the larger shares.
        let mut by_size: Vec<usize> = (0..self.members.len()).collect();
        let has = |owners: &[Option<u32>], member| {
            owners.iter().filter(|owner| **owner == Some(member)).count()
        };
        by_size.sort_by_key(|at| std::cmp::Reverse(has(&self.owners, self.members[*at])));
        for at in by_size {
            if larger > 0 {
                room[at] += 1;
                larger -= 1;
            }
        }
        for owner in &mut self.owners {
            let at = owner.and_then(|owner| self.members.iter().position(|it| *it == owner));
            match at.filter(|at| held[*at] < room[*at]) {
                Some(at) => held[at] += 1,
                None => *owner = None,
            }
        }
        for owner in self.owners.iter_mut().filter(|owner| owner.is_none()) {
            if let Some(at) = (0..held.len()).find(|at| held[*at] < room[*at]) {
                held[at] += 1;
                *owner = Some(self.members[at]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: two members become three, then two. Guarantee: shares stay balanced and no more
    /// partitions move than must.
    #[test]
    fn only_what_must_moves() {
        let mut rng = Rng::new(1, 1);
        let mut group = Group::new(Protocol::Cooperative, 12, vec![0, 1]);
        let before = group.owners.clone();
        group.settle(vec![0, 1, 2], 100, &mut rng);
        let moved = group.owners.iter().zip(&before).filter(|(now, then)| now != then).count();
        assert_eq!(moved, 4);
        assert_eq!(group.paused_until.iter().filter(|until| **until > 100).count(), 4);
        group.settle(vec![0, 1], 200, &mut rng);
        let mine = group.owners.iter().filter(|owner| **owner == Some(0)).count();
        assert_eq!(mine, 6);
        assert_eq!(group.rebalances, 2);
    }
}
