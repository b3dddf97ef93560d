//! `clickhouse-ddl` as a program, where no server is needed: exit codes, and that a password is
//! never repeated. What it does to servers is tested through the library, on a real engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::net::TcpListener;
use std::process::{Command, Output};

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
        (vec!["create", "--traces", "--endpoint", "db:9000"], "http://host:8123"),
        (vec!["create", "--traces"], "--endpoint"),
    ] {
        let (code, _, error) = run(&arguments);
        assert_eq!(code, 2, "{arguments:?}: {error}");
        assert!(error.contains(words), "{arguments:?}: {error}");
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
