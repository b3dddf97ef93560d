//! Rows of the traces table.

use millrace_schema::TableKind;

use super::super::cell::Cell;
use super::super::compare::{Comparison, span_text, trace_text};
use crate::content::{Event, Link, Span, Spans, Status};

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

    fn index_of(&self, row: &[Cell<'_>]) -> Option<u64> {
        Some(self.spans.index_of(from_hex(row.get(SPAN_ID)?.text()?)?))
    }

    fn wanted_id(&self, index: u64) -> String {
        format!("id {:?}", span_text(self.spans.at(index).span_id))
    }

    fn table_of(&self, _: u64) -> TableKind {
        TableKind::Traces
    }

    fn describe(&self, index: u64, row: &mut Comparison<'_>) {
        let span = self.spans.at(index);
        row.number(span.start_nanos);
        row.trace_id(span.trace_id);
        row.span_id(span.span_id);
        row.span_id(span.parent_id);
        row.text(span.trace_state);
        row.text(span.name);
        row.text(KINDS[usize::from(span.kind) % KINDS.len()]);
        row.service_name();
        row.resource_attributes();
        row.scope_name();
        row.scope_version();
        row.set(&span.attributes);
        row.number(span.end_nanos - span.start_nanos);
        row.text(match span.status {
            Status::Unset => "Unset",
            Status::Ok => "Ok",
            Status::Error => "Error",
        });
        row.text(span.status_message);
        describe_events(&span, row);
        let links: Vec<Link> = self.spans.links(index, &span).collect();
        row.texts(links.iter().map(|link| trace_text(link.trace_id)));
        row.texts(links.iter().map(|link| span_text(link.span_id)));
        row.texts(links.iter().map(|link| link.trace_state));
        row.sets(&links.iter().map(|link| link.attributes).collect::<Vec<_>>());
    }
}

fn describe_events(span: &Span, row: &mut Comparison<'_>) {
    let events: Vec<Event> = span.events().collect();
    row.numbers(events.iter().map(|event| event.time_nanos));
    row.texts(events.iter().map(|event| event.name));
    row.sets(&events.iter().map(|event| event.attributes).collect::<Vec<_>>());
}

/// A span id of exactly 16 lower-case hexadecimal digits.
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
