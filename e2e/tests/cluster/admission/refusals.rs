//! Worlds that don't answer, or answer no: each is a condition with its stable reason, an event,
//! a retry, no crash, and Ready as soon as the world is mended.

use millrace_e2e::cluster::{Cluster, OPERATOR_NAMESPACE};
use millrace_e2e::pipeline::{Pipeline, Wish};
use millrace_stack::Stack;
use serde_json::Value;

/// Nothing listens there, on the machine that has Kafka: a connection is refused at once.
fn closed_address() -> String {
    let usual = Wish::usual(&Stack::open().unwrap());
    let (host, _) = usual.kafka.rsplit_once(':').unwrap();
    format!("{host}:1")
}

fn restarts(cluster: &Cluster) -> i64 {
    let pods = cluster.list(OPERATOR_NAMESPACE, "pods", "app.kubernetes.io/name=millrace").unwrap();
    let counts = pods.iter().map(|pod| &pod["status"]["containerStatuses"][0]["restartCount"]);
    counts.filter_map(Value::as_i64).sum()
}

/// One world that is wrong: what is wished, the reason expected, and a word of the advice.
fn check(purpose: &str, wrong: impl FnOnce(&mut Wish), reason: &str, advice: &str) {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let before = restarts(&cluster);
    let mut wish = Wish::usual(&stack);
    wrong(&mut wish);
    let pipeline = Pipeline::apply(&stack, &cluster, purpose, wish).unwrap();
    let seen = pipeline.refused(reason).unwrap();
    assert!(seen.message.contains(advice), "no {advice:?} in: {}", seen.message);
    assert_eq!(restarts(&cluster), before, "the operator crashed");
}

/// Scenario: nobody listens at Kafka's address. Guarantee: KafkaUnreachable, naming the address.
#[test]
fn an_unreachable_kafka_is_told() {
    let nobody = closed_address();
    check("kafkagone", |wish| wish.kafka.clone_from(&nobody), "KafkaUnreachable", &nobody);
}

/// Scenario: Kafka's host has no address. Guarantee: KafkaHostUnknown, naming the host.
#[test]
fn an_unknown_kafka_host_is_told() {
    let host = "kafka.nowhere.invalid";
    check("kafkahost", |wish| wish.kafka = format!("{host}:9092"), "KafkaHostUnknown", host);
}

/// Scenario: a wrong password for Kafka. Guarantee: KafkaAuthenticationFailed, naming the Secret.
#[test]
fn a_wrong_kafka_password_is_told() {
    check(
        "kafkapass",
        |wish| wish.kafka_password = Some("wrong".to_owned()),
        "KafkaAuthenticationFailed",
        "kafka-user",
    );
}

/// Scenario: nobody listens at ClickHouse's address. Guarantee: ClickHouseUnreachable with it.
#[test]
fn an_unreachable_clickhouse_is_told() {
    let nobody = closed_address();
    check(
        "chgone",
        |wish| wish.clickhouse = format!("http://{nobody}"),
        "ClickHouseUnreachable",
        &nobody,
    );
}

/// Scenario: ClickHouse's host has no address. Guarantee: ClickHouseHostUnknown, naming the host.
#[test]
fn an_unknown_clickhouse_host_is_told() {
    let host = "clickhouse.nowhere.invalid";
    check(
        "chhost",
        |wish| wish.clickhouse = format!("http://{host}:8123"),
        "ClickHouseHostUnknown",
        host,
    );
}

/// Scenario: a wrong password for ClickHouse, put right later. Guarantee:
/// ClickHouseAuthenticationFailed, and Ready after the Secret is mended, without anybody's help.
#[test]
fn a_wrong_clickhouse_password_is_told_and_mended() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let mut wish = Wish::usual(&stack);
    wish.clickhouse_password = Some("wrong".to_owned());
    let pipeline = Pipeline::apply(&stack, &cluster, "chpass", wish).unwrap();
    pipeline.refused("ClickHouseAuthenticationFailed").unwrap();
    let password = std::fs::read_to_string(stack.clickhouse_password_file()).unwrap();
    let patch = serde_json::json!({"stringData": {"password": password.trim()}}).to_string();
    let namespace = &pipeline.namespace.name;
    cluster
        .kubectl(&["-n", namespace, "patch", "secret", "clickhouse-user", "-p", &patch])
        .unwrap();
    pipeline.ready().unwrap();
}
