//! The hand-written bytes against the official messages.

use std::collections::HashSet;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use proptest::prelude::*;
use prost::Message;

use super::{Writer, rejected_spans, retry_delay};
use crate::plan::{Plan, Shape};
use crate::span::{Attributes, Resource, Spans, Value};

fn plan(seed: u64, count: u64, shape: Shape) -> Plan {
    Plan {
        spans_per_resource: 7,
        resources_per_request: 3,
        shape,
        ..Plan::lean(seed, count, 1_700_000_000_000_000_000)
    }
}

fn decode(plan: &Plan, request: u64) -> ExportTraceServiceRequest {
    let mut bytes = Vec::new();
    Writer::new(plan).request(request, &mut bytes);
    ExportTraceServiceRequest::decode(bytes.as_slice()).unwrap()
}

fn assert_attributes(found: &[KeyValue], wanted: &Attributes) {
    let found: Vec<_> = found.iter().map(|kv| (kv.key.as_str(), value(kv))).collect();
    let wanted: Vec<_> = wanted.iter().map(|(key, value)| (key, sent(value))).collect();
    assert_eq!(found, wanted);
}

fn value(attribute: &KeyValue) -> any_value::Value {
    attribute.value.clone().unwrap().value.unwrap()
}

fn sent(value: Value) -> any_value::Value {
    match value {
        Value::Text(text) => any_value::Value::StringValue(text.to_owned()),
        Value::Int(number) => any_value::Value::IntValue(number),
        Value::Double(number) => any_value::Value::DoubleValue(number),
        Value::Bool(yes) => any_value::Value::BoolValue(yes),
    }
}

fn assert_request(plan: &Plan, request: u64) -> Vec<Vec<u8>> {
    let spans = Spans::new(plan);
    let mut wanted = plan.spans_of(request);
    let mut ids = Vec::new();
    for group in decode(plan, request).resource_spans {
        let trace = wanted.start / u64::from(plan.spans_per_resource);
        let resource = group.resource.unwrap();
        let expected = Resource::at(plan, trace);
        let named = |key: &str| resource.attributes.iter().find(|kv| kv.key == key).map(value);
        let text = |text: &str| Some(any_value::Value::StringValue(text.to_owned()));
        assert_eq!(named("service.name"), text(&expected.service_name));
        assert_eq!(named("host.name"), text(&expected.host_name));
        assert_eq!(named("process.pid"), Some(any_value::Value::IntValue(expected.process_id)));
        assert_eq!(named("load.sampled"), expected.is_sampled.map(any_value::Value::BoolValue));
        assert_eq!(group.scope_spans.len(), 1);
        let scope = group.scope_spans[0].scope.clone().unwrap();
        assert_eq!((scope.name.as_str(), scope.version.as_str()), ("millrace.loadgen", "1"));
        for found in &group.scope_spans[0].spans {
            let index = wanted.next().unwrap();
            let span = spans.at(index);
            assert_eq!(found.trace_id, span.trace_id.to_be_bytes());
            assert_eq!(found.span_id, span.span_id.to_be_bytes());
            match span.parent_id {
                0 => assert!(found.parent_span_id.is_empty()),
                parent => assert_eq!(found.parent_span_id, parent.to_be_bytes()),
            }
            assert_eq!(found.trace_state, span.trace_state);
            assert_eq!(found.name, span.name);
            assert_eq!(found.kind, i32::from(span.kind));
            assert_eq!(found.start_time_unix_nano, span.start_nanos);
            assert_eq!(found.end_time_unix_nano, span.end_nanos);
            assert_attributes(&found.attributes, &span.attributes);
            assert_eq!(found.events.len(), 1);
            assert_eq!(found.events[0].time_unix_nano, span.event_nanos);
            assert_eq!(found.events[0].name, span.event_name);
            assert_attributes(&found.events[0].attributes, &span.event_attributes);
            assert_eq!(found.links.len(), usize::from(span.link.is_some()));
            if let Some(link) = span.link {
                assert_eq!(found.links[0].trace_id, link.trace_id.to_be_bytes());
                assert_eq!(found.links[0].span_id, link.span_id.to_be_bytes());
                assert_eq!(found.links[0].trace_state, span.trace_state);
                assert_attributes(&found.links[0].attributes, &link.attributes);
            }
            let status = found.status.clone().unwrap_or_default();
            assert_eq!(status.code, span.status as i32);
            assert_eq!(status.message, span.status_message);
            ids.push(found.span_id.clone());
        }
    }
    assert!(wanted.is_empty(), "spans {wanted:?} are missing");
    ids
}

proptest! {
    /// Guarantee: the official decoder reads exactly the spans of the plan, field by field, and no
    /// two spans of a plan share an id.
    #[test]
    fn the_official_decoder_reads_what_the_plan_says(seed: u64, count in 1_u64..90, rich: bool) {
        let plan = plan(seed, count, if rich { Shape::Rich } else { Shape::Lean });
        let ids: Vec<_> = (0..plan.requests()).flat_map(|r| assert_request(&plan, r)).collect();
        prop_assert_eq!(ids.len() as u64, count);
        prop_assert_eq!(ids.iter().collect::<HashSet<_>>().len() as u64, count);
    }

    /// Guarantee: rejected spans are read as the official message holds them.
    #[test]
    fn partial_success_is_read(rejected in 0_i64..i64::MAX, message in "\\PC{0,20}") {
        let response = ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess {
                rejected_spans: rejected,
                error_message: message,
            }),
        };
        prop_assert_eq!(rejected_spans(&response.encode_to_vec()), rejected as u64);
    }

    /// Guarantee: no answer of a server makes the readers panic.
    #[test]
    fn any_answer_is_read(bytes: Vec<u8>) {
        let _ = (rejected_spans(&bytes), retry_delay(&bytes));
    }
}

/// Scenario: enough spans for every rare case. Guarantee: links, errors, negative numbers, event
/// attributes and empty trace states all occur in a lean load, so a check covers them.
#[test]
fn a_lean_load_holds_every_rare_case() {
    let spans = Spans::new(&Plan::lean(1, 5_000, 0));
    let all: Vec<_> = (0..5_000).map(|index| spans.at(index)).collect();
    assert!(all.iter().any(|span| span.link.is_some()));
    assert!(all.iter().any(|span| !span.status_message.is_empty()));
    assert!(all.iter().any(|span| span.event_attributes.len() > 0));
    assert!(all.iter().any(|span| span.trace_state.is_empty()));
    assert!(all.iter().any(|span| span.parent_id == 0));
    let is_negative = |value| matches!(value, Value::Int(number) if number < 0);
    assert!(all.iter().any(|span| span.attributes.iter().any(|(_, value)| is_negative(value))));
}

/// Scenario: one seed twice, another seed, another start. Guarantee: the same plan is the same
/// bytes; another seed has other ids; a later start is a run of its own.
#[test]
fn bytes_follow_from_the_plan_alone() {
    let bytes = |plan: &Plan| {
        let mut out = Vec::new();
        Writer::new(plan).request(0, &mut out);
        out
    };
    let one = Plan::lean(1, 1_000, 5);
    assert_eq!(bytes(&one), bytes(&one.clone()));
    assert_ne!(bytes(&one), bytes(&Plan { seed: 2, ..one.clone() }));
    assert_ne!(one.service_prefix(), Plan { start_unix_nanos: 6, ..one.clone() }.service_prefix());
    // Comparable with published figures: 119 bytes of span, some of resource.
    let per_span = bytes(&one).len() as f64 / 1_000.0;
    assert!((110.0..130.0).contains(&per_span), "{per_span}");
}
