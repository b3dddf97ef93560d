//! How far the kernel's log is read: the boot, and the number of the next record; a state machine.
//!
//! Whoever opens the log gets its oldest record first. What was sent before is passed by; a number
//! that is missing is a record that was overwritten, and counted. No clock, no I/O.
//!
//! Limits: what a boot wrote after it was last read, and what was overwritten before the first
//! start, can't be counted: nobody knows the numbers.

use serde::{Deserialize, Serialize};

use crate::checkpoint::{CheckpointError, Newest, content, newest, seal, unseal};

/// The first word of a document.
const NAME: &str = "millrace-kernel-position";

/// How far the log is on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelPosition {
    /// The boot's id.
    pub boot: String,
    /// The number of the first record that isn't on record.
    pub next: u64,
}

impl KernelPosition {
    /// The position as a document.
    #[must_use]
    pub fn document(&self) -> Vec<u8> {
        seal(NAME, self)
    }

    fn read(document: &[u8]) -> Result<Self, CheckpointError> {
        content(unseal(NAME, document)?)
    }
}

/// What is done since the position couldn't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelResort {
    /// The one before is used.
    #[error(
        "the position in the kernel's log can't be read: {0}; the one written before it is used: \
         what was read since is sent again, nothing is skipped"
    )]
    Previous(CheckpointError),
    /// There is none that can be read.
    #[error(
        "the position in the kernel's log can't be read: {0}; no earlier one can be either: \
         reading begins with the oldest record that the kernel has: what was sent before is sent \
         again, nothing is skipped; what was overwritten meanwhile can't be counted"
    )]
    Oldest(CheckpointError),
}

/// Reads the present document and the one before it, as far as they are there. Says what was wrong
/// if the present one can't be used.
#[must_use]
pub fn recall_kernel(
    present: Option<&[u8]>,
    previous: Option<&[u8]>,
) -> (Option<KernelPosition>, Option<KernelResort>) {
    match newest(present, previous, KernelPosition::read) {
        Newest::Present(position) => (Some(position), None),
        Newest::Previous(position, error) => (Some(position), error.map(KernelResort::Previous)),
        Newest::Unreadable(error) => (None, Some(KernelResort::Oldest(error))),
        Newest::Absent => (None, None),
    }
}

/// Where reading begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begins {
    /// With the oldest record: nothing is on record.
    Oldest,
    /// With this number.
    At(u64),
    /// With the oldest record of another boot than the one on record.
    AnotherBoot,
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// It is on record, or was read already.
    Known,
    /// It is to be taken. So many before it were overwritten unread.
    New {
        /// How many.
        lost: u64,
    },
}

/// How far the log of this boot is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelLog {
    boot: String,
    /// The number that follows the last record that was taken. None until there is one.
    next: Option<u64>,
    /// Records are passed by until there is one that wasn't read.
    is_resuming: bool,
}

impl KernelLog {
    /// Of this boot, with what is on record.
    #[must_use]
    pub fn new(boot: &str, recalled: Option<KernelPosition>) -> (Self, Begins) {
        let (next, begins) = match recalled {
            None => (None, Begins::Oldest),
            Some(position) if position.boot == boot => {
                (Some(position.next), Begins::At(position.next))
            }
            // All of this boot is unread, from its first record.
            Some(_) => (Some(0), Begins::AnotherBoot),
        };
        let is_resuming = matches!(begins, Begins::At(_));
        (Self { boot: boot.to_owned(), next, is_resuming }, begins)
    }

    /// A record was read.
    pub fn met(&mut self, sequence: u64) -> Met {
        let following = sequence.saturating_add(1);
        let Some(next) = self.next else {
            self.next = Some(following);
            return Met::New { lost: 0 };
        };
        if self.is_resuming && sequence < next {
            // The one before the next shows that the position is of this log.
            self.is_resuming = following != next;
            return Met::Known;
        }
        self.is_resuming = false;
        // A number that goes back is none of the kernel's: it is taken, nothing is skipped.
        self.next = Some(following);
        Met::New { lost: sequence.saturating_sub(next) }
    }

    /// A record without a number was taken: it has the next one.
    pub fn met_unnumbered(&mut self) {
        if !self.is_resuming {
            self.next = self.next.map(|next| next.saturating_add(1));
        }
    }

    /// The log was read to its end. False if all of it lies before the position, which can't be of
    /// this log then: everything is read from the oldest record once it is opened again.
    pub fn drained(&mut self) -> bool {
        if !self.is_resuming {
            return true;
        }
        (self.next, self.is_resuming) = (None, false);
        false
    }

    /// The log is opened again, which begins with its oldest record.
    pub fn reopened(&mut self) {
        self.is_resuming = self.next.is_some_and(|next| next > 0);
    }

    /// Behind what was taken, if anything was.
    #[must_use]
    pub fn position(&self) -> Option<KernelPosition> {
        self.next.map(|next| KernelPosition { boot: self.boot.clone(), next })
    }

    /// The boot's id.
    #[must_use]
    pub fn boot(&self) -> &str {
        &self.boot
    }
}

#[cfg(test)]
#[path = "../tests/unit/kernel.rs"]
mod tests;
