//! Tests of `status.rs`.

use super::{encode_status, export_response, truncate_message};
use millrace_pipeline::publish::DeliveryReceipt;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use std::time::Duration;

/// The messages as prost reads them, declared here so that the test doesn't depend on the code.
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

/// Scenario: a status with a delay. Guarantee: another protobuf reader decodes both.
#[test]
fn a_status_carries_its_retry_delay() {
    let bytes = encode_status(8, "full", Some(Duration::from_millis(1500)));
    let read = Status::decode(bytes.as_slice()).unwrap();
    assert_eq!((read.code, read.message.as_str()), (8, "full"));
    assert_eq!(read.details[0].type_url, "type.googleapis.com/google.rpc.RetryInfo");
    let info = RetryInfo::decode(read.details[0].value.as_slice()).unwrap();
    assert_eq!(info.retry_delay, Some(DurationMessage { seconds: 1, nanos: 500_000_000 }));
    assert!(Status::decode(encode_status(3, "bad", None).as_slice()).unwrap().details.is_empty());
}

/// Scenario: some records excluded. Guarantee: OTLP's own type reads the number.
#[test]
fn a_partial_success_says_how_many_were_left_out() {
    let all = export_response(&DeliveryReceipt::default());
    assert!(all.is_empty());
    let some = export_response(&DeliveryReceipt::with_rejected(300));
    let read = ExportTraceServiceResponse::decode(some.as_slice()).unwrap();
    assert_eq!(read.partial_success.unwrap().rejected_spans, 300);
    let both = DeliveryReceipt { rejected_records: 3, out_of_range_records: 4 };
    let read = ExportTraceServiceResponse::decode(export_response(&both).as_slice()).unwrap();
    let partial = read.partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 7);
    assert!(partial.error_message.contains("message limit"), "{partial:?}");
    for part in ["recordTimes", "the sender's clock or the collector's"] {
        assert!(partial.error_message.contains(part), "{partial:?}");
    }
}

/// Scenario: a very long message. Guarantee: it is cut at a character boundary.
#[test]
fn long_messages_are_cut() {
    assert_eq!(truncate_message("short"), "short");
    assert!(truncate_message(&"ä".repeat(1000)).len() <= 1024);
    assert!(truncate_message(&format!("x{}", "ä".repeat(1000))).len() <= 1024);
}
