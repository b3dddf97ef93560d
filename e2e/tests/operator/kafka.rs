//! The operator's Kafka half against a real broker: topics made, grown, adjusted and deleted, lag
//! by count and by age, and failures told apart.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millrace_crds::Reason;
use millrace_crds::v1alpha1::SaslMechanism;
use millrace_operator::kafka::{
    Brokers, ConnectionSettings, Pace, Sessions, TopicChange, TopicObservation,
};
use millrace_operator::outbound::credentials::Login;
use millrace_stack::kafka::{Broker, BrokerOptions, Credentials, Listener};
use millrace_stack::service::Secret;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

const HOUR_MILLIS: i64 = 3_600_000;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn create(partitions: u32, settings: &[(&str, &str)]) -> TopicChange {
    TopicChange::Create { partitions, replication_factor: Some(1), settings: map(settings) }
}

/// A broker that has just started on busy processors may take seconds to read of a change.
const METADATA_PATIENCE: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Asks until the broker's metadata has caught up with a change just made.
async fn seen(
    sessions: &Sessions,
    settings: &ConnectionSettings,
    topic: &str,
    wanted: impl Fn(&TopicObservation) -> bool,
) -> TopicObservation {
    let deadline = Instant::now() + METADATA_PATIENCE;
    loop {
        let seen = sessions.observe_topic(settings.clone(), topic).await.unwrap();
        if wanted(&seen) {
            return seen;
        }
        assert!(Instant::now() < deadline, "topic {topic} never came to be as wanted: {seen:?}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn partitions(seen: &TopicObservation) -> Option<u32> {
    match seen {
        TopicObservation::Missing => None,
        TopicObservation::Exists { partitions, .. } => Some(*partitions),
    }
}

/// Scenario: a topic's whole life. Guarantee: made as asked, made again without harm, grown,
/// settings of others kept when ours change, deleted, deleted again without harm. Slow: a broker
/// starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_made_grown_adjusted_and_deleted() {
    let broker = Broker::start(BrokerOptions::default()).unwrap();
    let settings = ConnectionSettings::from_servers(&broker.bootstrap(), None);
    let sessions = Sessions::new(Pace::AT_ONCE);
    let change = |change| sessions.change_topic(settings.clone(), "life", change);
    let missing = sessions.observe_topic(settings.clone(), "life").await.unwrap();
    assert_eq!(missing, TopicObservation::Missing);

    change(create(3, &[("retention.ms", "60000"), ("cleanup.policy", "compact")])).await.unwrap();
    change(create(3, &[])).await.unwrap();
    let made = seen(&sessions, &settings, "life", |seen| partitions(seen) == Some(3)).await;
    let TopicObservation::Exists { replication_factor, own_settings, .. } = made else { panic!() };
    assert_eq!(replication_factor, 1);
    assert_eq!(own_settings, map(&[("retention.ms", "60000"), ("cleanup.policy", "compact")]));

    change(TopicChange::Grow { partitions: 5 }).await.unwrap();
    seen(&sessions, &settings, "life", |seen| partitions(seen) == Some(5)).await;

    let mut own_settings = own_settings;
    own_settings.insert("retention.ms".into(), "120000".into());
    change(TopicChange::Set { own_settings: own_settings.clone() }).await.unwrap();
    let set = |seen: &TopicObservation| matches!(seen, TopicObservation::Exists { own_settings: own, .. } if *own == own_settings);
    seen(&sessions, &settings, "life", set).await;

    sessions.delete_topic(settings.clone(), "life").await.unwrap();
    seen(&sessions, &settings, "life", |seen| partitions(seen).is_none()).await;
    sessions.delete_topic(settings.clone(), "life").await.unwrap();
}

/// Scenario: what a broker refuses. Guarantee: each has its stable reason. Slow: a broker starts.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_a_broker_have_stable_reasons() {
    let broker = Broker::start(BrokerOptions::default()).unwrap();
    let settings = ConnectionSettings::from_servers(&broker.bootstrap(), None);
    let sessions = Sessions::new(Pace::AT_ONCE);
    let refused =
        async |change| sessions.change_topic(settings.clone(), "no", change).await.unwrap_err();
    let copies = TopicChange::Create {
        partitions: 1,
        replication_factor: Some(3),
        settings: BTreeMap::new(),
    };
    assert_eq!(refused(copies).await.reason, Reason::TooFewBrokers);
    let setting = create(1, &[("no.such.setting", "1")]);
    assert_eq!(refused(setting).await.reason, Reason::TopicSettingRejected);
    let topics = ["no".to_owned()];
    let lag = sessions.observe_lag(settings.clone(), "g", &topics, Duration::from_secs(60)).await;
    assert_eq!(lag.unwrap_err().reason, Reason::TopicMissing);
}

/// Scenario: a name that does not resolve, a port nobody listens on, a wrong password. Guarantee:
/// each is told apart, in words that stay the same, well before the conversation's limit. Slow: a
/// broker starts, and a port where nobody listens is tried for 8 s.
#[tokio::test(flavor = "multi_thread")]
async fn failures_to_get_in_are_told_apart() {
    let credentials =
        Credentials { user: Secret::new("operator").unwrap(), password: Secret::random() };
    let password = credentials.password.expose().to_owned();
    let sasl = Some((Listener::LOOPBACK, credentials));
    let broker = Broker::start(BrokerOptions { sasl, ..BrokerOptions::default() }).unwrap();
    let address = broker.sasl_bootstrap().unwrap();
    let login = |password: &str| {
        let login = Login { username: "operator".into(), password: password.into() };
        Some((SaslMechanism::ScramSha512, login))
    };
    let sessions = Sessions::new(Pace::AT_ONCE);
    let ask = async |settings: ConnectionSettings| sessions.observe_topic(settings, "t").await;

    assert!(ask(ConnectionSettings::from_servers(&address, login(&password))).await.is_ok());
    let wrong = ask(ConnectionSettings::from_servers(&address, login("wrong"))).await.unwrap_err();
    assert_eq!(wrong.reason, Reason::KafkaAuthenticationFailed, "{wrong}");
    assert!(!wrong.message.contains("wrong"), "a password in a message: {wrong}");
    let unknown =
        ask(ConnectionSettings::from_servers("no-such-host.invalid:9092", None)).await.unwrap_err();
    assert_eq!(unknown.reason, Reason::KafkaHostUnknown, "{unknown}");
    let nobody = ask(ConnectionSettings::from_servers("127.0.0.1:1", None)).await.unwrap_err();
    assert_eq!(nobody.reason, Reason::KafkaUnreachable, "{nobody}");
    let again = ask(ConnectionSettings::from_servers("127.0.0.1:1", None)).await.unwrap_err();
    assert_eq!(nobody, again);
    let good = ask(ConnectionSettings::from_servers(&address, login(&password))).await;
    assert!(good.is_ok(), "one connection's trouble became another's");
    assert_eq!(sessions.session_count(), 4, "one session for each connection");
}

fn produce(broker: &Broker, topic: &str, partition: i32, ages_millis: &[i64]) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", broker.bootstrap()).create().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = i64::try_from(now.as_millis()).unwrap();
    for age in ages_millis {
        let record = BaseRecord::<(), [u8]>::to(topic)
            .partition(partition)
            .payload(&b"x"[..])
            .timestamp(now - age);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(Duration::from_secs(20)).unwrap();
}

fn commit(broker: &Broker, group: &str, topic: &str, partition: i32, offset: i64) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", broker.bootstrap())
        .set("group.id", group)
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
    consumer.commit(&list, CommitMode::Sync).unwrap();
}

/// Scenario: messages of known ages, committed bit by bit. Guarantee: lag in messages is exact, its
/// age is near the oldest uncommitted message's, and the bound is judged by that message. Slow: a
/// broker starts, and each message and commit is sent by a new Kafka client.
#[tokio::test(flavor = "multi_thread")]
async fn lag_is_told_by_count_and_by_age() {
    let broker = Broker::start(BrokerOptions::default()).unwrap();
    let settings = ConnectionSettings::from_servers(&broker.bootstrap(), None);
    let sessions = Sessions::new(Pace::AT_ONCE);
    sessions.change_topic(settings.clone(), "lag", create(2, &[])).await.unwrap();
    seen(&sessions, &settings, "lag", |seen| partitions(seen) == Some(2)).await;
    let observe = async |bound_seconds| {
        let bound = Duration::from_secs(bound_seconds);
        let topics = ["lag".to_owned()];
        sessions.observe_lag(settings.clone(), "gateway", &topics, bound).await.unwrap()
    };

    let empty = observe(60).await;
    assert_eq!((empty.partitions, empty.partitions_max, empty.messages), (2, 2, 0));
    assert_eq!((empty.seconds, empty.within_bound), (Some(0.0), true));

    // Two hours, one hour and ten minutes old in the first partition; half an hour in the second.
    produce(&broker, "lag", 0, &[2 * HOUR_MILLIS, HOUR_MILLIS, HOUR_MILLIS / 6]);
    produce(&broker, "lag", 1, &[HOUR_MILLIS / 2]);
    let near = |seconds: Option<f64>, wanted: f64| {
        let seconds = seconds.unwrap();
        assert!((seconds - wanted).abs() <= wanted / 8.0, "{seconds} is not near {wanted}");
    };
    let all = observe(60).await;
    assert_eq!((all.messages, all.within_bound), (4, false));
    near(all.seconds, 7_200.0);
    assert!(observe(3 * 3_600).await.within_bound);

    commit(&broker, "gateway", "lag", 0, 1);
    let later = observe(60).await;
    assert_eq!(later.messages, 3);
    near(later.seconds, 3_600.0);

    commit(&broker, "gateway", "lag", 0, 3);
    let half = observe(1_700).await;
    assert_eq!((half.messages, half.within_bound), (1, false));
    near(half.seconds, 1_800.0);
    assert!(observe(1_900).await.within_bound);

    commit(&broker, "gateway", "lag", 1, 1);
    let none = observe(1).await;
    assert_eq!((none.messages, none.seconds, none.within_bound), (0, Some(0.0), true));

    // What the session has learned of the topic is not true any more, one thing after the other.
    sessions
        .change_topic(settings.clone(), "lag", TopicChange::Grow { partitions: 3 })
        .await
        .unwrap();
    seen(&sessions, &settings, "lag", |seen| partitions(seen) == Some(3)).await;
    produce(&broker, "lag", 2, &[HOUR_MILLIS]);
    let grown = observe(60).await;
    assert_eq!((grown.partitions, grown.messages, grown.within_bound), (3, 1, false));
    near(grown.seconds, 3_600.0);
    sessions.delete_topic(settings.clone(), "lag").await.unwrap();
    seen(&sessions, &settings, "lag", |seen| partitions(seen).is_none()).await;
    sessions.change_topic(settings.clone(), "lag", create(3, &[])).await.unwrap();
    seen(&sessions, &settings, "lag", |seen| partitions(seen) == Some(3)).await;
    produce(&broker, "lag", 2, &[2 * HOUR_MILLIS, 2 * HOUR_MILLIS]);
    let again = observe(60).await;
    assert_eq!((again.messages, again.within_bound), (2, false));
    near(again.seconds, 7_200.0);
}
