//! Stores the positions in files, or in the kernel's log: the present document and the previous
//! one, each replaced atomically.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use millrace_tail::{PositionFallback, RecordedPositions, load_positions};

const PRESENT: &str = "positions";
const PREVIOUS: &str = "positions.previous";
const NEXT: &str = "positions.next";
/// Locked while a process uses the directory; the kernel releases it when the process ends.
const LOCK: &str = "lock";

/// How long to wait for another process: a replaced pod drains for up to 40 s with the operator's
/// defaults, and a pod deleted by force runs as long.
pub const OTHER_PROCESS_WAIT_MAX: Duration = Duration::from_secs(60);

/// How often the lock is tried in that time.
const TRY_INTERVAL: Duration = Duration::from_millis(100);

/// The maximum bytes of a document: 64 MiB, some 300,000 files.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

/// The directory of the documents.
#[derive(Debug)]
pub struct Positions {
    folder: PathBuf,
    /// The present document is damaged and must not replace the previous one.
    damaged: bool,
    _lock: File,
}

impl Positions {
    /// Waits for another process that uses the directory, until `patience` is over or
    /// `is_cancelled` returns true.
    pub fn open_directory(
        folder: &Path,
        patience: Duration,
        is_cancelled: impl Fn() -> bool,
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
            if began.elapsed() >= patience || is_cancelled() {
                let text = "another process uses this directory, and would send each line too: \
                            stop it, or set a separate directory for each process";
                return Err(io::Error::new(ErrorKind::WouldBlock, text));
            }
            if !is_announced {
                let (directory, wait_seconds) = (folder.display(), patience.as_secs());
                tracing::warn!(%directory, wait_seconds,
                    "waiting for another process to release the positions directory");
                is_announced = true;
            }
            thread::sleep(TRY_INTERVAL);
        }
    }

    pub(super) fn load_positions(
        &mut self,
    ) -> io::Result<(RecordedPositions, Option<PositionFallback>)> {
        let [present, previous] = self.read_documents()?;
        let (recalled, resort) = load_positions(present.as_deref(), previous.as_deref());
        if resort.is_some() {
            self.mark_damaged();
        }
        Ok((recalled, resort))
    }

    /// Reads the present and the previous document, as far as they exist.
    pub fn read_documents(&self) -> io::Result<[Option<Vec<u8>>; 2]> {
        Ok([self.read(PRESENT)?, self.read(PREVIOUS)?])
    }

    /// Marks the present document as damaged, so that it doesn't replace the previous one.
    pub fn mark_damaged(&mut self) {
        self.damaged = true;
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.folder.join(name);
        match fs::metadata(&path) {
            // The collector writes none so large: treated as damaged.
            Ok(found) if found.len() > DOCUMENT_BYTES_MAX => Ok(Some(Vec::new())),
            Ok(_) => fs::read(path).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the document atomically: a reader at any moment, or after a crash, finds a complete
    /// one.
    pub fn write(&mut self, document: &[u8]) -> io::Result<()> {
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

    /// Scenario: a second process opens positions in use, and gives up at once, then because of a
    /// drain; a third waits, and the first ends. Guarantee: the second is refused with the reason;
    /// the third gets the positions.
    #[test]
    fn positions_have_one_user_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = Positions::open_directory(folder.path(), Duration::ZERO, || false).unwrap();
        for (patience, is_stopping) in [(Duration::ZERO, false), (OTHER_PROCESS_WAIT_MAX, true)] {
            let refused =
                Positions::open_directory(folder.path(), patience, || is_stopping).unwrap_err();
            assert!(
                refused.to_string().contains("another process uses this directory"),
                "{refused}"
            );
        }
        let looks = Cell::new(0);
        let first = Cell::new(Some(first));
        let lets_go = || {
            looks.set(looks.get() + 1);
            drop(first.take());
            false
        };
        Positions::open_directory(folder.path(), OTHER_PROCESS_WAIT_MAX, lets_go).unwrap();
        assert_eq!(looks.get(), 1, "it was let in before the first had ended");
    }
}
