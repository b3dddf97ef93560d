//! Test records as OTLP in JSON: seeded, numbered, marked by their run. Pure.
//!
//! The collector's command `rows` finds them by these marks: the service `kubectl-millrace`; of
//! spans and log records the trace id, whose first half is the run, and the span id, which is the
//! number; of points of a gauge the scope's version and the value.
//!
//! Limits: 10,000 records of a few hundred bytes, 100 in a request.

use jiff::Timestamp;
use millrace_crds::v1alpha1::Signal;
use serde_json::{Value, json};

/// The service name of all test records.
pub const SERVICE: &str = "kubectl-millrace";
/// The attribute that names a record's run.
pub const RUN_ATTRIBUTE: &str = "millrace.test.run";
/// The attribute with a record's number.
const NUMBER_ATTRIBUTE: &str = "millrace.test.record";
/// The attribute that gives records different sizes.
const FILLER_ATTRIBUTE: &str = "millrace.test.filler";
/// The name of spans and of the gauge.
const NAME: &str = "millrace.test";
/// Maximum records of a load.
pub const RECORDS_MAX: u32 = 10_000;
/// Maximum records of a request: 50 KB at 500 bytes each.
pub const REQUEST_RECORDS: u32 = 100;
/// Maximum length of a record's filler.
const FILLER_BYTES_MAX: u64 = 200;
/// Maximum duration of a span, in nanoseconds.
const DURATION_MAX: u64 = 1_000_000_000;

/// A load: these fields determine all of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestLoad {
    /// The signal.
    pub signal: Signal,
    /// The number of the run; not 0.
    pub run: u64,
    /// The seed of sizes and durations.
    pub seed: u64,
    /// The number of records: they are numbered from 1.
    pub records: u32,
    /// The time of the first; each is a nanosecond later.
    pub began: Timestamp,
}

impl TestLoad {
    /// Returns the run as text.
    #[must_use]
    pub fn run_id(&self) -> String {
        format!("{:016x}", self.run)
    }

    /// Returns the trace id of a request's records: each request is a separate trace, so that
    /// traces spread over partitions if each stays on one.
    #[must_use]
    pub fn trace_id(&self, request: u32) -> String {
        format!("{:016x}{:016x}", self.run, u64::from(request) + 1)
    }

    /// Returns the number of requests.
    #[must_use]
    pub const fn request_count(&self) -> u32 {
        self.records.div_ceil(REQUEST_RECORDS)
    }

    /// Returns the number of a request's records; requests count from 0.
    #[must_use]
    pub fn records_of(&self, request: u32) -> u32 {
        let before = request.saturating_mul(REQUEST_RECORDS);
        self.records.saturating_sub(before).min(REQUEST_RECORDS)
    }

    /// Returns a request's body.
    #[must_use]
    pub fn request_body(&self, request: u32) -> Value {
        let first = request * REQUEST_RECORDS + 1;
        let numbers = first..first + self.records_of(request);
        let records: Vec<Value> = numbers.map(|number| self.record_json(request, number)).collect();
        let scope = json!({"name": SERVICE, "version": self.run_id()});
        let resource = json!({"attributes": [text_attribute("service.name", SERVICE)]});
        match self.signal {
            Signal::Traces => json!({"resourceSpans": [{
                "resource": resource,
                "scopeSpans": [{"scope": scope, "spans": records}],
            }]}),
            Signal::Logs => json!({"resourceLogs": [{
                "resource": resource,
                "scopeLogs": [{"scope": scope, "logRecords": records}],
            }]}),
            Signal::Metrics => json!({"resourceMetrics": [{
                "resource": resource,
                "scopeMetrics": [{"scope": scope, "metrics": [
                    {"name": NAME, "gauge": {"dataPoints": records}},
                ]}],
            }]}),
        }
    }

    fn record_json(&self, request: u32, number: u32) -> Value {
        let mixed = mix_bits(self.seed, number);
        let begin = self.began.as_nanosecond() + i128::from(number - 1);
        let end = begin + i128::from(mixed % DURATION_MAX);
        let attributes = json!([
            text_attribute(RUN_ATTRIBUTE, &self.run_id()),
            {"key": NUMBER_ATTRIBUTE, "value": {"intValue": number.to_string()}},
            text_attribute(FILLER_ATTRIBUTE, &filler_text(mixed)),
        ]);
        let (trace, span) = (self.trace_id(request), format!("{number:016x}"));
        match self.signal {
            Signal::Traces => json!({
                "traceId": trace,
                "spanId": span,
                "name": NAME,
                "kind": 1,
                "startTimeUnixNano": begin.to_string(),
                "endTimeUnixNano": end.to_string(),
                "attributes": attributes,
            }),
            Signal::Logs => json!({
                "timeUnixNano": begin.to_string(),
                "observedTimeUnixNano": begin.to_string(),
                "severityNumber": 9,
                "severityText": "INFO",
                "body": {"stringValue": format!("test record {number} of {}", self.records)},
                "traceId": trace,
                "spanId": span,
                "attributes": attributes,
            }),
            Signal::Metrics => json!({
                "timeUnixNano": begin.to_string(),
                "asDouble": f64::from(number),
                "attributes": attributes,
            }),
        }
    }
}

fn text_attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn filler_text(mixed: u64) -> String {
    let length = (mixed >> 32) % (FILLER_BYTES_MAX + 1);
    let digits = (0..length).map(|at| char::from(b'a' + (mixed.rotate_left(at as u32) % 26) as u8));
    digits.collect()
}

/// SplitMix64: returns a number for each record of a seed.
fn mix_bits(seed: u64, number: u32) -> u64 {
    let step = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut mixed = seed.wrapping_add(step);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests;
