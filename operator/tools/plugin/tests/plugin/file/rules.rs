//! Tests of `rules test`: a pipeline's rules on sample records, without a cluster.

use std::path::PathBuf;

use crate::plugin::support::{Server, golden};

fn sample(name: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../manifests");
    root.join(name).to_str().unwrap().to_owned()
}

/// Scenario: the sample with rules, and its sample records. Guarantee: each record before and after
/// by step, as the page shows it; the same as JSON; no request to a cluster.
#[tokio::test]
async fn the_samples_rules_do_what_the_page_says() {
    let server = Server::default();
    let (pipeline, records) = (sample("samples/rules.yaml"), sample("records/rules.json"));
    let line = ["rules", "test", "-f", &*pipeline, "--records", &*records];
    let answer = server.run(&line).await.unwrap();
    golden("rules-test.txt", &answer.text);
    assert!(answer.healthy && server.asked().is_empty());
    let records = answer.json.as_array().unwrap();
    let fates: Vec<bool> = records.iter().map(|record| record["after"].is_null()).collect();
    assert!(fates.contains(&true) && fates.contains(&false), "{fates:?}");
    let text = answer.json.to_string();
    let after: Vec<String> = records.iter().map(|record| record["after"].to_string()).collect();
    assert!(text.contains("anna@example.com") && !after.concat().contains("anna@example.com"));
}

/// Scenario: rules that don't compile, a pool that doesn't exist, a file without a pipeline, records
/// that aren't OTLP. Guarantee: the error names the file, and what is wrong in it.
#[tokio::test]
async fn what_cannot_be_tested_is_reported() {
    let server = Server::default();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = sample("samples/rules.yaml");
    let bad = std::fs::read_to_string(&good).unwrap().replace("set(", "sett(");
    let bad = write("bad.yaml", &bad);
    let none = write("none.yaml", "kind: ConfigMap\n");
    let (records, other) = (sample("records/rules.json"), write("other.json", "{}"));
    let cases = [
        (vec!["-f", &bad, "--records", &records], "statements[0], line 1, column 1: "),
        (vec!["-f", &good, "--records", &records, "--pool", "x"], "it has no edge pool \"x\""),
        (vec!["-f", &none, "--records", &records], "exactly one TelemetryPipeline or EdgePool"),
        (vec!["-f", &good, "--records", &other], "is not an OTLP request"),
    ];
    for (line, expected) in cases {
        let line = [&["rules", "test"][..], &line].concat();
        let error = server.run(&line).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{line:?}: {error}");
    }
}
