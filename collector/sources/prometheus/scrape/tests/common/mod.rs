//! Helpers of tests: scrape bodies, and render points as text.
#![allow(dead_code)]

use std::cell::RefCell;

use millrace_scrape::{
    BodyFault, BodyFormat, BodyLimits, MetricsRequest, SampleCounts, Scrape, ScrapeBuffers,
    ScrapeReport, SeriesMemory, TargetAttributes,
};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, exemplar, metric, number_data_point,
};
use prost::Message;

pub(crate) const LIMITS: BodyLimits =
    BodyLimits { body_bytes: 1 << 30, samples: 10_000_000, labels: 64 };

thread_local! {
    /// Buffers that each scrape of a test reuses, whatever the result of the one before.
    static BUFFERS: RefCell<Box<ScrapeBuffers>> = RefCell::default();
}

/// A second in nanoseconds.
pub(crate) const S: u64 = 1_000_000_000;

pub(crate) fn target() -> TargetAttributes {
    TargetAttributes::new("node", ("http", "10.0.0.1", 9100), Vec::new(), false, true)
}

/// The result of a scrape.
pub(crate) struct Came {
    pub(crate) requests: Vec<MetricsRequest>,
    pub(crate) counts: SampleCounts,
    pub(crate) fault: Option<BodyFault>,
}

impl Came {
    /// Returns all points except the scrape's own, a line each.
    pub(crate) fn points(&self) -> Vec<String> {
        let own = |line: &String| !line.starts_with("up ") && !line.starts_with("scrape_");
        self.all_points().into_iter().filter(own).collect()
    }

    pub(crate) fn all_points(&self) -> Vec<String> {
        self.requests.iter().flat_map(|request| points(&request.bytes)).collect()
    }

    /// Returns the resource of the last request.
    pub(crate) fn resource(&self) -> Vec<String> {
        let request = decode(&self.requests.last().unwrap().bytes);
        let resource = request.resource_metrics[0].resource.clone().unwrap();
        attributes(&resource.attributes)
    }
}

/// Scrapes a body in these pieces.
pub(crate) fn scrape_pieces(
    target: &TargetAttributes,
    memory: &mut SeriesMemory,
    (format, limits): (BodyFormat, BodyLimits),
    time_unix_nano: u64,
    pieces: &[&[u8]],
) -> Came {
    let mut scrape = Scrape::new(target, memory, limits, time_unix_nano, BUFFERS.take());
    scrape.set_format(format);
    let mut requests = Vec::new();
    let fault = feed(&mut scrape, pieces, &mut requests).err();
    if fault.is_some() {
        scrape.mark_failed();
    }
    finish(scrape, requests, fault)
}

/// Performs a scrape without a response.
pub(crate) fn scrape_nothing(
    target: &TargetAttributes,
    memory: &mut SeriesMemory,
    time_unix_nano: u64,
) -> Came {
    let mut scrape = Scrape::new(target, memory, LIMITS, time_unix_nano, BUFFERS.take());
    scrape.mark_failed();
    finish(scrape, Vec::new(), None)
}

/// Removes the target.
pub(crate) fn leave(
    target: &TargetAttributes,
    memory: &mut SeriesMemory,
    time_unix_nano: u64,
) -> Came {
    let mut scrape = Scrape::new(target, memory, LIMITS, time_unix_nano, BUFFERS.take());
    scrape.mark_removed();
    finish(scrape, Vec::new(), None)
}

fn feed(
    scrape: &mut Scrape<'_>,
    pieces: &[&[u8]],
    requests: &mut Vec<MetricsRequest>,
) -> Result<(), BodyFault> {
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let taken = scrape.feed(rest)?;
            rest = &rest[taken..];
            if scrape.is_full() {
                requests.extend(scrape.take_request());
            }
        }
    }
    scrape.end_body()
}

fn finish(
    mut scrape: Scrape<'_>,
    mut requests: Vec<MetricsRequest>,
    fault: Option<BodyFault>,
) -> Came {
    while !scrape.write_remaining(&ScrapeReport { duration_seconds: 0.5 }) {
        requests.extend(scrape.take_request());
    }
    requests.extend(scrape.take_request());
    let counts = scrape.counts();
    BUFFERS.set(scrape.commit_memory());
    for request in &requests {
        let limits = millrace_wire::limits::WireLimits::default();
        let signal = millrace_wire::Signal::Metrics;
        let checked = millrace_wire::otlp::check_request(signal, &request.bytes, &limits).unwrap();
        assert_eq!(checked.records, request.points);
    }
    Came { requests, counts, fault }
}

/// Scrapes a body of the text format.
pub(crate) fn scrape(
    target: &TargetAttributes,
    memory: &mut SeriesMemory,
    time: u64,
    body: &str,
) -> Came {
    scrape_pieces(target, memory, (BodyFormat::Prometheus, LIMITS), time, &[body.as_bytes()])
}

/// Scrapes a body of OpenMetrics.
pub(crate) fn scrape_open(
    target: &TargetAttributes,
    memory: &mut SeriesMemory,
    time: u64,
    body: &str,
) -> Came {
    scrape_pieces(target, memory, (BodyFormat::OpenMetrics, LIMITS), time, &[body.as_bytes()])
}

pub(crate) fn decode(bytes: &[u8]) -> ExportMetricsServiceRequest {
    ExportMetricsServiceRequest::decode(bytes).unwrap()
}

fn attributes(from: &[KeyValue]) -> Vec<String> {
    let text = |value: Option<&AnyValue>| match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    from.iter().map(|one| format!("{}={}", one.key, text(one.value.as_ref()))).collect()
}

/// Renders points as `name kind{attributes} [start..time] values`, with times in seconds.
pub(crate) fn points(bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let groups = decode(bytes).resource_metrics.into_iter().flat_map(|group| group.scope_metrics);
    for one in groups.flat_map(|group| group.metrics) {
        let name = &one.name;
        let numbers = |kind: &str, points: &[_]| -> Vec<String> {
            points.iter().map(|point| format!("{name} {kind}{}", number(point))).collect()
        };
        lines.extend(match one.data.as_ref().unwrap() {
            metric::Data::Gauge(gauge) => numbers("gauge", &gauge.data_points),
            metric::Data::Sum(sum) => {
                assert_eq!(sum.aggregation_temporality, 2);
                numbers(if sum.is_monotonic { "counter" } else { "sum" }, &sum.data_points)
            }
            metric::Data::Histogram(all) => {
                assert_eq!(all.aggregation_temporality, 2);
                let each = all.data_points.iter().map(|point| {
                    let values = format!(
                        "count={} sum={:?} {:?}/{:?}{}",
                        point.count,
                        point.sum,
                        point.explicit_bounds,
                        point.bucket_counts,
                        exemplars(&point.exemplars)
                    );
                    let times = (point.start_time_unix_nano, point.time_unix_nano);
                    let said = said(&point.attributes, times, point.flags, values);
                    format!("{name} histogram{said}")
                });
                each.collect()
            }
            metric::Data::Summary(all) => {
                let each = all.data_points.iter().map(|point| {
                    let pairs = point.quantile_values.iter().map(|one| (one.quantile, one.value));
                    let pairs: Vec<_> = pairs.collect();
                    let values = format!("count={} sum={} {pairs:?}", point.count, point.sum);
                    let times = (point.start_time_unix_nano, point.time_unix_nano);
                    let said = said(&point.attributes, times, point.flags, values);
                    format!("{name} summary{said}")
                });
                each.collect()
            }
            metric::Data::ExponentialHistogram(all) => {
                assert_eq!(all.aggregation_temporality, 2);
                all.data_points.iter().map(|point| exponential(name, point)).collect()
            }
        });
    }
    lines
}

fn exponential(name: &str, point: &ExponentialHistogramDataPoint) -> String {
    let side = |side: Option<&Buckets>| match side {
        Some(side) => format!("{}{:?}", side.offset, side.bucket_counts),
        None => String::new(),
    };
    let values = format!(
        "count={} sum={:?} scale={} zero={}<={:?} +{} -{}{}",
        point.count,
        point.sum,
        point.scale,
        point.zero_count,
        point.zero_threshold,
        side(point.positive.as_ref()),
        side(point.negative.as_ref()),
        exemplars(&point.exemplars)
    );
    let times = (point.start_time_unix_nano, point.time_unix_nano);
    format!("{name} exponential{}", said(&point.attributes, times, point.flags, values))
}

fn number(point: &opentelemetry_proto::tonic::metrics::v1::NumberDataPoint) -> String {
    let value = match point.value {
        Some(number_data_point::Value::AsDouble(value)) => value.to_string(),
        other => format!("{other:?}"),
    };
    let values = format!("{value}{}", exemplars(&point.exemplars));
    said(&point.attributes, (point.start_time_unix_nano, point.time_unix_nano), point.flags, values)
}

fn said(labels: &[KeyValue], (start, time): (u64, u64), flags: u32, values: String) -> String {
    let seconds = |nanos: u64| nanos as f64 / S as f64;
    let start = if start == 0 { String::new() } else { seconds(start).to_string() };
    let values = if flags == 1 { "gone".to_owned() } else { values };
    format!("{{{}}} [{start}..{}] {values}", attributes(labels).join(","), seconds(time))
}

fn exemplars(all: &[Exemplar]) -> String {
    let each = all.iter().map(|one| {
        let value = match one.value {
            Some(exemplar::Value::AsDouble(value)) => value.to_string(),
            other => format!("{other:?}"),
        };
        let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!(
            " <{} {value} {} {}/{}>",
            one.time_unix_nano as f64 / S as f64,
            attributes(&one.filtered_attributes).join(","),
            hex(&one.trace_id),
            hex(&one.span_id)
        )
    });
    each.collect()
}
