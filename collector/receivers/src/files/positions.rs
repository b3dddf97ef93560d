//! Where it is kept how far files, or the kernel's log, are read: a document and the one before it,
//! replaced whole.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use millrace_tail::{Recalled, Resort, recall};

const PRESENT: &str = "positions";
const PREVIOUS: &str = "positions.previous";
const NEXT: &str = "positions.next";
/// Locked while a process uses the directory; the kernel lets go of it with the process.
const LOCK: &str = "lock";

/// How long another process is waited for: a pod that is replaced drains for up to 40 s with what
/// the operator writes by default, and one that was deleted by force goes on as long.
pub(crate) const OTHER_MAX: Duration = Duration::from_secs(60);

/// How often the lock is tried meanwhile.
const TRY_INTERVAL: Duration = Duration::from_millis(100);

/// The most bytes of a document that are read: 64 MiB, some 300,000 files.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

/// The directory of the documents.
#[derive(Debug)]
pub(crate) struct Positions {
    folder: PathBuf,
    /// The present document can't be read: it must not replace the one before it.
    damaged: bool,
    _lock: File,
}

impl Positions {
    /// Waits for another process that uses the directory, until `patience` is over or
    /// `is_given_up`.
    pub(crate) fn open(
        folder: &Path,
        patience: Duration,
        is_given_up: impl Fn() -> bool,
    ) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let lock = File::create(folder.join(LOCK))?;
        let began = Instant::now();
        let mut is_announced = false;
        loop {
            match lock.try_lock() {
                Ok(()) => {
                    return Ok(Self { folder: folder.to_owned(), damaged: false, _lock: lock });
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if began.elapsed() >= patience || is_given_up() {
                let text = "another process uses them, and would send each line too: end it, or \
                            give this one a directory of its own";
                return Err(io::Error::new(ErrorKind::WouldBlock, text));
            }
            if !is_announced {
                let (directory, wait_seconds) = (folder.display(), patience.as_secs());
                tracing::warn!(%directory, wait_seconds, "waiting for another process to end");
                is_announced = true;
            }
            thread::sleep(TRY_INTERVAL);
        }
    }

    pub(super) fn recall(&mut self) -> io::Result<(Recalled, Option<Resort>)> {
        let [present, previous] = self.documents()?;
        let (recalled, resort) = recall(present.as_deref(), previous.as_deref());
        if resort.is_some() {
            self.present_is_damaged();
        }
        Ok((recalled, resort))
    }

    /// The present document and the one before it, as far as they are there.
    pub(crate) fn documents(&self) -> io::Result<[Option<Vec<u8>>; 2]> {
        Ok([self.read(PRESENT)?, self.read(PREVIOUS)?])
    }

    /// The present document can't be used: it doesn't replace the one before it.
    pub(crate) fn present_is_damaged(&mut self) {
        self.damaged = true;
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.folder.join(name);
        match fs::metadata(&path) {
            // Not ours: taken for a damaged one.
            Ok(found) if found.len() > DOCUMENT_BYTES_MAX => Ok(Some(Vec::new())),
            Ok(_) => fs::read(path).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the document: whoever reads at any moment, or after a crash, finds a whole one.
    pub(crate) fn write(&mut self, document: &[u8]) -> io::Result<()> {
        let path = |name: &str| self.folder.join(name);
        let mut next = File::create(path(NEXT))?;
        next.write_all(document)?;
        next.sync_all()?;
        if !self.damaged {
            match fs::rename(path(PRESENT), path(PREVIOUS)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(path(NEXT), path(PRESENT))?;
        self.damaged = false;
        File::open(&self.folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Scenario: a second process opens the positions that one uses, and waits for none, then until
    /// it is told to stop; a third waits, and the first ends. Guarantee: the second is refused and
    /// told why; the third is let in.
    #[test]
    fn positions_have_one_user_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = Positions::open(folder.path(), Duration::ZERO, || false).unwrap();
        for (patience, is_stopping) in [(Duration::ZERO, false), (OTHER_MAX, true)] {
            let refused = Positions::open(folder.path(), patience, || is_stopping).unwrap_err();
            assert!(refused.to_string().contains("another process uses them"), "{refused}");
        }
        let looks = Cell::new(0);
        let first = Cell::new(Some(first));
        let lets_go = || {
            looks.set(looks.get() + 1);
            drop(first.take());
            false
        };
        Positions::open(folder.path(), OTHER_MAX, lets_go).unwrap();
        assert_eq!(looks.get(), 1, "it was let in before the first had ended");
    }
}
