//! Compares the check, the cuts and the views with the reference library's reading of the same
//! bytes.

use millrace_wire::Signal;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::{self, RequestOutline};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data};
use proptest::prelude::*;
use prost::Message;

use crate::requests;

/// Returns records with their surroundings, as text: two requests with equal lists hold the same
/// data.
pub(crate) fn records(signal: Signal, request: &[u8]) -> Result<Vec<String>, prost::DecodeError> {
    Ok(match signal {
        Signal::Traces => ExportTraceServiceRequest::decode(request)?
            .resource_spans
            .iter()
            .flat_map(|resource| {
                resource.scope_spans.iter().flat_map(move |scope| {
                    let around = (&resource.resource, &resource.schema_url);
                    let scope_around = (&scope.scope, &scope.schema_url);
                    scope
                        .spans
                        .iter()
                        .map(move |span| format!("{around:?}{scope_around:?}{span:?}"))
                })
            })
            .collect(),
        Signal::Logs => ExportLogsServiceRequest::decode(request)?
            .resource_logs
            .iter()
            .flat_map(|resource| {
                resource.scope_logs.iter().flat_map(move |scope| {
                    let around = (&resource.resource, &resource.schema_url);
                    let scope_around = (&scope.scope, &scope.schema_url);
                    scope
                        .log_records
                        .iter()
                        .map(move |log| format!("{around:?}{scope_around:?}{log:?}"))
                })
            })
            .collect(),
        Signal::Metrics => ExportMetricsServiceRequest::decode(request)?
            .resource_metrics
            .iter()
            .flat_map(|resource| {
                resource.scope_metrics.iter().flat_map(move |scope| {
                    let around = (&resource.resource, &resource.schema_url);
                    let scope_around = (&scope.scope, &scope.schema_url);
                    scope.metrics.iter().flat_map(move |metric| {
                        points(metric)
                            .into_iter()
                            .map(move |point| format!("{around:?}{scope_around:?}{point}"))
                    })
                })
            })
            .collect(),
    })
}

fn points(metric: &Metric) -> Vec<String> {
    let header = Metric { data: None, ..metric.clone() };
    let with = |point: String, data: &dyn std::fmt::Debug| format!("{header:?}{data:?}{point}");
    match &metric.data {
        None => Vec::new(),
        Some(Data::Gauge(gauge)) => {
            gauge.data_points.iter().map(|point| with(format!("{point:?}"), &"gauge")).collect()
        }
        Some(Data::Sum(sum)) => {
            let data = ("sum", sum.aggregation_temporality, sum.is_monotonic);
            sum.data_points.iter().map(|point| with(format!("{point:?}"), &data)).collect()
        }
        Some(Data::Histogram(histogram)) => {
            let data = ("histogram", histogram.aggregation_temporality);
            histogram.data_points.iter().map(|point| with(format!("{point:?}"), &data)).collect()
        }
        Some(Data::ExponentialHistogram(histogram)) => {
            let data = ("exponential", histogram.aggregation_temporality);
            histogram.data_points.iter().map(|point| with(format!("{point:?}"), &data)).collect()
        }
        Some(Data::Summary(summary)) => {
            summary.data_points.iter().map(|point| with(format!("{point:?}"), &"summary")).collect()
        }
    }
}

/// Returns the bytes of a request that are not its records.
fn surroundings_bytes(signal: Signal, request: &[u8]) -> usize {
    match signal {
        Signal::Traces => {
            let mut request = ExportTraceServiceRequest::decode(request).unwrap();
            let scopes = request.resource_spans.iter_mut().flat_map(|group| &mut group.scope_spans);
            scopes.for_each(|scope| scope.spans.clear());
            request.encoded_len()
        }
        Signal::Logs => {
            let mut request = ExportLogsServiceRequest::decode(request).unwrap();
            let scopes = request.resource_logs.iter_mut().flat_map(|group| &mut group.scope_logs);
            scopes.for_each(|scope| scope.log_records.clear());
            request.encoded_len()
        }
        Signal::Metrics => {
            let mut request = ExportMetricsServiceRequest::decode(request).unwrap();
            let groups = request.resource_metrics.iter_mut();
            let scopes = groups.flat_map(|group| &mut group.scope_metrics);
            for metric in scopes.flat_map(|scope| &mut scope.metrics) {
                match &mut metric.data {
                    None => {}
                    Some(Data::Gauge(gauge)) => gauge.data_points.clear(),
                    Some(Data::Sum(sum)) => sum.data_points.clear(),
                    Some(Data::Histogram(histogram)) => histogram.data_points.clear(),
                    Some(Data::ExponentialHistogram(histogram)) => histogram.data_points.clear(),
                    Some(Data::Summary(summary)) => summary.data_points.clear(),
                }
            }
            request.encoded_len()
        }
    }
}

pub(crate) fn any_request() -> BoxedStrategy<(Signal, Vec<u8>)> {
    prop_oneof![
        requests::traces().prop_map(|request| (Signal::Traces, request.encode_to_vec())),
        requests::logs().prop_map(|request| (Signal::Logs, request.encode_to_vec())),
        requests::metrics().prop_map(|request| (Signal::Metrics, request.encode_to_vec())),
    ]
    .boxed()
}

fn two_requests() -> BoxedStrategy<(Signal, Vec<u8>, Vec<u8>)> {
    let two = |signal, one: Vec<u8>, other: Vec<u8>| (signal, one, other);
    prop_oneof![
        (requests::traces(), requests::traces()).prop_map(move |(a, b)| two(
            Signal::Traces,
            a.encode_to_vec(),
            b.encode_to_vec()
        )),
        (requests::logs(), requests::logs()).prop_map(move |(a, b)| two(
            Signal::Logs,
            a.encode_to_vec(),
            b.encode_to_vec()
        )),
        (requests::metrics(), requests::metrics()).prop_map(move |(a, b)| two(
            Signal::Metrics,
            a.encode_to_vec(),
            b.encode_to_vec()
        )),
    ]
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any request that the reference library encodes passes the check, with its number of records.
    #[test]
    fn well_formed_requests_pass_and_are_counted((signal, request) in any_request()) {
        let RequestOutline { records: counted, .. } =
            otlp::check_request(signal, &request, &WireLimits::default()).unwrap();
        prop_assert_eq!(counted, records(signal, &request).unwrap().len() as u64);
    }

    /// A request truncated at any byte is refused, unless it was cut between two groups; then it is
    /// a request with fewer records. The reference library also reads what passes.
    #[test]
    fn requests_cut_off_anywhere_are_refused_or_whole((signal, request) in any_request()) {
        for end in 0..request.len() {
            let cut = &request[..end];
            match otlp::check_request(signal, cut, &WireLimits::default()) {
                Ok(RequestOutline { records: counted, .. }) => {
                    prop_assert_eq!(counted, records(signal, cut).unwrap().len() as u64);
                }
                Err(error) => prop_assert!(error.offset() <= end, "{error}"),
            }
        }
    }

    /// Damaged bytes never cause a panic; the reference library reads what the check passes, with
    /// the same number of records, and the check refuses what the library refuses.
    #[test]
    fn the_check_is_at_least_as_strict_as_the_reference(
        (signal, mut request) in any_request(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        prop_assume!(!request.is_empty());
        for (place, byte) in damage {
            let place = place.index(request.len());
            request[place] = byte;
        }
        let reference = records(signal, &request);
        match otlp::check_request(signal, &request, &WireLimits::default()) {
            Ok(RequestOutline { records: counted, .. }) => {
                prop_assert_eq!(counted, reference.expect("passed the check").len() as u64);
            }
            Err(error) => prop_assert!(error.offset() <= request.len()),
        }
        // Cutting damaged bytes also gives a result.
        let _ = otlp::split_request(signal, &request, 64);
    }

    /// Random bytes give a result for every signal.
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for signal in Signal::ALL {
            let _ = otlp::check_request(signal, &bytes, &WireLimits::default());
            let _ = otlp::split_request(signal, &bytes, 50);
        }
    }

    /// Requests of one signal concatenate to one request with the records of both, in order.
    #[test]
    fn requests_concatenate((signal, one, other) in two_requests()) {
        let joined = [one.as_slice(), other.as_slice()].concat();
        let mut expected = records(signal, &one).unwrap();
        expected.extend(records(signal, &other).unwrap());
        prop_assert_eq!(records(signal, &joined).unwrap(), expected);
    }

    /// Parts hold the same records in the same order with the same surroundings, each part is a
    /// request, and only a part of one record, or of records whose surroundings take more than half
    /// of the requested size, may exceed that size.
    #[test]
    fn cutting_keeps_every_record_and_its_surroundings(
        (signal, request) in any_request(),
        max_bytes in 1_usize..4000,
    ) {
        let parts = otlp::split_request(signal, &request, max_bytes).unwrap();
        let mut found = Vec::new();
        for part in &parts {
            let checked = otlp::check_request(signal, &part.bytes, &WireLimits::default()).unwrap();
            prop_assert_eq!(checked.records, part.records);
            let long = part.bytes.len() > max_bytes && part.records > 1;
            prop_assert!(!long || surroundings_bytes(signal, &part.bytes) > max_bytes / 2);
            found.extend(records(signal, &part.bytes).unwrap());
        }
        prop_assert_eq!(found, records(signal, &request).unwrap());
    }

    /// Parts are filled: two neighbours never fit into one.
    #[test]
    fn parts_are_filled(
        (signal, request) in any_request(),
        max_bytes in 200_usize..4000,
    ) {
        let parts = otlp::split_request(signal, &request, max_bytes).unwrap();
        for pair in parts.windows(2) {
            // The headers repeated in the second part may be the reason, so they are allowed for.
            let both = pair[0].bytes.len() + pair[1].bytes.len();
            prop_assert!(both > max_bytes, "{} + {}", pair[0].bytes.len(), pair[1].bytes.len());
        }
    }
}
