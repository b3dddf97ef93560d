//! From OTLP bytes to bodies of ClickHouse inserts: Native blocks (as servers expect them over
//! HTTP, protocol revision 0) in LZ4 frames, with no message tree in between.
//!
//! [`BlockSet`] is the whole interface: append requests, ask how much is in, take the inserts.
//! One insert holds rows of one table and one partition (day), so that a deduplication token never
//! covers several partitions, at most [`INSERT_ROWS`], and about [`INSERT_BYTES`] as they are
//! written.
//!
//! ```
//! # use millrace_columns::{BlockSet, Compression, Options};
//! # use millrace_wire::Signal;
//! # let request: &[u8] = &[];
//! let mut blocks = BlockSet::new(Signal::Traces, &Options::default());
//! // All of the request's records, or none and the reason.
//! let appended = blocks.append(request)?;
//! assert_eq!(appended.rows, 0);
//! // Sorted by table and day; the set is empty afterwards.
//! for insert in blocks.take(Compression::Lz4) {
//!     // Send insert.body with an insert of FORMAT Native and decompress=1.
//! #   let _ = insert;
//! }
//! # Ok::<(), millrace_columns::AppendError>(())
//! ```
//!
//! # What is stored
//! Names, types and spellings are those of the OpenTelemetry Collector's ClickHouse exporter
//! (`SpanKind` is `Server`, `StatusCode` is `Unset`/`Ok`/`Error`; unknown numbers are empty); ids
//! are lower-case hex, an id of zeros is empty; times past 2262 are stored as the last instant that
//! `DateTime64(9)` holds; `Duration` of a span that ends before it starts is 0.
//!
//! Attribute values in the JSON variant:
//! - text, integers, doubles and truth values are `String`, `Int64`, `Float64` and `Bool`; bytes
//!   are a `String` of standard base64;
//! - arrays of one of those types are `Array(Nullable(T))`; arrays of several types, or with arrays
//!   or lists in them, are `Array(Dynamic)`, the inner arrays and lists as JSON text;
//! - a key-value list becomes one path per member, joined by dots, down to
//!   [`Options::nested_depth`]; deeper lists are JSON text; an empty list and an empty value store
//!   nothing;
//! - a key is a path as it is: dots in it are not escaped, so `a.b` and `a` holding `b` are one
//!   path; an empty key is the path with the empty name;
//! - of two values for one path in one row the last wins;
//! - bytes that aren't UTF-8 are kept as they are.
//!
//! In the Map variant every value is text: doubles as the Collector writes them (`2`, `1e+21`,
//! `NaN`, `+Inf`), bytes as base64, arrays and lists as JSON text, an empty value as empty text;
//! keys that occur twice are both kept.
//!
//! No clock, no I/O; all memory is in buffers that are reused.

mod append;
mod block;
mod body;
mod bytes;
mod column;
mod day;
mod frame;
mod group;
mod hex;
mod logs;
mod metrics;
mod options;
mod partitions;
mod reuse;
mod set;
mod shape;
mod text;
mod traces;

pub use append::{AppendError, Appended, AppendedGroups, MAX_DAYS};
pub use body::Compression;
pub use day::Day;
pub use frame::{FRAME_BYTES, checksum};
pub use options::{INSERT_BYTES, INSERT_ROWS, Options};
pub use partitions::Insert;
pub use set::BlockSet;
