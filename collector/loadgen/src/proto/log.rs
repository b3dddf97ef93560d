//! Writes log records as protobuf.

use std::ops::Range;

use super::Records;
use super::write::{
    put_attributes, put_fixed32, put_fixed64, put_message, put_span_id, put_text, put_trace_id,
    put_value, put_varint,
};
use crate::content::{Log, Logs};

/// Writes log records, with a buffer for their bodies' text.
pub(super) struct LogWriter {
    logs: Logs,
    text: String,
}

impl LogWriter {
    pub(super) const fn new(logs: Logs) -> Self {
        Self { logs, text: String::new() }
    }
}

impl Records for LogWriter {
    fn put_records(&mut self, records: Range<u64>, scope: &mut Vec<u8>) {
        for index in records {
            let log = self.logs.log_at(index);
            put_message(scope, 2, |out| put_log(out, &log, &mut self.text));
        }
    }
}

/// Appends the fields of `LogRecord`, in the order of their numbers.
fn put_log(out: &mut Vec<u8>, log: &Log, text: &mut String) {
    if log.time_nanos != 0 {
        put_fixed64(out, 1, log.time_nanos);
    }
    if log.severity_number != 0 {
        put_varint(out, 2, log.severity_number.into());
    }
    put_text(out, 3, log.severity_text);
    log.with_body(text, |body| {
        if let Some(value) = body {
            put_value(out, 5, &value);
        }
    });
    put_attributes(out, 6, &log.attributes);
    if log.flags != 0 {
        put_fixed32(out, 8, log.flags);
    }
    put_trace_id(out, 9, log.trace_id);
    put_span_id(out, 10, log.span_id);
    put_fixed64(out, 11, log.observed_nanos);
    put_text(out, 12, log.event_name);
}
