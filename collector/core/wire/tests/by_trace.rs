//! Compares sorting by trace with the reference library's reading of the parts.

use millrace_wire::otlp::split_by_trace;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use proptest::prelude::*;
use prost::Message;
use std::collections::BTreeMap;

use crate::requests;

/// Returns spans with their surroundings, as text, and their traces.
fn spans(request: &[u8]) -> Vec<(String, Vec<u8>)> {
    let request = ExportTraceServiceRequest::decode(request).unwrap();
    let mut found = Vec::new();
    for group in &request.resource_spans {
        for scope in &group.scope_spans {
            for span in &scope.spans {
                let around = (&group.resource, &group.schema_url, &scope.scope, &scope.schema_url);
                found.push((format!("{around:?}{span:?}"), span.trace_id.clone()));
            }
        }
    }
    found
}

proptest! {
    /// Every span is in exactly one part, with its surroundings; the spans of a trace are in one
    /// bucket, and the same trace is in the same bucket in every request.
    #[test]
    fn sorting_loses_nothing_and_keeps_traces_together(
        requests in proptest::collection::vec(requests::traces(), 1..4),
        buckets in 1_u32..9,
    ) {
        let mut bucket_of = BTreeMap::new();
        for request in requests {
            let bytes = request.encode_to_vec();
            let parts = split_by_trace(&bytes, buckets).unwrap();
            let mut sorted = Vec::new();
            for bucket in parts {
                prop_assert!(bucket.index < buckets);
                let inside = spans(&bucket.part.bytes);
                prop_assert_eq!(inside.len() as u64, bucket.part.records);
                for (span, trace) in inside {
                    prop_assert_eq!(*bucket_of.entry(trace).or_insert(bucket.index), bucket.index);
                    sorted.push(span);
                }
            }
            let mut sent: Vec<String> = spans(&bytes).into_iter().map(|(span, _)| span).collect();
            sent.sort();
            sorted.sort();
            prop_assert_eq!(sorted, sent);
        }
    }
}

/// A megabyte around a thousand spans of a thousand traces is not repeated a thousand times.
#[test]
fn what_is_repeated_is_bounded() {
    let spans = (0..1000_u128)
        .map(|id| Span { trace_id: id.to_be_bytes().to_vec(), ..Span::default() })
        .collect();
    let group = ResourceSpans {
        resource: Some(Resource::default()),
        scope_spans: vec![ScopeSpans { spans, ..ScopeSpans::default() }],
        schema_url: "x".repeat(1 << 20),
    };
    let bytes = ExportTraceServiceRequest { resource_spans: vec![group] }.encode_to_vec();
    let parts = split_by_trace(&bytes, 1000).unwrap();
    let total: usize = parts.iter().map(|bucket| bucket.part.bytes.len()).sum();
    assert!(total <= 4 * bytes.len(), "{total} of {}", bytes.len());
    assert_eq!(parts.iter().map(|bucket| bucket.part.records).sum::<u64>(), 1000);
}
