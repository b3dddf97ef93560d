//! The broker that tests and the stack run, held to what they rely on.
//!
//! `cargo test -p millrace-stack kafka_broker::`. The first run fetches Kafka with Maven
//! (45 MB); each test starts a broker of its own, about 4 s.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use millrace_stack::kafka::{Broker, BrokerOptions, Credentials, Listener, Prepared};
use millrace_stack::service::{Secret, ServiceError};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientContext, TopicPartitionList};

const PATIENCE: Duration = Duration::from_secs(60);

fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    config
}

fn scram(bootstrap: &str, credentials: &Credentials) -> ClientConfig {
    let mut config = config(bootstrap);
    config
        .set("security.protocol", "sasl_plaintext")
        .set("sasl.mechanism", "SCRAM-SHA-512")
        .set("sasl.username", credentials.user.expose())
        .set("sasl.password", credentials.password.expose());
    config
}

fn credentials(password: &str) -> Credentials {
    Credentials { user: Secret::new("edge").unwrap(), password: Secret::new(password).unwrap() }
}

fn create_topic(config: &ClientConfig, name: &str) {
    let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
    let topic = NewTopic::new(name, 3, TopicReplication::Fixed(1));
    let created = admin.create_topics([&topic], &AdminOptions::new());
    let results = futures::executor::block_on(created).unwrap();
    assert_eq!(results, [Ok(name.to_owned())]);
}

fn produce(config: &ClientConfig, topic: &str, values: &[&str]) {
    let producer: BaseProducer = config.clone().set("acks", "all").create().unwrap();
    for value in values {
        let record = BaseRecord::<(), str>::to(topic).partition(0).payload(value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
}

fn first_values(config: &ClientConfig, topic: &str, count: usize) -> Vec<String> {
    let mut config = config.clone();
    // The event of a commit, every five seconds, would end a poll with nothing.
    config.set("group.id", "reader").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(topic, 0, rdkafka::Offset::Beginning).unwrap();
    consumer.assign(&partitions).unwrap();
    (0..count)
        .map(|_| {
            let message = consumer.poll(PATIENCE).expect("a message in time").unwrap();
            let payload = rdkafka::Message::payload(&message).unwrap();
            String::from_utf8(payload.to_vec()).unwrap()
        })
        .collect()
}

/// Scenario: a broker with a topic and acknowledged messages is restarted in good order, then
/// killed and started again. Guarantee: topic, partitions and messages are still there, at the same
/// address. Slow: a broker starts three times, and may come back only when the session of the
/// killed one, of 3 s, has ended.
#[test]
fn topics_and_messages_outlive_a_restart_and_a_kill() {
    let mut broker = Broker::start(BrokerOptions::default()).unwrap();
    let address = broker.bootstrap();
    create_topic(&config(&address), "otlp_traces");
    produce(&config(&address), "otlp_traces", &["one"]);

    broker.restart().unwrap();
    assert_eq!(broker.bootstrap(), address);
    assert_eq!(first_values(&config(&address), "otlp_traces", 1), ["one"]);
    produce(&config(&address), "otlp_traces", &["two"]);

    broker.kill9();
    broker.restart().unwrap();
    assert_eq!(first_values(&config(&address), "otlp_traces", 2), ["one", "two"]);
    let consumer: BaseConsumer = config(&address).create().unwrap();
    let metadata = consumer.fetch_metadata(Some("otlp_traces"), PATIENCE).unwrap();
    assert_eq!(metadata.topics()[0].partitions().len(), 3);
}

/// Keeps what librdkafka reports outside of calls: refused logins come that way only.
#[derive(Default)]
struct Errors(Mutex<Vec<RDKafkaErrorCode>>);

impl ClientContext for Errors {
    fn error(&self, error: KafkaError, _reason: &str) {
        self.0.lock().unwrap().extend(error.rdkafka_error_code());
    }
}

impl ConsumerContext for Errors {}

/// Scenario: the same listener is asked with the right and with a wrong password. Guarantee: the
/// right one lists the cluster; the wrong one is refused as an authentication failure. Slow: a
/// broker starts.
#[test]
fn a_wrong_scram_password_is_refused() {
    let right = credentials("right-password");
    let broker = Broker::start(BrokerOptions {
        plaintext: None,
        sasl: Some((Listener::LOOPBACK, right.clone())),
        ..BrokerOptions::default()
    })
    .unwrap();
    let address = broker.sasl_bootstrap().unwrap();
    assert_eq!(broker.bootstrap(), address);

    let consumer: BaseConsumer = scram(&address, &right).create().unwrap();
    assert_eq!(consumer.fetch_metadata(None, PATIENCE).unwrap().brokers().len(), 1);

    let wrong = scram(&address, &credentials("wrong-password"));
    let consumer: BaseConsumer<Errors> = wrong.create_with_context(Errors::default()).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let refused = || {
        let errors = consumer.client().context().0.lock().unwrap();
        errors.contains(&RDKafkaErrorCode::Authentication)
    };
    while !refused() && Instant::now() < deadline {
        drop(consumer.poll(Duration::from_millis(100)));
    }
    assert!(refused(), "the broker let a wrong password in");
}

/// Scenario: a topic is asked for that nobody made. Guarantee: it is unknown, and stays so. Slow: a
/// broker starts.
#[test]
fn a_topic_is_never_made_by_asking_for_it() {
    let broker = Broker::start(BrokerOptions::default()).unwrap();
    let consumer: BaseConsumer =
        config(&broker.bootstrap()).set("allow.auto.create.topics", "true").create().unwrap();
    for _ in 0..2 {
        let metadata = consumer.fetch_metadata(Some("otlp_tarces"), PATIENCE).unwrap();
        let error = metadata.topics()[0].error().map(RDKafkaErrorCode::from);
        assert_eq!(error, Some(RDKafkaErrorCode::UnknownTopicOrPartition));
    }
}

/// Scenario: a broker is dropped. Guarantee: neither its process nor its folder is left. Slow: a
/// broker starts and stops.
#[test]
fn a_dropped_broker_leaves_nothing_behind() {
    let broker = Broker::start(BrokerOptions::default()).unwrap();
    let process = format!("/proc/{}", broker.pid());
    let dir = broker.dir().to_owned();
    assert!(Path::new(&process).exists() && dir.join("data").exists());
    drop(broker);
    assert!(!Path::new(&process).exists());
    assert!(!dir.exists());
}

/// Scenario: a folder formatted for one password is prepared with another. Guarantee: that is said
/// at once, instead of a broker that refuses everybody.
#[test]
fn a_folder_formatted_for_another_password_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = |password| BrokerOptions {
        sasl: Some((Listener::LOOPBACK, credentials(password))),
        ..BrokerOptions::default()
    };
    Prepared::new(dir.path(), &options("first")).unwrap();
    Prepared::new(dir.path(), &options("first")).unwrap();
    let error = Prepared::new(dir.path(), &options("second")).unwrap_err();
    assert!(matches!(error, ServiceError::Option { field: "sasl", .. }), "{error}");
    assert!(!error.to_string().contains("second"));
}
