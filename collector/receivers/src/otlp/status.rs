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
mod tests {
    use super::{export_response, shortened, status};
    use millrace_pipeline::publish::Delivered;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
    use prost::Message;
    use std::time::Duration;

    /// The messages as prost reads them, declared here so that the test does not lean on the code.
    #[derive(Clone, PartialEq, Message)]
    struct Status {
        #[prost(int32, tag = "1")]
        code: i32,
        #[prost(string, tag = "2")]
        message: String,
        #[prost(message, repeated, tag = "3")]
        details: Vec<Any>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Any {
        #[prost(string, tag = "1")]
        type_url: String,
        #[prost(bytes = "vec", tag = "2")]
        value: Vec<u8>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct RetryInfo {
        #[prost(message, optional, tag = "1")]
        retry_delay: Option<DurationMessage>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct DurationMessage {
        #[prost(int64, tag = "1")]
        seconds: i64,
        #[prost(int32, tag = "2")]
        nanos: i32,
    }

    /// Scenario: a status with a delay. Guarantee: another protobuf reader finds both.
    #[test]
    fn a_status_carries_its_retry_delay() {
        let bytes = status(8, "full", Some(Duration::from_millis(1500)));
        let read = Status::decode(bytes.as_slice()).unwrap();
        assert_eq!((read.code, read.message.as_str()), (8, "full"));
        assert_eq!(read.details[0].type_url, "type.googleapis.com/google.rpc.RetryInfo");
        let info = RetryInfo::decode(read.details[0].value.as_slice()).unwrap();
        assert_eq!(info.retry_delay, Some(DurationMessage { seconds: 1, nanos: 500_000_000 }));
        assert!(Status::decode(status(3, "bad", None).as_slice()).unwrap().details.is_empty());
    }

    /// Scenario: some records left out. Guarantee: OTLP's own type reads the number.
    #[test]
    fn a_partial_success_says_how_many_were_left_out() {
        let all = export_response(&Delivered { rejected_records: 0 });
        assert!(all.is_empty());
        let some = export_response(&Delivered { rejected_records: 300 });
        let read = ExportTraceServiceResponse::decode(some.as_slice()).unwrap();
        assert_eq!(read.partial_success.unwrap().rejected_spans, 300);
    }

    /// Scenario: an endless message. Guarantee: cut at a character's edge.
    #[test]
    fn long_messages_are_cut() {
        assert_eq!(shortened("short"), "short");
        assert!(shortened(&"ä".repeat(1000)).len() <= 1024);
        assert!(shortened(&format!("x{}", "ä".repeat(1000))).len() <= 1024);
    }
}
