//! The ledger's rules one by one, each as a short story.

use std::num::NonZeroU32;

use millrace_ledger::{
    AckOutcome, Cut, Intent, Ledger, MAX_OPEN_RANGES, OffsetRange, PartName, Promises, TrackError,
    decode_metadata, encode_metadata,
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
    ledger.assign('a', Some(10), Promises::default());
    let tickets: Vec<_> = [(10, 20), (20, 30), (35, 40)]
        .map(|(first, next)| ledger.track_batch('a', range(first, next), ONE).unwrap())
        .into();
    assert_eq!(ledger.ack_part(&tickets[2]), AckOutcome::Done);
    assert_eq!(ledger.ack_part(&tickets[1]), AckOutcome::Done);
    assert_eq!(ledger.commit_point('a'), Some(10));
    assert_eq!(ledger.ack_part(&tickets[0]), AckOutcome::Moved);
    assert_eq!(ledger.commit_point('a'), Some(40));
}

/// Scenario: a batch goes into two tables and has one dead letter. Guarantee: it is done when its
/// third part is, and a repeated answer doesn't count again.
#[test]
fn a_batch_is_done_when_its_last_part_is() {
    let mut ledger = Ledger::new();
    ledger.assign(1, None, Promises::default());
    let ticket = ledger.track_batch(1, range(0, 5), NonZeroU32::new(3)).unwrap();
    assert_eq!(ledger.ack_part(&ticket), AckOutcome::Waiting);
    assert_eq!(ledger.ack_part(&ticket), AckOutcome::Waiting);
    assert_eq!(ledger.ack_part(&ticket), AckOutcome::Moved);
    assert_eq!(ledger.ack_part(&ticket), AckOutcome::Stale);
}

/// Scenario: a batch has only empty messages. Guarantee: it is done at once, and the partition
/// continues.
#[test]
fn a_batch_without_records_is_done_at_once() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(4), Promises::default());
    ledger.track_batch(1, range(4, 9), None).unwrap();
    assert_eq!(ledger.commit_point(1), Some(9));
    assert!(ledger.is_idle(1));
}

/// Scenario: a partition leaves and returns while an insert is in flight. Guarantee: the late
/// answer and the late revocation don't change the new assignment.
#[test]
fn a_late_answer_and_a_late_revocation_change_nothing_newer() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Promises::default());
    let late = ledger.track_batch(1, range(0, 5), ONE).unwrap();
    ledger.assign(1, Some(0), Promises::default());
    let fresh = ledger.track_batch(1, range(0, 5), ONE).unwrap();
    assert_eq!(ledger.ack_part(&late), AckOutcome::Stale);
    assert_eq!(ledger.nack_part(&late), AckOutcome::Stale);
    assert_eq!(ledger.commit_point(1), Some(0));
    assert_eq!(ledger.ack_part(&fresh), AckOutcome::Moved);
}

/// Scenario: the middle one of three batches fails. Guarantee: the partition continues from its
/// commit point, names the ranges to repeat, and ignores earlier answers.
#[test]
fn a_failed_batch_rewinds_its_partition_and_no_other() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Promises::default());
    ledger.assign(2, Some(0), Promises::default());
    let first = ledger.track_batch(1, range(0, 5), ONE).unwrap();
    let second = ledger.track_batch(1, range(5, 9), ONE).unwrap();
    let third = ledger.track_batch(1, range(9, 12), ONE).unwrap();
    let other = ledger.track_batch(2, range(0, 5), ONE).unwrap();
    assert_eq!(ledger.ack_part(&first), AckOutcome::Moved);
    assert_eq!(ledger.nack_part(&second), AckOutcome::Failed);
    assert_eq!(ledger.ack_part(&third), AckOutcome::Stale, "nothing finishes after a failure");
    assert_eq!(ledger.rewind(1), Some(5));
    assert_eq!(ledger.cut_at(1, 6), Cut::Exactly(range(5, 9)));
    assert_eq!(ledger.cut_at(1, 9), Cut::Exactly(range(9, 12)));
    assert_eq!(ledger.ack_part(&third), AckOutcome::Stale);
    assert_eq!(ledger.ack_part(&other), AckOutcome::Moved);
    ledger.track_batch(1, range(5, 9), ONE).unwrap();
}

/// Scenario: commits at every step, one of them refused. Guarantee: a commit is requested only on
/// change, and a refused one again.
#[test]
fn a_commit_is_due_on_change_only_and_again_when_refused() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Promises::default());
    assert!(ledger.commits_due(false).is_empty());
    let ticket = ledger.track_batch(1, range(0, 5), ONE).unwrap();
    assert!(ledger.commits_due(false).is_empty());
    ledger.ack_part(&ticket);
    let due = ledger.commits_due(false);
    assert_eq!((due.len(), due[0].offset), (1, 5));
    assert!(ledger.commits_due(false).is_empty(), "it was asked for");
    ledger.commit_answered(&due[0], false);
    let again = ledger.commits_due(false);
    assert_eq!(again, due);
    ledger.commit_answered(&again[0], true);
    assert!(ledger.commits_due(false).is_empty());
    assert_eq!(ledger.uncommitted(1), Some((0, 0)));
}

/// Scenario: effectively once. Guarantee: a batch may be sent only after a confirmed commit named
/// it, and a batch that finished out of order stays named while an older one is open.
#[test]
fn a_batch_is_announced_before_it_may_be_sent() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Promises::default());
    let first = ledger.track_batch(1, range(0, 5), ONE).unwrap();
    let due = ledger.commits_due(true);
    assert_eq!((due[0].offset, due[0].promises.ranges.as_slice()), (0, [range(0, 5)].as_slice()));
    let second = ledger.track_batch(1, range(5, 9), ONE).unwrap();
    assert!(!ledger.may_send(&first, true));
    ledger.commit_answered(&due[0], true);
    assert!(ledger.may_send(&first, true) && !ledger.may_send(&second, true));
    let due = ledger.commits_due(true);
    ledger.commit_answered(&due[0], true);
    assert!(ledger.may_send(&second, true));
    ledger.ack_part(&second);
    let third = ledger.track_batch(1, range(9, 10), ONE).unwrap();
    let due = ledger.commits_due(true);
    assert_eq!(due[0].promises.ranges, [range(0, 5), range(5, 9), range(9, 10)]);
    assert_eq!(due[0].offset, 0);
    assert!(!ledger.may_send(&third, true));
}

/// Scenario: of five batches the second is partly sent, a part of the fourth is answered, and the
/// others wait. Guarantee: only the fifth is withdrawn; its next owner cuts it again exactly so, and
/// nothing else than the others is left to commit.
#[test]
fn the_last_batches_are_withdrawn_as_long_as_nothing_of_them_was_sent() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Promises::default());
    let two = NonZeroU32::new(2);
    let tickets: Vec<_> =
        (0..5).map(|i| ledger.track_batch(1, range(i * 5, i * 5 + 5), two).unwrap()).collect();
    ledger.ack_part(&tickets[3]);
    let unsent = |of: OffsetRange| if of.first() == 5 { 1 } else { 2 };
    let before = ledger.commits_due(true);
    assert_eq!(ledger.withdraw_unsent(1, unsent), Some(20));
    assert_eq!(ledger.withdraw_unsent(1, unsent), None);
    assert_eq!(ledger.cut_at(1, 22), Cut::Exactly(range(20, 25)));
    assert_eq!(ledger.ack_part(&tickets[4]), AckOutcome::Stale);
    ledger.commit_answered(&before[0], true);
    assert_eq!(ledger.commits_due(true), [], "commits name what they named before");
    for ticket in tickets.iter().take(4) {
        ledger.ack_part(ticket);
        ledger.ack_part(ticket);
    }
    let due = ledger.commits_due(true);
    assert_eq!(
        (due[0].offset, due[0].promises.ranges.as_slice()),
        (20, [range(20, 25)].as_slice())
    );
    assert!(ledger.is_idle(1));
}

/// Scenario: the sink doesn't answer. Guarantee: open ranges are bounded.
#[test]
fn open_ranges_are_bounded() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Promises::default());
    for i in 0..MAX_OPEN_RANGES as i64 {
        assert!(ledger.has_capacity(1));
        ledger.track_batch(1, range(i, i + 1), ONE).unwrap();
    }
    assert!(!ledger.has_capacity(1));
    assert_eq!(ledger.track_batch(1, range(5_000, 5_001), ONE), Err(TrackError::Full));
}

/// Scenario: a revoked partition has finished one batch and not the next. Guarantee: the last
/// commit covers the finished one; the next owner reads the other.
#[test]
fn a_revoked_partition_commits_what_was_done_and_nothing_more() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Promises::default());
    let done = ledger.track_batch(1, range(0, 5), ONE).unwrap();
    let open = ledger.track_batch(1, range(5, 9), ONE).unwrap();
    ledger.ack_part(&done);
    assert_eq!(ledger.uncommitted(1), Some((1, 9)));
    assert_eq!(ledger.oldest_millis(1), Some(range(5, 9).first_millis));
    assert_eq!(ledger.revoke(1, false).map(|commit| commit.offset), Some(5));
    assert_eq!(ledger.ack_part(&open), AckOutcome::Stale);
    assert_eq!(ledger.commit_point(1), None);
}

/// Scenario: a new owner finds two ranges named in the commit. Guarantee: it must cut them again
/// exactly, and its own first commit still names the second one.
#[test]
fn promised_ranges_are_cut_again_and_stay_named_until_then() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(5), vec![range(5, 9), range(9, 12)].into());
    assert_eq!(ledger.cut_at(1, 5), Cut::Exactly(range(5, 9)));
    assert_eq!(ledger.cut_at(1, 11), Cut::Exactly(range(9, 12)));
    assert_eq!(ledger.cut_at(1, 12), Cut::Free);
    ledger.track_batch(1, range(5, 9), ONE).unwrap();
    let due = ledger.commits_due(true);
    assert_eq!(due[0].promises.ranges, [range(5, 9), range(9, 12)]);
    ledger.commit_answered(&due[0], true);
    assert!(ledger.has_promises(1));
    let second = ledger.track_batch(1, range(9, 12), ONE).unwrap();
    assert!(!ledger.has_promises(1) && !ledger.may_send(&second, true));
    let due = ledger.commits_due(true);
    assert_eq!(due[0].promises.ranges, [range(5, 9), range(9, 12)]);
}

/// Scenario: retention deleted the first two of three promised batches. Guarantee: those are done
/// and the commit passes them; the third has yet to be cut, and an open batch stays open.
#[test]
fn promised_batches_that_are_deleted_are_passed() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), vec![range(0, 5), range(5, 9), range(9, 12), range(12, 20)].into());
    assert_eq!(ledger.pass_deleted(1, 4), None);
    let open = ledger.track_batch(1, range(0, 5), ONE).unwrap();
    assert_eq!(ledger.pass_deleted(1, 15), Some(12));
    assert_eq!(ledger.commit_point(1), Some(0), "the open one was read in time");
    ledger.ack_part(&open);
    assert_eq!(ledger.commit_point(1), Some(12));
    assert_eq!(ledger.cut_at(1, 15), Cut::Exactly(range(12, 20)));
}

/// Scenario: a promised batch is cut again while a commit that names it is in flight, with either
/// delivery. Guarantee: it waits for a commit that was requested since, which is due; a first attempt
/// doesn't wait with at-least-once delivery.
#[test]
fn a_repeated_batch_waits_for_a_commit_requested_after_it_was_read() {
    for announce in [true, false] {
        let mut ledger = Ledger::new();
        ledger.assign(1, Some(0), vec![range(0, 5), range(5, 9)].into());
        ledger.track_batch(1, range(0, 5), ONE).unwrap();
        let earlier = ledger.commits_due(announce);
        let repeat = ledger.track_batch(1, range(5, 9), ONE).unwrap();
        let first = ledger.track_batch(1, range(9, 12), ONE).unwrap();
        ledger.commit_answered(&earlier[0], true);
        assert!(!ledger.may_send(&repeat, announce));
        assert_eq!(ledger.may_send(&first, announce), !announce);
        let due = ledger.commits_due(announce);
        ledger.commit_answered(&due[0], false);
        assert!(!ledger.may_send(&repeat, announce));
        let due = ledger.commits_due(announce);
        ledger.commit_answered(&due[0], true);
        assert!(ledger.may_send(&repeat, announce) && ledger.may_send(&first, announce));
        assert_eq!(ledger.commits_due(announce), []);
    }
}

fn part(table: u32) -> PartName {
    PartName { table, day: 20_000 }
}

/// Reads the ledger's next commit back, as the next owner does.
fn promised(ledger: &mut Ledger<i32>) -> Promises {
    let due = ledger.commits_due(true);
    ledger.commit_answered(&due[0], true);
    decode_metadata(due[0].offset, &encode_metadata(due[0].offset, &due[0].promises)).unwrap()
}

/// Scenario: of a batch's three parts two are refused while another batch behind it is in flight.
/// Guarantee: it is divided when the third part is stored; after a rewind it is cut in pieces of
/// which only the refused parts are sent, and none before a commit names the piece; the batch
/// behind it is cut as before. The commit point passes piece by piece, and the division goes.
#[test]
fn a_refused_batch_is_read_again_in_pieces() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Promises::default());
    let batch = ledger.track_batch(1, range(0, 40), NonZeroU32::new(3)).unwrap();
    let later = ledger.track_batch(1, range(40, 50), ONE).unwrap();
    assert_eq!(promised(&mut ledger).ranges, [range(0, 40), range(40, 50)]);
    assert_eq!(ledger.refuse_part(&batch, part(1)), AckOutcome::Waiting);
    assert_eq!(ledger.refuse_part(&batch, part(2)), AckOutcome::Waiting);
    assert!(!ledger.has_divided(1));
    assert_eq!(ledger.ack_part(&batch), AckOutcome::Refused);
    assert!(ledger.has_divided(1) && ledger.has_unanswered(1));
    ledger.ack_part(&later);
    assert!(!ledger.has_unanswered(1));
    assert_eq!(ledger.commit_point(1), Some(0), "refused rows aren't done");
    ledger.rewind(1).unwrap();
    assert!(!ledger.has_divided(1) && ledger.has_promises(1));
    let pieces = [(0, 3), (3, 6)].map(|(first, next)| range(first, next));
    assert_eq!(ledger.cut_at(1, 4), Cut::Piece(pieces[1].range));
    assert_eq!(ledger.cut_at(1, 45), Cut::Exactly(range(40, 50)));
    let refused = ledger.refused_parts(1, 4).unwrap();
    assert_eq!([1, 2, 3].map(|table| refused.contains(part(table))), [true, true, false]);
    assert_eq!(ledger.refused_parts(1, 45), None);
    let [first, second] = pieces.map(|piece| ledger.track_batch(1, piece, ONE).unwrap());
    assert!(!ledger.may_send(&first, true));
    let named = promised(&mut ledger);
    assert_eq!(named.ranges, [pieces[0], pieces[1], range(40, 50)]);
    assert_eq!(named.divisions[0].range(), range(0, 40).range);
    assert!(ledger.may_send(&second, true));
    assert_eq!(ledger.ack_part(&first), AckOutcome::Moved);
    assert_eq!(ledger.commit_point(1), Some(3));
    // The second one is refused and divided into single messages.
    assert_eq!(ledger.refuse_part(&second, part(2)), AckOutcome::Refused);
    ledger.rewind(1).unwrap();
    assert_eq!(ledger.cut_at(1, 4), Cut::Piece(range(4, 5).range));
    assert!(!ledger.refused_parts(1, 4).unwrap().contains(part(1)), "it is stored");
    for first in 3..6 {
        ledger.track_batch(1, range(first, first + 1), None).unwrap();
    }
    assert_eq!(ledger.cut_at(1, 6), Cut::Piece(range(6, 9).range));
    ledger.track_batch(1, range(6, 40), None).unwrap();
    assert_eq!(promised(&mut ledger), vec![range(40, 50)].into());
}

/// Scenario: a batch is divided, and its partition moves to another worker, before and after a
/// commit that names the division. Guarantee: the next owner begins where this one was.
#[test]
fn the_next_owner_continues_a_division() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Promises::default());
    let batch = ledger.track_batch(1, range(0, 64), ONE).unwrap();
    promised(&mut ledger);
    ledger.refuse_part(&batch, part(7));
    let commit = ledger.revoke(1, true).expect("the division is unnamed so far");
    ledger.assign(1, Some(0), commit.promises);
    assert_eq!(ledger.cut_at(1, 9), Cut::Piece(range(8, 12).range));
    ledger.track_batch(1, range(0, 4), None).unwrap();
    ledger.track_batch(1, range(4, 8), ONE).unwrap();
    let named = promised(&mut ledger);
    assert_eq!(ledger.revoke(1, true), None);
    ledger.assign(1, Some(4), named);
    assert_eq!(ledger.cut_at(1, 5), Cut::Exactly(range(4, 8)));
    assert_eq!(ledger.cut_at(1, 9), Cut::Piece(range(8, 12).range));
    assert!(ledger.refused_parts(1, 5).unwrap().contains(part(7)));
}

/// Scenario: fifty batches are refused last to first, each of two parts. Guarantee: those that a
/// commit can name are divided at once, the others once they are the first; the first one always.
#[test]
fn refused_batches_wait_until_a_commit_can_name_them() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Promises::default());
    let tickets: Vec<_> = (0..50)
        .map(|n| ledger.track_batch(1, range(8 * n, 8 * n + 8), NonZeroU32::new(2)).unwrap())
        .collect();
    for ticket in tickets.iter().rev() {
        ledger.refuse_part(ticket, part(u32::MAX));
        ledger.refuse_part(ticket, part(1));
    }
    let named = promised(&mut ledger);
    let divided: Vec<_> = named.divisions.iter().map(|it| it.range().first() / 8).collect();
    assert!(divided.len() > 5 && divided.len() < 20, "{divided:?}");
    assert_eq!((divided[0], divided.last()), (0, Some(&49)));
    assert_eq!(named.ranges.len(), 50 - divided.len());
    ledger.rewind(1).unwrap();
    ledger.track_batch(1, range(0, 8), None).unwrap();
    let second = ledger.track_batch(1, range(8, 16), NonZeroU32::new(2)).unwrap();
    ledger.refuse_part(&second, part(1));
    assert_eq!(ledger.refuse_part(&second, part(2)), AckOutcome::Refused);
    assert!(ledger.has_divided(1), "it is the first one now");
}

/// Scenario: at-least-once delivery. Guarantee: a refused batch is divided too, and no commit names
/// anything.
#[test]
fn at_least_once_delivery_divides_without_naming_anything() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Promises::default());
    let batch = ledger.track_batch(1, range(0, 2), ONE).unwrap();
    ledger.refuse_part(&batch, part(1));
    assert!(ledger.commits_due(false).is_empty());
    ledger.rewind(1).unwrap();
    assert_eq!(ledger.cut_at(1, 0), Cut::Piece(range(0, 1).range));
    ledger.track_batch(1, range(0, 1), None).unwrap();
    assert!(ledger.commits_due(false)[0].promises.is_empty());
}

/// Scenario: retention deletes a divided batch, and the next message that exists is cut. Guarantee:
/// the commit that names its batch is behind the division and doesn't name it.
#[test]
fn a_divided_batch_is_forgotten_once_a_later_one_is_the_first() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Promises::default());
    let batch = ledger.track_batch(1, range(0, 40), ONE).unwrap();
    ledger.refuse_part(&batch, part(1));
    ledger.rewind(1).unwrap();
    ledger.track_batch(1, range(56, 57), ONE).unwrap();
    assert_eq!(promised(&mut ledger), vec![range(56, 57)].into());
}

/// Scenario: retention deletes a divided batch before its pieces are read. Guarantee: reading
/// continues behind it, and no commit names it any more.
#[test]
fn a_divided_batch_that_is_deleted_is_passed() {
    let mut ledger = Ledger::new();
    ledger.assign(1, Some(0), Promises::default());
    let batch = ledger.track_batch(1, range(0, 40), ONE).unwrap();
    ledger.refuse_part(&batch, part(1));
    ledger.rewind(1).unwrap();
    assert_eq!((ledger.pass_deleted(1, 39), ledger.pass_deleted(1, 40)), (None, Some(40)));
    assert!(!ledger.has_promises(1));
    assert_eq!(ledger.cut_at(1, 40), Cut::Free);
}
