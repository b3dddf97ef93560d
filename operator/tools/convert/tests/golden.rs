//! Realistic configurations, each with its expected pipeline and list as committed files.
//! `GOLDEN=write` rewrites them; read the difference before you commit it.

use std::path::{Path, PathBuf};

use millrace_convert::{Conversion, ConvertOptions, Fate, convert_config};

use crate::support;

/// Two clients of Amazon MSK with IAM; the region of one is a variable.
const MSK: &str = r#"
receivers:
  otlp: {protocols: {grpc: {endpoint: "0.0.0.0:4317"}}}
  kafka:
    brokers: [boot-abc123.c2.kafka-serverless.eu-central-1.amazonaws.com:9098]
    group_id: telemetry
    traces: {topics: [spans]}
    auth: {sasl: {mechanism: AWS_MSK_IAM_OAUTHBEARER, version: 1, aws_msk: {region: "${env:AWS_REGION}"}}}
exporters:
  kafka:
    brokers: [boot-abc123.c2.kafka-serverless.eu-central-1.amazonaws.com:9098]
    traces: {topic: spans}
    tls: {insecure: false}
    auth:
      sasl:
        mechanism: AWS_MSK_IAM_OAUTHBEARER
        username: nobody
        aws_msk: {region: eu-central-1, broker_addr: "b-1:9098"}
  clickhouse: {endpoint: "http://clickhouse.db:8123"}
service:
  pipelines:
    traces/in: {receivers: [otlp], exporters: [kafka]}
    traces/out: {receivers: [kafka], exporters: [clickhouse]}
"#;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata")
}

fn configurations() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(".yaml")?.to_owned();
            (!name.ends_with(".pipeline")).then(|| (name, std::fs::read_to_string(&path).unwrap()))
        })
        .collect();
    files.sort();
    assert!(files.len() >= 5, "{} configurations", files.len());
    files
}

fn converted(text: &str) -> Conversion {
    convert_config(text, &ConvertOptions::default()).unwrap()
}

/// Renders the list as lines: fate, path, field, text.
fn list(conversion: &Conversion) -> String {
    let mut lines = String::new();
    for entry in &conversion.entries {
        let at = entry.at.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        let line = match &entry.fate {
            Fate::Carried { to, but: None } => format!("carried    {at} -> {to}"),
            Fate::Carried { to, but: Some(but) } => format!("carried    {at} -> {to}: {but}"),
            Fate::FillIn { to, what } => format!("fill in    {at} -> {to}: {what}"),
            Fate::NotNeeded { why } => format!("not needed {at}: {why}"),
            Fate::Left { instead } => format!("left       {at}: {instead}"),
        };
        lines.push_str(&line);
        lines.push('\n');
    }
    lines
}

fn compare(name: &str, text: &str, wrong: &mut Vec<String>) {
    let path = folder().join(name);
    if std::env::var("GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::write(&path, text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    if committed != text {
        wrong.push(format!("{name} should be:\n{text}"));
    }
}

/// Scenario: configurations as people have them. Guarantee: the committed pipeline and list.
#[test]
fn each_configuration_comes_to_its_pipeline_and_list() {
    let mut wrong = Vec::new();
    for (name, text) in configurations() {
        let conversion = converted(&text);
        compare(&format!("{name}.pipeline.yaml"), &conversion.yaml, &mut wrong);
        compare(&format!("{name}.list.txt"), &list(&conversion), &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Scenario: the same. Guarantee: each pipeline passes the definition's schema and rules, reads
/// back as what was converted, and has each field that the list names.
#[test]
fn each_pipeline_is_one_that_the_api_server_takes() {
    for (name, text) in configurations() {
        support::sound(&converted(&text)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Scenario: Kafka clients that sign in to Amazon MSK with IAM, one without a region. Guarantee: the
/// pipeline does the same over TLS in the region of the other one, and the API server takes it.
#[test]
fn clients_of_msk_sign_in_with_iam() {
    let conversion = converted(MSK);
    support::sound(&conversion).unwrap_or_else(|error| panic!("{error}"));
    for part in ["type: AwsMskIam", "region: eu-central-1", "tls:"] {
        assert!(conversion.yaml.contains(part), "{part} is missing:\n{}", conversion.yaml);
    }
}

/// Scenario: the same, with passwords in them. Guarantee: neither pipeline nor list has one.
#[test]
fn no_password_comes_out() {
    let mut planted = 0;
    for (name, text) in configurations() {
        planted += text.matches("s3cret").count();
        let conversion = converted(&text);
        let out = format!("{}{}", conversion.yaml, list(&conversion));
        assert!(!out.contains("s3cret"), "{name}");
    }
    assert!(planted >= 3);
}
