//! The layer of `tracing` that makes spans and log records of what the program says.
//!
//! A span is kept if it has the field `trace_id` (then it is the first of its trace) or its parent
//! is kept. Fields named by OpenTelemetry's conventions for `tracing` are no attributes:
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
use super::item::{ATTRIBUTES_MAX, Attribute, Done, Item, Kind, Line, Place, Value, bounded};
use super::{Queue, SPANS};

thread_local! {
    /// Whether this is the thread that sends: nothing that it says is collected.
    static SENDS: Cell<bool> = const { Cell::new(false) };
}

/// From now on nothing of this thread is collected.
pub(super) fn collect_nothing_here() {
    SENDS.set(true);
}

/// Collects spans and log records.
#[derive(Debug)]
pub struct Collected {
    queue: Queue,
    ids: Ids,
    logs: bool,
}

/// A kept span that is open.
struct Open {
    place: Place,
    parent: Option<u64>,
    start_unix_nanos: u64,
    said: Said,
}

impl Collected {
    pub(super) fn new(queue: Queue, logs: bool) -> Self {
        Self { queue, ids: Ids::default(), logs }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collected {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id).filter(|_| !SENDS.get()) else { return };
        let above = span
            .parent()
            .and_then(|parent| parent.extensions().get::<Open>().map(|open| open.place));
        let mut said = Said::default();
        attributes.record(&mut said);
        let (trace, parent) = match (said.trace, above) {
            (Some(trace), _) => (trace, None),
            (None, Some(above)) => (above.trace, Some(above.span)),
            (None, None) => return,
        };
        let place = Place { trace, span: self.ids.span() };
        let open = Open { place, parent, start_unix_nanos: now(), said };
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut open.said);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<Open>() else { return };
        let Open { place, parent, start_unix_nanos, said } = open;
        let Said { name, kind, failed, attributes, .. } = said;
        self.queue.put(Item::Span(Box::new(Done {
            place,
            parent,
            name: name.unwrap_or_else(|| span.name().to_owned()),
            kind,
            start_unix_nanos,
            end_unix_nanos: now().max(start_unix_nanos),
            failed,
            attributes,
        })));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !self.logs || SENDS.get() {
            return;
        }
        let mut said = Said::default();
        event.record(&mut said);
        let metadata = event.metadata();
        said.put("target", || Value::Text(metadata.target().to_owned()));
        let place = context.event_scope(event).and_then(|mut scope| {
            scope.find_map(|span| span.extensions().get::<Open>().map(|open| open.place))
        });
        self.queue.put(Item::Log(Box::new(Line {
            unix_nanos: now(),
            severity: *metadata.level(),
            text: said.message,
            attributes: said.attributes,
            place,
        })));
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// What fields say.
#[derive(Debug)]
struct Said {
    trace: Option<TraceId>,
    name: Option<String>,
    kind: Kind,
    failed: bool,
    message: String,
    attributes: Vec<Attribute>,
}

impl Default for Said {
    fn default() -> Self {
        Self {
            trace: None,
            name: None,
            kind: Kind::Internal,
            failed: false,
            message: String::new(),
            attributes: Vec::new(),
        }
    }
}

impl Said {
    fn put(&mut self, name: &'static str, value: impl FnOnce() -> Value) {
        if let Some(known) = self.attributes.iter_mut().find(|known| known.name == name) {
            known.value = value();
        } else if self.attributes.len() < ATTRIBUTES_MAX {
            self.attributes.push(Attribute { name, value: value() });
        }
    }

    fn text(&mut self, field: &Field, text: impl FnOnce() -> String) {
        match field.name() {
            "message" => self.message = bounded(text()),
            "otel.name" => self.name = Some(bounded(text())),
            "otel.status_code" => self.failed = text() == "ERROR",
            "otel.kind" => {
                self.kind = match text().as_str() {
                    "client" => Kind::Client,
                    "producer" => Kind::Producer,
                    _ => Kind::Internal,
                };
            }
            name => self.put(name, || Value::Text(bounded(text()))),
        }
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, || format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, || value.to_owned());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), || Value::Bool(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), || Value::Int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), || Value::Int(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), || Value::Double(value));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        match field.name() {
            "trace_id" => self.trace = Some(TraceId::new(value)),
            name => self.put(name, || Value::Text(value.to_string())),
        }
    }
}

/// What reaches [`Collected`]: the lines that are logged, spans of [`SPANS`], and requests of the
/// Kubernetes client.
#[derive(Debug)]
pub struct Sift {
    log: EnvFilter,
}

impl Sift {
    /// `log` is what the log itself is filtered by.
    #[must_use]
    pub const fn new(log: EnvFilter) -> Self {
        Self { log }
    }
}

/// Where the Kubernetes client makes the spans of its requests.
const KUBE_REQUESTS: &str = "kube_client::client::builder";

fn is_kept(span: &Metadata<'_>) -> bool {
    span.target() == SPANS || span.target() == KUBE_REQUESTS
}

impl<S: Subscriber> Filter<S> for Sift {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        match metadata.is_span() {
            true => is_kept(metadata),
            false => Filter::enabled(&self.log, metadata, context),
        }
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match metadata.is_span() {
            true if is_kept(metadata) => Interest::always(),
            true => Interest::never(),
            false => Filter::<S>::callsite_enabled(&self.log, metadata),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // Spans are of the level DEBUG.
        Filter::<S>::max_level_hint(&self.log).map(|level| level.max(LevelFilter::DEBUG))
    }
}
