//! `clickhouse-ddl` as a program, where no server is needed: exit codes, and that a password is
//! never repeated. What it does to servers is tested through the library, on a real engine.

use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_clickhouse-ddl"))
        .args(arguments)
        .env_remove("CLICKHOUSE_PASSWORD")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Scenario: the flags of the tool that came before. Guarantee: understood, and tables come out.
#[test]
fn render_needs_no_server() {
    let (code, out, _) = run(&[
        "render",
        "--database",
        "otel",
        "--table-prefix",
        "otel",
        "--engine",
        "Null",
        "--traces",
        "--logs",
        "--metrics",
        "--ttl",
        "0s",
        "--enable-json",
    ]);
    assert_eq!(code, 0);
    assert_eq!(out.matches("CREATE TABLE IF NOT EXISTS").count(), 7);
    assert!(out.contains("ENGINE = Null"));
}

/// Scenario: tables of each compatibility, by the flag that has the name of the API's field.
/// Guarantee: the tables differ, and the default is the first one.
#[test]
fn compatibility_is_a_flag() {
    let render = |more: &[&str]| {
        let (code, out, error) = run(&[&["render", "--logs", "--ttl", "1d"], more].concat());
        assert_eq!(code, 0, "{error}");
        out
    };
    let of = |name: &str| render(&["--compatibility", name]);
    assert_eq!(render(&[]), of("otel"));
    assert_ne!(of("otel"), of("otel151"));
    assert_ne!(of("otel151"), of("clickstack"));
}

/// Scenario: a load of large parts, one of small parts, as text and as JSON. Guarantee: requests grow
/// with parts; three small servers are enough for the first, the second is told what to change.
#[test]
fn what_a_load_asks_of_keeper_needs_no_server() {
    let load = ["coordination", "--rows-per-second", "1000000", "--replicas", "3"];
    let (code, out, _) = run(&load);
    assert_eq!(code, 0);
    assert!(out.contains("requests per second             743.4"), "{out}");
    assert!(out.contains("three servers with one core each suffice"), "{out}");
    let (code, out, _) = run(&[&load[..], &["--rows-per-part", "100", "--json"]].concat());
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, told["partsPerSecond"].as_f64()), (0, Some(10_000.0)));
    assert!(told["advice"].as_str().unwrap().starts_with("use larger parts"), "{out}");
}

/// Scenario: arguments that cannot work. Guarantee: exit code 2, and what to write instead.
#[test]
fn wrong_arguments_are_explained() {
    for (arguments, words) in [
        (vec!["render"], "--traces, --logs, --metrics"),
        (
            vec!["render", "--traces", "--engine", "Memory"],
            "MergeTree, ReplicatedMergeTree or Null",
        ),
        (vec!["render", "--traces", "--ttl", "soon"], "such as 30d"),
        (vec!["render", "--traces", "--database", "a`b"], "letters, digits and underscores"),
        (vec!["render", "--traces", "--replica-name", "{replica}"], "ReplicatedMergeTree"),
        (vec!["render", "--traces", "--server-replica-path"], "ReplicatedMergeTree"),
        (vec!["create", "--traces", "--endpoint", "db:9000"], "http://host:8123"),
        (vec!["create", "--traces"], "--endpoint"),
    ] {
        let (code, _, error) = run(&arguments);
        assert_eq!(code, 2, "{arguments:?}: {error}");
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
}

/// Scenario: the reader of the statements closes the pipe at once. Guarantee: the command ends
/// without a word about it.
#[test]
fn a_reader_that_has_seen_enough_is_no_trouble() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clickhouse-ddl"));
    command.args(["explain", "--traces", "--logs", "--metrics"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
}

/// Scenario: two servers, both away. Guarantee: each is named, and the code says that nothing is
/// known; read-only commands go on to the next server.
#[test]
fn every_server_that_is_away_is_named() {
    let ports = [0; 2].map(|_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    });
    for command in ["verify", "diff", "plan", "status"] {
        let (code, _, error) =
            run(&[command, "--traces", "--endpoint", &ports[0], "--endpoint", &ports[1]]);
        assert_eq!(code, 3, "{command}: {error}");
        assert!(ports.iter().all(|port| error.contains(port.as_str())), "{command}: {error}");
    }
}

/// Scenario: nobody listens, the password typed as an argument. Guarantee: exit code 3, the
/// endpoint is named, the password is warned of and not repeated.
#[test]
fn no_answer_is_not_a_difference() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (code, _, error) =
        run(&["verify", "--traces", "--endpoint", &endpoint, "--password", "hunter2"]);
    assert_eq!(code, 3);
    assert!(error.contains(&endpoint) && error.contains("--password-file"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

/// Scenario: 25 texts that try to leave their quotes, or that mean something to a shell, a path or
/// a server, in each of eight flags: 200 in all. Guarantee: each is refused before any statement is
/// made, with exit code 2 and the flag's name.
#[test]
fn two_hundred_injections_are_refused_by_their_flag() {
    let texts = [
        "a`; DROP DATABASE otel; --",
        "a'; DROP TABLE x; --",
        "a\" OR 1=1",
        "a\\",
        "a\\'",
        "a\\`",
        "a;b",
        "a b",
        "a\tb",
        "a\nb",
        "a\rb",
        "a)",
        "a(b",
        "a,b",
        "a*",
        "a=1",
        "a<b",
        "a|b",
        "a&b",
        "$(a)",
        "${a}",
        "a%27",
        "a@b",
        "ä",
        "a\u{2019}",
    ];
    type Typed = fn(&str) -> String;
    let flags: [(&str, Typed); 8] = [
        ("--database", |text| text.to_owned()),
        ("--table-prefix", |text| text.to_owned()),
        ("--cluster", |text| text.to_owned()),
        ("--replica-path", |text| format!("/clickhouse/{text}")),
        ("--replica-name", |text| text.to_owned()),
        ("--storage-policy", |text| text.to_owned()),
        ("--typed-path", |text| format!("resource:{text}")),
        ("--materialize", |text| format!("Pod=resource:{text}:name")),
    ];
    let mut refused = 0;
    for (flag, typed) in flags {
        for text in texts {
            let given = format!("{flag}={}", typed(text));
            let (code, out, error) = run(&["render", "--traces", "--enable-json", &given]);
            assert_eq!(code, 2, "{given:?}: {out}{error}");
            assert!(out.is_empty() && error.contains(flag), "{given:?}: {error}");
            refused += 1;
        }
    }
    assert_eq!(refused, 200);
}

/// Scenario: options that do not fit together. Guarantee: exit code 2, the field named.
#[test]
fn options_that_do_not_fit_name_their_field() {
    for (arguments, words) in [
        (vec!["--logs", "--engine", "ReplacingMergeTree"], "logs.engine: "),
        (vec!["--traces", "--typed-path", "resource:a"], "traces.layout.typedPaths: "),
        (
            vec!["--traces", "--ttl", "1d", "--move-after", "2d", "--move-to", "cold"],
            "traces.storage.moveAfter: ",
        ),
        (vec!["--metrics", "--engine", "Null", "--rollup"], "metrics.layout.rollup: "),
        (vec!["--traces", "--materialize", "Pod=a.b:name"], "--materialize"),
        (
            vec!["--traces", "--materialize", "TraceId=resource:a:name"],
            "traces.layout.materialized: ",
        ),
    ] {
        let all: Vec<&str> = ["render"].into_iter().chain(arguments).collect();
        let (code, _, error) = run(&all);
        assert_eq!(code, 2, "{all:?}: {error}");
        assert!(error.contains(words), "{all:?}: {error}");
    }
}

/// Guarantee: `explain` says why for every part, without a server, readable and as JSON.
#[test]
fn explain_needs_no_server() {
    let (code, out, _) = run(&["explain", "--logs", "--enable-json"]);
    assert_eq!(code, 0);
    assert!(out.contains("index idx_trace_id TraceId bloom_filter(0.001)"), "{out}");
    let (code, out, _) = run(&["explain", "--logs", "--enable-json", "--json"]);
    assert_eq!(code, 0);
    assert!(out.trim_start().starts_with('[') && out.contains("\"why\""), "{out}");
}
