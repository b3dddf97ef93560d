//! Tests of `send` and `verify`: an API server in memory accepts the records, and a script replaces
//! kubectl with the collector's tool. The end-to-end tests cover the tool itself.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use http::Method;
use jiff::Timestamp;
use millrace_crds::v1alpha1::Signal;
use millrace_plugin::load::TestLoad;
use millrace_plugin::render::{self, Palette};
use millrace_plugin::report::{InKafka, RowCounts, TestRun};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::plugin::support::{RUN, Server, golden};
use crate::plugin::writes::healthy;

/// A kubectl that records its arguments, and then follows a script.
struct Kubectl {
    folder: TempDir,
}

impl Kubectl {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubectl");
        let called = folder.path().join("called");
        let text = format!("#!/bin/sh\nprintf '%s\\n' \"$*\" > {}\n{script}\n", called.display());
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    /// Creates one that prints these lines and ends.
    fn saying(lines: &[Value]) -> Self {
        let lines: Vec<String> = lines.iter().map(|line| format!("echo '{line}'")).collect();
        Self::new(&lines.join("\n"))
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("kubectl")
    }

    fn called(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("called")).unwrap()
    }

    async fn run(
        &self,
        server: &Server,
        line: &[&str],
    ) -> Result<millrace_plugin::command::CommandOutput, String> {
        let path = self.path();
        let line = [line, &["--kubectl", path.to_str().unwrap()]].concat();
        server.run(&line).await.map_err(|error| error.to_string())
    }
}

fn seen(found: u64, repeated: u64, missing_first: &[u32]) -> Value {
    json!({"table": "otel.otel_traces", "expected": 1, "found": found, "repeated": repeated,
           "unexpected": 0, "missingFirst": missing_first})
}

/// Scenario: one record without a signal named. Guarantee: the pipeline's first signal goes to the
/// first ready edge pod through the proxy, the tool is queried only for this run, and the answer
/// has pod, topic and table.
#[tokio::test]
async fn a_record_is_followed_to_its_row() {
    let server = healthy();
    let kubectl = Kubectl::saying(&[seen(0, 0, &[1]), seen(1, 0, &[])]);
    let answer = kubectl.run(&server, &["send"]).await.unwrap();
    assert!(answer.healthy, "{}", answer.text);
    let taken = server.taken();
    let [(pod, body)] = &taken[..] else { panic!("{taken:?}") };
    assert_eq!(pod, "prod-clients-edge-7d9f-0:4318");
    let span = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["traceId"], "5eed0000000000a10000000000000001");
    assert_eq!(
        kubectl.called(),
        "-n obs exec prod-gateway-0 -c collector -- /usr/local/bin/millrace-collector rows \
         --config /etc/millrace/config/collector.yaml --signal traces --run 5eed0000000000a1 \
         --since 1795694400 --expect 1 --wait 180\n"
    );
    assert_eq!(answer.json["pods"], json!(["prod-clients-edge-7d9f-0"]));
    assert_eq!(answer.json["topics"], json!(["otlp_traces"]));
    assert_eq!(
        [&answer.json["inKafka"], &answer.json["table"], &answer.json["missing"]],
        [&json!("yes"), &json!("otel.otel_traces"), &json!(0)]
    );
    assert!(answer.text.contains("stored once, after"), "{}", answer.text);
}

/// Scenario: 250 log records; then a row is missing at the end of the wait; then one is a
/// duplicate. Guarantee: requests of a hundred go to the ready pods in turn; only each row once is
/// healthy, and a missing row comes with possible causes.
#[tokio::test]
async fn a_load_is_healthy_only_if_each_record_is_stored_once() {
    let server = healthy();
    let line = ["verify", "--signal", "logs", "--records", "250", "--wait", "1"];
    let all = Kubectl::saying(&[seen(0, 0, &[1]), seen(120, 0, &[121]), seen(250, 0, &[])]);
    let answer = all.run(&server, &line).await.unwrap();
    assert!(answer.healthy, "{}", answer.text);
    let pods: Vec<String> = server.taken().into_iter().map(|(pod, _)| pod).collect();
    let pod = |at: u8| format!("prod-clients-edge-7d9f-{at}:4318");
    assert_eq!(pods, [pod(0), pod(1), pod(0)]);
    let less = seen(249, 0, &[17]);
    let less = Kubectl::new(&format!("echo '{less}'\nexec sleep 600"));
    let answer = less.run(&server, &line).await.unwrap();
    assert!(!answer.healthy && answer.text.contains("numbers 17"), "{}", answer.text);
    assert!(answer.text.contains("kubectl millrace lag prod"), "{}", answer.text);
    let twice = Kubectl::saying(&[seen(250, 1, &[])]);
    let answer = twice.run(&server, &line).await.unwrap();
    assert!(!answer.healthy && answer.text.contains("NOT EACH RECORD"), "{}", answer.text);
}

/// Scenario: no right to exec, none to read the table, an older collector, a server that doesn't
/// answer, no kubectl at all. Guarantee: each has its own error, and no record was sent.
#[tokio::test]
async fn what_keeps_rows_from_being_looked_for_costs_no_record() {
    let server = healthy();
    let grant = "user \"g\" may not read otel.otel_traces; have an administrator run: GRANT x";
    for (script, part) in [
        (
            "echo 'Error from server (Forbidden): pods \"p\" is forbidden: User \"jane\" cannot \
             create resource \"pods/exec\"' >&2; exit 1"
                .to_owned(),
            "no right to create pods/exec in namespace obs",
        ),
        (format!("echo '{grant}' >&2; exit 1"), grant),
        (
            "echo \"error: unrecognized subcommand 'rows'\" >&2; exit 2".to_owned(),
            "of an older release",
        ),
        (
            format!("echo '{}'", json!({"table": "t", "error": "ch:8123: no answer"})),
            "ClickHouse can't be queried from pod prod-gateway-0: ch:8123: no answer",
        ),
        ("echo hello".to_owned(), "expected value"),
    ] {
        let error = Kubectl::new(&script).run(&server, &["send"]).await.unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let error = server.run(&["send", "--kubectl", "/nowhere/k"]).await.unwrap_err().to_string();
    assert!(error.contains("cannot run /nowhere/k"), "{error}");
    assert_eq!(server.taken(), []);
}

/// Scenario: no right to post through the proxy; an edge that is full after two requests; one that
/// refuses records of an accepted request. Guarantee: the name of the right; the edge's own
/// message, and how many records were accepted before.
#[tokio::test]
async fn what_an_edge_refuses_is_told_with_what_it_took() {
    let server = healthy();
    let kubectl = Kubectl::new(&format!("echo '{}'\nexec sleep 600", seen(0, 0, &[1])));
    server.forbid(Method::POST, ":4318/proxy/");
    let error = kubectl.run(&server, &["send"]).await.unwrap_err();
    assert!(error.starts_with("no right to create pods/proxy in namespace obs"), "{error}");
    let server = healthy();
    let full = json!({"code": 8, "message": "the memory budget is full"});
    server.refuse_after(2, 429, full);
    let error = kubectl.run(&server, &["verify", "--records", "300"]).await.unwrap_err();
    assert!(error.contains("HTTP 429 Too Many Requests: the memory budget is full"), "{error}");
    assert!(error.contains("200 of 300 records were accepted before"), "{error}");
    let part = json!({"partialSuccess": {"rejectedSpans": "1", "errorMessage": "too long"}});
    server.refuse_after(0, 200, part);
    let error = kubectl.run(&server, &["send"]).await.unwrap_err();
    assert!(error.contains("rejectedSpans 1: too long"), "{error}");
}

/// Scenario: a pool that requires client certificates; one with TLS; an unknown signal or pool; no
/// ready gateway. Guarantee: an impossible request fails with its cause; TLS is used.
#[tokio::test]
async fn what_is_not_possible_is_said_plainly() {
    let server = healthy();
    let kubectl = Kubectl::saying(&[seen(0, 0, &[1]), seen(1, 0, &[])]);
    let mut tls = json!({"certificateSecret": {"name": "a"}});
    let set = |tls: &Value| {
        server.edit("EdgePool", "prod-clients", |pool| {
            pool["spec"]["receivers"] = json!({"otlp": {"tls": tls}});
            pool["spec"]["acknowledge"] = json!("AfterBuffering");
        });
    };
    set(&tls);
    let answer = kubectl.run(&server, &["send"]).await.unwrap();
    assert_eq!(server.taken()[0].0, "https:prod-clients-edge-7d9f-0:4318");
    assert!(answer.text.contains("acknowledges before Kafka"), "{}", answer.text);
    tls["clientCa"] = json!({"name": "b"});
    set(&tls);
    for (line, part) in [
        (&["send"][..], "it requires client certificates"),
        (&["send", "--signal", "metrics"][..], "write --signal traces or --signal logs"),
        (&["send", "--pool", "x"][..], "it has no EdgePool x"),
    ] {
        let error = kubectl.run(&server, line).await.unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    set(&json!(null));
    for pod in ["prod-gateway-0", "prod-gateway-1"] {
        server.edit("Pod", pod, |pod| pod["status"]["conditions"] = json!([]));
    }
    let error = kubectl.run(&server, &["send"]).await.unwrap_err();
    assert!(error.contains("no ready gateway pod"), "{error}");
    assert_eq!(server.taken().len(), 1);
}

/// Returns the result of a run, with fixed times.
fn run() -> TestRun {
    TestRun {
        namespace: "obs".to_owned(),
        name: "prod".to_owned(),
        signal: "traces",
        run: "5eed0000000000a1".to_owned(),
        seed: 1,
        records: 1_000,
        requests: 10,
        pods: vec!["prod-clients-edge-7d9f-0".to_owned(), "prod-clients-edge-7d9f-1".to_owned()],
        topics: vec!["otlp_traces".to_owned()],
        in_kafka: InKafka::Yes,
        accepted_millis: 240,
        stored_millis: Some(1_630),
        waited_millis: 1_390,
        missing: 0,
        rows: RowCounts {
            table: "otel.otel_traces".to_owned(),
            found: 1_000,
            ..RowCounts::default()
        },
        hints: Vec::new(),
    }
}

/// Scenario: a load and a record, stored and not. Guarantee: one screen each, as on the page.
#[test]
fn runs_are_told_on_one_screen() {
    let hints = vec![
        "lag before the test: 12 messages, the oldest 1 s old: `kubectl millrace lag prod`"
            .to_owned(),
        "more: `kubectl millrace status prod`".to_owned(),
    ];
    let lost = TestRun {
        stored_millis: None,
        waited_millis: 120_000,
        missing: 2,
        rows: RowCounts { found: 998, missing_first: vec![17, 20], repeated: 1, ..run().rows },
        hints: hints.clone(),
        ..run()
    };
    golden("verify.txt", &render::render_tally(&run(), Palette::PLAIN));
    golden("verify-missing.txt", &render::render_tally(&lost, Palette::PLAIN));
    let one = TestRun {
        records: 1,
        requests: 1,
        pods: vec!["prod-clients-edge-7d9f-0".to_owned()],
        accepted_millis: 18,
        rows: RowCounts { found: 1, ..run().rows },
        ..run()
    };
    golden("send.txt", &render::render_hops(&one, Palette::PLAIN));
    let gone = TestRun {
        stored_millis: None,
        waited_millis: 60_000,
        missing: 1,
        rows: RowCounts { found: 0, missing_first: vec![1], ..one.rows.clone() },
        hints,
        ..one
    };
    golden("send-missing.txt", &render::render_hops(&gone, Palette::PLAIN));
}

/// Scenario: three test records of each signal. Guarantee: the requests are the committed ones,
/// which `e2e/tests/ingest/test_rows.rs` sends to a real edge and finds in real tables.
#[test]
fn requests_are_those_that_the_end_to_end_test_sends() {
    for signal in Signal::ALL {
        let began: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let body = TestLoad { signal, run: RUN, seed: 1, records: 3, began }.request_body(0);
        golden(&format!("load-{}.json", signal.as_str()), &format!("{body:#}\n"));
    }
}
