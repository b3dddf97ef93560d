//! `management: Observed` with a real broker: topics of others are compared and never written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_operator::controllers::topic::Topics;
use millrace_operator::kafka::{
    Brokers, ConnectionSettings, Pace, Sessions, TopicChange, TopicObservation,
};
use millrace_stack::kafka::{Broker, BrokerOptions};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;

const TOPIC: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetrytopics/prod";

/// Reconciles and returns status and reason of `Ready`, with its message.
async fn reconcile(world: &World) -> (String, String, String) {
    // A difference that only a person can change is reported as a state or as an error.
    let _ = world.reconcile::<Topics>(TOPIC).await;
    let (status, reason, _) = world.condition(TOPIC, "Ready").unwrap();
    (status, reason, world.message(TOPIC, "Ready"))
}

fn set_spec(world: &World, name: &str, value: impl Into<Value>) {
    world.server.edit(TOPIC, |topic| topic["spec"][name] = value.into());
}

/// Returns the consumer groups of the broker, in which holders of topics are recorded.
fn groups(bootstrap: &str) -> Vec<String> {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
    let list = consumer.fetch_group_list(None, Duration::from_secs(30)).unwrap();
    list.groups().iter().map(|group| group.name().to_owned()).collect()
}

/// Scenario: a platform team's topic that a pipeline observes: missing, then with too few
/// partitions, then with another retention, then as declared; finally the object is deleted with
/// `deletionPolicy: Delete`. Guarantee: each difference is a condition that names the remedy; the
/// topic is never created, changed, recorded or deleted. Slow: a broker starts.
#[tokio::test(flavor = "multi_thread")]
async fn an_observed_topic_is_reported_and_never_written() {
    let broker = Broker::start(BrokerOptions::default()).unwrap();
    let sessions = Sessions::new(Pace::AT_ONCE);
    let settings = || ConnectionSettings::from_servers(&broker.bootstrap(), None);
    let mut world = World::new();
    Arc::get_mut(&mut world.context).unwrap().brokers = Arc::new(Sessions::new(Pace::AT_ONCE));
    world.server.put(
        TOPIC,
        json!({
            "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryTopic", "metadata": {},
            "spec": {
                "kafka": {"bootstrapServers": [broker.bootstrap()]}, "topicName": "platform",
                "management": "Observed", "partitions": 4, "retention": "6h",
                "deletionPolicy": "Delete",
            },
        }),
    );

    let (status, reason, message) = reconcile(&world).await;
    assert_eq!((&*status, &*reason), ("False", "TopicMissing"), "{message}");
    assert!(message.contains("create it where it is managed"), "{message}");
    let missing = sessions.observe_topic(settings(), "platform").await.unwrap();
    assert_eq!(missing, TopicObservation::Missing);

    let retention = |hours: u64| {
        let millis = (hours * 3_600_000).to_string();
        let times = ("message.timestamp.type".to_owned(), "LogAppendTime".to_owned());
        BTreeMap::from([("retention.ms".to_owned(), millis), times])
    };
    let create =
        TopicChange::Create { partitions: 2, replication_factor: Some(1), settings: retention(12) };
    sessions.change_topic(settings(), "platform", create).await.unwrap();
    let created = sessions.observe_topic(settings(), "platform").await.unwrap();
    for (field, value, reason, remedy) in [
        ("partitions", json!(4), "TopicTooFewPartitions", "or write partitions: 2"),
        ("partitions", json!(2), "TopicSettingsConflict", "retention.ms"),
        ("retention", json!("12h"), "Reconciled", "has 2 partitions"),
    ] {
        set_spec(&world, field, value);
        let (status, found, message) = reconcile(&world).await;
        let expected = if reason == "Reconciled" { "True" } else { "False" };
        assert_eq!((&*status, &*found), (expected, reason), "{message}");
        let topic_message = world.message(TOPIC, "TopicReady");
        assert!(topic_message.contains(remedy), "{topic_message}");
        let observed = sessions.observe_topic(settings(), "platform").await.unwrap();
        assert_eq!(observed, created);
    }

    world.server.ask_to_delete(TOPIC);
    world.reconcile::<Topics>(TOPIC).await.unwrap();
    assert_eq!(world.server.get(TOPIC), None);
    assert_eq!(sessions.observe_topic(settings(), "platform").await.unwrap(), created);
    assert_eq!(groups(&broker.bootstrap()), Vec::<String>::new());
}
