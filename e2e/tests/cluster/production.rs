//! The production sample on a real cluster: Kafka with TLS and SCRAM and ClickHouse over HTTPS as it
//! is, and the rest but for what one node lacks.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use millrace_certificates::Authority;
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{READY_LIMIT, edge_endpoint, lean_spans, query, resources};
use millrace_e2e::{binaries, wait};
use millrace_stack::Stack;
use serde_json::{Value, json};

/// For a load to be stored.
const LIMIT: Duration = Duration::from_secs(180);
const SPANS: u64 = 20_000;
/// The sample's pipeline.
const NAME: &str = "prod";

fn sample() -> Value {
    let text = fs::read_to_string(binaries::root().join("manifests/samples/production.yaml"));
    let text = text.unwrap();
    let documents = text.split("\n---\n");
    let mut objects = documents.map(|it| serde_norway::from_str::<Value>(it).unwrap());
    objects.find(|object| object["kind"] == "TelemetryPipeline").unwrap()
}

/// The sample for the local stack: its addresses and authority, one broker, one ClickHouse without
/// Keeper, and pods that fit on a node of two processors. Names that the stack shares are the
/// namespace's.
fn sample_for(stack: &Stack, namespace: &str, database: &str) -> Value {
    let mut object = sample();
    object["metadata"]["namespace"] = namespace.into();
    let spec = &mut object["spec"];
    spec["kafka"]["bootstrapServers"] = json!([stack.kafka_tls_bootstrap()]);
    spec["clickhouse"]["endpoints"] = json!([stack.clickhouse_tls_url()]);
    spec["clickhouse"]["tls"] = json!({"ca": {"secretName": "kafka-ca", "key": "ca.crt"}});
    spec["clickhouse"]["database"] = database.into();
    spec["clickhouse"].as_object_mut().unwrap().remove("coordination").unwrap();
    let defaults = &mut spec["signals"]["defaults"];
    defaults["topic"]["replicationFactor"] = 1.into();
    defaults["topic"]["settings"]["min.insync.replicas"] = "1".into();
    defaults["table"]["engine"] = "MergeTree".into();
    for signal in ["traces", "logs"] {
        spec["signals"][signal]["topicName"] = format!("{database}_{signal}").into();
    }
    spec["edges"][0]["replicas"] = 1.into();
    spec["edges"][0]["resources"]["requests"] = resources()["requests"].clone();
    spec["gateway"]["scaling"]["minReplicas"] = 1.into();
    spec["gateway"]["resources"]["requests"] = resources()["requests"].clone();
    object
}

fn apply_secret(cluster: &Cluster, namespace: &str, name: &str, entries: &[(&str, &str)]) {
    let entries: serde_json::Map<String, Value> =
        entries.iter().map(|(key, text)| ((*key).to_owned(), (*text).into())).collect();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "stringData": entries});
    cluster.apply(namespace, &secret.to_string()).unwrap();
}

/// The user and password in files of the stack.
fn login(user: &Path, password: &Path) -> [String; 2] {
    [user, password].map(|file| fs::read_to_string(file).unwrap().trim().to_owned())
}

/// Scenario: the sample is applied with an authority that didn't sign the broker's certificate; then
/// the Secret is corrected, and spans are sent. Guarantee: the pipeline names the cause and the
/// field; corrected, it is Ready over TLS to both servers, and each acknowledged span is stored once, with
/// the sample's attributes, in a table with its TTL and column. Slow: pods start.
#[test]
fn the_production_sample_runs_with_tls_and_scram() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let namespace = cluster.namespace("production").unwrap();
    let (name, database) = (&*namespace.name, namespace.name.replace('-', "_"));
    let kafka = login(&stack.kafka_user_file(), &stack.kafka_password_file());
    let clickhouse = login(&stack.clickhouse_user_file(), &stack.clickhouse_password_file());
    for (secret, [user, password]) in [("kafka-user", &kafka), ("clickhouse-user", &clickhouse)] {
        apply_secret(&cluster, name, secret, &[("username", user), ("password", password)]);
    }
    apply_secret(&cluster, name, "monitoring-key", &[("authorization", "Bearer key")]);
    let other = Authority::new("others").pem();
    apply_secret(&cluster, name, "kafka-ca", &[("ca.crt", &other)]);
    cluster.apply(name, &sample_for(&stack, name, &database).to_string()).unwrap();
    let object = (name, "telemetrypipeline", NAME);
    let ready = ("Ready", "False", "KafkaTlsFailed");
    let untrusted = cluster.wait_for(object, ready, READY_LIMIT).unwrap();
    assert!(untrusted.message.contains("check kafka.tls.ca"), "{untrusted:?}");

    let authority = fs::read_to_string(stack.authority_file()).unwrap();
    apply_secret(&cluster, name, "kafka-ca", &[("ca.crt", &authority)]);
    cluster.wait_for(object, ("Ready", "True", ""), READY_LIMIT).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // The attributes that the edge adds would be alterations to the load generator's own check.
    let endpoint = edge_endpoint(&cluster, name, &format!("{NAME}-clients")).unwrap();
    let load = lean_spans(&stack, endpoint, database.clone(), 83, SPANS, None).unwrap();
    load.send(folder.path(), LIMIT).unwrap();
    let sql = format!(
        "SELECT count(), uniqExact(TraceId, SpanId), \
         countIf(ResourceAttributes['k8s.cluster.name'] = 'prod-eu-1') FROM {database}.otel_traces \
         FORMAT TSV"
    );
    wait::until("the spans' rows", LIMIT, || {
        let rows = query(&stack, &sql)?;
        ensure!(rows.trim() == format!("{SPANS}\t{SPANS}\t{SPANS}"), "{rows}");
        Ok(())
    })
    .unwrap();
    let table = format!("SHOW CREATE TABLE {database}.otel_traces FORMAT TSVRaw");
    let table = query(&stack, &table).unwrap();
    assert!(table.contains("toIntervalDay(30)") && table.contains("`PodName`"), "{table}");
}
