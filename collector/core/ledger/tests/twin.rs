//! The ledger against a naive twin that stores one entry per offset: random assignments, batches,
//! answers (also late ones), commits, rewinds and revocations must give the same answers.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use millrace_ledger::{
    AckOutcome, Cut, Intent, Ledger, OffsetRange, Promises, Ticket, TrackError, decode_metadata,
    encode_metadata,
};
use proptest::prelude::*;

/// One offset of the twin: the unanswered parts of its batch.
#[derive(Clone, Debug)]
struct Cell {
    batch: OffsetRange,
    open_parts: u32,
}

/// Returns a batch whose time derives from its offsets.
fn named(range: OffsetRange) -> Intent {
    Intent::new(range, 1_000 - range.first())
}

/// One partition, implemented slowly and obviously.
#[derive(Debug, Default)]
struct Twin {
    number: u64,
    cells: BTreeMap<i64, Cell>,
    base: Option<i64>,
    /// Ranges that were open before a rewind.
    promised: Vec<OffsetRange>,
    failed: bool,
}

impl Twin {
    fn commit_point(&self) -> Option<i64> {
        let open = self.cells.iter().find(|(_, cell)| cell.open_parts > 0);
        match open {
            Some((offset, _)) => Some(*offset),
            None => self.cells.last_key_value().map(|(offset, _)| offset + 1).or(self.base),
        }
    }

    /// The ranges from the batch of the commit point on.
    fn open_ranges(&self) -> Vec<OffsetRange> {
        let Some(point) = self.commit_point() else {
            return Vec::new();
        };
        let mut ranges: Vec<_> = self.cells.range(point..).map(|(_, cell)| cell.batch).collect();
        ranges.dedup();
        ranges
    }

    /// The same, with the promised ranges.
    fn named_ranges(&self) -> Vec<Intent> {
        self.promised_and_open().into_iter().map(named).collect()
    }

    fn promised_and_open(&self) -> Vec<OffsetRange> {
        let end = self.cells.last_key_value().map_or(0, |(offset, _)| offset + 1);
        let ahead = self.promised.iter().filter(|range| range.first() >= end);
        self.open_ranges().into_iter().chain(ahead.copied()).collect()
    }

    fn answer(&mut self, range: OffsetRange, good: bool) -> bool {
        let open = self.cells.get(&range.first());
        if self.failed || !open.is_some_and(|c| c.batch == range && c.open_parts > 0) {
            return false;
        }
        if !good {
            self.failed = true;
            return true;
        }
        for (_, cell) in self.cells.range_mut(range.first()..range.next()) {
            cell.open_parts -= 1;
        }
        true
    }
}

#[derive(Clone, Debug)]
enum Action {
    Assign { key: u8, committed: Option<u8> },
    Track { key: u8, gap: u8, span: u8, parts: u8 },
    Answer { pick: usize, good: bool },
    Rewind { key: u8 },
    Revoke { key: u8 },
    Commit { announce: bool, ok: bool },
}

fn action() -> impl Strategy<Value = Action> {
    let key = 0..3_u8;
    prop_oneof![
        1 => (key.clone(), proptest::option::of(0..50_u8))
            .prop_map(|(key, committed)| Action::Assign { key, committed }),
        6 => (key.clone(), 0..3_u8, 1..6_u8, 0..4_u8)
            .prop_map(|(key, gap, span, parts)| Action::Track { key, gap, span, parts }),
        10 => (any::<prop::sample::Index>(), prop::bool::weighted(0.97))
            .prop_map(|(pick, good)| Action::Answer { pick: pick.index(1 << 20), good }),
        1 => key.clone().prop_map(|key| Action::Rewind { key }),
        1 => key.prop_map(|key| Action::Revoke { key }),
        3 => (any::<bool>(), prop::bool::weighted(0.8))
            .prop_map(|(announce, ok)| Action::Commit { announce, ok }),
    ]
}

/// The ledger, its twins, and the test's memory between actions.
#[derive(Default)]
struct Pair {
    ledger: Ledger<u8>,
    twins: BTreeMap<u8, Twin>,
    /// All issued tickets of all generations, answered or not.
    tickets: Vec<Ticket<u8>>,
    /// The highest offset that the broker confirmed, per partition and generation.
    confirmed: BTreeMap<(u8, u64), i64>,
}

impl Pair {
    fn apply(&mut self, action: Action) {
        match action {
            Action::Assign { key, committed } => self.assign(key, committed.map(i64::from)),
            Action::Track { key, gap, span, parts } => self.track(key, gap, span, parts),
            Action::Answer { pick, good } => self.answer(pick, good),
            Action::Rewind { key } => self.rewind(key),
            Action::Revoke { key } => self.revoke(key),
            Action::Commit { announce, ok } => self.commit(announce, ok),
        }
        for key in 0..3 {
            let twin = self.twins.get(&key);
            assert_eq!(self.ledger.commit_point(key), twin.and_then(Twin::commit_point));
            let idle = twin.is_none_or(|t| t.open_ranges().is_empty());
            assert_eq!(self.ledger.is_idle(key), idle);
        }
    }

    fn assign(&mut self, key: u8, committed: Option<i64>) {
        let number = self.ledger.assign(key, committed, Promises::default()).get();
        self.twins.insert(key, Twin { number, base: committed, ..Twin::default() });
    }

    fn track(&mut self, key: u8, gap: u8, span: u8, parts: u8) {
        let Some(twin) = self.twins.get_mut(&key) else {
            let range = OffsetRange::new(0, 1).unwrap();
            assert_eq!(
                self.ledger.track_batch(key, named(range), None),
                Err(TrackError::NotAssigned)
            );
            return;
        };
        let end = twin.cells.last_key_value().map(|(o, _)| o + 1).or(twin.base).unwrap_or(0);
        let first = end + i64::from(gap);
        let range = OffsetRange::new(first, first + i64::from(span)).unwrap();
        match self.ledger.track_batch(key, named(range), NonZeroU32::new(u32::from(parts))) {
            Ok(ticket) => {
                assert_eq!(ticket.generation.get(), twin.number);
                for offset in range.first()..range.next() {
                    let cell = Cell { batch: range, open_parts: u32::from(parts) };
                    twin.cells.insert(offset, cell);
                }
                self.tickets.push(ticket);
            }
            Err(TrackError::Full) => {
                assert!(twin.named_ranges().len() >= millrace_ledger::MAX_OPEN_RANGES);
            }
            Err(error) => panic!("{error}"),
        }
        if end > 0 {
            let back = OffsetRange::new(end - 1, end + 5).unwrap();
            let refused = self.ledger.track_batch(key, named(back), None);
            assert!(matches!(refused, Err(TrackError::OutOfOrder { .. })), "{refused:?}");
        }
    }

    fn answer(&mut self, pick: usize, good: bool) {
        if self.tickets.is_empty() {
            return;
        }
        let ticket = self.tickets[pick % self.tickets.len()];
        let twin = self.twins.get_mut(&ticket.key);
        let twin = twin.filter(|t| t.number == ticket.generation.get());
        let before = twin.as_ref().and_then(|t| t.commit_point());
        let settled =
            if good { self.ledger.ack_part(&ticket) } else { self.ledger.nack_part(&ticket) };
        match twin {
            None => assert_eq!(settled, AckOutcome::Stale),
            Some(twin) => {
                let counted = twin.answer(ticket.range, good);
                assert_eq!(counted, settled != AckOutcome::Stale, "{settled:?}");
                if counted {
                    assert_eq!(!good, settled == AckOutcome::Failed);
                }
                if settled == AckOutcome::Waiting || settled == AckOutcome::Done {
                    assert_eq!(twin.commit_point(), before);
                }
            }
        }
    }

    fn rewind(&mut self, key: u8) {
        let resume_at = self.ledger.rewind(key);
        let Some(twin) = self.twins.get_mut(&key) else {
            assert_eq!(resume_at, None);
            return;
        };
        assert_eq!(resume_at, twin.commit_point());
        let promised: Vec<_> = twin.named_ranges().iter().map(|batch| batch.range).collect();
        for range in &promised {
            assert_eq!(self.ledger.cut_at(key, range.last()), Cut::Exactly(named(*range)));
        }
        let number = self.ledger.generation_of(key).unwrap().get();
        *twin = Twin { number, base: resume_at, promised, ..Twin::default() };
    }

    fn revoke(&mut self, key: u8) {
        let last = self.ledger.revoke(key, true);
        let Some(twin) = self.twins.remove(&key) else {
            assert_eq!(last, None);
            return;
        };
        if let Some(commit) = last {
            assert_eq!(Some(commit.offset), twin.commit_point());
            assert_eq!(commit.promises, twin.named_ranges().into());
        }
    }

    fn commit(&mut self, announce: bool, ok: bool) {
        for commit in self.ledger.commits_due(announce) {
            let twin = &self.twins[&commit.key];
            assert_eq!(Some(commit.offset), twin.commit_point(), "only the commit point");
            let confirmed = self.confirmed.entry((commit.key, twin.number)).or_insert(-1);
            assert!(commit.offset >= *confirmed, "a commit never goes back");
            if announce {
                assert_eq!(commit.promises, twin.named_ranges().into());
                let text = encode_metadata(commit.offset, &commit.promises);
                assert_eq!(decode_metadata(commit.offset, &text).unwrap(), commit.promises);
            }
            self.ledger.commit_answered(&commit, ok);
            if ok {
                *confirmed = commit.offset;
            }
        }
        if ok && !announce {
            assert_eq!(self.ledger.commits_due(false), Vec::new(), "nothing changed since");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// In any order of actions, the ledger and its twin agree on every commit point, on the open
    /// ranges and on which answers count.
    #[test]
    fn the_ledger_agrees_with_its_naive_twin(
        actions in proptest::collection::vec(action(), 1..200)
    ) {
        let mut pair = Pair::default();
        for action in actions {
            pair.apply(action);
        }
    }

    /// Any text as metadata is read or refused, without a panic.
    #[test]
    fn any_metadata_is_read_or_refused(
        text in "(millrace:4:(0000000[0-9a-f])?:)?[0-9a-f+@!.,;~:x-]{0,60}",
        from in 0..i64::MAX,
    ) {
        if let Ok(promises) = decode_metadata(from, &text) {
            prop_assert_eq!(encode_metadata(from, &promises), text);
        }
    }
}
