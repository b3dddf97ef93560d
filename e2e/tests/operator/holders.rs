//! Records of who holds topics and consumer groups, on a real broker.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millrace_crds::Reason;
use millrace_operator::kafka::{
    Brokers, ConnectionSettings, Failure, HolderRecord, KafkaResource, Pace, Sessions, TopicChange,
};
use millrace_stack::kafka::{Broker, BrokerOptions};

/// A broker knows a topic a moment after it was made, and its first group's coordinator later: on
/// busy processors by seconds.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

async fn written(
    sessions: &Sessions,
    settings: &ConnectionSettings,
    place: &KafkaResource,
    entry: HolderRecord,
) {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        match sessions.write_record(settings.clone(), place.clone(), entry.clone()).await {
            Ok(()) => return,
            Err(Failure { reason: Reason::TopicMissing | Reason::KafkaUnreachable, .. }) => {}
            Err(failure) => panic!("{failure}"),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    panic!("{entry:?} was never written");
}

/// Scenario: records of two topics and of a consumer group, which lies at one topic and is asked
/// for by a pool that reads another; written over; a topic deleted. Guarantee: each is read as it
/// was written last, wherever it lies; a topic's goes with the topic. Slow: a broker starts, and
/// makes its topic of groups when the first record is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_broker_keeps_records_until_their_topic_goes() {
    let broker = Broker::start(BrokerOptions::default()).unwrap();
    let settings = ConnectionSettings::from_servers(&broker.bootstrap(), None);
    let sessions = Sessions::new(Pace::AT_ONCE);
    for topic in ["a", "b"] {
        let (partitions, settings_of) = (3, BTreeMap::new());
        let change =
            TopicChange::Create { partitions, replication_factor: Some(1), settings: settings_of };
        sessions.change_topic(settings.clone(), topic, change).await.unwrap();
    }
    let entry = |topic: &str, text: &str| HolderRecord {
        topic: topic.to_owned(),
        text: text.to_owned(),
        at_millis: 1_790_000_000_000,
    };
    let (a, b) = (KafkaResource::Topic("a".to_owned()), KafkaResource::Topic("b".to_owned()));
    let group = KafkaResource::Group("millrace.telemetry.prod".to_owned());
    written(&sessions, &settings, &a, entry("a", "v1:first")).await;
    written(&sessions, &settings, &a, entry("a", "v1:second")).await;
    written(&sessions, &settings, &group, entry("b", "v1:pool")).await;
    let read = |place: &KafkaResource| sessions.read_records(settings.clone(), place.clone());
    assert_eq!(read(&a).await.unwrap(), [entry("a", "v1:second")]);
    assert_eq!(read(&b).await.unwrap(), []);
    assert_eq!(read(&group).await.unwrap(), [entry("b", "v1:pool")]);
    assert_eq!(read(&KafkaResource::Group("other".to_owned())).await.unwrap(), []);
    sessions.delete_topic(settings.clone(), "a").await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if read(&a).await.unwrap().is_empty() {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    panic!("the record outlived its topic");
}
