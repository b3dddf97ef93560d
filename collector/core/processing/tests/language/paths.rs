//! Reading and writing of each path.

use millrace_processing::ContextName;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{Span, Status};

use crate::requests::{
    attribute, compile, compute, int, map, record, run, run_on, spans, step, text,
};

/// Scenario: every field of a log record. Guarantee: reads have the Collector's types.
#[test]
fn fields_of_logs_are_read() {
    for (path, expected) in [
        ("time_unix_nano", int(1_700_000_000_123_456_789)),
        ("observed_time_unix_nano", int(1_700_000_001_000_000_000)),
        ("severity_number", int(9)),
        ("severity_text", text("INFO")),
        ("body", text("Hello, World 42")),
        ("body.string", text("Hello, World 42")),
        ("dropped_attributes_count", int(0)),
        ("flags", int(1)),
        ("trace_id.string", text("0102030405060708090a0b0c0d0e0f10")),
        ("span_id.string", text("0102030405060708")),
        ("event_name", text("event")),
        ("resource.schema_url", text("https://resource")),
        ("scope.schema_url", text("https://scope")),
        ("scope.name", text("library")),
        ("scope.version", text("")),
        ("resource.dropped_attributes_count", int(0)),
        ("resource.attributes", map(vec![attribute("service.name", text("shop"))])),
    ] {
        assert_eq!(compute(path), Ok(Some(expected)), "{path}");
    }
}

/// Scenario: writes to the fields of a log record. Guarantee: the reference library reads them.
#[test]
fn fields_of_logs_are_written() {
    let expect = |statement: &str, expected: LogRecord| {
        let (after, error) = run_on(record(), &[statement]);
        assert_eq!((after, error), (expected, None), "{statement}");
    };
    expect("set(time_unix_nano, 5)", LogRecord { time_unix_nano: 5, ..record() });
    expect("set(time, Unix(1, 2))", LogRecord { time_unix_nano: 1_000_000_002, ..record() });
    expect(
        "set(observed_time, time)",
        LogRecord { observed_time_unix_nano: record().time_unix_nano, ..record() },
    );
    expect(
        "set(severity_number, SEVERITY_NUMBER_FATAL)",
        LogRecord { severity_number: 21, ..record() },
    );
    expect("set(severity_text, \"x\")", LogRecord { severity_text: "x".to_owned(), ..record() });
    expect(
        "set(body, {\"a\": 1})",
        LogRecord { body: Some(map(vec![attribute("a", int(1))])), ..record() },
    );
    expect("set(body.string, \"x\")", LogRecord { body: Some(text("x")), ..record() });
    expect(
        "set(body, attributes[\"m\"][\"inner\"])",
        LogRecord { body: Some(map(vec![attribute("z", int(1))])), ..record() },
    );
    expect(
        "set(dropped_attributes_count, 3)",
        LogRecord { dropped_attributes_count: 3, ..record() },
    );
    expect("set(flags, 0)", LogRecord { flags: 0, ..record() });
    expect(
        "set(trace_id.string, \"000102030405060708090a0b0c0d0e0f\")",
        LogRecord { trace_id: (0..16).collect(), ..record() },
    );
    expect(
        "set(span_id, SpanID(0x0001020304050607))",
        LogRecord { span_id: (0..8).collect(), ..record() },
    );
    expect(
        "set(event_name, body)",
        LogRecord { event_name: "Hello, World 42".to_owned(), ..record() },
    );
}

/// Scenario: a body that is a map. Guarantee: its members are read, written and deleted.
#[test]
fn bodies_may_be_maps() {
    let before = LogRecord {
        body: Some(map(vec![
            attribute("level", text("warn")),
            attribute("inner", map(vec![attribute("x", int(1))])),
        ])),
        ..record()
    };
    let (after, error) = run_on(
        before,
        &[
            "set(severity_text, body[\"level\"])",
            "set(body[\"inner\"][\"y\"], body[\"inner\"][\"x\"] + 1)",
            "delete_key(body[\"inner\"], \"x\")",
            "delete_key(body, \"level\")",
        ],
    );
    assert_eq!(error, None);
    assert_eq!(after.severity_text, "warn");
    assert_eq!(after.body, Some(map(vec![attribute("inner", map(vec![attribute("y", int(2))]))])));
}

fn span() -> Span {
    Span {
        trace_id: (1..=16).collect(),
        span_id: (1..=8).collect(),
        parent_span_id: (2..=9).collect(),
        trace_state: "a=1,b=2".to_owned(),
        name: "GET /".to_owned(),
        kind: 2,
        start_time_unix_nano: 10,
        end_time_unix_nano: 30,
        attributes: vec![attribute("k", text("v"))],
        events: vec![
            Event { name: "first".to_owned(), time_unix_nano: 11, ..Default::default() },
            Event {
                name: "second".to_owned(),
                attributes: vec![attribute("e", int(1))],
                ..Default::default()
            },
        ],
        links: vec![Link::default()],
        status: Some(Status { message: "broken".to_owned(), code: 2 }),
        flags: 0x101,
        ..Default::default()
    }
}

fn run_span(statements: &[&str]) -> Span {
    let rules = compile(vec![step(ContextName::Span, statements)]);
    run(&rules, &spans(vec![span()])).resource_spans[0].scope_spans[0].spans[0].clone()
}

/// Scenario: every field of a span. Guarantee: conditions see the Collector's values.
#[test]
fn fields_of_spans_are_read() {
    for condition in [
        "name == \"GET /\" and kind == SPAN_KIND_SERVER and kind.string == \"Server\"",
        "kind.deprecated_string == \"SPAN_KIND_SERVER\"",
        "status.code == STATUS_CODE_ERROR and status.message == \"broken\"",
        "start_time_unix_nano == 10 and end_time_unix_nano - start_time_unix_nano == 20",
        "end_time > start_time",
        "trace_state == \"a=1,b=2\" and trace_state[\"b\"] == \"2\"",
        "trace_state[\"c\"] == \"\"",
        "parent_span_id.string == \"0203040506070809\"",
        "Len(events) == 2 and Len(links) == 1 and IsList(events)",
        "flags == 257 and not IsRootSpan()",
        "span.attributes[\"k\"] == \"v\" and resource.attributes[\"service.name\"] == \"shop\"",
    ] {
        let after = run_span(&[&format!("set(name, \"yes\") where {condition}")]);
        assert_eq!(after.name, "yes", "{condition}");
    }
}

/// Scenario: writes to the fields of a span. Guarantee: the reference library reads them.
#[test]
fn fields_of_spans_are_written() {
    let expect = |statement: &str, expected: Span| {
        assert_eq!(run_span(&[statement]), expected, "{statement}");
    };
    expect("set(kind.string, \"Client\")", Span { kind: 3, ..span() });
    expect("set(kind, SPAN_KIND_INTERNAL)", Span { kind: 1, ..span() });
    expect(
        "set(status.code, STATUS_CODE_OK)",
        Span { status: Some(Status { message: "broken".to_owned(), code: 1 }), ..span() },
    );
    expect(
        "set(status.message, \"fine\")",
        Span { status: Some(Status { message: "fine".to_owned(), code: 2 }), ..span() },
    );
    expect("set(trace_state, \"x=1\")", Span { trace_state: "x=1".to_owned(), ..span() });
    expect(
        "set(parent_span_id, SpanID(0x0000000000000000))",
        Span { parent_span_id: vec![0; 8], ..span() },
    );
    expect("set(end_time_unix_nano, 99)", Span { end_time_unix_nano: 99, ..span() });
    expect("set(flags, 4294967296)", span());
    expect("set(flags, 1)", Span { flags: 1, ..span() });
    expect("set(dropped_events_count, 2)", Span { dropped_events_count: 2, ..span() });
}

/// Scenario: statements on events, and from events on their span. Guarantee: each event is changed
/// alone; the span keeps its other fields.
#[test]
fn events_are_changed() {
    let rules = compile(vec![step(
        ContextName::SpanEvent,
        &[
            "set(attributes[\"index\"], event_index)",
            "set(name, Concat([span.name, name], \" \")) where event_index == 1",
            "set(span.attributes[\"seen\"], name)",
        ],
    )]);
    let after = run(&rules, &spans(vec![span(), Span::default()]));
    let changed = &after.resource_spans[0].scope_spans[0].spans[0];
    let mut expected = span();
    expected.events[0].attributes = vec![attribute("index", int(0))];
    expected.events[1].attributes.push(attribute("index", int(1)));
    expected.events[1].name = "GET / second".to_owned();
    expected.attributes.push(attribute("seen", text("GET / second")));
    assert_eq!(*changed, expected);
}
