//! Decides which Kafka offsets are done. No other code decides what is committed.
//!
//! A worker cuts the messages of a partition into batches; each batch is a range of offsets. The
//! ledger tracks the range, receives answers for its parts (inserts, dead letters), and returns the
//! point below which everything is done. Only that point is committed.
//!
//! The ledger has no client, clock, thread or log: callers pass events and get values. It is
//! therefore small enough to be compared, action by action, with a naive twin (`tests/twin.rs`).
//!
//! Rules:
//! - The commit point is the lowest offset that isn't done, or the one after the highest done.
//! - An assignment has a [`Generation`]. Answers that carry an older one change nothing.
//! - A batch of which parts were refused for their rows is divided, and read again in pieces.
//! - At most [`MAX_OPEN_RANGES`] ranges of a partition are open at once.

mod book;
mod commit;
mod division;
mod intent;
mod partition;
mod range;

pub use book::{Ledger, Ticket};
pub use commit::Commit;
pub use division::{Division, MAX_REFUSED_PARTS, PartName, RefusedParts};
pub use intent::{
    Cut, Intent, IntentError, MAX_METADATA_BYTES, MAX_OPEN_RANGES, Promises, decode_metadata,
    encode_metadata,
};
pub use partition::{AckOutcome, TrackError};
pub use range::{Generation, OffsetRange, RangeError};
