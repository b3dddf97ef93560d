//! The content of span `i`.

use super::Set;
use crate::mix::Draw;
use crate::plan::{Keys, LoadPlan, LoadShape, STEP_NANOS};

const TRACE_STATE: &str = "active";

/// 13 bytes on average, as in a published lean span.
const NAMES: [&str; 16] = [
    "GET /cart",
    "GET /products",
    "POST /checkout",
    "GET /users/id",
    "db.select",
    "db.insert row",
    "cache.lookup",
    "queue.publish",
    "queue.receive",
    "auth.verify",
    "render page",
    "PUT /profile",
    "DELETE /item",
    "search.query",
    "pay.authorise",
    "mail.send now",
];
/// The name of spans that rules drop, between the records of a load.
const NOISE: &str = "noise";
/// One such span follows every eighth record.
const NOISE_EVERY: u64 = 8;
/// Their indices are those of records and this, beyond all of a plan: a stored one is no record.
const NOISE_OFFSET: u64 = 1 << 40;
const EVENTS: [&str; 4] = ["done", "retry", "tick", "wait"];

/// Result of a span, with OTLP's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanStatus {
    Unset = 0,
    Ok = 1,
    Error = 2,
}

/// An event of a span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanEvent {
    pub(crate) time_nanos: u64,
    pub(crate) name: &'static str,
    pub(crate) attributes: Set,
}

/// A link to the root of an earlier trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanLink {
    pub(crate) trace_id: u128,
    pub(crate) span_id: u64,
    pub(crate) trace_state: &'static str,
    pub(crate) attributes: Set,
}

/// All of one span except its resource and scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanContent {
    pub(crate) trace_id: u128,
    pub(crate) span_id: u64,
    /// 0: a root span.
    pub(crate) parent_id: u64,
    pub(crate) trace_state: &'static str,
    pub(crate) name: &'static str,
    /// OTLP's number, 1 (internal) to 5 (consumer).
    pub(crate) kind: u8,
    pub(crate) start_nanos: u64,
    pub(crate) end_nanos: u64,
    pub(crate) attributes: Set,
    pub(crate) status: SpanStatus,
    pub(crate) status_message: &'static str,
    events: u64,
    links: u64,
    shape: LoadShape,
    draw: Draw,
}

impl SpanContent {
    /// Returns its events in order: a lean span has one, a rich one none to three.
    pub(crate) fn events(&self) -> impl ExactSizeIterator<Item = SpanEvent> + '_ {
        let step = (self.end_nanos - self.start_nanos) / (self.events + 1);
        (0..self.events as u32).map(move |at| {
            let draw = if at == 0 { self.draw.next() } else { Draw(u64::from(at)).next() };
            let with_attributes = self.shape == LoadShape::Rich || draw.is_rare(48, 6);
            SpanEvent {
                time_nanos: self.start_nanos + step * u64::from(at + 1),
                name: EVENTS[(self.draw.bits(40, 2) as usize + at as usize) % EVENTS.len()],
                attributes: if with_attributes { Set::event(draw) } else { Set::NOTHING },
            }
        })
    }
}

/// Creates spans of one plan.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    keys: Keys,
    trace_spans: u64,
    start_nanos: u64,
    shape: LoadShape,
}

impl Spans {
    pub(crate) fn new(plan: &LoadPlan) -> Self {
        Self {
            keys: plan.stream_keys(),
            trace_spans: u64::from(plan.records_per_resource),
            start_nanos: plan.start_unix_nanos,
            shape: plan.shape,
        }
    }

    /// Returns the index of a span id; it may be outside the plan.
    pub(crate) fn index_of(&self, span_id: u64) -> u64 {
        self.keys.index_of(span_id)
    }

    /// Returns the content of a span.
    #[inline]
    pub(crate) fn span_at(&self, index: u64) -> SpanContent {
        let draw = self.keys.record_draw(index);
        let more = draw.next();
        let (trace, position) = (index / self.trace_spans, index % self.trace_spans);
        let first = trace * self.trace_spans;
        // A binary tree: the parent of position p is (p - 1) / 2.
        let parent_id = match position.checked_sub(1) {
            Some(before) => self.keys.span_id(first + before / 2),
            None => 0,
        };
        let start_nanos = self.start_nanos + index * STEP_NANOS;
        let duration = 1_000 + draw.bits(0, 24); // 1 us to 16.8 ms
        let (status, status_message) = match draw.bits(59, 5) {
            0 => (SpanStatus::Error, "deadline exceeded"),
            1..=8 => (SpanStatus::Ok, ""),
            _ => (SpanStatus::Unset, ""),
        };
        let (attributes, events, links) = match self.shape {
            LoadShape::Rich => {
                (Set::rich_span(draw), more.bits(52, 2), [2, 1, 0, 0][more.bits(58, 2) as usize])
            }
            LoadShape::Ruled => (Set::ruled_span(draw), 1, u64::from(more.is_rare(58, 6))),
            _ => (Set::lean_span(draw), 1, u64::from(more.is_rare(58, 6))),
        };
        SpanContent {
            trace_id: self.keys.trace_id(trace),
            span_id: self.keys.span_id(index),
            parent_id,
            trace_state: if more.is_rare(54, 4) { "" } else { TRACE_STATE },
            name: draw.pick(24, &NAMES),
            kind: 1 + (draw.bits(28, 36) % 5) as u8,
            start_nanos,
            end_nanos: start_nanos + duration,
            attributes,
            status,
            status_message,
            events,
            links: links.min(trace),
            shape: self.shape,
            draw,
        }
    }

    /// Returns a span that is sent after the one with this index and dropped by rules.
    pub(crate) fn noise_after(&self, index: u64) -> Option<SpanContent> {
        let is_due = self.shape == LoadShape::Ruled && index.is_multiple_of(NOISE_EVERY);
        is_due.then(|| SpanContent {
            span_id: self.keys.span_id(index + NOISE_OFFSET),
            name: NOISE,
            ..self.span_at(index)
        })
    }

    /// Returns the links of span `index`, to the traces before its own.
    pub(crate) fn links(
        &self,
        index: u64,
        span: &SpanContent,
    ) -> impl ExactSizeIterator<Item = SpanLink> {
        let (trace, draw) = (index / self.trace_spans, span.draw.next());
        let (trace_state, keys, trace_spans) = (span.trace_state, self.keys, self.trace_spans);
        (0..span.links as u32).map(move |at| {
            let linked = trace - 1 - u64::from(at);
            SpanLink {
                trace_id: keys.trace_id(linked),
                span_id: keys.span_id(linked * trace_spans),
                trace_state,
                attributes: Set::link(draw),
            }
        })
    }
}
