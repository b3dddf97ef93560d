//! OTLP as bytes: checking, counting, cutting and reading requests in place, without building a
//! tree of messages; and the one place in the tree with raw decompressors.
//!
//! - [`otlp::check`] walks a whole request and says whether it is well-formed, how many records it
//!   holds, or where it is broken;
//! - [`otlp::split`] cuts a request at record boundaries;
//! - the views in [`otlp`] read spans, log records and metric points where they lie;
//! - [`framing`] reads how a request is announced and framed;
//! - [`decompress`] undoes gzip and zstd under a cap.
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
