//! The production sample's Kafka section as it is, with a real broker: TLS and SCRAM-SHA-512.

use std::sync::Arc;

use millrace_certificates::Authority;
use millrace_operator::controllers::topic::Topics;
use millrace_operator::kafka::{Pace, Sessions};
use millrace_stack::kafka::{Broker, BrokerOptions, Credentials, Listener, TlsListener};
use millrace_stack::service::{KeyStore, Secret};
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;

const SAMPLE: &str = include_str!("../../../manifests/samples/production.yaml");
const TOPIC: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetrytopics/prod";
const SECRETS: &str = "/api/v1/namespaces/telemetry/secrets";

/// The sample's `spec.kafka` for a broker elsewhere.
fn sample_connection(bootstrap: &str) -> Value {
    let documents = SAMPLE.split("\n---\n");
    let mut objects = documents.map(|it| serde_norway::from_str::<Value>(it).unwrap());
    let pipeline = objects.find(|object| object["kind"] == "TelemetryPipeline").unwrap();
    let mut kafka = pipeline["spec"]["kafka"].clone();
    kafka["bootstrapServers"] = json!([bootstrap]);
    kafka
}

/// A broker with an encrypted listener, whose certificate is of this authority.
fn broker(authority: &Authority) -> Broker {
    let identity = authority.sign("127.0.0.1");
    let key_store = KeyStore::from_pem(&identity.key_pem(), &identity.pem());
    let tls = TlsListener { listener: Listener::LOOPBACK, key_store };
    let (user, password) = (Secret::new("ingest").unwrap(), Secret::new("hunter2").unwrap());
    let sasl = Some((Listener::LOOPBACK, Credentials { user, password }));
    Broker::start(BrokerOptions { sasl, tls: Some(tls), ..BrokerOptions::default() }).unwrap()
}

fn put_secret(world: &World, name: &str, entries: &[(&str, &str)]) {
    let bytes = |text: &str| serde_json::to_value(k8s_openapi::ByteString(text.into())).unwrap();
    let data: serde_json::Map<String, Value> =
        entries.iter().map(|(key, text)| ((*key).to_owned(), bytes(text))).collect();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": data});
    world.server.put(&format!("{SECRETS}/{name}"), secret);
}

/// Reconciles the topic with these Secrets; status, reason and message of `Ready`.
async fn reconcile(bootstrap: &str, authority: &Authority, password: &str) -> [String; 3] {
    let mut world = World::new();
    Arc::get_mut(&mut world.context).unwrap().brokers = Arc::new(Sessions::new(Pace::AT_ONCE));
    put_secret(&world, "kafka-ca", &[("ca.crt", &authority.pem())]);
    put_secret(&world, "kafka-user", &[("username", "ingest"), ("password", password)]);
    let spec = json!({"kafka": sample_connection(bootstrap), "topicName": "otlp_traces",
        "partitions": 4, "replicationFactor": 1, "retention": "6h"});
    let topic = json!({"apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryTopic",
        "metadata": {}, "spec": spec});
    world.server.put(TOPIC, topic);
    // A refused connection is reported as a condition and as an error.
    let _ = world.reconcile::<Topics>(TOPIC).await;
    let (status, reason, _) = world.condition(TOPIC, "Ready").unwrap();
    [status, reason, world.message(TOPIC, "Ready")]
}

/// Scenario: the sample's connection with an authority that didn't sign the broker's certificate,
/// with a wrong password, and with the right Secrets. Guarantee: the first two are named for what
/// they are, with the field to check; with the right ones the topic is created. Slow: a broker
/// starts.
#[tokio::test(flavor = "multi_thread")]
async fn the_production_samples_kafka_section_works_at_a_real_broker() {
    let authority = Authority::new("brokers");
    let broker = broker(&authority);
    let bootstrap = broker.tls_bootstrap().unwrap();

    let [_, reason, message] = reconcile(&bootstrap, &Authority::new("others"), "hunter2").await;
    assert_eq!(reason, "KafkaTlsFailed", "{message}");
    assert!(message.contains("check kafka.tls.ca"), "{message}");
    let [_, reason, message] = reconcile(&bootstrap, &authority, "wr0ng").await;
    assert_eq!(reason, "KafkaAuthenticationFailed", "{message}");
    assert!(message.contains("Secret kafka-user"), "{message}");
    assert!(!message.contains("wr0ng"), "{message}");
    let [status, reason, message] = reconcile(&bootstrap, &authority, "hunter2").await;
    assert_eq!((&*status, &*reason), ("True", "Reconciled"), "{message}");
}
