//! Tests of `kernel.rs`: which records are skipped, accepted, and counted as lost.

use super::*;
use crate::checkpoint::tests::torn_or_changed;

const BOOT: &str = "8a39e962-6b20-4db4-ad07-2adf3549c91b";

fn at(next: u64) -> KernelPosition {
    KernelPosition { boot: BOOT.into(), next }
}

/// Returns the accepted numbers of a log's, and how many are lost.
fn read(log: &mut KernelLog, numbers: impl IntoIterator<Item = u64>) -> (Vec<u64>, u64) {
    let (mut taken, mut sum) = (Vec::new(), 0);
    for number in numbers {
        if let RecordStatus::New { lost } = log.observe_record(number) {
            taken.push(number);
            sum += lost;
        }
    }
    (taken, sum)
}

/// Scenario: a first start; the log's first records are already overwritten. Guarantee: all
/// existing records are accepted from the oldest, and none is counted as lost.
#[test]
fn a_first_start_takes_everything_from_the_oldest() {
    let (mut log, begins) = KernelLog::new(BOOT, None);
    assert_eq!((begins, log.position()), (KernelStart::Oldest, None));
    assert!(log.handle_end(), "an empty log is no contradiction");
    assert_eq!(read(&mut log, 700..705), ((700..705).collect(), 0));
    assert_eq!(log.position(), Some(at(705)));
}

/// Scenario: a start with a position; the log has records before and after it, none after, or none
/// before any more. Guarantee: recorded ones are skipped, the others are accepted once, and
/// overwritten ones between are counted by their numbers.
#[test]
fn a_restart_goes_on_behind_the_position_and_counts_what_is_missing() {
    for (has, taken, lost) in
        [(0..12, 10..12, 0), (4..10, 10..10, 0), (10..12, 10..12, 0), (15..17, 15..17, 5)]
    {
        let (mut log, begins) = KernelLog::new(BOOT, Some(at(10)));
        assert_eq!(begins, KernelStart::At(10));
        assert_eq!(read(&mut log, has.clone()), (taken.collect(), lost), "{has:?}");
        assert!(log.handle_end());
        assert_eq!(log.position(), Some(at(has.end)));
    }
}

/// Scenario: while a log is read, records are overwritten, so its numbers jump, twice. Guarantee:
/// each jump counts the missing records.
#[test]
fn a_jump_of_the_numbers_is_so_many_lost() {
    let (mut log, _) = KernelLog::new(BOOT, None);
    assert_eq!(read(&mut log, [3, 4, 9, 10, 12]), (vec![3, 4, 9, 10, 12], 5));
    log.observe_unnumbered();
    assert_eq!(read(&mut log, [14, 15]), (vec![14, 15], 0), "a record without one had 13");
}

/// Scenario: the position is of another boot, and the log's first two records are overwritten.
/// Guarantee: reading starts at the oldest, and the two are counted.
#[test]
fn another_boot_begins_at_its_oldest_record() {
    let other = KernelPosition { boot: "another".into(), next: 4000 };
    let (mut log, begins) = KernelLog::new(BOOT, Some(other));
    assert_eq!(begins, KernelStart::AnotherBoot);
    assert_eq!(read(&mut log, 2..5), (vec![2, 3, 4], 2));
    assert_eq!(log.position(), Some(at(5)));
}

/// Scenario: a position of this boot is beyond the end of the log. Guarantee: this is reported, and
/// after reopening the log is read from its oldest record: nothing is skipped.
#[test]
fn a_position_beyond_the_log_is_not_believed() {
    let (mut log, _) = KernelLog::new(BOOT, Some(at(100)));
    assert_eq!(read(&mut log, 5..9), (vec![], 0));
    assert!(!log.handle_end());
    log.handle_reopen();
    assert_eq!(read(&mut log, 5..9), (vec![5, 6, 7, 8], 0));
    assert!(log.handle_end());
}

/// Scenario: a log is reopened after some records were accepted, and after none was. Guarantee:
/// accepted records are skipped.
#[test]
fn a_log_that_is_opened_again_repeats_nothing() {
    let (mut log, _) = KernelLog::new(BOOT, None);
    log.handle_reopen();
    assert_eq!(read(&mut log, 0..4), (vec![0, 1, 2, 3], 0));
    log.handle_reopen();
    assert_eq!(read(&mut log, 1..6), (vec![4, 5], 0));
    assert_eq!(read(&mut log, [2]), (vec![2], 0), "a number that goes back is not skipped");
}

/// Scenario: a document is cut at every length, and has every byte changed; there is a previous
/// one, or none, or a torn one. Guarantee: no torn one is used; the message names what is done.
#[test]
fn a_torn_or_changed_position_is_never_used() {
    let (whole, before) = (at(700).to_document(), at(300).to_document());
    for bad in torn_or_changed(&whole) {
        let (position, resort) = load_kernel_position(Some(&bad), Some(&before));
        assert_eq!(position, Some(at(300)));
        let said = resort.unwrap().to_string();
        assert!(said.contains("the previous one is used"), "{said}");
        for previous in [None, Some(&bad[..])] {
            let (position, resort) = load_kernel_position(Some(&bad), previous);
            assert_eq!(position, None);
            let said = resort.unwrap().to_string();
            assert!(said.contains("starts at the oldest"), "{said}");
        }
    }
    assert_eq!(load_kernel_position(Some(&whole), Some(&before)), (Some(at(700)), None));
    assert_eq!(load_kernel_position(None, Some(&before)), (Some(at(300)), None));
    assert_eq!(load_kernel_position(None, None), (None, None));
}
