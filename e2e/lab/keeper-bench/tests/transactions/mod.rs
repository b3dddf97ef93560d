//! ZooKeeper's transaction log, read: what the server did, by kind, whoever says what was asked.
//!
//! A log is a header of 16 bytes and records: a checksum, the length, a transaction's header and
//! body, and an end mark; zeros follow (`FileTxnLog` of ZooKeeper 3.9). Checksums are not compared.

use std::fs;
use std::path::Path;

const MAGIC: &[u8] = b"ZKLG";
const HEADER_BYTES: usize = 16;
/// Session, its request's number, the transaction's, the time, the kind.
const TRANSACTION_HEADER_BYTES: usize = 8 + 4 + 8 + 8 + 4;

/// Transactions by kind. Starts and ends of sessions are left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Transactions {
    pub(crate) creates: u64,
    pub(crate) deletes: u64,
    pub(crate) sets: u64,
    pub(crate) multis: u64,
    /// What was refused, alone or as a whole multi.
    pub(crate) refused: u64,
    pub(crate) creates_in_multis: u64,
    pub(crate) deletes_in_multis: u64,
    pub(crate) sets_in_multis: u64,
}

impl Transactions {
    /// All that a server wrote below its data directory.
    pub(crate) fn of(data_dir: &Path) -> Self {
        let mut all = Self::default();
        for entry in fs::read_dir(data_dir.join("version-2")).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().starts_with("log.") {
                all.read(&fs::read(&path).unwrap());
            }
        }
        all
    }

    pub(crate) fn writes(&self) -> u64 {
        self.creates + self.deletes + self.sets + self.multis + self.refused
    }

    fn read(&mut self, log: &[u8]) {
        assert_eq!(log.get(..4), Some(MAGIC));
        let mut rest = &log[HEADER_BYTES..];
        while let Some((head, after)) = rest.split_at_checked(12) {
            let length = number(&head[8..]);
            if length <= 0 {
                break;
            }
            let (record, after) = after.split_at(usize::try_from(length).unwrap());
            assert_eq!(after.first(), Some(&b'B'), "a record without its end");
            self.add(record);
            rest = &after[1..];
        }
    }

    fn add(&mut self, record: &[u8]) {
        let (header, body) = record.split_at(TRANSACTION_HEADER_BYTES);
        match number(&header[TRANSACTION_HEADER_BYTES - 4..]) {
            1 | 15 => self.creates += 1,
            2 => self.deletes += 1,
            5 => self.sets += 1,
            14 => self.add_multi(body),
            -1 => self.refused += 1,
            // A session starts or ends.
            -10 | -11 => {}
            other => panic!("a transaction of kind {other}"),
        }
    }

    fn add_multi(&mut self, body: &[u8]) {
        let (count, mut rest) = body.split_at(4);
        let parts = (0..number(count)).map(|_| {
            let kind = number(&rest[..4]);
            let length = usize::try_from(number(&rest[4..8])).unwrap();
            rest = &rest[8 + length..];
            kind
        });
        let parts: Vec<i32> = parts.collect();
        if parts.contains(&-1) {
            self.refused += 1;
            return;
        }
        let of = |kinds: &[i32]| parts.iter().filter(|kind| kinds.contains(kind)).count() as u64;
        self.multis += 1;
        self.creates_in_multis += of(&[1, 15]);
        self.deletes_in_multis += of(&[2]);
        self.sets_in_multis += of(&[5]);
    }
}

fn number(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(bytes[..4].try_into().unwrap())
}
