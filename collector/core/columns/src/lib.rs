//! Turns OTLP bytes into bodies of ClickHouse inserts: Native blocks (as servers expect them over
//! HTTP, protocol revision 0) in LZ4 frames, without a message tree in between.
//!
//! [`BlockSet`] is the complete interface: append requests, read their size, take the inserts. One
//! insert has rows of one table and one partition (day), so that a deduplication token never covers
//! several partitions. It has at most [`INSERT_ROWS`], and about [`INSERT_BYTES`] of written size.
//!
//! ```
//! # use millrace_columns::{BlockSet, BodyCompression, Options};
//! # use millrace_wire::Signal;
//! # let request: &[u8] = &[];
//! let mut blocks = BlockSet::new(Signal::Traces, &Options::default());
//! // All of the request's records, or none and the reason.
//! let appended = blocks.append(request)?;
//! assert_eq!(appended.rows, 0);
//! // Sorted by table and day; the set is empty afterwards.
//! for insert in blocks.take_inserts(BodyCompression::Lz4) {
//!     // Send the pieces of insert.body with an insert of FORMAT Native and decompress=1.
//! #   let _ = insert;
//! }
//! # Ok::<(), millrace_columns::AppendError>(())
//! ```
//!
//! `docs/signals.md` lists how each value is stored, odd ones included.
//!
//! No clock, no I/O; all memory is in buffers that are reused.

mod block;
mod body;
mod column;
mod day;
mod format;
mod frame;
mod options;
mod partitions;
mod reuse;
mod rows;
mod set;
mod shape;
mod typed;

pub use body::BodyCompression;
pub use day::Day;
pub use frame::{ACCELERATION, FRAME_BYTES, frame_checksum};
pub use options::{INSERT_BYTES, INSERT_ROWS, Options};
pub use partitions::Insert;
pub use rows::append::{AppendError, AppendSummary, GroupAppendSummary, MAX_DAYS};
pub use set::BlockSet;
pub use typed::TypedColumn;
