//! A queue of 100 GiB, of sparse files.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use millrace_buffer::frame::{AppendTotals, FrameHeader, FrameKind};
use millrace_buffer::{Folder, Queue, QueueLimits};

const MAX_BYTES: u64 = 100 << 30;
const SEGMENTS: u64 = 1_000;
/// The count of each record.
const COUNT: u32 = 1_000_000;

/// Writes segments as a queue does: a head, and one record whose payload is a hole.
fn write_segments(path: &Path, segment_bytes: u64) {
    for index in 0..SEGMENTS {
        let totals =
            AppendTotals { next_number: index, records: index, count: index * u64::from(COUNT) };
        let payload: &[u8] = if index == 0 { b"first" } else { &[] };
        let header = FrameHeader {
            kind: FrameKind::Record,
            number: index,
            at_millis: 7,
            count: COUNT,
            tag: 1,
            payload_bytes: if index == 0 { 5 } else { (segment_bytes - 104) as u32 },
            // The test doesn't read the holes.
            payload_crc: crc32c::crc32c(payload),
        };
        let mut file = File::create(path.join(format!("{:020}.segment", index + 1))).unwrap();
        file.write_all(&totals.head_frame(0)).unwrap();
        file.write_all(&header.encode()).unwrap();
        file.write_all(payload).unwrap();
        if index > 0 {
            file.set_len(segment_bytes).unwrap();
        }
    }
}

fn open_files(path: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|link| fs::read_link(link.ok()?.path()).ok());
    links.filter(|link| link.starts_with(path)).count()
}

fn resident_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Scenario: a queue of 100 GiB on disk with a billion items. Guarantee: it opens in seconds, with
/// a handful of open files and without memory for its content; it reports its size, returns the
/// first record, accepts another, and reports the same after the next start.
#[test]
fn a_queue_of_100_gib_opens_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let limits = QueueLimits::from_max_bytes(MAX_BYTES);
    assert_eq!(limits.segment_bytes, MAX_BYTES / 1024);
    write_segments(&path, limits.segment_bytes);
    for start in 0..2 {
        let (before, began) = (resident_bytes(), Instant::now());
        let (mut queue, recovery) = Queue::open(Folder::open(&path).unwrap(), limits).unwrap();
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        // Other tests run in the same process.
        assert!(resident_bytes().saturating_sub(before) < 32 << 20);
        // The directory and its lock are open too.
        assert!(open_files(&path) <= 6, "{} files are open", open_files(&path));
        let stats = queue.stats();
        assert_eq!(recovery.records, SEGMENTS);
        assert_eq!(stats.records, SEGMENTS);
        assert_eq!(stats.count, (SEGMENTS - 1) * u64::from(COUNT) + [u64::from(COUNT), 3][start]);
        assert!(stats.file_bytes > 97 << 30, "{stats:?}");
        if start == 0 {
            let first = queue.read().unwrap().unwrap();
            assert_eq!((first.number, first.payload.as_slice()), (0, &b"first"[..]));
            queue.ack_through(0).unwrap();
            assert_eq!(queue.append(b"last", 8, 3, 1).unwrap(), SEGMENTS);
            queue.sync().unwrap();
        }
    }
}
