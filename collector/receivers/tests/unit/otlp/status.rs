//! Tests of what `otlp/status.rs` keeps to itself.

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
