//! The content of span `i`: the one source of truth, from which the sender writes bytes and the
//! checker knows what a row must hold. Everything follows from the plan and the index.

use crate::mix::mix;
use crate::plan::{Keys, Plan, SERVICES, STEP_NANOS, Shape};

pub(crate) const SCOPE_NAME: &str = "millrace.loadgen";
pub(crate) const SCOPE_VERSION: &str = "1";
pub(crate) const TRACE_STATE: &str = "active";

/// 13 bytes on average, as a published lean span has.
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
const EVENTS: [&str; 4] = ["done", "retry", "tick", "wait"];
const METHODS: [&str; 4] = ["GET", "PUT", "POST", "DELETE"];
const ROUTES: [&str; 4] = ["/", "/cart/{id}", "/naïve/ünïcode", "/quote\"and\\slash"];

/// An attribute's value, as sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Text(&'static str),
    Int(i64),
    Double(f64),
    Bool(bool),
}

/// Attributes of a span, event or link: a few at most, kept in place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes {
    items: [Option<(&'static str, Value)>; 6],
    count: usize,
}

impl Attributes {
    fn of(list: &[(&'static str, Value)]) -> Self {
        let mut attributes = Self::default();
        for (slot, item) in attributes.items.iter_mut().zip(list) {
            *slot = Some(*item);
        }
        attributes.count = list.len().min(attributes.items.len());
        attributes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, Value)> + '_ {
        self.items[..self.count].iter().flatten().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

/// Result of a span, with OTLP's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Unset = 0,
    Ok = 1,
    Error = 2,
}

/// A link to the trace before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) trace_id: u128,
    pub(crate) span_id: u64,
    pub(crate) attributes: Attributes,
}

/// All of one span but its resource and scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
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
    pub(crate) attributes: Attributes,
    pub(crate) event_nanos: u64,
    pub(crate) event_name: &'static str,
    pub(crate) event_attributes: Attributes,
    pub(crate) status: Status,
    pub(crate) status_message: &'static str,
    pub(crate) link: Option<Link>,
}

/// Makes spans of one plan.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    keys: Keys,
    trace_spans: u64,
    start_nanos: u64,
    shape: Shape,
}

impl Spans {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            keys: plan.keys(),
            trace_spans: u64::from(plan.spans_per_resource),
            start_nanos: plan.start_unix_nanos,
            shape: plan.shape,
        }
    }

    /// The index whose span id this is; may be outside the plan.
    pub(crate) fn index_of(&self, span_id: u64) -> u64 {
        self.keys.index_of(span_id)
    }

    /// The content of a span.
    #[inline]
    pub(crate) fn at(&self, index: u64) -> Span {
        let noise = self.keys.noise(index);
        let more = mix(noise);
        let (trace, place) = (index / self.trace_spans, index % self.trace_spans);
        let first = trace * self.trace_spans;
        // A binary tree: the parent of place p is (p - 1) / 2.
        let parent_id = match place.checked_sub(1) {
            Some(before) => self.keys.span_id(first + before / 2),
            None => 0,
        };
        let start_nanos = self.start_nanos + index * STEP_NANOS;
        let duration = 1_000 + (noise & 0xFF_FFFF); // 1 us to 16.8 ms
        let (status, status_message) = match noise >> 59 {
            0 => (Status::Error, "deadline exceeded"),
            1..=8 => (Status::Ok, ""),
            _ => (Status::Unset, ""),
        };
        let is_linked = trace > 0 && more >> 58 == 0;
        Span {
            trace_id: self.keys.trace_id(trace),
            span_id: self.keys.span_id(index),
            parent_id,
            trace_state: if (more >> 54) & 0xF == 0 { "" } else { TRACE_STATE },
            name: NAMES[(noise >> 24) as usize & 0xF],
            kind: 1 + ((noise >> 28) % 5) as u8,
            start_nanos,
            end_nanos: start_nanos + duration,
            attributes: self.attributes(noise, more),
            event_nanos: start_nanos + duration / 2,
            event_name: EVENTS[(noise >> 40) as usize & 3],
            event_attributes: self.event_attributes(more),
            status,
            status_message,
            link: is_linked.then(|| Link {
                trace_id: self.keys.trace_id(trace - 1),
                span_id: self.keys.span_id(first - self.trace_spans),
                attributes: Attributes::of(&[("load.hops", Value::Int((more & 7) as i64))]),
            }),
        }
    }

    #[inline]
    fn attributes(&self, noise: u64, more: u64) -> Attributes {
        // One in 64 is negative: ten bytes of varint, and a sign to lose on the way.
        let size = (more & 0x3FFF) as i64;
        let number = if (noise >> 32) & 0x3F == 0 { -size - 1 } else { size };
        let number = ("load.n", Value::Int(number));
        match self.shape {
            Shape::Lean => Attributes::of(&[number]),
            Shape::Rich => Attributes::of(&[
                number,
                ("http.request.method", Value::Text(METHODS[(noise >> 42) as usize & 3])),
                ("http.route", Value::Text(ROUTES[(noise >> 44) as usize & 3])),
                ("http.response.status_code", Value::Int(200 + ((noise >> 46) & 0xFF) as i64)),
                ("load.ratio", Value::Double(((more >> 14) & 0xFFFF) as f64 / 8.0)),
                ("load.cached", Value::Bool((more >> 30) & 1 == 1)),
            ]),
        }
    }

    #[inline]
    fn event_attributes(&self, more: u64) -> Attributes {
        let with = match self.shape {
            Shape::Lean => (more >> 48) & 0x3F == 0,
            Shape::Rich => true,
        };
        if !with {
            return Attributes::default();
        }
        Attributes::of(&[
            ("attempt", Value::Int(((more >> 31) & 0xF) as i64)),
            ("final", Value::Bool((more >> 35) & 1 == 1)),
        ])
    }
}

/// Hosts a run comes from.
const HOSTS: u64 = 50;

/// After this many traces the same resources come by again: services times hosts, a multiple of
/// what else varies (4 processes, 2 flags).
pub(crate) const RESOURCE_CYCLE: u64 = SERVICES * HOSTS;

/// The resource of a span: its number, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resource {
    pub(crate) service_name: String,
    pub(crate) host_name: String,
    pub(crate) process_id: i64,
    pub(crate) environment: Option<&'static str>,
    pub(crate) is_sampled: Option<bool>,
}

impl Resource {
    /// The resource of a trace: one of ten services, on one of fifty hosts.
    pub(crate) fn at(plan: &Plan, trace: u64) -> Self {
        let is_rich = plan.shape == Shape::Rich;
        Self {
            service_name: format!("{}{}", plan.service_prefix(), trace % SERVICES),
            host_name: format!("node-{}", (trace / SERVICES) % HOSTS),
            process_id: 1 + (trace % 4) as i64,
            environment: is_rich.then_some("production"),
            is_sampled: is_rich.then_some(trace.is_multiple_of(2)),
        }
    }
}
