//! Tests of `outcomes.rs`.

use millrace_ledger::{Intent, Ledger, Promises};

use super::*;

const KEY: PartitionKey = PartitionKey { topic: 0, partition: 0 };
const TABLE: TableIndex = TableIndex(0);
const SLICE: BlockSlice = BlockSlice { day: 1, number: 0 };

fn cut(ledger: &mut Ledger<PartitionKey>, outcomes: &mut Outcomes) -> Ticket<PartitionKey> {
    let intent = Intent::new(OffsetRange::new(0, 10).unwrap(), 0);
    let ticket = ledger.track_batch(KEY, intent, std::num::NonZeroU32::new(1)).unwrap();
    outcomes.record_cut(&ticket);
    ticket
}

fn of(outcomes: &Outcomes, ticket: &Ticket<PartitionKey>) -> Option<PartStatus> {
    outcomes.of_part(ticket.range, TABLE, SLICE).cloned()
}

fn refused() -> PartStatus {
    PartStatus::Refused(Rejection { reason: "refused", detail: String::new() })
}

/// Scenario: a batch is cut, its partition rewinds, and an answer to a part comes before the batch
/// is cut again, after that, and once it is committed. Guarantee: that the part isn't stored counts
/// only if the answer came before the next attempt, because that one may be stored; that it is
/// stored always counts. Nothing is retained of committed batches.
#[test]
fn an_answer_counts_for_the_next_attempt() {
    for outcome in [PartStatus::Unstored, refused(), PartStatus::Stored] {
        let (mut ledger, mut outcomes) = (Ledger::new(), Outcomes::default());
        ledger.assign(KEY, Some(0), Promises::default());
        let first = cut(&mut ledger, &mut outcomes);
        ledger.rewind(KEY);
        outcomes.record(&first, TABLE, SLICE, outcome.clone());
        assert_eq!(of(&outcomes, &first), Some(outcome.clone()));
        outcomes.forget_part(first.range, TABLE, SLICE);

        let second = cut(&mut ledger, &mut outcomes);
        outcomes.record(&first, TABLE, SLICE, outcome.clone());
        let late = (outcome == PartStatus::Stored).then_some(PartStatus::Stored);
        assert_eq!(of(&outcomes, &second), late, "the second may be stored");

        outcomes.record(&second, TABLE, SLICE, outcome);
        outcomes.forget_before(9);
        assert!(of(&outcomes, &second).is_some());
        outcomes.forget_before(10);
        assert_eq!(of(&outcomes, &second), None, "it is committed");
    }
}

/// Scenario: an answer to a batch of an earlier assignment comes after the partition was assigned
/// again. Guarantee: it doesn't count: the topic may be another one by then.
#[test]
fn an_answer_of_an_earlier_assignment_never_counts() {
    let (mut ledger, mut outcomes) = (Ledger::new(), Outcomes::default());
    ledger.assign(KEY, Some(0), Promises::default());
    let first = cut(&mut ledger, &mut Outcomes::default());
    ledger.assign(KEY, Some(0), Promises::default());
    let letter = DeadLetterId { offset: 3, is_refused: false };
    for _ in 0..2 {
        outcomes.record(&first, TABLE, SLICE, PartStatus::Stored);
        outcomes.record_dead_letter(&first, letter);
        assert_eq!(of(&outcomes, &first), None);
        assert!(!outcomes.has_dead_letter(letter));
        cut(&mut ledger, &mut outcomes);
        ledger.rewind(KEY);
    }
}

/// Scenario: a message has groups that can't be decoded and rows that are refused. Guarantee: its
/// two dead letters are recorded separately, until the message is committed.
#[test]
fn both_dead_letters_of_a_message_are_recorded() {
    let (mut ledger, mut outcomes) = (Ledger::new(), Outcomes::default());
    ledger.assign(KEY, Some(0), Promises::default());
    let ticket = cut(&mut ledger, &mut outcomes);
    let [read, refused] = [false, true].map(|is_refused| DeadLetterId { offset: 3, is_refused });
    outcomes.record_dead_letter(&ticket, read);
    assert!(outcomes.has_dead_letter(read) && !outcomes.has_dead_letter(refused));
    outcomes.forget_before(3);
    assert!(outcomes.has_dead_letter(read));
    outcomes.forget_before(4);
    assert!(!outcomes.has_dead_letter(read));
}
