//! A disk in memory that loses what a real one may lose.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;

use millrace_buffer::Disk;

/// The system's number of an input/output error.
pub const EIO: i32 = 5;

/// The next fault.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// An append writes this percentage of its bytes, then fails.
    Append(u8),
    /// The same, and the written bytes can't be truncated.
    AppendForGood(u8),
    /// A sync fails.
    Sync,
    /// A file can't be created.
    Create,
    /// A read fails after this many successes.
    Read(u32),
}

/// Files as a program sees them and as a crash would leave them.
#[derive(Debug, Default)]
pub struct Fake {
    now: BTreeMap<u64, Vec<u8>>,
    synced: BTreeMap<u64, Vec<u8>>,
    /// Names that survive any crash.
    names: BTreeSet<u64>,
    pub fault: Option<Fault>,
    /// The capacity of all files together; empty files cost nothing.
    pub room: Option<u64>,
    /// A file and its bytes that can't be read.
    pub unreadable: Option<(u64, Range<usize>)>,
    /// A file that can't be opened, and the system's number of the error.
    pub unopenable: Option<(u64, i32)>,
    /// Files that were set aside.
    pub set_aside: BTreeMap<u64, Vec<u8>>,
    random: u64,
}

impl Fake {
    /// Simulates a power failure. Any part of the unsynced data may remain: created or removed
    /// files, a torn end, an end of zeros or other bytes.
    pub fn crash(&mut self, seed: u64) {
        self.random = seed | 1;
        let all: BTreeSet<u64> = self.now.keys().copied().chain(self.names.clone()).collect();
        let mut left = BTreeMap::new();
        for file in all {
            let (is, was) = (self.now.contains_key(&file), self.names.contains(&file));
            if is != was && self.chance(2) {
                continue;
            }
            let synced = self.synced.get(&file).cloned().unwrap_or_default();
            let now = self.now.get(&file).cloned().unwrap_or_else(|| synced.clone());
            left.insert(file, self.torn(synced, &now));
        }
        self.now.clone_from(&left);
        self.names = left.keys().copied().collect();
        self.synced = left;
        self.fault = None;
    }

    /// Flips one bit of all files.
    pub fn flip(&mut self, at: usize) {
        let total: usize = self.now.values().map(Vec::len).sum();
        let mut at = at % (total * 8).max(1);
        for bytes in self.now.values_mut() {
            if at < bytes.len() * 8 {
                bytes[at / 8] ^= 1 << (at % 8);
                return;
            }
            at -= bytes.len() * 8;
        }
    }

    pub fn bytes(&self) -> u64 {
        self.now.values().map(|bytes| bytes.len() as u64).sum()
    }

    fn torn(&mut self, synced: Vec<u8>, now: &[u8]) -> Vec<u8> {
        let Some(tail) = now.get(synced.len()..).filter(|tail| !tail.is_empty()) else {
            return synced;
        };
        let kept = self.next() as usize % (tail.len() + 1);
        let mut left = [&synced[..], &tail[..kept]].concat();
        // Blocks may reach the disk in any order, so one in the middle may be missing.
        if kept > 0 && self.chance(2) {
            let from = synced.len() + self.next() as usize % kept;
            let to = (from + 1 + self.next() as usize % 64).min(left.len());
            let byte = if self.chance(2) { 0 } else { self.next() as u8 };
            left[from..to].fill(byte);
        }
        left
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.next().is_multiple_of(one_in)
    }

    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 8
    }

    /// Fails as opening a file does.
    fn open(&self, file: u64) -> io::Result<()> {
        match self.unopenable {
            Some((bad, errno)) if bad == file => Err(io::Error::from_raw_os_error(errno)),
            _ => Ok(()),
        }
    }

    fn file(&mut self, file: u64) -> io::Result<&mut Vec<u8>> {
        self.now.get_mut(&file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for Fake {
    fn list_files(&mut self) -> io::Result<Vec<u64>> {
        Ok(self.now.keys().rev().copied().collect())
    }

    fn create_file(&mut self, file: u64) -> io::Result<()> {
        if matches!(self.fault, Some(Fault::Create)) {
            self.fault = None;
            return Err(io::ErrorKind::StorageFull.into());
        }
        assert!(self.now.insert(file, Vec::new()).is_none(), "file {file} was there");
        self.synced.remove(&file);
        Ok(())
    }

    fn append_bytes(&mut self, file: u64, bytes: &[u8]) -> io::Result<()> {
        let part = match self.fault {
            Some(Fault::Append(percent) | Fault::AppendForGood(percent)) => Some(percent),
            _ => None,
        };
        if matches!(self.fault, Some(Fault::Append(_))) {
            self.fault = None;
        }
        let written = part.map_or(bytes.len(), |part| bytes.len() * usize::from(part) / 101);
        let room = self.room.map_or(u64::MAX, |room| room.saturating_sub(self.bytes()));
        let written = written.min(usize::try_from(room).unwrap_or(usize::MAX));
        self.file(file)?.extend(&bytes[..written]);
        if written < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn truncate_file(&mut self, file: u64, length: u64) -> io::Result<()> {
        if matches!(self.fault, Some(Fault::AppendForGood(_))) {
            self.fault = None;
            return Err(io::ErrorKind::Other.into());
        }
        self.file(file)?.truncate(length as usize);
        Ok(())
    }

    fn file_length(&mut self, file: u64) -> io::Result<u64> {
        self.open(file)?;
        Ok(self.file(file)?.len() as u64)
    }

    fn read_at(&mut self, file: u64, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.open(file)?;
        match self.fault {
            Some(Fault::Read(0)) => {
                self.fault = None;
                return Err(io::ErrorKind::Other.into());
            }
            Some(Fault::Read(later)) => self.fault = Some(Fault::Read(later - 1)),
            _ => {}
        }
        let short = 1 + self.next() as usize % 100;
        let bytes = self.file(file)?.get(offset as usize..).unwrap_or_default();
        let read = bytes.len().min(into.len()).min(short);
        into[..read].copy_from_slice(&bytes[..read]);
        let from = offset as usize;
        let is_bad = |(bad, range): &(u64, Range<usize>)| {
            *bad == file && from < range.end && range.start < from + read
        };
        if self.unreadable.as_ref().is_some_and(is_bad) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(read)
    }

    fn sync_file(&mut self, file: u64) -> io::Result<()> {
        if matches!(self.fault, Some(Fault::Sync)) {
            self.fault = None;
            return Err(io::ErrorKind::Other.into());
        }
        let now = self.file(file)?.clone();
        self.synced.insert(file, now);
        Ok(())
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.names = self.now.keys().copied().collect();
        self.synced.retain(|file, _| self.now.contains_key(file));
        Ok(())
    }

    fn remove_file(&mut self, file: u64) -> io::Result<()> {
        self.now.remove(&file).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn set_aside_file(&mut self, file: u64) -> io::Result<()> {
        if self.unopenable == Some((file, EIO)) {
            // What names the file is damaged too.
            return self.open(file);
        }
        let bytes = self.now.remove(&file).ok_or(io::ErrorKind::NotFound)?;
        assert!(self.set_aside.insert(file, bytes).is_none(), "file {file} was set aside before");
        Ok(())
    }

    fn set_aside_bytes(&mut self) -> io::Result<u64> {
        Ok(self.set_aside.values().map(|bytes| bytes.len() as u64).sum())
    }
}
