//! Steps that redact requests.

use millrace_processing::{
    Config, ContextName, Counts, DropConditions, Outcome, RuleSet, Scratch, Step,
};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
    HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Summary,
    SummaryDataPoint, metric::Data,
};
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use prost::Message;
use serde_json::json;

use crate::requests::{
    LIMIT_BYTES, Request, attribute, bytes, compile, double, find, int, list, logs, map, record,
    resource, run, scope, spans, step, text, try_run,
};

/// A secret that the default settings find, and what is around it.
const SECRET: &str = "anna@example.com";

pub(crate) fn redact(config: serde_json::Value) -> Step {
    let redact = serde_json::from_value(config).expect("settings");
    Step { redact: Some(Box::new(redact)), ..Step::default() }
}

fn secret() -> AnyValue {
    text(&format!("from {SECRET}!"))
}

fn nested() -> AnyValue {
    map(vec![
        attribute("list", list(vec![secret(), int(1), list(vec![bytes(SECRET.as_bytes())])])),
        attribute("map", map(vec![attribute("k", secret()), attribute("n", double(0.5))])),
    ])
}

fn attributes() -> Vec<KeyValue> {
    vec![attribute("plain", text("x")), attribute("s", secret()), attribute("deep", nested())]
}

fn full_logs() -> impl Request {
    let mut request = logs(vec![
        LogRecord { body: Some(secret()), attributes: attributes(), ..record() },
        record(),
        LogRecord { body: Some(nested()), event_name: SECRET.to_owned(), ..record() },
    ]);
    request.resource_logs[0].resource = resource(attributes());
    request.resource_logs[0].scope_logs[0].scope =
        Some(InstrumentationScope { attributes: attributes(), ..scope("s").unwrap() });
    request
}

fn full_spans() -> impl Request {
    let event = Event { name: SECRET.to_owned(), attributes: attributes(), ..Default::default() };
    let link = Link { attributes: attributes(), trace_id: vec![1; 16], ..Default::default() };
    let mut request = spans(vec![
        Span {
            name: format!("GET /users/{SECRET}"),
            attributes: attributes(),
            events: vec![Event::default(), event],
            links: vec![link, Link::default()],
            status: Some(Status { message: SECRET.to_owned(), code: 2 }),
            ..Default::default()
        },
        Span { status: Some(Status { message: "ok".to_owned(), code: 1 }), ..Default::default() },
    ]);
    request.resource_spans[0].resource = resource(attributes());
    request
}

fn full_metrics() -> impl Request {
    let exemplars = || {
        vec![
            Exemplar { filtered_attributes: attributes(), time_unix_nano: 3, ..Default::default() },
            Exemplar::default(),
        ]
    };
    let number =
        NumberDataPoint { attributes: attributes(), exemplars: exemplars(), ..Default::default() };
    let histogram = HistogramDataPoint {
        attributes: attributes(),
        exemplars: exemplars(),
        ..Default::default()
    };
    let exponential = ExponentialHistogramDataPoint {
        attributes: attributes(),
        exemplars: exemplars(),
        ..Default::default()
    };
    let summary = SummaryDataPoint { attributes: attributes(), ..Default::default() };
    let metric = |data: Data| Metric {
        name: "m".to_owned(),
        metadata: attributes(),
        data: Some(data),
        ..Default::default()
    };
    let metrics = vec![
        metric(Data::Gauge(Gauge { data_points: vec![number] })),
        metric(Data::Histogram(Histogram { data_points: vec![histogram], ..Default::default() })),
        metric(Data::ExponentialHistogram(ExponentialHistogram {
            data_points: vec![exponential],
            ..Default::default()
        })),
        metric(Data::Summary(Summary { data_points: vec![summary] })),
    ];
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: resource(attributes()),
            scope_metrics: vec![ScopeMetrics { scope: scope("s"), metrics, ..Default::default() }],
            ..Default::default()
        }],
    }
}

fn contains(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
}

/// Replaces secrets of the same length in a request's text form.
fn expected<R: Request>(request: &R) -> String {
    let bytes = |text: &str| format!("{:?}", text.as_bytes());
    format!("{request:?}")
        .replace(SECRET, "****************")
        .replace(&bytes(SECRET), &bytes("****************"))
}

fn redacts_everywhere<R: Request>(request: &R, secrets: u64) {
    let sixteen = json!({"action": {"mask": {"text": "****************"}}, "sets": ["Email"]});
    let rules = compile(vec![redact(sixteen)]);
    assert_eq!(rules.walks(R::SIGNAL), 1);
    let mut counts = Counts::default();
    let after = try_run(&rules, request, &mut counts).unwrap();
    assert!(!contains(&after.encode_to_vec(), SECRET), "{after:?}");
    assert_eq!(format!("{after:?}"), expected(request));
    assert_eq!(counts.rules[0].matched, secrets);
}

/// Scenario: a secret at every position of logs, spans and metrics where text may be, also in
/// nested lists and maps, bytes, events, links and exemplars.
/// Guarantee: each is masked and counted under its set; nothing else changes; one walk.
#[test]
fn secrets_are_redacted_at_every_position() {
    redacts_everywhere(&full_logs(), 4 * 3 + 1 + 3 + 1);
    redacts_everywhere(&full_spans(), 4 * 4 + 3);
    redacts_everywhere(&full_metrics(), 4 * (1 + 4 + 4 + 3));
}

/// Scenario: a step whose sets find nothing. Guarantee: the same bytes, without a copy.
#[test]
fn requests_without_secrets_are_unchanged() {
    let rules = compile(vec![redact(json!({"sets": ["Card", "Iban", "Jwt"]}))]);
    let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
    for (signal, input) in [
        (Signal::Logs, full_logs().encode_to_vec()),
        (Signal::Traces, full_spans().encode_to_vec()),
        (Signal::Metrics, full_metrics().encode_to_vec()),
    ] {
        let outcome =
            rules.run(signal, &input, LIMIT_BYTES, &mut scratch, &mut counts, &mut Vec::new());
        assert_eq!(outcome, Ok(Outcome::Unchanged));
    }
    assert!(counts.rules.iter().all(|rule| rule.matched == 0 && rule.changed == 0));
}

/// Scenario: the action `drop` on attributes, members, list elements, bodies, names, messages.
/// Guarantee: each value that contains a match is removed, and nothing else.
#[test]
fn dropped_values_are_removed() {
    let rules = compile(vec![redact(json!({"action": {"drop": {}}}))]);
    let after = run(
        &rules,
        &logs(vec![
            LogRecord { attributes: attributes(), body: Some(secret()), ..record() },
            LogRecord { event_name: SECRET.to_owned(), body: Some(nested()), ..record() },
        ]),
    );
    let records = &after.resource_logs[0].scope_logs[0].log_records;
    let deep = map(vec![
        attribute("list", list(vec![int(1), list(vec![])])),
        attribute("map", map(vec![attribute("n", double(0.5))])),
    ]);
    assert_eq!(
        records[0].attributes,
        [attribute("plain", text("x")), attribute("deep", deep.clone())]
    );
    assert_eq!((&records[0].body, &records[1].body), (&None, &Some(deep)));
    assert_eq!(records[1].event_name, "");
    let status = Some(Status { message: SECRET.to_owned(), code: 2 });
    let after =
        run(&rules, &spans(vec![Span { name: SECRET.to_owned(), status, ..Default::default() }]));
    let span = &after.resource_spans[0].scope_spans[0].spans[0];
    assert_eq!((span.name.as_str(), span.status.as_ref().unwrap().code), ("", 2));
    assert_eq!(span.status.as_ref().unwrap().message, "");
}

/// Scenario: lists of blocked, ignored and allowed keys, on attributes and on members of maps.
/// Guarantee: blocked values of all types are replaced at any depth, ignored ones stay, and only
/// attributes themselves are removed because of their keys; each list counts.
#[test]
fn keys_decide_about_attributes_and_members() {
    let rules = compile(vec![redact(json!({
        "sets": ["Email"],
        "ignoredKeys": {"names": ["contact"]},
        "allowedKeys": {"names": ["user", "password", "pin", "none", "service.name"]},
        "blockedKeys": {"patterns": ["^(password|pin|none)$"]},
    }))]);
    let lists: Vec<&str> = rules.rules().iter().map(|rule| rule.list).collect();
    assert_eq!(lists, ["redact.sets", "redact.blockedKeys", "redact.allowedKeys"]);
    let user = |password: AnyValue, contact: AnyValue, other: AnyValue| {
        map(vec![
            attribute("password", password),
            attribute("contact", contact),
            attribute("other", other),
        ])
    };
    let request = logs(vec![LogRecord {
        attributes: vec![
            attribute("user", user(list(vec![int(1)]), secret(), secret())),
            attribute("contact", secret()),
            attribute("extra", text("x")),
            attribute("pin", int(1234)),
            attribute("none", AnyValue::default()),
            attribute("password", bytes(b"\xff\xfe")),
        ],
        body: Some(user(double(f64::INFINITY), text("x"), text("y"))),
        ..record()
    }]);
    let mut counts = Counts::default();
    let after = try_run(&rules, &request, &mut counts).unwrap();
    let record = &after.resource_logs[0].scope_logs[0].log_records[0];
    let stars = || text("****");
    assert_eq!(
        record.attributes,
        [
            attribute("user", user(stars(), secret(), text("from ****!"))),
            attribute("contact", secret()),
            attribute("pin", stars()),
            attribute("none", AnyValue::default()),
            attribute("password", bytes(b"****")),
        ]
    );
    assert_eq!(record.body, Some(user(stars(), text("x"), text("y"))));
    let matched: Vec<u64> = counts.rules.iter().map(|rule| rule.matched).collect();
    let changed: Vec<u64> = counts.rules.iter().map(|rule| rule.changed).collect();
    assert_eq!((matched, changed), (vec![1, 4, 1], vec![1, 1, 1]));
}

/// Scenario: hashes with a key from a file; without; and with a file that can't be read.
/// Guarantee: equal values have equal hashes; faults are reported with the field.
#[test]
fn hashes_take_their_key_from_a_file() {
    let config = |redact: serde_json::Value| -> Config {
        serde_json::from_value(json!([{"name": "secrets", "redact": redact}])).unwrap()
    };
    let hash = json!({"action": {"hash": {}}, "hashKeyFile": "/keys/hash"});
    let read = |path: &str| {
        assert_eq!(path, "/keys/hash");
        Ok(b"0123456789abcdef0123456789abcdef".to_vec())
    };
    let rules = RuleSet::compile_with_secrets(&config(hash.clone()), &read).unwrap();
    let after = run(&rules, &logs(vec![LogRecord { body: Some(text(SECRET)), ..record() }]));
    let hashed = text("b4f91fcf9c0343c2");
    assert_eq!(after.resource_logs[0].scope_logs[0].log_records[0].body, Some(hashed));
    let refuse = |_: &str| Err("no such file".to_owned());
    for (config, expected) in [
        (config(hash.clone()), r#"step "secrets", redact.hashKeyFile: no such file"#),
        (
            config(json!({"action": {"hash": {}}})),
            "step \"secrets\", redact.action: a hash needs a key: name the file that has it in \
             hashKeyFile",
        ),
        (
            config(json!({"patterns": [{"name": "a", "pattern": "b", "action": {}}]})),
            "step \"secrets\", redact.patterns[0].action: an action is exactly one of mask, hash \
             and drop",
        ),
    ] {
        let errors = RuleSet::compile_with_secrets(&config, &refuse).unwrap_err();
        assert_eq!(errors.to_string(), expected);
    }
    assert!(RuleSet::compile(&config(hash)).is_err());
}

/// Scenario: statements before and after redaction, on the same and on other objects.
/// Guarantee: steps take effect in their order, in one walk unless a step reads around its object.
#[test]
fn redaction_shares_the_walk_of_its_neighbours() {
    let secrets = || redact(json!({"sets": ["Email"]}));
    let copy = step(ContextName::Log, &["set(attributes[\"copy\"], body)"]);
    let outer = step(ContextName::Resource, &["set(attributes[\"mail\"], \"bob@example.com\")"]);
    let rules = compile(vec![outer, copy.clone(), secrets(), copy.clone()]);
    assert_eq!(rules.walks(Signal::Logs), 1);
    let request = || logs(vec![LogRecord { body: Some(secret()), ..record() }]);
    let after = run(&rules, &request());
    assert!(!contains(&after.encode_to_vec(), "example.com"));
    let record = &after.resource_logs[0].scope_logs[0].log_records[0];
    assert_eq!(find(record, "copy"), Some(text("from ****!")));

    let reading =
        step(ContextName::Log, &["set(attributes[\"mail\"], resource.attributes[\"mail\"])"]);
    let rules = compile(vec![reading.clone(), secrets()]);
    assert_eq!(rules.walks(Signal::Logs), 2);
    let mut mail = request();
    mail.resource_logs[0].resource = resource(vec![attribute("mail", secret())]);
    assert!(!contains(&run(&rules, &mail).encode_to_vec(), SECRET));
    let rules = compile(vec![secrets(), reading]);
    assert_eq!(rules.walks(Signal::Logs), 1);
    assert!(!contains(&run(&rules, &mail).encode_to_vec(), SECRET));
}

/// Scenario: rules that make records, events, resources and metrics exceed a limit, before and
/// after redaction in the same walk.
/// Guarantee: the objects are left as they were except for secrets, which are redacted nevertheless
/// and without growth.
#[test]
fn objects_over_a_limit_are_redacted_nevertheless() {
    let long = json!({
        "sets": ["Email"],
        "action": {"mask": {"text": "a mask longer than mail\u{fc}\u{fc}"}},
        "blockedKeys": {"names": ["plain"]},
    });
    let filler = "x".repeat(3_000);
    let grow = format!("set(attributes[\"big\"], \"{filler}\")");
    let deep = "set(attributes[\"x\"][20000], 1)";
    for statement in [grow.as_str(), deep] {
        for context in [ContextName::Log, ContextName::Resource, ContextName::Scope] {
            for is_first in [true, false] {
                let mut steps = vec![step(context, &[statement]), redact(long.clone())];
                if !is_first {
                    steps.reverse();
                }
                over_limit(&compile(steps), &full_logs());
            }
        }
        for context in [ContextName::Span, ContextName::SpanEvent] {
            over_limit(
                &compile(vec![step(context, &[statement]), redact(long.clone())]),
                &full_spans(),
            );
            over_limit(
                &compile(vec![redact(long.clone()), step(context, &[statement])]),
                &full_spans(),
            );
        }
        let rules = compile(vec![redact(long.clone()), step(ContextName::DataPoint, &[statement])]);
        over_limit(&rules, &full_metrics());
    }
    over_limit(&compile(vec![redact(long)]), &full_metrics());
}

fn over_limit<R: Request>(rules: &RuleSet, request: &R) {
    let input = request.encode_to_vec();
    let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
    for limit_bytes in [input.len(), input.len() + 40] {
        let outcome =
            rules.run(R::SIGNAL, &input, limit_bytes, &mut scratch, &mut counts, &mut Vec::new());
        let Ok(Outcome::Changed(output)) = outcome else { panic!("{outcome:?}") };
        assert!(
            output.len() <= limit_bytes,
            "{} of {limit_bytes}: {:?}",
            output.len(),
            rules.rules()
        );
        assert!(!contains(&output, SECRET), "{:?}", R::decode(output.as_slice()));
        R::decode(output.as_slice()).unwrap();
    }
    assert!(counts.over_limit > 0 || counts.rules.iter().any(|rule| rule.failed > 0));
}

/// Scenario: dropped records and redaction in one walk. Guarantee: both apply.
#[test]
fn dropping_and_redaction_share_a_walk() {
    let drop = DropConditions {
        logs: vec!["severity_number < 9".to_owned()],
        ..DropConditions::default()
    };
    let rules = compile(vec![redact(json!({})), Step { drop: Some(drop), ..Step::default() }]);
    assert_eq!(rules.walks(Signal::Logs), 1);
    let request = logs(vec![
        LogRecord { severity_number: 1, ..record() },
        LogRecord { body: Some(secret()), ..record() },
    ]);
    let after = run(&rules, &request);
    let records = &after.resource_logs[0].scope_logs[0].log_records;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].body, Some(text("from ****!")));
}
