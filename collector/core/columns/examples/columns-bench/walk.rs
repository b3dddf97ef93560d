//! Reads every field and attribute of a request by the views, and stores nothing.

use millrace_wire::Signal;
use millrace_wire::otlp::{
    Event, Exemplar, ExponentialHistogramPoint, HistogramPoint, KeyValue, KeyValues, Link,
    LogRecord, Metric, MetricData, NumberPoint, Points, Quantile, Repeated, ResourceGroup,
    ScopeGroup, Span, SummaryPoint, resource_groups,
};
use millrace_wire::protobuf::WireFault;

/// Walks a request and returns the number of its fields and attributes, so that the compiler
/// removes no read.
pub(crate) fn walk_request(signal: Signal, request: &[u8]) -> Result<usize, WireFault> {
    let mut seen = 0;
    for resource in resource_groups(request) {
        let resource = ResourceGroup::parse(resource?)?;
        resource.resource.for_each_attribute(|_| {
            seen += 1;
            Ok::<(), WireFault>(())
        })?;
        for scope in resource.scopes {
            let scope = ScopeGroup::parse(scope?)?;
            for record in scope.records {
                seen += match signal {
                    Signal::Traces => walk_span(record?)?,
                    Signal::Logs => {
                        let record = LogRecord::parse(record?)?;
                        1 + walk_attributes(record.attributes)?
                    }
                    Signal::Metrics => walk_metric(record?)?,
                };
            }
        }
    }
    Ok(seen)
}

fn walk_attributes(attributes: KeyValues<'_>) -> Result<usize, WireFault> {
    let mut seen = 0;
    for attribute in attributes {
        seen += KeyValue::parse(attribute?)?.key.len();
    }
    Ok(seen)
}

fn walk_span(message: &[u8]) -> Result<usize, WireFault> {
    let span = Span::parse(message)?;
    let mut seen = walk_attributes(span.attributes)?;
    for event in span.events {
        seen += walk_attributes(Event::parse(event?)?.attributes)?;
    }
    for link in span.links {
        seen += walk_attributes(Link::parse(link?)?.attributes)?;
    }
    Ok(seen + span.name.len())
}

fn walk_exemplars(exemplars: Repeated<'_>) -> Result<usize, WireFault> {
    let mut seen = 0;
    for exemplar in exemplars {
        seen += walk_attributes(Exemplar::parse(exemplar?)?.filtered_attributes)?;
    }
    Ok(seen)
}

fn walk_metric(message: &[u8]) -> Result<usize, WireFault> {
    match Metric::parse(message)?.data {
        MetricData::Empty => Ok(0),
        MetricData::Gauge(points) | MetricData::Sum { points, .. } => {
            walk_points(points, |point| {
                let point = NumberPoint::parse(point)?;
                Ok(walk_attributes(point.attributes)? + walk_exemplars(point.exemplars)?)
            })
        }
        MetricData::Histogram { points, .. } => walk_points(points, |point| {
            let point = HistogramPoint::parse(point)?;
            let mut seen = walk_attributes(point.attributes)? + walk_exemplars(point.exemplars)?;
            point.bucket_counts.for_each_fixed64(|_| seen += 1)?;
            point.explicit_bounds.for_each_fixed64(|_| seen += 1)?;
            Ok(seen)
        }),
        MetricData::ExponentialHistogram { points, .. } => walk_points(points, |point| {
            let point = ExponentialHistogramPoint::parse(point)?;
            let mut seen = walk_attributes(point.attributes)? + walk_exemplars(point.exemplars)?;
            point.positive.counts.for_each_varint(|_| seen += 1)?;
            point.negative.counts.for_each_varint(|_| seen += 1)?;
            Ok(seen)
        }),
        MetricData::Summary(points) => walk_points(points, |point| {
            let point = SummaryPoint::parse(point)?;
            let mut seen = walk_attributes(point.attributes)?;
            for quantile in point.quantiles {
                seen += usize::from(Quantile::parse(quantile?)?.value > 0.0);
            }
            Ok(seen)
        }),
    }
}

fn walk_points<'a>(
    points: Points<'a>,
    read: impl Fn(&'a [u8]) -> Result<usize, WireFault>,
) -> Result<usize, WireFault> {
    let mut seen = 0;
    for point in points {
        seen += read(point?)?;
    }
    Ok(seen)
}
