//! The queue against a naive twin, on a disk that loses what it may lose: torn ends, lost blocks,
//! files that come back, full disks, failed syncs, short reads, flipped bits.

mod fake;
mod large;
mod unreadable;

use std::collections::{BTreeMap, BTreeSet};

use fake::{Fake, Fault};
use millrace_buffer::{AppendError, Folder, FolderError, Queue, QueueLimits, QueuedRecord, Sums};
use proptest::prelude::*;

/// Small enough that segments come and go all the time.
const LIMITS: QueueLimits = QueueLimits { max_bytes: 20_000, segment_bytes: 2_000 };

#[derive(Debug, Clone)]
enum Action {
    Append(usize),
    Sync,
    Read(usize),
    /// Acknowledges this many of the returned records, counted from the first.
    Ack(usize),
    Rewind,
    Fail(Fault),
    /// Sets the disk's capacity for all files together.
    Room(Option<u64>),
    /// The process is killed and another begins.
    Restart,
    /// The machine crashes.
    Crash(u64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => prop_oneof![4 => 0..300_usize, 1 => 1000..4000_usize].prop_map(Action::Append),
        4 => Just(Action::Sync),
        4 => (1..8_usize).prop_map(Action::Read),
        4 => (1..8_usize).prop_map(Action::Ack),
        1 => Just(Action::Rewind),
        2 => prop_oneof![
            (0..=100_u8).prop_map(Fault::Append),
            (0..=100_u8).prop_map(Fault::AppendForGood),
            Just(Fault::Sync),
            Just(Fault::Create),
        ].prop_map(Action::Fail),
        1 => prop_oneof![2 => Just(None), 1 => (0..15_000_u64).prop_map(Some)]
            .prop_map(Action::Room),
        1 => Just(Action::Restart),
        1 => any::<u64>().prop_map(Action::Crash),
    ]
}

/// Bytes that belong to one record and no other.
fn payload(serial: u64, length: usize) -> Vec<u8> {
    serial.to_le_bytes().into_iter().cycle().take(length).collect()
}

/// The expected content of the queue, without files.
#[derive(Default)]
struct Twin {
    serial: u64,
    /// Records that aren't acknowledged, by number.
    live: BTreeMap<u64, Vec<u8>>,
    /// Of these, those that no crash may lose.
    safe: BTreeSet<u64>,
    /// Of these, those that a failed sync left in doubt: no later sync makes them safe.
    doubtful: BTreeSet<u64>,
    /// Acknowledged records that a crash may bring back.
    soft: BTreeMap<u64, Vec<u8>>,
    /// Records returned since the last rewind and not acknowledged, in order.
    lent: Vec<u64>,
    last_given: Option<u64>,
}

impl Twin {
    fn read(&mut self, queue: &mut Queue<Fake>) {
        let entry = queue.read().unwrap();
        let from = self.last_given.map_or(0, |last| last + 1);
        let wanted = self.live.range(from..).next();
        match (entry, wanted) {
            (None, None) => {}
            (Some(QueuedRecord { number, payload, count, .. }), Some((wanted, bytes))) => {
                assert_eq!((number, &payload), (*wanted, bytes), "another record was given out");
                assert_eq!(count as usize, payload.len());
                self.lent.push(number);
                self.last_given = Some(number);
            }
            (entry, wanted) => panic!("given {entry:?} instead of {wanted:?}"),
        }
    }

    fn ack(&mut self, queue: &mut Queue<Fake>, count: usize) {
        let Some(number) = self.lent.get(count - 1).or(self.lent.last()).copied() else { return };
        // The acknowledgement holds for this process even if the disk refused it; the next sync
        // retries.
        if queue.ack_through(number).is_ok() {
            assert!(queue.is_dirty(), "no sync would make the acknowledgement safe");
        }
        self.lent.retain(|lent| *lent > number);
        let later = self.live.split_off(&(number + 1));
        self.soft.append(&mut self.live);
        self.live = later;
    }

    fn sync(&mut self, queue: &mut Queue<Fake>) {
        let in_doubt = |twin: &Self| -> Vec<u64> {
            let unsafe_yet = |number: &&u64| !twin.safe.contains(number);
            twin.live.keys().filter(unsafe_yet).copied().collect()
        };
        if queue.sync().is_ok() {
            for number in in_doubt(self) {
                if !self.doubtful.contains(&number) {
                    self.safe.insert(number);
                }
            }
            self.soft.clear();
            assert!(!queue.is_dirty(), "a sync left something");
        } else {
            self.doubtful.extend(in_doubt(self));
        }
    }

    /// Reads all that a new process finds, and checks it.
    fn reopened(&mut self, queue: &mut Queue<Fake>, crashed: bool) {
        let mut found = BTreeMap::new();
        let mut last = None;
        while let Some(entry) = queue.read().unwrap() {
            assert!(last < Some(entry.number), "out of order");
            last = Some(entry.number);
            let live = self.live.get(&entry.number);
            let known = live.or_else(|| self.soft.get(&entry.number));
            assert_eq!(known, Some(&entry.payload), "{} was never appended so", entry.number);
            found.insert(entry.number, entry.payload);
        }
        for number in self.live.keys() {
            let must = !crashed || self.safe.contains(number);
            assert!(!must || found.contains_key(number), "{number} is lost");
        }
        assert_eq!(queue.stats().records, found.len() as u64);
        queue.rewind();
        // A process that ends loses nothing: its last writes have yet to be synced, and the next
        // process begins by repeating what is acknowledged.
        let mut soft = if crashed { BTreeMap::new() } else { std::mem::take(&mut self.soft) };
        soft.retain(|number, _| !found.contains_key(number));
        *self = Self {
            serial: self.serial,
            soft,
            // Records that survived a crash were on the disk; those found after a mere restart may
            // not be yet.
            safe: if crashed { found.keys().copied().collect() } else { self.safe.clone() },
            doubtful: if crashed { BTreeSet::new() } else { found.keys().copied().collect() },
            live: found,
            ..Self::default()
        };
    }
}

fn reopen(queue: Queue<Fake>, crash: Option<u64>) -> Queue<Fake> {
    let mut disk = queue.into_disk();
    disk.fault = None;
    if let Some(seed) = crash {
        disk.crash(seed);
    }
    Queue::open(disk, LIMITS).unwrap().0
}

/// Runs the actions on both and compares at each step.
fn run(actions: Vec<Action>) {
    let (mut queue, recovery) = Queue::open(Fake::default(), LIMITS).unwrap();
    assert_eq!(recovery.records, 0);
    let mut twin = Twin::default();
    for action in actions {
        match action {
            Action::Append(length) => {
                twin.serial += 1;
                let bytes = payload(twin.serial, length);
                match queue.append(&bytes, twin.serial, length as u32, 1) {
                    Ok(number) => {
                        assert!(twin.live.insert(number, bytes).is_none(), "a number used twice");
                    }
                    Err(AppendError::Full { used_bytes, .. }) => {
                        assert!(used_bytes + length as u64 + 104 > LIMITS.max_bytes);
                    }
                    Err(AppendError::TooLong { .. }) => panic!("it is not that long"),
                    Err(AppendError::Disk(_)) => {}
                }
            }
            Action::Sync => twin.sync(&mut queue),
            Action::Read(count) => (0..count).for_each(|_| twin.read(&mut queue)),
            Action::Ack(count) => twin.ack(&mut queue, count),
            Action::Rewind => {
                queue.rewind();
                twin.lent.clear();
                twin.last_given = None;
            }
            Action::Fail(fault) => queue.disk_mut().fault = Some(fault),
            Action::Room(room) => queue.disk_mut().room = room,
            Action::Restart => {
                queue = reopen(queue, None);
                twin.reopened(&mut queue, false);
            }
            Action::Crash(seed) => {
                queue = reopen(queue, Some(seed));
                twin.reopened(&mut queue, true);
            }
        }
        assert!(queue.stats().file_bytes <= LIMITS.max_bytes + 200 * 40, "over the limit");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Scenario: up to 200 random actions, with crashes and faults. Guarantee: nothing confirmed is
    /// lost, nothing is altered, the order is unchanged, what was acknowledged for good does not
    /// come back, and the limit holds.
    #[test]
    fn the_queue_does_as_its_naive_twin(actions in proptest::collection::vec(action(), 1..200)) {
        run(actions);
    }

    /// Scenario: bits flip on the disk. Guarantee: returned records are unaltered and in order, and
    /// only records in the same file as a flipped bit are missing.
    #[test]
    fn flipped_bits_are_noticed(
        lengths in proptest::collection::vec(0..500_usize, 1..40),
        flips in proptest::collection::vec(any::<usize>(), 1..4),
    ) {
        let mut queue = Queue::open(Fake::default(), LIMITS).unwrap().0;
        let mut appended = BTreeMap::new();
        for (serial, length) in (1..).zip(lengths) {
            let bytes = payload(serial, length);
            if let Ok(number) = queue.append(&bytes, 0, 1, 0) {
                appended.insert(number, bytes);
            }
        }
        queue.sync().unwrap();
        let mut disk = queue.into_disk();
        flips.into_iter().for_each(|at| disk.flip(at));
        let (mut queue, recovery) = Queue::open(disk, LIMITS).unwrap();
        let mut given = 0;
        while let Some(entry) = queue.read().unwrap() {
            prop_assert_eq!(appended.get(&entry.number), Some(&entry.payload));
            given += 1;
        }
        let damaged = queue.take_damaged();
        prop_assert_eq!(given, queue.stats().records);
        // Each record counts as one.
        prop_assert_eq!(damaged.records, damaged.count);
        prop_assert!(given + damaged.records >= recovery.records);
        let all_there = given == appended.len() as u64;
        prop_assert!(all_there || damaged.records > 0 || recovery.unreadable_bytes > 0);
        prop_assert_eq!(queue.take_damaged(), Sums::default());
    }

    /// Scenario: files of arbitrary bytes. Guarantee: the queue opens and returns nothing.
    #[test]
    fn files_of_noise_hold_nothing(noise in proptest::collection::vec(any::<u8>(), 0..300)) {
        use millrace_buffer::Disk;
        let mut disk = Fake::default();
        disk.create_file(7).unwrap();
        disk.append_bytes(7, &noise).unwrap();
        let (mut queue, recovery) = Queue::open(disk, LIMITS).unwrap();
        prop_assert_eq!((recovery.records, queue.read().unwrap()), (0, None));
        queue.append(b"x", 0, 1, 0).unwrap();
        prop_assert_eq!(queue.read().unwrap().unwrap().payload, b"x".to_vec());
    }
}

/// Scenario: a full queue is read and acknowledged. Guarantee: it refuses records at the limit,
/// accepts them again once space is free, and ends as small as it began.
#[test]
fn space_comes_back_with_acknowledgements() {
    let mut queue = Queue::open(Fake::default(), LIMITS).unwrap().0;
    let mut appended = 0;
    while queue.append(&[7; 460], 0, 1, 0).is_ok() {
        appended += 1;
    }
    assert!(appended >= 38, "{appended}");
    assert!(matches!(queue.append(&[0; 30_000], 0, 1, 0), Err(AppendError::TooLong { .. })));
    let mut last = 0;
    while let Some(entry) = queue.read().unwrap() {
        last = entry.number;
    }
    assert_eq!(queue.oldest_millis().unwrap(), Some(0));
    queue.ack_through(last).unwrap();
    let stats = queue.stats();
    assert_eq!((stats.records, stats.count), (0, 0));
    assert!(stats.file_bytes < 2 * LIMITS.segment_bytes, "{stats:?}");
    assert_eq!(queue.oldest_millis().unwrap(), None);
    queue.append(&[7; 460], 0, 1, 0).unwrap();
    assert!(queue.into_disk().bytes() < 3 * LIMITS.segment_bytes);
}

/// Scenario: the disk is full long before the queue is; the process restarts on the full disk; all
/// records are read and acknowledged. Guarantee: a record that doesn't fit is refused completely,
/// accepted records are returned, acknowledging frees space although no acknowledgement can be
/// written at first, and records are accepted again.
#[test]
fn a_full_disk_takes_records_again_once_others_are_done() {
    let mut disk = Fake::default();
    disk.room = Some(5_000);
    let mut queue = Queue::open(disk, LIMITS).unwrap().0;
    let mut appended = 0;
    let full = loop {
        match queue.append(&payload(appended, 300), 0, 1, 0) {
            Ok(_) => appended += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, AppendError::Disk(_)), "{full}");
    assert!((10..16).contains(&appended), "{appended}");
    queue.sync().unwrap();
    // Another program uses the remaining space.
    queue.disk_mut().room = Some(0);
    let (mut queue, recovery) = Queue::open(queue.into_disk(), LIMITS).unwrap();
    assert_eq!((recovery.records, queue.take_damaged()), (appended, Sums::default()));
    assert!(matches!(queue.append(b"x", 0, 1, 0), Err(AppendError::Disk(_))));
    let used = queue.disk_mut().bytes();
    queue.disk_mut().room = Some(used);
    let mut first_freed = None;
    for serial in 0..appended {
        let entry = queue.read().unwrap().unwrap();
        assert_eq!(entry.payload, payload(serial, 300));
        let acked = queue.ack_through(entry.number);
        if queue.disk_mut().bytes() < used {
            first_freed.get_or_insert(serial);
        }
        assert_eq!(acked.is_ok(), first_freed.is_some(), "{serial}: {acked:?}");
    }
    assert!(first_freed.is_some_and(|serial| serial < 10), "{first_freed:?}");
    assert_eq!(queue.stats().records, 0);
    queue.disk_mut().room = Some(5_000);
    queue.append(b"again", 0, 1, 0).unwrap();
    queue.sync().unwrap();
    let (mut queue, recovery) = Queue::open(queue.into_disk(), LIMITS).unwrap();
    assert_eq!(recovery.records, 1, "what was acknowledged does not come back");
    assert_eq!(queue.read().unwrap().unwrap().payload, b"again");
}

/// Scenario: a real directory: records, a restart, a second process. Guarantee: all records exist
/// after the restart, and no two processes share a directory.
#[test]
fn a_folder_keeps_records_and_is_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("buffer");
    let mut queue = Queue::open(Folder::open(&path).unwrap(), LIMITS).unwrap().0;
    for serial in 0..30 {
        queue.append(&payload(serial, 400), serial, 1, 2).unwrap();
    }
    queue.sync().unwrap();
    assert!(matches!(Folder::open(&path), Err(FolderError::InUse { .. })));
    for serial in 0..10 {
        assert_eq!(queue.read().unwrap().unwrap().at_millis, serial);
    }
    queue.ack_through(9).unwrap();
    queue.sync().unwrap();
    drop(queue);
    let (mut queue, recovery) = Queue::open(Folder::open(&path).unwrap(), LIMITS).unwrap();
    assert_eq!((recovery.records, recovery.unreadable_bytes), (20, 0));
    for serial in 10..30 {
        let entry = queue.read().unwrap().unwrap();
        assert_eq!((entry.at_millis, entry.tag), (serial, 2));
        assert_eq!(entry.payload, payload(serial, 400));
    }
    assert_eq!(queue.read().unwrap(), None);
}

/// Scenario: each read of a header and its payload fails once in turn. Guarantee: the queue reports
/// the error, the same record comes next, and none is missing or damaged.
#[test]
fn a_record_that_could_not_be_read_comes_next() {
    // This disk reads one byte at a time: all of a header and its payload.
    for failing in 0..500 {
        let mut queue = Queue::open(Fake::default(), LIMITS).unwrap().0;
        for serial in 0..3 {
            queue.append(&payload(serial, 400), 0, 1, 0).unwrap();
        }
        queue.sync().unwrap();
        queue.disk_mut().fault = Some(Fault::Read(failing));
        let mut errors = 0;
        for serial in 0..3 {
            let entry = match queue.read() {
                Ok(entry) => entry,
                Err(_) => {
                    errors += 1;
                    queue.read().unwrap()
                }
            };
            assert_eq!(entry.unwrap().payload, payload(serial, 400), "read {failing}");
        }
        assert_eq!(errors, 1, "read {failing}");
        queue.ack_through(2).unwrap();
        let (left, damaged) = (queue.stats().records, queue.take_damaged());
        assert_eq!((left, damaged), (0, Sums::default()), "read {failing}");
    }
}
