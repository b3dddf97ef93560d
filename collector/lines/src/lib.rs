//! Log files' bytes as records: lines, container formats, records of several lines; written as
//! OTLP. Likewise records of the kernel's log ([`KernelRecord`]).
//!
//! A [`Reader`] takes a file's bytes in order and writes whole records into a [`Request`]
//! (`ExportLogsServiceRequest`), without a message tree and without an allocation per line. It has
//! no clock and does no I/O.
//!
//! # Rules
//! - A line ends with LF. A CR before it isn't part of it; other white space stays.
//! - An empty line outside a record is no record, as in the OpenTelemetry Collector. A container's
//!   empty line is one, with an empty body: it has a time and a stream.
//! - A line over the limit is cut at a whole character, marked by [`TRUNCATED`] and counted. Its
//!   rest is skipped, and never kept in memory.
//! - Container lines of one stream that belong together (`P ... P ... F`) are one line.
//! - Lines of one record are joined by LF, without empty lines at its beginning and end. If a
//!   further line doesn't fit, the record is written as cut, and the line begins another: nothing
//!   is lost. Streams don't mix.
//! - A container line without the container's format is a record as it stands, without time and
//!   stream, and counted.
//! - A plain file may have another [`Encoding`]. Each line is decoded by itself. The limit holds
//!   for its bytes in the file and for its text in UTF-8. Half of a surrogate pair, or of a UTF-16
//!   unit at the file's end, is no text.
//! - OTLP's strings are UTF-8: U+FFFD replaces each sequence of bytes that isn't (so a body may
//!   have three times the limit), and the record is counted.
//! - With a [`Parse`], a record's text also gives attributes, body, time and severity. A text that
//!   doesn't fit is a record as without it, and counted by reason. No field sets an attribute that
//!   the receiver writes (`log.file.path`, `log.iostream`, `k8s.*`): its name gets the prefix
//!   `line.`.

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
mod traces;

pub use encoding::Encoding;
pub use form::{
    Container, FOREIGN_PATTERN_BYTES_MAX, Form, LINE_OVERHEAD_BYTES, Multiline, PatternError,
    RECORD_BYTES_MAX,
};
pub use kernel::{KERNEL_RECORD_BYTES_MAX, KernelMoment, KernelRecord, KernelWriter};
pub use parse::{
    DEPTH_MAX, FIELDS_MAX, Layout, LayoutError, NAME_BYTES_MAX, NESTED_BYTES_MAX, Parse,
    ParseFault, Roles, TimeFormat,
};
pub use reader::{Counts, End, Reader, Resume};
pub use request::{Records, Request, Source, TRUNCATED};
pub use traces::Traces;
