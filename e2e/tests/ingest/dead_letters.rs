//! Dead letters as their owner meets them, all parts real: a record that ClickHouse refuses becomes
//! a letter, is listed and shown, and is sent again once the table was mended.

use std::process::{Command, Output};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use millrace_e2e::lab::{DEAD_LETTERS, Lab, TOPIC};
use millrace_e2e::process::last_lines;
use millrace_e2e::{binaries, topics, wait};
use millrace_stack::clickhouse::{Fault, FaultKind};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;

/// For a letter to be written, or a span to be stored.
const LIMIT: Duration = Duration::from_secs(60);

/// `millrace-collector dead-letters` with the settings of the lab's gateway.
fn dead_letters(lab: &Lab, arguments: &[&str]) -> Output {
    let config = lab.folder().join("gateway.yaml");
    let mut command = Command::new(binaries::path("millrace-collector").unwrap());
    command.arg("dead-letters").args(arguments).arg("--config").arg(config);
    command.output().unwrap()
}

/// The same, and it must do well.
fn said(lab: &Lab, arguments: &[&str]) -> String {
    let output = dead_letters(lab, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn span(name: &str) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let span = Span {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        name: name.to_owned(),
        start_time_unix_nano: now,
        end_time_unix_nano: now,
        ..Span::default()
    };
    let scope = ScopeSpans { spans: vec![span], ..ScopeSpans::default() };
    let group = ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![group] }.encode_to_vec()
}

fn stored(lab: &Lab, name: &str) -> String {
    let sql = format!("SELECT count() FROM otel.otel_traces WHERE SpanName = '{name}'");
    lab.engine.query(&sql).unwrap().trim().to_owned()
}

fn until_stored(lab: &Lab, name: &str) {
    wait::until("the span to be stored", LIMIT, || match stored(lab, name).as_str() {
        "1" => Ok(()),
        other => {
            let log = std::fs::read_to_string(lab.folder().join("gateway.log")).unwrap_or_default();
            bail!("stored {other} times; the gateway says\n{}", last_lines(&log, 15))
        }
    })
    .unwrap();
}

/// Scenario: ClickHouse refuses one span for what is in it, and one message is no OTLP; later
/// ClickHouse would take the span. Guarantee: neighbours are stored meanwhile; both letters are
/// listed with reason and source and can be looked at; once sent again the span is stored, once, and
/// a second `resend` sends nothing. Slow: a broker, an engine and a gateway start, and the command
/// runs ten times, each time with a new Kafka client.
#[test]
fn a_refused_record_is_listed_shown_and_sent_again() {
    let lab = Lab::start().unwrap();
    let bootstrap = lab.broker.bootstrap();
    let _gateway = lab.gateway("gateway", "").unwrap();
    topics::produce(&bootstrap, TOPIC, 2, b"\x0a\xff\xff\x03").unwrap();
    // VIOLATED_CONSTRAINT, once: the message is alone in its batch, so no second insert asks.
    let kind = FaultKind::Error { code: 469 };
    let fault = Fault { kind, matching: "INSERT INTO".to_owned(), times: 1 };
    lab.engine.inject(&fault).unwrap();
    topics::produce(&bootstrap, TOPIC, 1, &span("poison")).unwrap();
    wait::until("two letters", LIMIT, || match topics::count(&bootstrap, DEAD_LETTERS)? {
        2 => Ok(()),
        count => bail!("{count} letters"),
    })
    .unwrap();
    topics::produce(&bootstrap, TOPIC, 1, &span("neighbour")).unwrap();
    until_stored(&lab, "neighbour");

    let list = said(&lab, &["list"]);
    assert!(
        list.contains("dead_letters=2") && list.contains("reason=truncated dead_letters=1"),
        "{list}"
    );
    let letters: Vec<serde_json::Value> = said(&lab, &["list", "--output", "json"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let find = |source: &str| {
        let letter = letters.iter().find(|letter| letter["source"] == source);
        letter.unwrap_or_else(|| panic!("no letter of {source} in {letters:?}"))
    };
    let (poison, broken) = (find("otlp_traces 1:0"), find("otlp_traces 2:0"));
    assert_eq!(poison["sent"], false);
    let place =
        |letter: &serde_json::Value| format!("{}:{}", letter["partition"], letter["offset"]);
    let text = said(&lab, &["show", &place(poison), "--signal", "traces"]);
    assert!(text.contains("\"name\": \"poison\""), "{text}");
    let text = said(&lab, &["show", &place(broken), "--signal", "traces"]);
    assert!(text.contains("malformed otlp traces") && text.contains("[ff]"), "{text}");
    let output = dead_letters(&lab, &["show", "0:99", "--signal", "traces"]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("has no dead letter at 0:99"), "{complaint}");
    assert_eq!(dead_letters(&lab, &["resend"]).status.code(), Some(64), "it must be said which");

    let reason = poison["reason"].as_str().unwrap();
    let text = said(&lab, &["resend", "--reason", reason, "--dry-run"]);
    assert!(text.contains("would_send=1"), "{text}");
    let text = said(&lab, &["resend", "--reason", reason]);
    assert!(text.ends_with("sent=1 sent_before=0 elsewhere=0 without_bytes=0\n"), "{text}");
    until_stored(&lab, "poison");
    let text = said(&lab, &["resend", "--reason", reason]);
    assert!(text.ends_with("sent=0 sent_before=1 elsewhere=0 without_bytes=0\n"), "{text}");
    let list = said(&lab, &["list", "--reason", reason]);
    assert!(list.lines().any(|line| line.contains(" yes")), "{list}");
    lab.committed(LIMIT).unwrap();
    assert_eq!((stored(&lab, "poison"), stored(&lab, "neighbour")), ("1".into(), "1".into()));
}

/// What the broker says to one request of its admin interface.
fn admin<R>(lab: &Lab, ask: impl AsyncFnOnce(AdminClient<DefaultClientContext>) -> R) -> R {
    let mut config = ClientConfig::new();
    let admin = config.set("bootstrap.servers", lab.broker.bootstrap()).create().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(ask(admin))
}

/// Scenario: the dead-letter topic is gone when a broken message comes; later it is made again.
/// Guarantee: neighbours on the same partition are stored within 30 s; the broken message is not
/// committed past, and is in the topic once there is one. Slow: a broker, an engine and a gateway
/// start.
#[test]
fn without_a_dead_letter_topic_neighbours_are_stored_and_the_letter_waits() {
    let lab = Lab::start().unwrap();
    let bootstrap = lab.broker.bootstrap();
    admin(&lab, async |admin| {
        admin.delete_topics(&[DEAD_LETTERS], &AdminOptions::new()).await.unwrap()
    });
    let _gateway = lab.gateway("gateway", "").unwrap();
    topics::produce(&bootstrap, TOPIC, 1, b"\x0a\xff\xff\x03").unwrap();
    topics::produce(&bootstrap, TOPIC, 1, &span("neighbour")).unwrap();
    let produced = Instant::now();
    until_stored(&lab, "neighbour");
    assert!(produced.elapsed() < Duration::from_secs(30), "{:?}", produced.elapsed());
    assert_eq!(lab.uncommitted().unwrap(), 2, "nothing is committed past the letter");
    admin(&lab, async |admin| {
        let topic = NewTopic::new(DEAD_LETTERS, 1, TopicReplication::Fixed(1));
        admin.create_topics(&[topic], &AdminOptions::new()).await.unwrap()
    });
    lab.committed(LIMIT).unwrap();
    assert_eq!(topics::count(&bootstrap, DEAD_LETTERS).unwrap(), 1);
    assert_eq!(stored(&lab, "neighbour"), "1");
}
