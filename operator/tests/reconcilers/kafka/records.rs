//! Records of holders against librdkafka's mock broker: what is written is read back. A group's
//! records at whichever topic they lie are read from real brokers alone (`e2e`): the mock one knows
//! only what is asked for by name.

use millrace_operator::kafka::{
    Brokers, ConnectionSettings, HolderRecord, KafkaResource, Pace, Sessions,
};
use rdkafka::mocking::MockCluster;
use rdkafka::types::RDKafkaApiKey;
use rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED as NOT_ALLOWED;

fn entry(topic: &str, text: &str, at_millis: i64) -> HolderRecord {
    HolderRecord { topic: topic.to_owned(), text: text.to_owned(), at_millis }
}

/// Scenario: topics with a record and without, one that is written over, one given up, and one that
/// isn't there; many looks at once. Guarantee: each is read as it was written last; a topic that
/// isn't there has none, and none can be written for it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_on_record_is_read_back() {
    let cluster = MockCluster::new(1).unwrap();
    for topic in ["a", "b", "c"] {
        cluster.create_topic(topic, 3, 1).unwrap();
    }
    let settings = ConnectionSettings::from_servers(&cluster.bootstrap_servers(), None);
    let sessions = Sessions::new(Pace::AT_ONCE);
    let of = |topic: &str| KafkaResource::Topic(topic.to_owned());
    let read = |topic: &'static str| sessions.read_records(settings.clone(), of(topic));
    let write = |at: HolderRecord| sessions.write_record(settings.clone(), of(&at.topic), at);
    assert_eq!(read("a").await.unwrap(), []);
    let long = "v1:".to_owned() + &"x".repeat(1_000);
    write(entry("a", "v1:somebody", 1_790_000_000_000)).await.unwrap();
    write(entry("b", "v1:first", 1)).await.unwrap();
    write(entry("b", &long, 2)).await.unwrap();
    write(entry("c", "v1:gone", 3)).await.unwrap();
    write(entry("c", "", 4)).await.unwrap();
    let (a, b, c, none) = tokio::join!(read("a"), read("b"), read("c"), read("none"));
    assert_eq!(a.unwrap(), [entry("a", "v1:somebody", 1_790_000_000_000)]);
    assert_eq!(b.unwrap(), [entry("b", &long, 2)]);
    assert_eq!(c.unwrap(), [entry("c", "", 4)]);
    assert_eq!(none.unwrap(), []);
    let refused = write(entry("none", "v1:nobody", 5)).await.unwrap_err();
    assert_eq!(refused.reason, millrace_crds::Reason::TopicMissing);
    let group = KafkaResource::Group("g".to_owned());
    sessions.write_record(settings.clone(), group, entry("a", "v1:other", 6)).await.unwrap();
    assert_eq!(read("a").await.unwrap(), [entry("a", "v1:somebody", 1_790_000_000_000)]);
}

/// Scenario: a user who may neither read nor write the records' group. Guarantee: both say so, and
/// what else is asked of topics works.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_keep_no_records_is_told_so() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("a", 3, 1).unwrap();
    let settings = ConnectionSettings::from_servers(&cluster.bootstrap_servers(), None);
    let sessions = Sessions::new(Pace::AT_ONCE);
    let place = KafkaResource::Topic("a".to_owned());
    cluster.request_errors(RDKafkaApiKey::OffsetFetch, &[NOT_ALLOWED]);
    let read = sessions.read_records(settings.clone(), place.clone()).await.unwrap_err();
    assert_eq!(read.reason, millrace_crds::Reason::KafkaNotAuthorized, "{read}");
    assert!(read.message.contains("read the holder of topic a"), "{read}");
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[NOT_ALLOWED]);
    let entry = entry("a", "v1:somebody", 1);
    let written = sessions.write_record(settings.clone(), place.clone(), entry.clone()).await;
    let written = written.unwrap_err();
    assert_eq!(written.reason, millrace_crds::Reason::KafkaNotAuthorized, "{written}");
    sessions.write_record(settings.clone(), place.clone(), entry.clone()).await.unwrap();
    assert_eq!(sessions.read_records(settings, place).await.unwrap(), [entry]);
}
