//! Tracks how far the kernel's log is read: the boot's id and the next record's number. A state
//! machine without clock and I/O.
//!
//! Reading begins with the oldest record. Records on record are skipped. A missing number is a
//! record that was overwritten unread, and counted.
//!
//! Limits: records that an earlier boot wrote after the last read, or that were overwritten before
//! the first start, have no known number and aren't counted.

use serde::{Deserialize, Serialize};

use crate::checkpoint::{
    CheckpointError, NewestDocument, parse_content, read_newest, seal_document, unseal_document,
};

/// The first word of a document.
const NAME: &str = "millrace-kernel-position";

/// The recorded position in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelPosition {
    /// The boot's id.
    pub boot: String,
    /// The number of the first record that isn't on record.
    pub next: u64,
}

impl KernelPosition {
    /// Converts the position to a document.
    #[must_use]
    pub fn to_document(&self) -> Vec<u8> {
        seal_document(NAME, self)
    }

    fn read(document: &[u8]) -> Result<Self, CheckpointError> {
        parse_content(unseal_document(NAME, document)?)
    }
}

/// What is used if the position can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelFallback {
    /// The previous document.
    #[error(
        "the position in the kernel log can't be read: {0}; the previous one is used: records read \
         since then are sent again, none is skipped"
    )]
    Previous(CheckpointError),
    /// No document can be read.
    #[error(
        "the position in the kernel log can't be read: {0}; there is no readable previous one: \
         reading starts at the oldest record that the kernel has: records already sent are sent \
         again, none is skipped; records overwritten in the meantime can't be counted"
    )]
    Oldest(CheckpointError),
}

/// Reads the newest complete document, and returns the present one's error, if any.
#[must_use]
pub fn load_kernel_position(
    present: Option<&[u8]>,
    previous: Option<&[u8]>,
) -> (Option<KernelPosition>, Option<KernelFallback>) {
    match read_newest(present, previous, KernelPosition::read) {
        NewestDocument::Present(position) => (Some(position), None),
        NewestDocument::Previous(position, error) => {
            (Some(position), error.map(KernelFallback::Previous))
        }
        NewestDocument::Unreadable(error) => (None, Some(KernelFallback::Oldest(error))),
        NewestDocument::Absent => (None, None),
    }
}

/// Where reading begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelStart {
    /// At the oldest record: nothing is on record.
    Oldest,
    /// At this number.
    At(u64),
    /// At the oldest record: the position is of another boot.
    AnotherBoot,
}

/// Whether a record is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordStatus {
    /// It is on record, or was read before.
    Known,
    /// It must be accepted.
    New {
        /// Records before it that were overwritten unread.
        lost: u64,
    },
}

/// The position in the log of this boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelLog {
    boot: String,
    /// The number after the last accepted record. None before the first.
    next: Option<u64>,
    /// Records are skipped until the first unread one.
    is_resuming: bool,
}

impl KernelLog {
    /// Starts in this boot, with the recorded position.
    #[must_use]
    pub fn new(boot: &str, recalled: Option<KernelPosition>) -> (Self, KernelStart) {
        let (next, begins) = match recalled {
            None => (None, KernelStart::Oldest),
            Some(position) if position.boot == boot => {
                (Some(position.next), KernelStart::At(position.next))
            }
            // All records of this boot are unread.
            Some(_) => (Some(0), KernelStart::AnotherBoot),
        };
        let is_resuming = matches!(begins, KernelStart::At(_));
        (Self { boot: boot.to_owned(), next, is_resuming }, begins)
    }

    /// Classifies a record that was read.
    pub fn observe_record(&mut self, sequence: u64) -> RecordStatus {
        let following = sequence.saturating_add(1);
        let Some(next) = self.next else {
            self.next = Some(following);
            return RecordStatus::New { lost: 0 };
        };
        if self.is_resuming && sequence < next {
            // The record just before the next proves that the position is of this log.
            self.is_resuming = following != next;
            return RecordStatus::Known;
        }
        self.is_resuming = false;
        // The kernel never goes back: such a record is accepted, so that nothing is skipped.
        self.next = Some(following);
        RecordStatus::New { lost: sequence.saturating_sub(next) }
    }

    /// Records that a record without a number was accepted. It counts as the next one.
    pub fn observe_unnumbered(&mut self) {
        if !self.is_resuming {
            self.next = self.next.map(|next| next.saturating_add(1));
        }
    }

    /// Handles the end of the log. Returns false if all of it is before the position, which then
    /// belongs to another log: after reopening, it is read from its oldest record.
    pub fn handle_end(&mut self) -> bool {
        if !self.is_resuming {
            return true;
        }
        (self.next, self.is_resuming) = (None, false);
        false
    }

    /// Prepares for reading the reopened log from its oldest record.
    pub fn handle_reopen(&mut self) {
        self.is_resuming = self.next.is_some_and(|next| next > 0);
    }

    /// The position after the last accepted record.
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
mod tests;
