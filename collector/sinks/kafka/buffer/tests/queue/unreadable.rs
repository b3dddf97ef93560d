//! Files that the disk can't read.

use millrace_buffer::frame::{HEAD_BYTES, HEADER_BYTES};
use millrace_buffer::{Disk, Folder, Queue, Sums, is_unreadable};

use super::fake::{EIO, Fake};
use super::{LIMITS, payload};

/// The system's number of a denied permission.
const EACCES: i32 = 13;
/// The records of a queue of three files: five in the first two, two in the last.
const RECORDS: u64 = 12;
const FILE_RECORDS: u64 = 5;
const PAYLOAD_BYTES: usize = 400;

fn new_queue() -> Queue<Fake> {
    let mut queue = Queue::open(Fake::default(), LIMITS).unwrap().0;
    for serial in 0..RECORDS {
        queue.append(&payload(serial, PAYLOAD_BYTES), 0, 1, 0).unwrap();
    }
    queue.sync().unwrap();
    queue
}

/// Reads all records, gives up on each that can't be read, and acknowledges the others. Returns
/// their numbers and what was damaged.
fn drain(queue: &mut Queue<Fake>) -> (Vec<u64>, Sums) {
    let mut numbers = Vec::new();
    loop {
        match queue.read() {
            Ok(None) => break,
            Ok(Some(entry)) => numbers.push(entry.number),
            Err(error) => {
                assert!(is_unreadable(&error));
                assert!(queue.read().is_err(), "nothing is skipped unless requested");
                queue.skip_unreadable().unwrap();
            }
        }
    }
    let damaged = queue.take_damaged();
    // A second pass finds the same, without another error, and counts nothing again.
    queue.rewind();
    for number in &numbers {
        assert_eq!(queue.read().unwrap().map(|entry| entry.number), Some(*number));
    }
    assert_eq!((queue.read().unwrap(), queue.take_damaged()), (None, Sums::default()));
    queue.ack_through(numbers[numbers.len() - 1]).unwrap();
    (numbers, damaged)
}

/// Checks a queue of which a byte of a file can't be read, also when it is opened if `reopened`.
fn check_unreadable_byte(file: u64, at: usize, reopened: bool) {
    let case = format!("byte {at} of file {file}, reopened: {reopened}");
    let mut queue = new_queue();
    queue.disk_mut().unreadable = Some((file, at..at + 1));
    if reopened {
        queue = Queue::open(queue.into_disk(), LIMITS).unwrap().0;
    }
    let last = queue.append(&payload(RECORDS, PAYLOAD_BYTES), 0, 1, 0).unwrap();
    assert!(last >= RECORDS, "{case}");
    let length = queue.disk_mut().file_length(file).unwrap();
    let (numbers, damaged) = drain(&mut queue);
    assert!(numbers.is_sorted() && damaged.records > 0, "{case}: {numbers:?}");
    // The end of the last file is unknown if it couldn't be read when it was opened.
    if !reopened || file < 3 {
        assert_eq!(numbers.len() as u64 + damaged.records, RECORDS + 1, "{case}: {numbers:?}");
    }
    let in_file = |number: &u64| (number / FILE_RECORDS + 1).min(3) == file;
    let expected: Vec<u64> = (0..RECORDS).filter(|number| !in_file(number)).collect();
    let is_other = |number: &&u64| **number < RECORDS && !in_file(number);
    let others: Vec<u64> = numbers.iter().filter(is_other).copied().collect();
    assert_eq!(others, expected, "{case}");
    let before = at.saturating_sub(HEAD_BYTES) / (HEADER_BYTES + PAYLOAD_BYTES);
    let from_file = numbers.iter().filter(|number| in_file(number)).count();
    assert!(from_file >= before.min(FILE_RECORDS as usize), "{case}: {numbers:?}");
    assert_eq!(queue.stats().records, 0, "{case}");
    // Another record ends the file if it was the last.
    queue.append(&[7; 2_000], 0, 1, 0).unwrap();
    let next = queue.read().unwrap().unwrap().number;
    queue.ack_through(next).unwrap();
    assert!(queue.stats().file_bytes >= length, "{case}");
    let set_aside: Vec<u64> = queue.into_disk().set_aside.into_keys().collect();
    assert_eq!(set_aside, [file], "{case}");
}

/// Scenario: each byte of the headers in a queue's files, and of each payload the first and the
/// last, is unreadable in turn, while the queue is open or also when it is opened. Guarantee: the
/// queue opens; every record outside the file is returned, in order, and those before the byte in
/// it; the others are counted; the queue accepts and returns records afterwards; the file isn't
/// removed but set aside, and its bytes count.
#[test]
fn a_file_that_cannot_be_read_does_not_stop_the_others() {
    for file in 1..=3 {
        let length = new_queue().disk_mut().file_length(file).unwrap() as usize;
        // The reader needs no totals from a segment's head.
        let of_head = 0..HEADER_BYTES;
        let frame_bytes = HEADER_BYTES + PAYLOAD_BYTES;
        let of_records = (HEAD_BYTES..length).filter(|at| {
            let in_frame = (at - HEAD_BYTES) % frame_bytes;
            in_frame <= HEADER_BYTES || in_frame + 1 == frame_bytes
        });
        for at in of_head.chain(of_records) {
            check_unreadable_byte(file, at, false);
            check_unreadable_byte(file, at, true);
        }
    }
}

/// Checks a queue of which a file can't be opened, also when the queue is opened if `reopened`.
fn check_unopenable_file(file: u64, errno: i32, reopened: bool) {
    let case = format!("file {file}, error {errno}, reopened: {reopened}");
    let mut queue = new_queue();
    queue.disk_mut().unopenable = Some((file, errno));
    if reopened {
        queue = Queue::open(queue.into_disk(), LIMITS).unwrap().0;
    }
    let last = queue.append(&payload(RECORDS, PAYLOAD_BYTES), 0, 1, 0).unwrap();
    let (mut numbers, damaged) = drain(&mut queue);
    assert_eq!(numbers.pop(), Some(last), "{case}");
    let in_file = |number: &u64| (number / FILE_RECORDS + 1).min(3) == file;
    let expected: Vec<u64> = (0..RECORDS).filter(|number| !in_file(number)).collect();
    assert_eq!(numbers, expected, "{case}");
    assert!(last >= RECORDS && damaged.records > 0, "{case}");
    if file < 3 {
        assert_eq!(damaged.records, FILE_RECORDS, "{case}");
    }
    assert_eq!(queue.stats().records, 0, "{case}");
    let mut disk = queue.into_disk();
    let left = disk.list_files().unwrap().contains(&file);
    let set_aside = disk.set_aside.contains_key(&file);
    assert_eq!((left, set_aside), (errno == EIO, errno == EACCES), "{case}");
}

/// Scenario: each of a queue's files can't be opened, not even renamed after an I/O error, while
/// the queue is open (not the last, which is written) or also when it is opened. Guarantee: the
/// queue opens; every record outside the file is returned, in order; the file's records are
/// counted; the queue accepts and returns records afterwards; the file isn't removed, but set aside
/// where that is possible.
#[test]
fn a_file_that_cannot_be_opened_does_not_stop_the_others() {
    for (file, reopened) in [(1, false), (2, false), (1, true), (2, true), (3, true)] {
        for errno in [EIO, EACCES] {
            check_unopenable_file(file, errno, reopened);
        }
    }
}

/// Scenario: the disk can't read a partly acknowledged file when the queue is opened, so that its
/// records aren't known, and can afterwards. Guarantee: all of them are returned, and the queue
/// counts as empty only once all are acknowledged: an edge that drains waits for that.
#[test]
fn a_file_that_can_be_read_again_is_counted_completely() {
    let mut queue = new_queue();
    let first = queue.read().unwrap().unwrap().number;
    queue.ack_through(first).unwrap();
    queue.sync().unwrap();
    queue.disk_mut().unreadable = Some((1, 0..1));
    let mut queue = Queue::open(queue.into_disk(), LIMITS).unwrap().0;
    queue.disk_mut().unreadable = None;
    let mut left = RECORDS - 1;
    while let Some(entry) = queue.read().unwrap() {
        left -= 1;
        queue.ack_through(entry.number).unwrap();
        assert_eq!(queue.stats().records == 0, left == 0, "{left} left");
    }
    assert_eq!((left, queue.take_damaged()), (0, Sums::default()));
}

/// Scenario: a file in a real directory is set aside. Guarantee: it isn't one of the queue's files
/// any more, its bytes are still there, and count also after a restart.
#[test]
fn a_file_that_was_set_aside_stays_on_disk() {
    let path = tempfile::tempdir().unwrap();
    let mut folder = Folder::open(path.path()).unwrap();
    folder.create_file(7).unwrap();
    folder.append_bytes(7, b"bytes").unwrap();
    folder.set_aside_file(7).unwrap();
    assert_eq!(folder.list_files().unwrap(), []);
    assert_eq!(folder.set_aside_bytes().unwrap(), 5);
    let file = path.path().join("00000000000000000007.unreadable");
    assert_eq!(std::fs::read(file).unwrap(), b"bytes");
    let queue = Queue::open(folder, LIMITS).unwrap().0;
    assert_eq!(queue.stats().file_bytes, 5 + HEAD_BYTES as u64);
}
