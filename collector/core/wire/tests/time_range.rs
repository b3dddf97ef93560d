//! Compares records outside of the accepted times with the reference library's reading.

use millrace_wire::Signal;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::{
    RequestOutline, TimeRange, check_request, outline_derived_request, outline_request,
    retain_in_range,
};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use proptest::prelude::*;
use proptest::sample::Index;
use prost::Message;

use crate::otlp::{any_request, records};

/// The time around which the records of random requests are, within seconds, besides odd times.
const MIDNIGHT: u64 = 1_790_035_200_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// Returns the time with which each record is stored.
fn times(signal: Signal, request: &[u8]) -> Vec<u64> {
    match signal {
        Signal::Traces => {
            let groups = ExportTraceServiceRequest::decode(request).unwrap().resource_spans;
            let scopes = groups.into_iter().flat_map(|group| group.scope_spans);
            scopes.flat_map(|scope| scope.spans).map(|span| span.start_time_unix_nano).collect()
        }
        Signal::Logs => {
            let groups = ExportLogsServiceRequest::decode(request).unwrap().resource_logs;
            let scopes = groups.into_iter().flat_map(|group| group.scope_logs);
            let logs = scopes.flat_map(|scope| scope.log_records);
            let time = |time, observed| if time == 0 { observed } else { time };
            logs.map(|log| time(log.time_unix_nano, log.observed_time_unix_nano)).collect()
        }
        Signal::Metrics => {
            let groups = ExportMetricsServiceRequest::decode(request).unwrap().resource_metrics;
            let scopes = groups.into_iter().flat_map(|group| group.scope_metrics);
            let metrics = scopes.flat_map(|scope| scope.metrics);
            metrics
                .filter_map(|metric| metric.data)
                .flat_map(|data| times_of_points(&data))
                .collect()
        }
    }
}

fn times_of_points(data: &Data) -> Vec<u64> {
    match data {
        Data::Gauge(gauge) => gauge.data_points.iter().map(|it| it.time_unix_nano).collect(),
        Data::Sum(sum) => sum.data_points.iter().map(|it| it.time_unix_nano).collect(),
        Data::Histogram(it) => it.data_points.iter().map(|it| it.time_unix_nano).collect(),
        Data::ExponentialHistogram(it) => {
            it.data_points.iter().map(|it| it.time_unix_nano).collect()
        }
        Data::Summary(it) => it.data_points.iter().map(|it| it.time_unix_nano).collect(),
    }
}

fn limits(times: TimeRange) -> WireLimits {
    WireLimits { times, ..WireLimits::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Scenario: any request, and a range that excludes some of its records. Guarantee: exactly the
    /// accepted records are retained, in order and with their surroundings; the others are counted;
    /// and the check's result is an upper bound for the shorter request.
    #[test]
    fn refused_and_retained_are_the_original_records(
        (signal, request) in any_request(),
        past in 0..6 * SECOND,
        future in 0..6 * SECOND,
    ) {
        let range = TimeRange::around(MIDNIGHT, past, future);
        let accepted = |time: u64| {
            time == 0 || (MIDNIGHT - past..=MIDNIGHT + future).contains(&time)
        };
        let all = records(signal, &request).unwrap();
        let times = times(signal, &request);
        let expected: Vec<_> = all.iter().zip(&times).filter(|(_, time)| accepted(**time)).collect();
        let found = check_request(signal, &request, &limits(range)).unwrap();
        prop_assert_eq!(found.records, expected.len() as u64);
        prop_assert_eq!(found.out_of_range, (all.len() - expected.len()) as u64);

        let retained = retain_in_range(signal, &request, &range).unwrap();
        prop_assert_eq!(retained.capacity(), request.len(), "it grew, or has room for more");
        let texts: Vec<_> = expected.into_iter().map(|(record, _)| record.clone()).collect();
        prop_assert_eq!(records(signal, &retained).unwrap(), texts);
        prop_assert!(retained.len() <= request.len());

        let again = check_request(signal, &retained, &limits(range)).unwrap();
        prop_assert_eq!(again.out_of_range, 0);
        prop_assert_eq!(&again.days, &found.days);
        // It is less if groups without records are omitted, whose nested names count.
        prop_assert!(again.written_bytes <= found.written_bytes);
        let outline = outline_request(signal, &request, &limits(range)).unwrap();
        prop_assert_eq!((outline.records, outline.out_of_range), (found.records, found.out_of_range));

        // Without the days of the original, all records are read again.
        let complete = limits(TimeRange::ALL);
        let whole = outline_request(signal, &retained, &complete).unwrap();
        for original in [check_request(signal, &request, &complete).unwrap(), RequestOutline::default()] {
            let days = if original.days.is_empty() { &whole.days } else { &original.days };
            let derived = outline_derived_request(signal, &retained, &complete, &original).unwrap();
            prop_assert_eq!(&derived.days, days);
            prop_assert_eq!(RequestOutline { days: whole.days.clone(), ..derived }, whole.clone());
        }
    }

    /// Scenario: damaged requests, with any times that result. Guarantee: requests that pass the
    /// check can be shortened, and have the records that the check counted.
    #[test]
    fn damaged_requests_that_pass_can_be_shortened(
        (signal, mut request) in any_request(),
        damage in proptest::collection::vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        prop_assume!(!request.is_empty());
        for (place, byte) in damage {
            let place = place.index(request.len());
            request[place] = byte;
        }
        let range = TimeRange::around(MIDNIGHT, SECOND, SECOND);
        if let Ok(found) = check_request(signal, &request, &limits(range)) {
            let retained = retain_in_range(signal, &request, &range).unwrap();
            prop_assert_eq!(retained.capacity(), request.len());
            prop_assert_eq!(check_request(signal, &retained, &limits(range)).unwrap().records, found.records);
        } else {
            let _ = retain_in_range(signal, &request, &range);
        }
    }

    /// Scenario: random bytes. Guarantee: shortening them ends.
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for signal in Signal::ALL {
            let range = TimeRange::around(MIDNIGHT, 0, 0);
            let _ = retain_in_range(signal, &bytes, &range);
        }
    }
}

/// Scenario: times at, before and behind both ends. Guarantee: the ends belong to the range, 0 is
/// accepted, and a range extends no further than times do.
#[test]
fn both_ends_and_unknown_times_are_accepted() {
    let range = TimeRange::around(100, 30, 10);
    let accepted: Vec<u64> = (0..200).filter(|time| range.contains(*time)).collect();
    assert_eq!(accepted, [vec![0], (70..=110).collect()].concat());
    assert!(!range.contains(u64::MAX));
    assert!([0, 1, u64::MAX].into_iter().all(|time| TimeRange::ALL.contains(time)));
    let early = TimeRange::around(5, 30, 10);
    assert!(early.contains(1) && early.contains(15) && !early.contains(16));
    assert!(!early.contains(u64::MAX));
    assert!(TimeRange::around(u64::MAX - 1, 1, 10).contains(u64::MAX));
}

/// Scenario: a client with a broken clock sends a span of each of 5,000 days between good ones.
/// Guarantee: the check counts them and passes the others, which are on one day.
#[test]
fn a_broken_clock_costs_no_other_records() {
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    let at = |start_time_unix_nano| Span { start_time_unix_nano, ..Span::default() };
    let broken = (0..5_000).map(|day| at(day * 86_400 * SECOND + 1));
    let spans = [vec![at(MIDNIGHT)], broken.collect(), vec![at(MIDNIGHT + 1), at(0)]].concat();
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    let request = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
    assert!(check_request(Signal::Traces, &request, &WireLimits::default()).is_err());
    let range = TimeRange::around(MIDNIGHT, 30 * 86_400 * SECOND, 86_400 * SECOND);
    let found = check_request(Signal::Traces, &request, &limits(range)).unwrap();
    assert_eq!((found.records, found.out_of_range, found.days.len()), (3, 5_000, 2));
}

/// Scenario: a machine's clock before and from 1 November 2026 on. Guarantee: it excludes no record
/// while it is evidently wrong.
#[test]
fn a_clock_before_this_program_judges_no_record() {
    const FIRST: u64 = 1_793_491_200 * SECOND;
    for wrong in [0, SECOND, FIRST - 1] {
        assert_eq!(TimeRange::around_local_clock(wrong, 30, 10), TimeRange::ALL);
    }
    let range = TimeRange::around_local_clock(FIRST, 30, 10);
    assert_eq!(range, TimeRange::around(FIRST, 30, 10));
}
