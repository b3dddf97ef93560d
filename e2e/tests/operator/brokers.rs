//! The operator's Kafka half with three brokers, each of which is away once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millrace_operator::kafka::{Brokers, ConnectionSettings, Pace, Sessions, TopicChange};
use millrace_stack::kafka::{Broker, BrokerOptions};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

const TOPIC: &str = "cluster";
const GROUP: &str = "gateway";
const PARTITIONS: i32 = 6;
/// As Kafka's own default: a broker's groups have no coordinator for that long after it was killed.
const SESSION: Duration = Duration::from_secs(9);
/// How long requests may fail after a broker went: its session, the elections, and a request that
/// waits 5 s for its answer.
const RECOVERY: Duration = Duration::from_secs(16);
const POLL: Duration = Duration::from_millis(250);
const TIMEOUT: Duration = Duration::from_secs(30);

fn produce_and_commit(bootstrap: &str) {
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", bootstrap);
    let producer: BaseProducer = client.create().unwrap();
    let mut offsets = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        for _ in 0..2 {
            let record = BaseRecord::<(), [u8]>::to(TOPIC).partition(partition).payload(&b"x"[..]);
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        offsets.add_partition_offset(TOPIC, partition, Offset::Offset(1)).unwrap();
    }
    producer.flush(TIMEOUT).unwrap();
    let consumer: BaseConsumer = client.set("group.id", GROUP).create().unwrap();
    commit_offsets(&consumer, &offsets);
}

/// Commits as soon as a broker accepts it: after their start brokers move the group's coordinator.
fn commit_offsets(consumer: &BaseConsumer, offsets: &TopicPartitionList) {
    let begun = Instant::now();
    while let Err(error) = consumer.commit(offsets, CommitMode::Sync) {
        assert!(begun.elapsed() < TIMEOUT, "{error}");
        drop(consumer.poll(POLL));
    }
}

/// Observes the topic and the group's lag. An answer must be right; a failure is a text.
async fn observe_topic_and_lag(
    sessions: &Sessions,
    settings: &ConnectionSettings,
) -> Result<(), String> {
    let bound = Duration::from_secs(60);
    let topics = [TOPIC.to_owned()];
    let lag = sessions.observe_lag(settings.clone(), GROUP, &topics, bound).await;
    let lag = lag.map_err(|error| error.to_string())?;
    assert_eq!((lag.partitions, lag.messages), (6, 6), "{lag:?}");
    let topic = sessions.observe_topic(settings.clone(), TOPIC).await;
    topic.map(drop).map_err(|error| error.to_string())
}

/// Scenario: topic and lag are observed while each of three brokers is killed in turn, so that the
/// coordinator of the group and each leader are away once, for longer than a request waits.
/// Guarantee: the process continues (librdkafka ends it if a request to a coordinator times out within
/// the library), each answer is right, and 16 s later all is answered although the broker is still
/// away. Slow: three brokers start, and each is away for 16 s.
#[tokio::test(flavor = "multi_thread")]
async fn topics_and_lag_are_observed_while_a_broker_is_away() {
    let dir = tempfile::tempdir().unwrap();
    let options = BrokerOptions { heap_mib: 256, session: SESSION, ..BrokerOptions::default() };
    let mut brokers = Broker::start_cluster(3, dir.path(), &options).unwrap();
    let bootstrap: Vec<String> = brokers.iter().map(Broker::bootstrap).collect();
    let bootstrap = bootstrap.join(",");
    let settings = ConnectionSettings::from_servers(&bootstrap, None);
    let sessions = Sessions::new(Pace::AT_ONCE);
    let create = TopicChange::Create {
        partitions: PARTITIONS as u32,
        replication_factor: Some(3),
        settings: BTreeMap::new(),
    };
    sessions.change_topic(settings.clone(), TOPIC, create).await.unwrap();
    produce_and_commit(&bootstrap);
    for broker in &mut brokers {
        broker.kill9();
        let killed = Instant::now();
        while killed.elapsed() < RECOVERY {
            if let Err(failure) = observe_topic_and_lag(&sessions, &settings).await {
                println!("{:?}: {failure}", killed.elapsed());
            }
            tokio::time::sleep(POLL).await;
        }
        observe_topic_and_lag(&sessions, &settings).await.unwrap();
        broker.restart().unwrap();
    }
}
