//! How far a file is in records: an offset, and which lines behind it are in records already.

use serde::{Deserialize, Serialize};

/// Streams that may be mixed in one file: a container's two, and lines of neither.
pub const STREAMS: usize = 3;

/// From where a file is read on.
///
/// Records of different streams overlap. An offset alone would repeat the other stream's records,
/// without their beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// The start of the first line that isn't in a record.
    pub offset: u64,
    /// Lines that start before these are in records, by stream.
    pub written: [u64; STREAMS],
}

impl Position {
    /// Everything before `offset` is in records, nothing behind it.
    #[must_use]
    pub const fn at(offset: u64) -> Self {
        Self { offset, written: [offset; STREAMS] }
    }

    /// A line goes on at `offset`, and its rest isn't read.
    #[must_use]
    pub const fn within_line(offset: u64) -> Self {
        Self { offset, written: [offset + 1; STREAMS] }
    }

    /// For a document, which leaves out what follows from the offset.
    pub(crate) fn noted(self) -> Noted {
        let written = (self != Self::at(self.offset)).then_some(self.written);
        Noted { offset: self.offset, written }
    }
}

/// A position in a document.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Noted {
    #[serde(rename = "o")]
    offset: u64,
    /// Releases without it read on from the offset, which loses nothing.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    written: Option<[u64; STREAMS]>,
}

impl From<Noted> for Position {
    fn from(noted: Noted) -> Self {
        let Noted { offset, written } = noted;
        Self { offset, written: written.unwrap_or([offset; STREAMS]) }
    }
}
