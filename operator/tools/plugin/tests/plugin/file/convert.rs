//! Tests of `convert -f`: a Collector's configuration as a pipeline, without a cluster.

use std::process::{Output, Stdio};

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::plugin::support::{Server, golden, golden_path};

fn collector() -> String {
    golden_path("collector.yaml").to_str().unwrap().to_owned()
}

/// Scenario: a Collector's file. Guarantee: the pipeline and the account of each part, as the page
/// shows them; both in one document for programs; no request to a cluster.
#[tokio::test]
async fn a_collectors_file_becomes_a_pipeline_and_a_list() {
    let server = Server::default();
    let file = collector();
    let line = ["convert", "-f", &*file, "--name", "prod", "-n", "obs"];
    let answer = server.run(&line).await.unwrap();
    golden("convert.txt", &answer.text);
    golden("convert-list.txt", &answer.aside);
    assert!(answer.healthy && server.asked().is_empty());
    assert_eq!(answer.json["pipeline"]["metadata"]["name"], "prod");
    assert_eq!(answer.json["pipeline"]["metadata"]["namespace"], "obs");
    let list = answer.json["list"].as_array().unwrap();
    let left: Vec<_> = list.iter().filter(|one| one["fate"] == "left").collect();
    assert_eq!(left.len(), 1, "{list:#?}");
    assert_eq!(left[0]["at"], "processors.tail_sampling");
    assert!(left[0]["instead"].as_str().unwrap().contains("keep a Collector"));
}

/// Scenario: a name that no pipeline may have; files that don't exist or have no Collector.
/// Guarantee: the error has the advice.
#[tokio::test]
async fn what_cannot_be_converted_is_told() {
    let server = Server::default();
    let error = async |line: &[&str]| server.run(line).await.unwrap_err().to_string();
    let file = collector();
    let named = error(&["convert", "-f", &file, "--name", "Prod.1"]).await;
    assert!(named.contains("\"Prod.1\" can't be a pipeline's name: write"), "{named}");
    let none = error(&["convert", "-f", "/nowhere/x.yaml"]).await;
    assert!(none.starts_with("/nowhere/x.yaml: "), "{none}");
    let other = golden_path("plan.txt");
    let other = error(&["convert", "-f", other.to_str().unwrap()]).await;
    assert!(other.contains("plan.txt: "), "{other}");
}

/// Runs the program with this standard input, without a kubeconfig.
async fn run(line: &[&str], input: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-millrace"))
        .args(line)
        .env("KUBECONFIG", "/nowhere/config")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    program.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    program.wait_with_output().await.unwrap()
}

/// Scenario: the program reads its standard input, as text and as JSON, without a kubeconfig.
/// Guarantee: standard output has only the pipeline, standard error the list; with JSON standard
/// error is empty; exit code 0.
#[tokio::test]
async fn the_pipeline_goes_to_standard_output_alone() {
    let input = std::fs::read_to_string(golden_path("collector.yaml")).unwrap();
    let done = run(&["convert", "-f", "-"], &input).await;
    let (out, list) =
        (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert_eq!(done.status.code(), Some(0), "{list}");
    let read: serde_json::Value = serde_norway::from_str(&out).unwrap();
    assert_eq!(read["kind"], "TelemetryPipeline");
    assert!(list.contains("WITHOUT A COUNTERPART") && !out.contains("COUNTERPART"), "{list}");
    let done = run(&["convert", "-f", "-", "-o", "json"], &input).await;
    let read: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        (read["pipeline"]["kind"].as_str(), &*done.stderr),
        (Some("TelemetryPipeline"), &b""[..])
    );
}
