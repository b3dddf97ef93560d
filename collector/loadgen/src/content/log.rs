//! The content of log record `i`.

use std::fmt::Write;

use super::{SentValue, Set};
use crate::mix::{Draw, Hex};
use crate::plan::{Keys, LoadPlan, STEP_NANOS};

/// Severities as OTLP numbers them, with the text a logger would send.
const SEVERITIES: [(u8, &str); 8] = [
    (9, "INFO"),
    (9, "INFO"),
    (5, "DEBUG"),
    (9, "Information"),
    (13, "WARN"),
    (17, "ERROR"),
    (24, "FATAL4"),
    (0, ""),
];
const VERBS: [&str; 4] = ["accepted", "rejected", "retried", "completed"];
const MESSAGES: [&str; 4] = [
    "order moved to the next stage after all stock was reserved",
    "upstream answered late; the request was sent to another replica",
    "zeile mit ümlaut, \"quotes\", a tab\tand a back\\slash in it",
    "cache entry was stale and has been read from the database again",
];

/// All of one log record except its resource, scope and body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    /// 0: unknown; then only the observed time is set.
    pub(crate) time_nanos: u64,
    pub(crate) observed_nanos: u64,
    /// OTLP's number, 0 (unspecified) to 24.
    pub(crate) severity_number: u8,
    pub(crate) severity_text: &'static str,
    pub(crate) attributes: Set,
    /// 0: outside of any trace.
    pub(crate) trace_id: u128,
    /// 0: outside of any span.
    pub(crate) span_id: u64,
    pub(crate) flags: u32,
    pub(crate) event_name: &'static str,
    draw: Draw,
}

impl Log {
    /// Returns the time of its row.
    pub(crate) fn row_nanos(&self) -> u64 {
        if self.time_nanos == 0 { self.observed_nanos } else { self.time_nanos }
    }

    /// Passes the body to `take`; one in 64 has none, one in ten is not text. `scratch` is
    /// overwritten.
    pub(crate) fn with_body<T>(
        &self,
        scratch: &mut String,
        take: impl FnOnce(Option<SentValue<'_>>) -> T,
    ) -> T {
        let (draw, more) = (self.draw, self.draw.next());
        let number = more.bits(0, 20) as i64;
        match draw.bits(4, 6) {
            0 => take(None),
            1 => take(Some(SentValue::Int(-number))),
            2 => take(Some(SentValue::Double(number as f64 / 8.0))),
            3 => take(Some(SentValue::Bool(more.bits(30, 1) == 1))),
            4 => take(Some(SentValue::Bytes(&more.0.to_be_bytes()[..draw.bits(10, 3) as usize]))),
            5 => take(Some(SentValue::List(&[
                SentValue::Int(number),
                SentValue::Text("eight"),
                SentValue::Bool(true),
            ]))),
            6 => take(Some(SentValue::Pairs(&[
                ("amount", SentValue::Int(number)),
                ("user", SentValue::Pairs(&[("name", SentValue::Text("Zoë \"Z\" \\ Quinn"))])),
            ]))),
            _ => {
                scratch.clear();
                let (verb, message) = (draw.pick(12, &VERBS), draw.pick(16, &MESSAGES));
                let id = Hex::new(more.0);
                // Writing to a string cannot fail.
                let _ =
                    write!(scratch, "request {} {verb} after {number} us: {message}", id.as_str());
                take(Some(SentValue::Text(scratch)))
            }
        }
    }
}

/// Creates log records of one plan.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    keys: Keys,
    trace_records: u64,
    start_nanos: u64,
}

impl Logs {
    pub(crate) fn new(plan: &LoadPlan) -> Self {
        Self {
            keys: plan.stream_keys(),
            trace_records: u64::from(plan.records_per_resource),
            start_nanos: plan.start_unix_nanos,
        }
    }

    /// Returns the content of a log record.
    #[inline]
    pub(crate) fn log_at(&self, index: u64) -> Log {
        let draw = self.keys.record_draw(index);
        let more = draw.next();
        let nanos = self.start_nanos + index * STEP_NANOS;
        let is_observed_only = more.is_rare(50, 4);
        let is_traced = !more.is_rare(40, 3);
        let (severity_number, severity_text) = more.pick(56, &SEVERITIES);
        Log {
            time_nanos: if is_observed_only { 0 } else { nanos },
            observed_nanos: if is_observed_only { nanos } else { nanos + more.bits(0, 20) },
            severity_number,
            severity_text,
            attributes: Set::log_record(draw, index),
            trace_id: if is_traced { self.keys.trace_id(index / self.trace_records) } else { 0 },
            span_id: if is_traced { self.keys.span_id(index) } else { 0 },
            // The sampled bit is the lowest; OTLP reserves those above the eighth.
            flags: if is_traced { more.bits(44, 1) as u32 } else { 0 },
            event_name: if more.is_rare(46, 4) { "shop.order.moved" } else { "" },
            draw,
        }
    }
}
