//! Tests the views and the check with bytes that encoders rarely write: repeated scalars, merged
//! messages, numbers packed and not, wrong wire types, limits; and the positions that errors
//! report.

use millrace_wire::limits::{NESTING_DEPTH, WireLimits};
use millrace_wire::otlp::{
    self, AnyValue, Event, HistogramPoint, KeyValue, LogRecord, Metric, MetricData, Repeated,
    ResourceGroup, ScopeGroup, Span, resource_groups,
};
use millrace_wire::protobuf::{self, FIXED64, LENGTH, VARINT, WireFault, put_varint};
use millrace_wire::{Signal, WireError, WireErrorKind};

/// A message written by hand.
#[derive(Clone, Default)]
struct Raw(Vec<u8>);

impl Raw {
    fn bytes(mut self, field: u32, value: impl AsRef<[u8]>) -> Self {
        put_varint(&mut self.0, protobuf::field_tag(field, LENGTH).into());
        put_varint(&mut self.0, value.as_ref().len() as u64);
        self.0.extend_from_slice(value.as_ref());
        self
    }

    fn varint(mut self, field: u32, value: u64) -> Self {
        put_varint(&mut self.0, protobuf::field_tag(field, VARINT).into());
        put_varint(&mut self.0, value);
        self
    }

    fn fixed64(mut self, field: u32, value: u64) -> Self {
        put_varint(&mut self.0, protobuf::field_tag(field, FIXED64).into());
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
}

impl AsRef<[u8]> for Raw {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn string_attribute(key: &str, value: &str) -> Raw {
    Raw::default().bytes(1, key).bytes(2, Raw::default().bytes(1, value))
}

/// A request with one span.
fn with_span(span: Raw) -> Vec<u8> {
    let scope_spans = Raw::default().bytes(2, span);
    let resource_spans = Raw::default().bytes(2, scope_spans);
    Raw::default().bytes(1, resource_spans).0
}

fn check(signal: Signal, request: &[u8]) -> Result<u64, WireError> {
    otlp::check_request(signal, request, &WireLimits::default()).map(|checked| checked.records)
}

fn strings(attributes: Repeated<'_>) -> Vec<(String, String)> {
    attributes
        .map(|attribute| {
            let KeyValue { key, value } = KeyValue::parse(attribute.unwrap()).unwrap();
            let AnyValue::String(value) = value else { panic!("not a string: {value:?}") };
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            (text(key), text(value))
        })
        .collect()
}

/// The last of repeated scalars counts, and a repeated status is merged.
#[test]
fn the_last_scalar_wins_and_messages_merge() {
    let span = Raw::default()
        .bytes(5, "first")
        .bytes(15, Raw::default().bytes(2, "message"))
        .varint(6, 2)
        .bytes(5, "last")
        .bytes(15, Raw::default().varint(3, 1))
        .varint(6, 3);
    let span = Span::parse(span.as_ref()).unwrap();
    assert_eq!((span.name, span.kind), (&b"last"[..], 3));
    assert_eq!((span.status.message, span.status.code), (&b"message"[..], 1));
}

/// Repeated fields are found in order although other fields are between them.
#[test]
fn repeated_fields_may_be_interleaved() {
    let span = Raw::default()
        .bytes(9, string_attribute("a", "1"))
        .bytes(11, Raw::default().bytes(2, "event"))
        .bytes(9, string_attribute("b", "2"))
        .bytes(5, "name")
        .bytes(9, string_attribute("c", "3"));
    let span = Span::parse(span.as_ref()).unwrap();
    let pairs = [("a", "1"), ("b", "2"), ("c", "3")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(strings(span.attributes), pairs);
    let event = span.events.clone().next().unwrap().unwrap();
    assert_eq!(Event::parse(event).unwrap().name, b"event");
    assert_eq!(span.events.count_values(), Ok(1));
    assert!(span.links.is_empty());
}

/// A repeated resource or scope has the attributes of all occurrences.
#[test]
fn resources_and_scopes_merge() {
    let resource = |key| Raw::default().bytes(1, string_attribute(key, "r"));
    let scope = |key| Raw::default().bytes(1, key).bytes(3, string_attribute(key, "s"));
    let scope_spans = Raw::default().bytes(1, scope("x")).bytes(1, scope("y"));
    let group = Raw::default()
        .bytes(1, resource("a"))
        .bytes(2, scope_spans)
        .bytes(1, resource("b"))
        .bytes(3, "url");
    let request = Raw::default().bytes(1, group).0;
    let group = resource_groups(&request).next().unwrap().unwrap();
    let group = ResourceGroup::parse(group).unwrap();
    assert_eq!(group.schema_url, b"url");
    let mut keys = Vec::new();
    let mut note = |attribute: KeyValue<'_>| -> Result<(), WireFault> {
        keys.push(attribute.key.to_vec());
        Ok(())
    };
    group.resource.for_each_attribute(&mut note).unwrap();
    let scope = group.scopes.clone().next().unwrap().unwrap();
    let scope = ScopeGroup::parse(scope).unwrap().scope;
    scope.for_each_attribute(&mut note).unwrap();
    assert_eq!((scope.name, keys.concat()), (&b"y"[..], b"abxy".to_vec()));
}

/// Numbers are read packed and one by one, in order.
#[test]
fn numbers_are_read_packed_and_not() {
    let packed: Vec<u8> = [2_u64, 3].iter().flat_map(|n| n.to_le_bytes()).collect();
    let point =
        Raw::default().fixed64(6, 1).fixed64(7, 1.5_f64.to_bits()).bytes(6, packed).fixed64(6, 4);
    let data = Raw::default().bytes(1, point.clone()).varint(2, 2);
    let metric = Raw::default().bytes(1, "m").bytes(9, data);
    let Metric { data: MetricData::Histogram { points, temporality: 2 }, .. } =
        Metric::parse(metric.as_ref()).unwrap()
    else {
        panic!("a histogram")
    };
    let point = points.clone().next().unwrap().unwrap();
    let point = HistogramPoint::parse(point).unwrap();
    let mut counts = Vec::new();
    point.bucket_counts.for_each_fixed64(|count| counts.push(count)).unwrap();
    assert_eq!(counts, [1, 2, 3, 4]);
    let mut bounds = Vec::new();
    point.explicit_bounds.for_each_fixed64(|bound| bounds.push(f64::from_bits(bound))).unwrap();
    assert_eq!(bounds, [1.5]);
}

/// The check and the view refuse a packed array with an incomplete item.
#[test]
fn a_torn_packed_array_is_refused() {
    let point = Raw::default().bytes(6, [0; 9]);
    let metric = Raw::default().bytes(9, Raw::default().bytes(1, point.clone()));
    let scope = Raw::default().bytes(2, metric);
    let request = Raw::default().bytes(1, Raw::default().bytes(2, scope)).0;
    let error = check(Signal::Metrics, &request).unwrap_err();
    assert_eq!(error.kind(), WireErrorKind::PackedLength);
    assert_eq!(
        error.field_path(),
        "resource_metrics.scope_metrics.metrics.histogram.data_points.bucket_counts"
    );
    let view = HistogramPoint::parse(point.as_ref()).unwrap();
    let fault = view.bucket_counts.for_each_fixed64(|_| ()).unwrap_err();
    assert_eq!(fault.kind(), WireErrorKind::PackedLength);
}

/// Unknown fields of any wire type are skipped; groups are refused.
#[test]
fn unknown_fields_are_passed_over_and_groups_refused() {
    let span = Raw::default().varint(99, 7).bytes(98, "x").fixed64(97, 1).bytes(5, "name");
    assert_eq!(Span::parse(span.as_ref()).unwrap().name, b"name");
    assert_eq!(check(Signal::Traces, &with_span(span.clone())), Ok(1));
    let mut group = span;
    put_varint(&mut group.0, protobuf::field_tag(96, 3).into());
    assert_eq!(Span::parse(group.as_ref()).unwrap_err().kind(), WireErrorKind::Group);
    let error = check(Signal::Traces, &with_span(group)).unwrap_err();
    assert_eq!(error.kind(), WireErrorKind::Group);
}

/// The check and the views refuse a known field with another wire type.
#[test]
fn a_wrong_wire_type_is_refused() {
    for span in
        [Raw::default().varint(5, 1), Raw::default().varint(7, 1), Raw::default().bytes(6, "x")]
    {
        let fault = Span::parse(span.as_ref()).unwrap_err();
        assert_eq!(fault.kind(), WireErrorKind::WireType);
        let error = check(Signal::Traces, &with_span(span)).unwrap_err();
        assert_eq!(error.kind(), WireErrorKind::WireType);
    }
    let record = Raw::default().bytes(1, "x");
    assert_eq!(LogRecord::parse(record.as_ref()).unwrap_err().kind(), WireErrorKind::WireType);
}

/// An error states its field, its byte offset and its kind.
#[test]
fn errors_say_where_and_what() {
    let event = Raw::default().bytes(2, [b'o', b'k', 0xff]);
    let request = with_span(Raw::default().bytes(5, "name").bytes(11, event));
    let error = check(Signal::Traces, &request).unwrap_err();
    assert_eq!(request[error.offset()], 0xff);
    assert_eq!(
        error.to_string(),
        format!(
            "malformed otlp traces: a string is not valid utf-8 at byte {} in \
             resource_spans.scope_spans.spans.events.name",
            error.offset()
        )
    );
    let cut = &request[..request.len() - 1];
    let error = check(Signal::Traces, cut).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (WireErrorKind::Truncated, 1));
    assert_eq!(error.field_path(), "resource_spans");
}

/// Ids have their length or are empty.
#[test]
fn ids_of_another_length_are_refused() {
    assert_eq!(check(Signal::Traces, &with_span(Raw::default().bytes(1, [1; 16]))), Ok(1));
    assert_eq!(check(Signal::Traces, &with_span(Raw::default().bytes(1, []))), Ok(1));
    let error = check(Signal::Traces, &with_span(Raw::default().bytes(1, [1; 15]))).unwrap_err();
    assert_eq!(error.kind(), WireErrorKind::IdLength);
    assert_eq!(error.field_path(), "resource_spans.scope_spans.spans.trace_id");
}

/// Nesting, attributes and length are refused one past their limits, not before.
#[test]
fn limits_are_exact() {
    let nested = |depth: u32| {
        let value = (0..depth).fold(Raw::default().bytes(1, "leaf"), |inner, level| {
            if level % 2 == 0 {
                Raw::default().bytes(5, Raw::default().bytes(1, inner))
            } else {
                let member = Raw::default().bytes(1, "k").bytes(2, inner);
                Raw::default().bytes(6, Raw::default().bytes(1, member))
            }
        });
        with_span(Raw::default().bytes(9, Raw::default().bytes(1, "key").bytes(2, value)))
    };
    assert_eq!(check(Signal::Traces, &nested(NESTING_DEPTH)), Ok(1));
    let error = check(Signal::Traces, &nested(NESTING_DEPTH + 1)).unwrap_err();
    assert_eq!(error.kind(), WireErrorKind::TooDeep);

    let span = Raw::default()
        .bytes(9, string_attribute("a", "1"))
        .bytes(9, string_attribute("b", "2"))
        .bytes(11, Raw::default().bytes(3, string_attribute("c", "3")));
    let request = with_span(span);
    let limited = |limits: WireLimits| otlp::check_request(Signal::Traces, &request, &limits);
    assert!(limited(WireLimits { attributes: 2, ..WireLimits::default() }).is_ok());
    let error = limited(WireLimits { attributes: 1, ..WireLimits::default() }).unwrap_err();
    assert_eq!(error.kind(), WireErrorKind::TooManyAttributes);
    assert!(limited(WireLimits { message_bytes: request.len(), ..WireLimits::default() }).is_ok());
    let error = limited(WireLimits { message_bytes: request.len() - 1, ..WireLimits::default() })
        .unwrap_err();
    assert_eq!(error.kind(), WireErrorKind::TooLong);
}

/// A record that doesn't fit even alone is a separate part, and its neighbours stay together.
#[test]
fn an_oversized_record_is_a_part_of_its_own() {
    let span = |name: &str| Raw::default().bytes(5, name);
    let scope_spans = Raw::default()
        .bytes(2, span("a"))
        .bytes(2, span(&"x".repeat(200)))
        .bytes(2, span("b"))
        .bytes(2, span("c"));
    let request = Raw::default().bytes(1, Raw::default().bytes(2, scope_spans)).0;
    let parts = otlp::split_request(Signal::Traces, &request, 100).unwrap();
    let sizes: Vec<(u64, bool)> =
        parts.iter().map(|part| (part.records, part.bytes.len() > 100)).collect();
    assert_eq!(sizes, [(1, false), (1, true), (2, false)]);
}

/// A group whose surroundings take more than half of a part isn't cut: repeated around each of its
/// records they would become gigabytes. Its neighbours are in other parts.
#[test]
fn a_group_of_little_but_header_is_not_multiplied() {
    const RECORDS: u64 = 10_000;
    let span = |name: &str| Raw::default().bytes(5, name);
    let mut heavy = Raw::default().bytes(3, "u".repeat(60_000));
    for _ in 0..RECORDS {
        heavy = heavy.bytes(2, span(""));
    }
    let light = |name: &str| Raw::default().bytes(2, span(name));
    let group = |scope_spans: Raw| Raw::default().bytes(2, scope_spans);
    let request = Raw::default()
        .bytes(1, group(light("before")))
        .bytes(1, group(heavy))
        .bytes(1, group(light("after")))
        .0;
    for max_bytes in [50_000, 70_000, 100_000] {
        let parts = otlp::split_request(Signal::Traces, &request, max_bytes).unwrap();
        let records: Vec<u64> = parts.iter().map(|part| part.records).collect();
        assert_eq!(records, [1, RECORDS, 1], "{max_bytes}");
        let bytes: usize = parts.iter().map(|part| part.bytes.len()).sum();
        assert!(bytes <= request.len(), "{bytes}");
        assert!(parts[0].bytes.len() <= max_bytes && parts[2].bytes.len() <= max_bytes);
    }
    // A request that fits is one part.
    assert_eq!(otlp::split_request(Signal::Traces, &request, request.len()).unwrap().len(), 1);
}

/// The check and the view refuse a metric with repeated data, of two kinds or one: counting all of
/// it and storing the last would lose records unnoticed.
#[test]
fn a_metric_with_data_twice_is_refused() {
    let points = || Raw::default().bytes(1, Raw::default().fixed64(3, 1));
    for (second, name) in
        [(5, "gauge"), (7, "sum"), (9, "histogram"), (10, "exponential_histogram"), (11, "summary")]
    {
        let metric = Raw::default().bytes(5, points()).bytes(second, points());
        let fault = otlp::Metric::parse(&metric.0).unwrap_err();
        assert_eq!(fault.kind(), WireErrorKind::DataTwice);
        let scope = Raw::default().bytes(2, &metric).bytes(2, Raw::default().bytes(5, points()));
        let request = Raw::default().bytes(1, Raw::default().bytes(2, scope)).0;
        let error =
            otlp::check_request(Signal::Metrics, &request, &WireLimits::default()).unwrap_err();
        assert_eq!(error.kind(), WireErrorKind::DataTwice, "{error}");
        assert_eq!(error.field_path(), format!("resource_metrics.scope_metrics.metrics.{name}"));
    }
}
