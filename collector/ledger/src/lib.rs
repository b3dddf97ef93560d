//! Which Kafka offsets are done: the only place that may say what is committed.
//!
//! A worker cuts the messages of a partition into batches; each batch is a range of offsets. The
//! ledger notes the range, hears which parts of it were stored (inserts, dead letters), and says
//! up to where everything is done. That point, and nothing else, is committed.
//!
//! What it does not do: no client, no clock, no thread, no logging. Callers bring events, it
//! answers with values. That keeps it small enough to be compared, action by action, with a naive
//! twin (`tests/twin.rs`).
//!
//! Rules it keeps:
//! - The commit point is the lowest offset that isn't done, or the one after the highest done.
//! - An assignment has a [`Generation`]. Answers and revocations that carry an older one change
//!   nothing.
//! - At most [`MAX_OPEN_RANGES`] ranges of a partition are open at once.

mod book;
mod intent;
mod partition;
mod range;

pub use book::{Commit, Ledger, Revoked, Rewound, Ticket};
pub use intent::{
    Apart, Cut, Intent, IntentError, MAX_METADATA_BYTES, MAX_OPEN_RANGES, PartName, decode, encode,
};
pub use partition::{Settled, Snapshot, TrackError};
pub use range::{Generation, OffsetRange, RangeError};
