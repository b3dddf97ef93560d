//! The ledger's rules one by one, each as a short story.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::num::NonZeroU32;

use millrace_ledger::{
    Apart, Cut, Intent, Ledger, MAX_OPEN_RANGES, OffsetRange, PartName, Settled, Ticket,
    TrackError, decode, encode,
};

fn range(first: i64, next: i64) -> Intent {
    Intent::new(OffsetRange::new(first, next).unwrap(), first)
}

const ONE: Option<NonZeroU32> = NonZeroU32::new(1);

/// Scenario: three batches, answered last to first. Guarantee: the commit point waits for the
/// lowest and then jumps over all of them.
#[test]
fn the_commit_point_waits_for_the_lowest_open_batch() {
    let mut ledger = Ledger::new();
    ledger.assign('a', Some(10), Vec::new());
    let tickets: Vec<_> = [(10, 20), (20, 30), (35, 40)]
        .map(|(first, next)| ledger.track('a', range(first, next), ONE).unwrap())
        .into();
    assert_eq!(ledger.ack(&tickets[2]), Settled::Done);
    assert_eq!(ledger.ack(&tickets[1]), Settled::Done);
    assert_eq!(ledger.commit_point('a'), Some(10));
    assert_eq!(ledger.ack(&tickets[0]), Settled::Moved);
    assert_eq!(ledger.commit_point('a'), Some(40));
}

/// Scenario: a batch goes into two tables and has one dead letter. Guarantee: it is done when
/// the third part is, and a repeated answer doesn't count twice.
#[test]
fn a_batch_is_done_when_its_last_part_is() {
    let mut ledger = Ledger::new();
    ledger.assign(1, None, Vec::new());
    let ticket = ledger.track(1, range(0, 5), NonZeroU32::new(3)).unwrap();
    assert_eq!(ledger.ack(&ticket), Settled::Waiting);
    assert_eq!(ledger.ack(&ticket), Settled::Waiting);
    assert_eq!(ledger.ack(&ticket), Settled::Moved);
    assert_eq!(ledger.ack(&ticket), Settled::Stale);
}

/// Scenario: only empty messages. Guarantee: they are done at once, the partition moves on.
#[test]
fn a_batch_without_records_is_done_at_once() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(4), Vec::new());
    ledger.track(1, range(4, 9), None).unwrap();
    assert_eq!(ledger.commit_point(1), Some(9));
    assert!(ledger.is_idle(1));
}

/// Scenario: a partition leaves and comes back while an insert is in flight. Guarantee: the late
/// answer and the late revocation change nothing of the new assignment.
#[test]
fn a_late_answer_and_a_late_revocation_change_nothing_newer() {
    let mut ledger = Ledger::new();
    let old = ledger.assign(1, Some(0), Vec::new());
    let late = ledger.track(1, range(0, 5), ONE).unwrap();
    ledger.assign(1, Some(0), Vec::new());
    let fresh = ledger.track(1, range(0, 5), ONE).unwrap();
    assert_eq!(ledger.ack(&late), Settled::Stale);
    assert_eq!(ledger.nack(&late), Settled::Stale);
    assert_eq!(ledger.revoke(1, old, false), None);
    assert_eq!(ledger.commit_point(1), Some(0));
    assert_eq!(ledger.ack(&fresh), Settled::Moved);
}

/// Scenario: the middle one of three batches is given up. Guarantee: the partition begins again at
/// its commit point, names the ranges to repeat, and no answer of before counts.
#[test]
fn a_failed_batch_rewinds_its_partition_and_no_other() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Vec::new());
    ledger.assign(2, Some(0), Vec::new());
    let first = ledger.track(1, range(0, 5), ONE).unwrap();
    let second = ledger.track(1, range(5, 9), ONE).unwrap();
    let third = ledger.track(1, range(9, 12), ONE).unwrap();
    let other = ledger.track(2, range(0, 5), ONE).unwrap();
    assert_eq!(ledger.ack(&first), Settled::Moved);
    assert_eq!(ledger.nack(&second), Settled::Failed);
    assert_eq!(ledger.ack(&third), Settled::Stale, "nothing finishes after a failure");
    let rewound = ledger.rewind(1).unwrap();
    assert_eq!(rewound.resume_at, Some(5));
    assert_eq!(rewound.open, [range(5, 9), range(9, 12)]);
    assert_eq!(ledger.ack(&third), Settled::Stale);
    assert_eq!(ledger.ack(&other), Settled::Moved);
    ledger.track(1, range(5, 9), ONE).unwrap();
}

/// Scenario: commits at every step, one refused. Guarantee: a commit is asked for on change only,
/// and a refused one again.
#[test]
fn a_commit_is_due_on_change_only_and_again_when_refused() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Vec::new());
    assert!(ledger.commits_due(false).is_empty());
    let ticket = ledger.track(1, range(0, 5), ONE).unwrap();
    assert!(ledger.commits_due(false).is_empty());
    ledger.ack(&ticket);
    let due = ledger.commits_due(false);
    assert_eq!((due.len(), due[0].offset), (1, 5));
    assert!(ledger.commits_due(false).is_empty(), "it was asked for");
    ledger.commit_answered(&due[0], false);
    let again = ledger.commits_due(false);
    assert_eq!(again, due);
    ledger.commit_answered(&again[0], true);
    assert!(ledger.commits_due(false).is_empty());
    assert_eq!(ledger.snapshot(1).unwrap().committed, Some(5));
}

/// Scenario: effectively once. Guarantee: a batch may be sent only after a confirmed commit named
/// it, and a batch that finished out of order stays named while an older one is open.
#[test]
fn a_batch_is_announced_before_it_may_be_sent() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Vec::new());
    let first = ledger.track(1, range(0, 5), ONE).unwrap();
    let due = ledger.commits_due(true);
    assert_eq!((due[0].offset, due[0].open.as_slice()), (0, [range(0, 5)].as_slice()));
    let second = ledger.track(1, range(5, 9), ONE).unwrap();
    assert!(!ledger.is_announced(&first));
    ledger.commit_answered(&due[0], true);
    assert!(ledger.is_announced(&first) && !ledger.is_announced(&second));
    let due = ledger.commits_due(true);
    ledger.commit_answered(&due[0], true);
    assert!(ledger.is_announced(&second));
    ledger.ack(&second);
    let third = ledger.track(1, range(9, 10), ONE).unwrap();
    let due = ledger.commits_due(true);
    assert_eq!(due[0].open, [range(0, 5), range(5, 9), range(9, 10)]);
    assert_eq!(due[0].offset, 0);
    assert!(!ledger.is_announced(&third));
}

/// Scenario: the sink answers nothing. Guarantee: open ranges are bounded.
#[test]
fn open_ranges_are_bounded() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Vec::new());
    for i in 0..MAX_OPEN_RANGES as i64 {
        assert!(ledger.has_room(1));
        ledger.track(1, range(i, i + 1), ONE).unwrap();
    }
    assert!(!ledger.has_room(1));
    assert_eq!(ledger.track(1, range(5_000, 5_001), ONE), Err(TrackError::Full));
}

/// Scenario: a revoked partition has done one batch and not the next. Guarantee: what was done is
/// the last commit; the rest is left to the next owner.
#[test]
fn a_revoked_partition_commits_what_was_done_and_nothing_more() {
    let mut ledger = Ledger::new();
    let generation = ledger.assign(1, Some(0), Vec::new());
    let done = ledger.track(1, range(0, 5), ONE).unwrap();
    let open = ledger.track(1, range(5, 9), ONE).unwrap();
    ledger.ack(&done);
    let revoked = ledger.revoke(1, generation, false).unwrap();
    assert_eq!(revoked.final_commit.map(|commit| commit.offset), Some(5));
    assert_eq!(revoked.open, [range(5, 9)]);
    assert_eq!(ledger.ack(&open), Settled::Stale);
    assert_eq!(ledger.commit_point(1), None);
}

/// Scenario: a new owner finds two ranges named in the commit. Guarantee: it is told to cut them
/// again exactly, and its own first commit doesn't forget the second one.
#[test]
fn promised_ranges_are_cut_again_and_stay_named_until_then() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(5), vec![range(5, 9), range(9, 12)]);
    assert_eq!(ledger.cut_at(1, 5), Cut::Exactly(range(5, 9)));
    assert_eq!(ledger.cut_at(1, 11), Cut::Exactly(range(9, 12)));
    assert_eq!(ledger.cut_at(1, 12), Cut::Free);
    ledger.track(1, range(5, 9), ONE).unwrap();
    let due = ledger.commits_due(true);
    assert_eq!(due[0].open, [range(5, 9), range(9, 12)]);
    ledger.commit_answered(&due[0], true);
    assert!(ledger.has_promises(1));
    ledger.track(1, range(9, 12), ONE).unwrap();
    assert!(!ledger.has_promises(1));
    let due = ledger.commits_due(true);
    assert_eq!(due[0].open, [range(5, 9), range(9, 12)]);
}

/// Scenario: of three promised batches retention has deleted the first two. Guarantee: those are
/// done and the commit passes them; the third is still to be cut, and a batch that is open stays
/// so.
#[test]
fn promised_batches_that_are_deleted_are_passed() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), vec![range(0, 5), range(5, 9), range(9, 12), range(12, 20)]);
    assert_eq!(ledger.pass_deleted(1, 4), None);
    let open = ledger.track(1, range(0, 5), ONE).unwrap();
    assert_eq!(ledger.pass_deleted(1, 15), Some(12));
    assert_eq!(ledger.commit_point(1), Some(0), "the open one was read in time");
    ledger.ack(&open);
    assert_eq!(ledger.commit_point(1), Some(12));
    assert_eq!(ledger.cut_at(1, 15), Cut::Exactly(range(12, 20)));
}

/// Scenario: a batch is refused, told apart up to a piece, and its partition goes to somebody else;
/// then more batches are refused than there is room to name. Guarantee: the commit names the piece
/// before it counts as announced, the next owner finds it, and the oldest batch is always named.
#[test]
fn how_far_a_batch_is_told_apart_is_on_record() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Vec::new());
    let tickets: Vec<_> = (0..14)
        .map(|n| ledger.track(1, range(8 * n, 8 * n + 8), NonZeroU32::new(2)).unwrap())
        .collect();
    let due = ledger.commits_due(true);
    ledger.commit_answered(&due[0], true);
    let last = &tickets[13];
    let part = PartName { table: 7, day: 20_000 };
    let apart = |ticket: &Ticket<i32>| Apart { part, piece: ticket.range.halves().unwrap().0 };
    assert!(ledger.is_announced(last) && ledger.tell_apart(last, apart(last)));
    assert!(!ledger.is_announced(last), "not with how far it is told apart");
    let due = ledger.commits_due(true);
    let named = decode(due[0].offset, &encode(due[0].offset, &due[0].open)).unwrap();
    assert_eq!(named[13].apart, Some(apart(last)));
    ledger.commit_answered(&due[0], true);
    assert!(ledger.is_announced(last) && ledger.apart(last) == Some(apart(last)));
    let more: Vec<_> =
        (1..13).map(|n| ledger.tell_apart(&tickets[n], apart(&tickets[n]))).collect();
    assert_eq!(more.iter().filter(|noted| **noted).count(), 11, "twelve in all");
    assert!(ledger.tell_apart(&tickets[0], apart(&tickets[0])), "or nothing would ever leave");
    assert_eq!(ledger.open_parts(last), Some(2));
    ledger.ack(last);
    assert_eq!(ledger.open_parts(last), Some(1));
    let rewound = ledger.rewind(1).unwrap();
    assert_eq!(rewound.open[13].apart, Some(apart(last)));
    assert_eq!((ledger.open_parts(last), ledger.apart(last)), (None, None));
    assert_eq!(ledger.cut_at(1, 8 * 13), Cut::Exactly(rewound.open[13]));
}
