//! Encodes batches as OTLP's export requests in protobuf.

use millrace_wire::protobuf::{
    FIXED64, LENGTH, VARINT, begin_group, end_group, field_tag, put_bytes, put_varint,
};
use tracing::Level;

use super::OWN_ATTRIBUTE;
use super::item::{Attribute, EndedSpan, ItemValue, LogLine};

/// The name of our scope.
const SCOPE: &str = "millrace";
/// `STATUS_CODE_ERROR`.
const ERROR: u64 = 2;

const fn short_tag(number: u32, wire: u32) -> u8 {
    // All field numbers here are below 16.
    field_tag(number, wire) as u8
}

/// Encodes an `ExportTraceServiceRequest`.
pub(super) fn encode_spans(resource: &[(String, String)], spans: &[EndedSpan]) -> Vec<u8> {
    encode_request(resource, |out| {
        for span in spans {
            put_group(out, 2, |out| put_span(out, span));
        }
    })
}

/// Encodes an `ExportLogsServiceRequest`, which has the same structure.
pub(super) fn encode_logs(resource: &[(String, String)], lines: &[LogLine]) -> Vec<u8> {
    encode_request(resource, |out| {
        for line in lines {
            put_group(out, 2, |out| put_line(out, line));
        }
    })
}

fn encode_request(resource: &[(String, String)], records: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put_group(&mut out, 1, |out| {
        put_group(out, 1, |out| {
            // This attribute must be the first: `is_own_telemetry` checks only that one.
            put_attribute(out, 1, OWN_ATTRIBUTE, |out| put_number(out, 2, 1));
            for (name, value) in resource {
                put_attribute(out, 1, name, |out| put_text(out, 1, value));
            }
        });
        put_group(out, 2, |out| {
            put_group(out, 1, |out| {
                put_text(out, 1, SCOPE);
                put_text(out, 2, env!("CARGO_PKG_VERSION"));
            });
            records(out);
        });
    });
    out
}

fn put_span(out: &mut Vec<u8>, span: &EndedSpan) {
    put_bytes(out, short_tag(1, LENGTH), &span.context.trace.to_bytes());
    put_bytes(out, short_tag(2, LENGTH), &span.context.span.to_be_bytes());
    if let Some(parent) = span.parent {
        put_bytes(out, short_tag(4, LENGTH), &parent.to_be_bytes());
    }
    put_text(out, 5, &span.name);
    put_number(out, 6, span.kind as u64);
    put_fixed64(out, 7, span.start_unix_nanos);
    put_fixed64(out, 8, span.end_unix_nanos);
    put_attributes(out, 9, &span.attributes);
    if span.failed {
        put_group(out, 15, |out| put_number(out, 3, ERROR));
    }
}

fn put_line(out: &mut Vec<u8>, line: &LogLine) {
    put_fixed64(out, 1, line.unix_nanos);
    put_number(out, 2, severity_number(line.severity));
    put_text(out, 3, line.severity.as_str());
    put_group(out, 5, |out| put_text(out, 1, &line.text));
    put_attributes(out, 6, &line.attributes);
    if let Some(context) = line.context {
        put_bytes(out, short_tag(9, LENGTH), &context.trace.to_bytes());
        put_bytes(out, short_tag(10, LENGTH), &context.span.to_be_bytes());
    }
    put_fixed64(out, 11, line.unix_nanos);
}

fn severity_number(level: Level) -> u64 {
    match level {
        Level::TRACE => 1,
        Level::DEBUG => 5,
        Level::INFO => 9,
        Level::WARN => 13,
        Level::ERROR => 17,
    }
}

fn put_attributes(out: &mut Vec<u8>, number: u32, attributes: &[Attribute]) {
    for Attribute { name, value } in attributes {
        put_attribute(out, number, name, |out| match value {
            ItemValue::Text(text) => put_text(out, 1, text),
            ItemValue::Bool(truth) => put_number(out, 2, u64::from(*truth)),
            // OTLP uses two's complement.
            ItemValue::Int(number) => put_number(out, 3, *number as u64),
            ItemValue::Double(number) => put_fixed64(out, 4, number.to_bits()),
        });
    }
}

fn put_attribute(out: &mut Vec<u8>, number: u32, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    put_group(out, number, |out| {
        put_text(out, 1, name);
        put_group(out, 2, value);
    });
}

fn put_group(out: &mut Vec<u8>, number: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(short_tag(number, LENGTH));
    let start = begin_group(out);
    fill(out);
    end_group(out, start);
}

fn put_text(out: &mut Vec<u8>, number: u32, text: &str) {
    put_bytes(out, short_tag(number, LENGTH), text.as_bytes());
}

fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    out.push(short_tag(number, VARINT));
    put_varint(out, value);
}

fn put_fixed64(out: &mut Vec<u8>, number: u32, value: u64) {
    out.push(short_tag(number, FIXED64));
    out.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests;
