//! The few messages this receiver writes: `google.rpc.Status`, `RetryInfo`, and OTLP's partial
//! success. They are small and fixed, so they are written field by field.

pub(crate) mod json;

use std::time::Duration;

use millrace_pipeline::publish::Delivered;
use millrace_wire::protobuf::put_varint;

/// The most of a message to the client that is sent, in bytes: header lists are limited there too.
const MAX_MESSAGE_BYTES: usize = 1024;

/// What a partial success says.
const LEFT_OUT: &str = "records longer than the collector's message limit were left out";

/// Wire type 2 with its field number.
const fn length_delimited(field: u64) -> u64 {
    field << 3 | 2
}

/// Wire type 0 with its field number.
const fn varint(field: u64) -> u64 {
    field << 3
}

fn put_number(out: &mut Vec<u8>, field: u64, number: u64) {
    if number != 0 {
        put_varint(out, varint(field));
        put_varint(out, number);
    }
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, length_delimited(field));
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The part of a message that is sent to a client.
pub(crate) fn shortened(message: &str) -> &str {
    let mut end = message.len().min(MAX_MESSAGE_BYTES);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

/// `google.rpc.Status`, with a `RetryInfo` when the client may come back.
pub(crate) fn status(code: u32, message: &str, retry_after: Option<Duration>) -> Vec<u8> {
    let mut status = Vec::new();
    put_number(&mut status, 1, u64::from(code));
    put_bytes(&mut status, 2, shortened(message).as_bytes());
    if let Some(delay) = retry_after {
        let mut duration = Vec::new();
        put_number(&mut duration, 1, delay.as_secs());
        put_number(&mut duration, 2, u64::from(delay.subsec_nanos()));
        let mut retry_info = Vec::new();
        put_bytes(&mut retry_info, 1, &duration);
        let mut any = Vec::new();
        put_bytes(&mut any, 1, b"type.googleapis.com/google.rpc.RetryInfo");
        put_bytes(&mut any, 2, &retry_info);
        put_bytes(&mut status, 3, &any);
    }
    status
}

/// `Export{Trace,Logs,Metrics}ServiceResponse`, which have the same fields: empty when all records
/// were taken, else a partial success.
pub(crate) fn export_response(delivered: &Delivered) -> Vec<u8> {
    let mut response = Vec::new();
    if delivered.rejected_records > 0 {
        let mut partial = Vec::new();
        put_number(&mut partial, 1, delivered.rejected_records);
        put_bytes(&mut partial, 2, LEFT_OUT.as_bytes());
        put_bytes(&mut response, 1, &partial);
    }
    response
}

#[cfg(test)]
#[path = "../../tests/unit/otlp/status.rs"]
mod tests;
