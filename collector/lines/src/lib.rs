//! Bytes of log files as records: lines, container formats, records of several lines; written as
//! OTLP. Likewise records of the kernel's log ([`KernelRecord`]).
//!
//! A [`Reader`] takes a file's bytes in order and writes whole records into a [`Request`]
//! (`ExportLogsServiceRequest`), without a message tree and without an allocation per line. It has
//! no clock and does no I/O.
//!
//! # Rules
//! - A line ends with LF; a CR before it is not part of it. Other white space is kept as written.
//! - An empty line outside a record is no record, as in the OpenTelemetry Collector. An empty line
//!   that a container wrote is one, with an empty body: it has a time and a stream.
//! - A line longer than the limit is cut, marked by [`TRUNCATED`] and counted; its rest is passed
//!   over. Nobody has to keep it in memory. No character is cut in two.
//! - Container lines of one stream that belong together (`P ... P ... F`) are one line.
//! - Lines that are one record together are joined by LF. Empty lines at the beginning and end of
//!   such a record aren't kept. When a further line doesn't fit, the record is written as cut and
//!   the line begins another: nothing is lost. Streams don't mix.
//! - A container line without the container's format is a record of its own, as it stands, without
//!   time and stream, and counted.
//! - A plain file may have another [`Encoding`]. Each line is decoded by itself. The limit holds for
//!   its bytes in the file and for its text in UTF-8. Half of a surrogate pair, or of a UTF-16 unit
//!   at the file's end, is no text.
//! - OTLP's strings are UTF-8: each sequence of bytes that isn't is replaced by U+FFFD (so such a
//!   body may be up to three times as long as the limit), and the record is counted.
//! - Where a [`Parse`] is given, what a record's text says becomes its attributes, body, time and
//!   severity. A text that can't be read so is a record as without it, and counted by the reason.
//!   No field can set an attribute that the receiver writes (`log.file.path`, `log.iostream`,
//!   `k8s.*`): such a one is kept under its name behind `line.`.

mod container;
mod docker;
mod encoding;
mod form;
mod json_text;
mod kernel;
mod open;
mod parse;
mod reader;
mod request;
mod text;
mod time;

pub use encoding::Encoding;
pub use form::{Container, Form, LINE_OVERHEAD_BYTES, Multiline, PatternError, RECORD_BYTES_MAX};
pub use kernel::{KERNEL_RECORD_BYTES_MAX, KernelMoment, KernelRecord, KernelWriter};
pub use parse::{
    DEPTH_MAX, FIELDS_MAX, Layout, LayoutError, NAME_BYTES_MAX, NESTED_BYTES_MAX, Parse,
    ParseFault, Roles, TimeFormat,
};
pub use reader::{Counts, End, Reader, Resume};
pub use request::{Records, Request, Source, TRUNCATED};
