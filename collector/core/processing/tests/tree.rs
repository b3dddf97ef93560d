//! Requests as text, with equal texts for equal requests.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Exemplar, NumberDataPoint};
use opentelemetry_proto::tonic::resource::v1::Resource;

fn value(value: &mut AnyValue) {
    match &mut value.value {
        Some(Value::ArrayValue(list)) => list.values.iter_mut().for_each(self::value),
        Some(Value::KvlistValue(map)) => attributes(&mut map.values),
        _ => {}
    }
}

fn attributes(attributes: &mut [KeyValue]) {
    for attribute in attributes.iter_mut() {
        value(attribute.value.get_or_insert_default());
    }
    attributes.sort_by(|one, other| one.key.cmp(&other.key));
}

fn shared(resource: &mut Option<Resource>) {
    attributes(&mut resource.get_or_insert_default().attributes);
}

fn scope(scope: &mut Option<InstrumentationScope>) {
    attributes(&mut scope.get_or_insert_default().attributes);
}

fn id(id: &mut Vec<u8>) {
    if id.iter().all(|byte| *byte == 0) {
        id.clear();
    }
}

pub(crate) fn normalized_logs(mut request: ExportLogsServiceRequest) -> String {
    for group in &mut request.resource_logs {
        shared(&mut group.resource);
        for scope_logs in &mut group.scope_logs {
            scope(&mut scope_logs.scope);
            for record in &mut scope_logs.log_records {
                attributes(&mut record.attributes);
                value(record.body.get_or_insert_default());
                id(&mut record.trace_id);
                id(&mut record.span_id);
            }
        }
    }
    format!("{request:?}")
}

pub(crate) fn normalized_traces(mut request: ExportTraceServiceRequest) -> String {
    for group in &mut request.resource_spans {
        shared(&mut group.resource);
        for scope_spans in &mut group.scope_spans {
            scope(&mut scope_spans.scope);
            for span in &mut scope_spans.spans {
                attributes(&mut span.attributes);
                span.events.iter_mut().for_each(|event| attributes(&mut event.attributes));
                span.links.iter_mut().for_each(|link| attributes(&mut link.attributes));
                span.status.get_or_insert_default();
                id(&mut span.trace_id);
                id(&mut span.span_id);
                id(&mut span.parent_span_id);
            }
        }
    }
    format!("{request:?}")
}

pub(crate) fn normalized_metrics(mut request: ExportMetricsServiceRequest) -> String {
    for group in &mut request.resource_metrics {
        shared(&mut group.resource);
        for scope_metrics in &mut group.scope_metrics {
            scope(&mut scope_metrics.scope);
            for metric in &mut scope_metrics.metrics {
                attributes(&mut metric.metadata);
                metric.data.iter_mut().for_each(data);
            }
        }
    }
    format!("{request:?}")
}

fn exemplars(exemplars: &mut [Exemplar]) {
    exemplars.iter_mut().for_each(|one| attributes(&mut one.filtered_attributes));
}

fn number(point: &mut NumberDataPoint) {
    attributes(&mut point.attributes);
    exemplars(&mut point.exemplars);
}

fn data(data: &mut Data) {
    match data {
        Data::Gauge(gauge) => gauge.data_points.iter_mut().for_each(number),
        Data::Sum(sum) => sum.data_points.iter_mut().for_each(number),
        Data::Histogram(histogram) => {
            for point in &mut histogram.data_points {
                attributes(&mut point.attributes);
                exemplars(&mut point.exemplars);
            }
        }
        Data::ExponentialHistogram(histogram) => {
            for point in &mut histogram.data_points {
                attributes(&mut point.attributes);
                exemplars(&mut point.exemplars);
                point.positive.get_or_insert_default();
                point.negative.get_or_insert_default();
            }
        }
        Data::Summary(summary) => {
            summary.data_points.iter_mut().for_each(|point| attributes(&mut point.attributes));
        }
    }
}
