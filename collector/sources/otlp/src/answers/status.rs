//! Encodes the few messages that this receiver writes: `google.rpc.Status`, `RetryInfo`, and OTLP's
//! partial success. They are small and fixed, so they are written field by field.

pub(crate) mod json;

use std::time::Duration;

use millrace_pipeline::publish::DeliveryReceipt;
use millrace_wire::protobuf::{LENGTH, VARINT, field_tag, put_bytes, put_varint};

/// The maximum length of a message to the client, in bytes: clients limit header lists too.
const MAX_MESSAGE_BYTES: usize = 1024;

/// The partial success's text for records that no message can hold.
const TOO_LONG: &str = "records longer than the collector's message limit were rejected";
/// Its text for records with times that are not accepted.
const OUT_OF_RANGE: &str = "records with timestamps too far before or after the collector's clock \
                            were rejected: correct the sender's clock or the collector's, or \
                            accept such times in receivers.otlp.recordTimes";

/// The tags of fields with bytes, by field number.
const BYTES_1: u8 = field_tag(1, LENGTH) as u8;
const BYTES_2: u8 = field_tag(2, LENGTH) as u8;
const BYTES_3: u8 = field_tag(3, LENGTH) as u8;

fn put_number(out: &mut Vec<u8>, field: u32, number: u64) {
    if number != 0 {
        put_varint(out, field_tag(field, VARINT).into());
        put_varint(out, number);
    }
}

/// Returns the part of a message that is sent to a client.
pub(crate) fn truncate_message(message: &str) -> &str {
    let mut end = message.len().min(MAX_MESSAGE_BYTES);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

/// Encodes `google.rpc.Status`, with a `RetryInfo` when the client may retry.
pub(crate) fn encode_status(code: u32, message: &str, retry_after: Option<Duration>) -> Vec<u8> {
    let mut status = Vec::new();
    put_number(&mut status, 1, u64::from(code));
    put_bytes(&mut status, BYTES_2, truncate_message(message).as_bytes());
    if let Some(delay) = retry_after {
        let mut duration = Vec::new();
        put_number(&mut duration, 1, delay.as_secs());
        put_number(&mut duration, 2, u64::from(delay.subsec_nanos()));
        let mut retry_info = Vec::new();
        put_bytes(&mut retry_info, BYTES_1, &duration);
        let mut any = Vec::new();
        put_bytes(&mut any, BYTES_1, b"type.googleapis.com/google.rpc.RetryInfo");
        put_bytes(&mut any, BYTES_2, &retry_info);
        put_bytes(&mut status, BYTES_3, &any);
    }
    status
}

/// Encodes `Export{Trace,Logs,Metrics}ServiceResponse`, which have the same fields: empty when all
/// records were accepted, else a partial success.
pub(crate) fn export_response(delivered: &DeliveryReceipt) -> Vec<u8> {
    let mut response = Vec::new();
    if let Some((records, message)) = omitted_records(delivered) {
        let mut partial = Vec::new();
        put_number(&mut partial, 1, records);
        put_bytes(&mut partial, BYTES_2, message.as_bytes());
        put_bytes(&mut response, BYTES_1, &partial);
    }
    response
}

/// Returns how many records were excluded, and why; `None` if all were accepted.
fn omitted_records(delivered: &DeliveryReceipt) -> Option<(u64, String)> {
    let DeliveryReceipt { rejected_records, out_of_range_records } = *delivered;
    let reasons = [(rejected_records, TOO_LONG), (out_of_range_records, OUT_OF_RANGE)];
    let reasons: Vec<&str> =
        reasons.into_iter().filter_map(|(records, why)| (records > 0).then_some(why)).collect();
    let records = rejected_records + out_of_range_records;
    (records > 0).then(|| (records, reasons.join("; ")))
}

#[cfg(test)]
mod tests;
