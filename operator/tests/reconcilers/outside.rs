//! What the reconcilers of topics and schemas do when the outside is away: conditions, retries,
//! finalizers. What they do with a real broker and engine is tested in `e2e`.

use crate::support::world::World;
use millrace_operator::schema::Schemas;
use millrace_operator::topic::Topics;
use serde_json::{Value, json};

const TOPIC: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetrytopics/prod-traces";
const SCHEMA: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetryschemas/prod";
const FINALIZER: &str = "millrace.dev/external";

/// A port nobody listens on: refused at once.
const NOBODY: &str = "http://127.0.0.1:1";

fn topic() -> Value {
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryTopic", "metadata": {},
        "spec": {
            "kafka": {
                "bootstrapServers": ["kafka:9093"],
                "sasl": {"mechanism": "PLAIN", "credentialsSecretRef": {"name": "kafka-user"}},
            },
            "topicName": "otlp_traces",
        }
    })
}

fn schema(deletion_policy: &str) -> Value {
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetrySchema", "metadata": {},
        "spec": {
            "clickhouse": {"endpoints": [NOBODY]},
            "signals": {"traces": {}},
            "deletionPolicy": deletion_policy,
        }
    })
}

fn finalizers(world: &World, path: &str) -> Vec<String> {
    // An object that was let go is gone.
    let object = world.server.get(path).unwrap_or_default();
    serde_json::from_value(object["metadata"]["finalizers"].clone()).unwrap_or_default()
}

fn facts(world: &World, path: &str, types: &[&str]) -> Vec<(String, String)> {
    let found = types.iter().map(|type_| world.condition(path, type_).unwrap());
    found.map(|(status, reason, _)| (status, reason)).collect()
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// Scenario: the Secret a topic's connection names is missing. Guarantee: conditions and an event
/// say so, the topic counts as unknown, it is tried again, and saying it again writes nothing.
#[tokio::test]
async fn a_topic_without_its_secret_says_which_one_is_missing() {
    let world = World::new();
    world.server.put(TOPIC, topic());
    world.reconcile::<Topics>(TOPIC).await.unwrap_err();
    let told = facts(&world, TOPIC, &["SecretsFound", "TopicReady", "Stalled", "Ready"]);
    let missing = "SecretMissing";
    let wanted = [is("False", missing), is("Unknown", missing), is("True", missing)];
    assert_eq!(told[..3], wanted);
    assert_eq!(told[3], is("False", missing));
    assert!(world.server.take_event_reasons().contains(&missing.to_owned()));
    world.server.take_writes();
    world.pass(30);
    world.reconcile::<Topics>(TOPIC).await.unwrap_err();
    assert_eq!(world.server.take_writes(), []);
    assert_eq!(world.server.take_event_reasons(), Vec::<String>::new());
}

/// Scenario: ClickHouse is away. Guarantee: the tables count as unknown, not as wrong; it is tried
/// again by itself; saying it again writes nothing.
#[tokio::test]
async fn a_schema_without_a_server_is_unknown_and_tried_again() {
    let world = World::new();
    world.server.put(SCHEMA, schema("Retain"));
    world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
    let away = "ClickHouseUnreachable";
    let told = facts(&world, SCHEMA, &["SchemaReady", "Stalled", "Ready", "SecretsFound"]);
    assert_eq!(told[..3], [is("Unknown", away), is("False", away), is("False", away)]);
    assert_eq!(told[3], is("True", "AsAsked"));
    assert_eq!(world.server.get(SCHEMA).unwrap()["status"]["revision"], Value::Null);
    world.server.take_writes();
    world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
    assert_eq!(world.server.take_writes(), []);
}

/// Scenario: the deletion policy is changed to and fro. Guarantee: the finalizer is there exactly
/// while deletion was asked for, and another controller's stays.
#[tokio::test]
async fn the_finalizer_follows_the_deletion_policy() {
    let world = World::new();
    world.server.put(SCHEMA, schema("Retain"));
    world.server.edit(SCHEMA, |object| object["metadata"]["finalizers"] = json!(["other/one"]));
    let _ = world.reconcile::<Schemas>(SCHEMA).await;
    assert_eq!(finalizers(&world, SCHEMA), ["other/one"]);
    world.server.edit(SCHEMA, |object| object["spec"]["deletionPolicy"] = "Delete".into());
    let _ = world.reconcile::<Schemas>(SCHEMA).await;
    assert_eq!(finalizers(&world, SCHEMA), ["other/one", FINALIZER]);
    world.server.edit(SCHEMA, |object| object["spec"]["deletionPolicy"] = "Retain".into());
    let _ = world.reconcile::<Schemas>(SCHEMA).await;
    assert_eq!(finalizers(&world, SCHEMA), ["other/one"]);
}

/// An object being deleted, its finalizer on, since the world's clock.
fn deleted(world: &World, policy: &str) {
    world.server.put(SCHEMA, schema(policy));
    let since = world.context.clock.now().to_string();
    world.server.edit(SCHEMA, |object| {
        object["metadata"]["finalizers"] = json!([FINALIZER]);
        object["metadata"]["deletionTimestamp"] = since.into();
    });
}

/// Scenario: an object whose tables are to go with it, and ClickHouse stays away. Guarantee: it is
/// held while trying, let go after five minutes, and an event says what is left behind.
#[tokio::test]
async fn a_deletion_that_cannot_succeed_is_given_up_in_the_end() {
    let world = World::new();
    deleted(&world, "Delete");
    world.pass(299);
    world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
    assert_eq!(finalizers(&world, SCHEMA), [FINALIZER]);
    assert!(world.server.take_event_reasons().is_empty());
    world.pass(1);
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    assert_eq!(finalizers(&world, SCHEMA), Vec::<String>::new());
    assert_eq!(world.server.take_event_reasons(), ["DeletionGivenUp"]);
}

/// Scenario: an object being deleted whose policy is to retain by now. Guarantee: let go at once,
/// nobody outside is asked.
#[tokio::test]
async fn an_object_that_retains_is_let_go_at_once() {
    let world = World::new();
    deleted(&world, "Retain");
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    assert_eq!(finalizers(&world, SCHEMA), Vec::<String>::new());
    assert!(world.server.take_event_reasons().is_empty());
}
