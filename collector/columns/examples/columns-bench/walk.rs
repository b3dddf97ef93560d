//! Reading every field and attribute of a request by the views, and keeping nothing.

use millrace_wire::Signal;
use millrace_wire::otlp::{
    Event, Exemplar, ExponentialHistogramPoint, HistogramPoint, KeyValue, KeyValues, Link,
    LogRecord, Metric, MetricData, NumberPoint, Points, Quantile, Repeated, ResourceGroup,
    ScopeGroup, Span, SummaryPoint, resource_groups,
};
use millrace_wire::protobuf::Fault;

/// Walks a request; the number of fields and attributes seen, so that nothing is left out.
pub(crate) fn all(signal: Signal, request: &[u8]) -> Result<usize, Fault> {
    let mut seen = 0;
    for resource in resource_groups(request) {
        let resource = ResourceGroup::parse(resource?)?;
        resource.resource.attributes(|_| {
            seen += 1;
            Ok::<(), Fault>(())
        })?;
        for scope in resource.scopes {
            let scope = ScopeGroup::parse(scope?)?;
            for record in scope.records {
                seen += match signal {
                    Signal::Traces => span(record?)?,
                    Signal::Logs => {
                        let record = LogRecord::parse(record?)?;
                        1 + attributes(record.attributes)?
                    }
                    Signal::Metrics => metric(record?)?,
                };
            }
        }
    }
    Ok(seen)
}

fn attributes(attributes: KeyValues<'_>) -> Result<usize, Fault> {
    let mut seen = 0;
    for attribute in attributes {
        seen += KeyValue::parse(attribute?)?.key.len();
    }
    Ok(seen)
}

fn span(message: &[u8]) -> Result<usize, Fault> {
    let span = Span::parse(message)?;
    let mut seen = attributes(span.attributes)?;
    for event in span.events {
        seen += attributes(Event::parse(event?)?.attributes)?;
    }
    for link in span.links {
        seen += attributes(Link::parse(link?)?.attributes)?;
    }
    Ok(seen + span.name.len())
}

fn exemplars(exemplars: Repeated<'_>) -> Result<usize, Fault> {
    let mut seen = 0;
    for exemplar in exemplars {
        seen += attributes(Exemplar::parse(exemplar?)?.filtered_attributes)?;
    }
    Ok(seen)
}

fn metric(message: &[u8]) -> Result<usize, Fault> {
    match Metric::parse(message)?.data {
        MetricData::Empty => Ok(0),
        MetricData::Gauge(points) | MetricData::Sum { points, .. } => each(points, |point| {
            let point = NumberPoint::parse(point)?;
            Ok(attributes(point.attributes)? + exemplars(point.exemplars)?)
        }),
        MetricData::Histogram { points, .. } => each(points, |point| {
            let point = HistogramPoint::parse(point)?;
            let mut seen = attributes(point.attributes)? + exemplars(point.exemplars)?;
            point.bucket_counts.fixed64(|_| seen += 1)?;
            point.explicit_bounds.fixed64(|_| seen += 1)?;
            Ok(seen)
        }),
        MetricData::ExponentialHistogram { points, .. } => each(points, |point| {
            let point = ExponentialHistogramPoint::parse(point)?;
            let mut seen = attributes(point.attributes)? + exemplars(point.exemplars)?;
            point.positive.counts.varints(|_| seen += 1)?;
            point.negative.counts.varints(|_| seen += 1)?;
            Ok(seen)
        }),
        MetricData::Summary(points) => each(points, |point| {
            let point = SummaryPoint::parse(point)?;
            let mut seen = attributes(point.attributes)?;
            for quantile in point.quantiles {
                seen += usize::from(Quantile::parse(quantile?)?.value > 0.0);
            }
            Ok(seen)
        }),
    }
}

fn each<'a>(
    points: Points<'a>,
    read: impl Fn(&'a [u8]) -> Result<usize, Fault>,
) -> Result<usize, Fault> {
    let mut seen = 0;
    for point in points {
        seen += read(point?)?;
    }
    Ok(seen)
}
