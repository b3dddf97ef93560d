//! Writes spans as protobuf.

use std::ops::Range;

use super::Records;
use super::write::{
    put_attributes, put_bytes, put_fixed64, put_message, put_span_id, put_text, put_trace_id,
    put_varint,
};
use crate::content::{SpanContent, SpanEvent, SpanLink, SpanStatus, Spans};

impl Records for Spans {
    fn put_records(&mut self, records: Range<u64>, scope: &mut Vec<u8>) {
        for index in records {
            let span = self.span_at(index);
            put_message(scope, 2, |out| {
                put_span(out, &span);
                self.links(index, &span).for_each(|link| put_link(out, &link));
                put_status(out, &span);
            });
            if let Some(noise) = self.noise_after(index) {
                put_message(scope, 2, |out| put_span(out, &noise));
            }
        }
    }
}

/// Appends the fields of `Span` up to its events, in the order of their numbers.
fn put_span(out: &mut Vec<u8>, span: &SpanContent) {
    put_trace_id(out, 1, span.trace_id);
    put_span_id(out, 2, span.span_id);
    put_text(out, 3, span.trace_state);
    put_span_id(out, 4, span.parent_id);
    put_text(out, 5, span.name);
    put_varint(out, 6, span.kind.into());
    put_fixed64(out, 7, span.start_nanos);
    put_fixed64(out, 8, span.end_nanos);
    put_attributes(out, 9, &span.attributes.before_rules());
    for SpanEvent { time_nanos, name, attributes } in span.events() {
        put_message(out, 11, |out| {
            put_fixed64(out, 1, time_nanos);
            put_bytes(out, 2, name.as_bytes());
            put_attributes(out, 3, &attributes);
        });
    }
}

fn put_link(out: &mut Vec<u8>, link: &SpanLink) {
    let SpanLink { trace_id, span_id, trace_state, attributes } = link;
    put_message(out, 13, |out| {
        put_trace_id(out, 1, *trace_id);
        put_span_id(out, 2, *span_id);
        put_text(out, 3, trace_state);
        put_attributes(out, 4, attributes);
    });
}

fn put_status(out: &mut Vec<u8>, span: &SpanContent) {
    if span.status != SpanStatus::Unset {
        put_message(out, 15, |out| {
            put_text(out, 2, span.status_message);
            put_varint(out, 3, span.status as u64);
        });
    }
}
