//! Converts log files' bytes to OTLP records: lines, container formats, multiline records. It also
//! converts records of the kernel's log ([`KernelRecord`]).
//!
//! A [`LineReader`] reads a file's bytes in order and writes complete records into a
//! [`LogsRequest`] (`ExportLogsServiceRequest`), without a message tree and without an allocation
//! per line. It has no clock and does no I/O.
//!
//! # Rules
//! - A line ends with LF. A CR before it isn't part of the line; other white space is.
//! - An empty line outside a record is no record, as in the OpenTelemetry Collector. A container's
//!   empty line is one, with an empty body: it has a time and a stream.
//! - A line over the limit is cut after a complete character, marked by [`TRUNCATED`] and counted.
//!   Its remainder is skipped, and never held in memory.
//! - Container lines of one stream that belong together (`P ... P ... F`) are one line.
//! - Lines of one record are joined by LF, without empty lines at its beginning and end. If another
//!   line doesn't fit, the record is written as cut, and the line begins another: nothing is lost.
//!   Streams don't mix.
//! - A container line without the container's format is stored unchanged as a record, without time
//!   and stream, and counted.
//! - A plain file may have another [`TextEncoding`]. Each line is decoded separately. The limit
//!   applies to its bytes in the file and to its text in UTF-8. Half of a surrogate pair, or of a
//!   UTF-16 unit at the file's end, is no text.
//! - OTLP's strings are UTF-8: U+FFFD replaces each sequence of bytes that isn't (so a body may
//!   have three times the limit), and the record is counted.
//! - With a [`ParseRules`], a record's text also yields attributes, body, time and severity. A text
//!   that can't be parsed is written as without it, and counted by reason. No field sets an
//!   attribute that the receiver writes (`log.file.path`, `log.iostream`, `k8s.*`): its name gets
//!   the prefix `line.`.

mod container;
mod encoding;
mod form;
mod kernel;
mod open;
mod parse;
mod parser;
mod reader;
mod request;
mod text;

pub use encoding::TextEncoding;
pub use form::pattern_error::PatternError;
pub use form::traces::TraceRuntime;
pub use form::{
    Container, FOREIGN_PATTERN_BYTES_MAX, LINE_OVERHEAD_BYTES, MultilineRule, RECORD_BYTES_MAX,
    RecordRules,
};
pub use kernel::{KERNEL_RECORD_BYTES_MAX, KernelMoment, KernelRecord, KernelWriter};
pub use parse::{
    DEPTH_MAX, FIELDS_MAX, LayoutError, NAME_BYTES_MAX, NESTED_BYTES_MAX, ParseFault, ParseRules,
    Roles, TRUNCATED, TimeLayout, TimestampFormat,
};
pub use reader::{FlushReason, LineReader, RecordCounts, Resume};
pub use request::{FileAttributes, LogsRequest, Records};
