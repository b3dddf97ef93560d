//! Rows of the traces table.

use millrace_schema::TableKind;

use super::super::cell::StoredCell;
use super::super::compare::{Comparison, span_text, trace_text};
use crate::content::{SpanContent, SpanEvent, SpanLink, SpanStatus, Spans};

/// Kinds as the OpenTelemetry Collector's exporter writes them, from OTLP's numbers.
const KINDS: [&str; 6] = ["Unspecified", "Internal", "Server", "Client", "Producer", "Consumer"];

/// Position of `SpanId`.
const SPAN_ID: usize = 2;

pub(super) struct Rows {
    spans: Spans,
}

impl Rows {
    pub(super) const fn new(spans: Spans) -> Self {
        Self { spans }
    }
}

impl super::Rows for Rows {
    fn tables(&self) -> &'static [TableKind] {
        &[TableKind::Traces]
    }

    fn id_column(&self) -> usize {
        SPAN_ID
    }

    fn index_of(&self, row: &[StoredCell<'_>]) -> Option<u64> {
        Some(self.spans.index_of(from_hex(row.get(SPAN_ID)?.as_text()?)?))
    }

    fn describe_id(&self, index: u64) -> String {
        format!("id {:?}", span_text(self.spans.span_at(index).span_id))
    }

    fn table_of(&self, _: u64) -> TableKind {
        TableKind::Traces
    }

    fn describe_row(&self, index: u64, row: &mut Comparison<'_>) {
        let span = self.spans.span_at(index);
        row.expect_number(span.start_nanos);
        row.expect_trace_id(span.trace_id);
        row.expect_span_id(span.span_id);
        row.expect_span_id(span.parent_id);
        row.expect_text(span.trace_state);
        row.expect_text(span.name);
        row.expect_text(KINDS[usize::from(span.kind) % KINDS.len()]);
        row.expect_service_name();
        row.expect_resource_attributes();
        row.expect_scope_name();
        row.expect_scope_version();
        row.expect_set(&span.attributes);
        row.expect_number(span.end_nanos - span.start_nanos);
        row.expect_text(match span.status {
            SpanStatus::Unset => "Unset",
            SpanStatus::Ok => "Ok",
            SpanStatus::Error => "Error",
        });
        row.expect_text(span.status_message);
        describe_events(&span, row);
        let links: Vec<SpanLink> = self.spans.links(index, &span).collect();
        row.expect_texts(links.iter().map(|link| trace_text(link.trace_id)));
        row.expect_texts(links.iter().map(|link| span_text(link.span_id)));
        row.expect_texts(links.iter().map(|link| link.trace_state));
        row.expect_sets(&links.iter().map(|link| link.attributes).collect::<Vec<_>>());
    }
}

fn describe_events(span: &SpanContent, row: &mut Comparison<'_>) {
    let events: Vec<SpanEvent> = span.events().collect();
    row.expect_numbers(events.iter().map(|event| event.time_nanos));
    row.expect_texts(events.iter().map(|event| event.name));
    row.expect_sets(&events.iter().map(|event| event.attributes).collect::<Vec<_>>());
}

/// Parses a span id of exactly 16 lower-case hexadecimal digits.
fn from_hex(text: &[u8]) -> Option<u64> {
    if text.len() != 16 {
        return None;
    }
    text.iter().try_fold(0_u64, |id, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some((id << 4) | u64::from(digit))
    })
}
