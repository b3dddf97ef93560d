//! Defines positions in a file: an offset, and which later lines are in records already.

use serde::{Deserialize, Serialize};

/// Streams that may be mixed in one file: a container's two, and lines of neither.
pub const STREAMS: usize = 3;

/// The position from which a file is read on.
///
/// Records of different streams overlap. An offset alone would repeat the other stream's records,
/// without their beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// The start of the first line that isn't in a record.
    pub offset: u64,
    /// Lines that start before these offsets are in records, by stream.
    pub written: [u64; STREAMS],
}

impl Position {
    /// Everything before `offset` is in records, nothing after it.
    #[must_use]
    pub const fn from_offset(offset: u64) -> Self {
        Self { offset, written: [offset; STREAMS] }
    }

    /// A line continues at `offset`, and its remainder isn't read.
    #[must_use]
    pub const fn within_line(offset: u64) -> Self {
        Self { offset, written: [offset + 1; STREAMS] }
    }

    /// Converts it for a document, which omits values that follow from the offset.
    pub(crate) fn to_record(self) -> PositionRecord {
        let written = (self != Self::from_offset(self.offset)).then_some(self.written);
        PositionRecord { offset: self.offset, written }
    }
}

/// A position in a document.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct PositionRecord {
    #[serde(rename = "o")]
    offset: u64,
    /// Releases without this field read on from the offset, which loses nothing.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    written: Option<[u64; STREAMS]>,
}

impl From<PositionRecord> for Position {
    fn from(noted: PositionRecord) -> Self {
        let PositionRecord { offset, written } = noted;
        Self { offset, written: written.unwrap_or([offset; STREAMS]) }
    }
}
