//! OTLP as bytes: checks, counts, cuts and reads requests in place, without building a tree of
//! messages; also the only raw decompressors in the repository.
//!
//! - [`otlp::check`] walks a complete request and returns its number of records, or the position of
//!   its fault;
//! - [`otlp::split`] cuts a request at record boundaries;
//! - the views in [`otlp`] read spans, log records and metric points in place;
//! - [`framing`] reads how a request is announced and framed;
//! - [`decompress`] decompresses gzip and zstd with a limit.
//!
//! Nothing here has a clock, does I/O, or allocates in proportion to a count found in the input.

pub mod decompress;
mod error;
pub mod framing;
pub mod limits;
pub mod otlp;
pub mod protobuf;
mod signal;

pub use error::{WireError, WireErrorKind};
pub use signal::{Signal, UnknownSignal};
