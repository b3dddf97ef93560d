//! What the reference library reads in the same bytes.

use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message;

/// How many records a request has, if the library reads it.
pub(crate) fn records(signal: Signal, request: &[u8]) -> Option<u64> {
    let records: usize = match signal {
        Signal::Traces => {
            let request = ExportTraceServiceRequest::decode(request).ok()?;
            let scopes = request.resource_spans.iter().flat_map(|group| &group.scope_spans);
            scopes.map(|scope| scope.spans.len()).sum()
        }
        Signal::Logs => {
            let request = ExportLogsServiceRequest::decode(request).ok()?;
            let scopes = request.resource_logs.iter().flat_map(|group| &group.scope_logs);
            scopes.map(|scope| scope.log_records.len()).sum()
        }
        Signal::Metrics => {
            let request = ExportMetricsServiceRequest::decode(request).ok()?;
            let scopes = request.resource_metrics.iter().flat_map(|group| &group.scope_metrics);
            scopes.flat_map(|scope| &scope.metrics).map(points).sum()
        }
    };
    Some(records as u64)
}

fn points(metric: &Metric) -> usize {
    match &metric.data {
        None => 0,
        Some(Data::Gauge(gauge)) => gauge.data_points.len(),
        Some(Data::Sum(sum)) => sum.data_points.len(),
        Some(Data::Histogram(histogram)) => histogram.data_points.len(),
        Some(Data::ExponentialHistogram(histogram)) => histogram.data_points.len(),
        Some(Data::Summary(summary)) => summary.data_points.len(),
    }
}
