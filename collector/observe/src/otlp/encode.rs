//! Batches as OTLP's export requests in protobuf.

use millrace_wire::protobuf::{
    FIXED64, LENGTH, VARINT, begin_group, end_group, put_bytes, put_varint, tag,
};
use tracing::Level;

use super::OWN;
use super::item::{Attribute, Done, Line, Value};

/// The name of our scope.
const SCOPE: &str = "millrace";
/// `STATUS_CODE_ERROR`.
const ERROR: u64 = 2;

const fn field(number: u32, wire: u32) -> u8 {
    // All fields here have numbers below 16.
    tag(number, wire) as u8
}

/// An `ExportTraceServiceRequest`.
pub(super) fn spans(resource: &[(String, String)], spans: &[Done]) -> Vec<u8> {
    request(resource, |out| {
        for span in spans {
            group(out, 2, |out| put_span(out, span));
        }
    })
}

/// An `ExportLogsServiceRequest`, which has the same form.
pub(super) fn logs(resource: &[(String, String)], lines: &[Line]) -> Vec<u8> {
    request(resource, |out| {
        for line in lines {
            group(out, 2, |out| put_line(out, line));
        }
    })
}

fn request(resource: &[(String, String)], records: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    group(&mut out, 1, |out| {
        group(out, 1, |out| {
            // The first of all: what `is_own` looks for.
            put_attribute(out, 1, OWN, |out| put_number(out, 2, 1));
            for (name, value) in resource {
                put_attribute(out, 1, name, |out| put_text(out, 1, value));
            }
        });
        group(out, 2, |out| {
            group(out, 1, |out| {
                put_text(out, 1, SCOPE);
                put_text(out, 2, env!("CARGO_PKG_VERSION"));
            });
            records(out);
        });
    });
    out
}

fn put_span(out: &mut Vec<u8>, span: &Done) {
    put_bytes(out, field(1, LENGTH), &span.place.trace.bytes());
    put_bytes(out, field(2, LENGTH), &span.place.span.to_be_bytes());
    if let Some(parent) = span.parent {
        put_bytes(out, field(4, LENGTH), &parent.to_be_bytes());
    }
    put_text(out, 5, &span.name);
    put_number(out, 6, span.kind as u64);
    put_fixed64(out, 7, span.start_unix_nanos);
    put_fixed64(out, 8, span.end_unix_nanos);
    put_attributes(out, 9, &span.attributes);
    if span.failed {
        group(out, 15, |out| put_number(out, 3, ERROR));
    }
}

fn put_line(out: &mut Vec<u8>, line: &Line) {
    put_fixed64(out, 1, line.unix_nanos);
    put_number(out, 2, severity(line.severity));
    put_text(out, 3, line.severity.as_str());
    group(out, 5, |out| put_text(out, 1, &line.text));
    put_attributes(out, 6, &line.attributes);
    if let Some(place) = line.place {
        put_bytes(out, field(9, LENGTH), &place.trace.bytes());
        put_bytes(out, field(10, LENGTH), &place.span.to_be_bytes());
    }
    put_fixed64(out, 11, line.unix_nanos);
}

fn severity(level: Level) -> u64 {
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
            Value::Text(text) => put_text(out, 1, text),
            Value::Bool(truth) => put_number(out, 2, u64::from(*truth)),
            // Two's complement, as OTLP has it.
            Value::Int(number) => put_number(out, 3, *number as u64),
            Value::Double(number) => put_fixed64(out, 4, number.to_bits()),
        });
    }
}

fn put_attribute(out: &mut Vec<u8>, number: u32, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    group(out, number, |out| {
        put_text(out, 1, name);
        group(out, 2, value);
    });
}

fn group(out: &mut Vec<u8>, number: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(field(number, LENGTH));
    let start = begin_group(out);
    fill(out);
    end_group(out, start);
}

fn put_text(out: &mut Vec<u8>, number: u32, text: &str) {
    put_bytes(out, field(number, LENGTH), text.as_bytes());
}

fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    out.push(field(number, VARINT));
    put_varint(out, value);
}

fn put_fixed64(out: &mut Vec<u8>, number: u32, value: u64) {
    out.push(field(number, FIXED64));
    out.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
#[path = "../../tests/unit/otlp/encode.rs"]
mod tests;
