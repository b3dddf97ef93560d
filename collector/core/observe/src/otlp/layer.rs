//! The `tracing` layer that collects the program's spans and log records.
//!
//! A span is collected if it has the field `trace_id` (then it is the first of its trace) or if its
//! parent is. Fields named by OpenTelemetry's conventions for `tracing` are no attributes:
//! `otel.name`, `otel.kind` and `otel.status_code`.

use std::cell::Cell;
use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::ids::{Ids, TraceId};
use super::item::{
    ATTRIBUTES_MAX, Attribute, EndedSpan, Item, ItemValue, LogLine, SpanContext, SpanKind,
    truncate_text,
};
use super::{Queue, SPANS};

thread_local! {
    /// Whether this is the sender's thread, whose output is not collected.
    static SENDS: Cell<bool> = const { Cell::new(false) };
}

/// Stops collecting from this thread.
pub(super) fn collect_nothing_here() {
    SENDS.set(true);
}

/// Collects spans and log records.
#[derive(Debug)]
pub struct TelemetryLayer {
    queue: Queue,
    ids: Ids,
    logs: bool,
}

/// An open span that is collected.
struct RecordedSpan {
    context: SpanContext,
    parent: Option<u64>,
    start_unix_nanos: u64,
    fields: RecordedFields,
}

impl TelemetryLayer {
    pub(super) fn new(queue: Queue, logs: bool) -> Self {
        Self { queue, ids: Ids::default(), logs }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TelemetryLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id).filter(|_| !SENDS.get()) else { return };
        let above = span
            .parent()
            .and_then(|parent| parent.extensions().get::<RecordedSpan>().map(|open| open.context));
        let mut recorded = RecordedFields::default();
        attributes.record(&mut recorded);
        let (trace, parent) = match (recorded.trace, above) {
            (Some(trace), _) => (trace, None),
            (None, Some(above)) => (above.trace, Some(above.span)),
            (None, None) => return,
        };
        let span_context = SpanContext { trace, span: self.ids.next_span_id() };
        let open = RecordedSpan {
            context: span_context,
            parent,
            start_unix_nanos: unix_nanos_now(),
            fields: recorded,
        };
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<RecordedSpan>() {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<RecordedSpan>() else { return };
        let RecordedSpan { context: span_context, parent, start_unix_nanos, fields: recorded } =
            open;
        let RecordedFields { name, kind, failed, attributes, .. } = recorded;
        self.queue.enqueue(Item::Span(Box::new(EndedSpan {
            context: span_context,
            parent,
            name: name.unwrap_or_else(|| span.name().to_owned()),
            kind,
            start_unix_nanos,
            end_unix_nanos: unix_nanos_now().max(start_unix_nanos),
            failed,
            attributes,
        })));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !self.logs || SENDS.get() {
            return;
        }
        let mut recorded = RecordedFields::default();
        event.record(&mut recorded);
        let metadata = event.metadata();
        recorded.put_attribute("target", || ItemValue::Text(metadata.target().to_owned()));
        let span_context = context.event_scope(event).and_then(|mut scope| {
            scope.find_map(|span| span.extensions().get::<RecordedSpan>().map(|open| open.context))
        });
        self.queue.enqueue(Item::Log(Box::new(LogLine {
            unix_nanos: unix_nanos_now(),
            severity: *metadata.level(),
            text: recorded.message,
            attributes: recorded.attributes,
            context: span_context,
        })));
    }
}

fn unix_nanos_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// The values of a span's fields.
#[derive(Debug)]
struct RecordedFields {
    trace: Option<TraceId>,
    name: Option<String>,
    kind: SpanKind,
    failed: bool,
    message: String,
    attributes: Vec<Attribute>,
}

impl Default for RecordedFields {
    fn default() -> Self {
        Self {
            trace: None,
            name: None,
            kind: SpanKind::Internal,
            failed: false,
            message: String::new(),
            attributes: Vec::new(),
        }
    }
}

impl RecordedFields {
    fn put_attribute(&mut self, name: &'static str, value: impl FnOnce() -> ItemValue) {
        if let Some(known) = self.attributes.iter_mut().find(|known| known.name == name) {
            known.value = value();
        } else if self.attributes.len() < ATTRIBUTES_MAX {
            self.attributes.push(Attribute { name, value: value() });
        }
    }

    fn record_text(&mut self, field: &Field, record_text: impl FnOnce() -> String) {
        match field.name() {
            "message" => self.message = truncate_text(record_text()),
            "otel.name" => self.name = Some(truncate_text(record_text())),
            "otel.status_code" => self.failed = record_text() == "ERROR",
            "otel.kind" => {
                self.kind = match record_text().as_str() {
                    "client" => SpanKind::Client,
                    "producer" => SpanKind::Producer,
                    _ => SpanKind::Internal,
                };
            }
            name => self.put_attribute(name, || ItemValue::Text(truncate_text(record_text()))),
        }
    }
}

impl Visit for RecordedFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_text(field, || format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_text(field, || value.to_owned());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put_attribute(field.name(), || ItemValue::Bool(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put_attribute(field.name(), || ItemValue::Int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put_attribute(field.name(), || {
            ItemValue::Int(i64::try_from(value).unwrap_or(i64::MAX))
        });
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put_attribute(field.name(), || ItemValue::Double(value));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        match field.name() {
            "trace_id" => self.trace = Some(TraceId::new(value)),
            name => self.put_attribute(name, || ItemValue::Text(value.to_string())),
        }
    }
}

/// Selects the input of [`TelemetryLayer`]: logged lines, spans of [`SPANS`], and requests of the
/// Kubernetes client.
#[derive(Debug)]
pub struct TelemetryFilter {
    log: EnvFilter,
}

impl TelemetryFilter {
    /// Returns a filter; `log` is the log's own filter.
    #[must_use]
    pub const fn new(log: EnvFilter) -> Self {
        Self { log }
    }
}

/// The target of the Kubernetes client's request spans.
const KUBE_REQUESTS: &str = "kube_client::client::builder";

fn is_traced(span: &Metadata<'_>) -> bool {
    span.target() == SPANS || span.target() == KUBE_REQUESTS
}

impl<S: Subscriber> Filter<S> for TelemetryFilter {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        match metadata.is_span() {
            true => is_traced(metadata),
            false => Filter::enabled(&self.log, metadata, context),
        }
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match metadata.is_span() {
            true if is_traced(metadata) => Interest::always(),
            true => Interest::never(),
            false => Filter::<S>::callsite_enabled(&self.log, metadata),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // Spans have the level DEBUG.
        Filter::<S>::max_level_hint(&self.log).map(|level| level.max(LevelFilter::DEBUG))
    }
}
