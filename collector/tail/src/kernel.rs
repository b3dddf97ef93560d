//! How far the kernel's log is read: the boot's id and the next record's number. A state machine
//! without clock and I/O.
//!
//! Reading begins with the oldest record. Records on record are skipped. A missing number is a
//! record overwritten unread, and counted.
//!
//! Limits: what an earlier boot wrote after the last read, and what was overwritten before the
//! first start, has no known number and isn't counted.

use serde::{Deserialize, Serialize};

use crate::checkpoint::{CheckpointError, Newest, content, newest, seal, unseal};

/// The first word of a document.
const NAME: &str = "millrace-kernel-position";

/// How far the log is on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelPosition {
    /// The boot's id.
    pub boot: String,
    /// The number of the first record not on record.
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

/// What happens when the position can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelResort {
    /// The previous document is used.
    #[error(
        "the position in the kernel's log can't be read: {0}; the one written before it is used: \
         what was read since is sent again, nothing is skipped"
    )]
    Previous(CheckpointError),
    /// No document can be read.
    #[error(
        "the position in the kernel's log can't be read: {0}; no earlier one can be either: \
         reading begins with the oldest record that the kernel has: what was sent before is sent \
         again, nothing is skipped; what was overwritten meanwhile can't be counted"
    )]
    Oldest(CheckpointError),
}

/// Reads the newest document that is whole, and says what was wrong with the present one.
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
    /// With the oldest record: the recorded boot is another.
    AnotherBoot,
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// On record, or read before.
    Known,
    /// To be taken.
    New {
        /// Records before it that were overwritten unread.
        lost: u64,
    },
}

/// How far the log of this boot is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelLog {
    boot: String,
    /// The number after the last record taken. None before the first.
    next: Option<u64>,
    /// Records are skipped until one wasn't read.
    is_resuming: bool,
}

impl KernelLog {
    /// Starts in this boot, with what is on record.
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
            // The record just before the next proves that the position is of this log.
            self.is_resuming = following != next;
            return Met::Known;
        }
        self.is_resuming = false;
        // The kernel never goes back: such a record is taken, nothing is skipped.
        self.next = Some(following);
        Met::New { lost: sequence.saturating_sub(next) }
    }

    /// A record without a number was taken. It counts as the next one.
    pub fn met_unnumbered(&mut self) {
        if !self.is_resuming {
            self.next = self.next.map(|next| next.saturating_add(1));
        }
    }

    /// The log was read to its end. False if all of it lies before the position, which is then of
    /// another log: reopened, it is read from its oldest record.
    pub fn drained(&mut self) -> bool {
        if !self.is_resuming {
            return true;
        }
        (self.next, self.is_resuming) = (None, false);
        false
    }

    /// The log is opened again, from its oldest record.
    pub fn reopened(&mut self) {
        self.is_resuming = self.next.is_some_and(|next| next > 0);
    }

    /// The position after what was taken.
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
