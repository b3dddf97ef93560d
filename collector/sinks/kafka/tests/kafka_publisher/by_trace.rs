//! Spans sorted by trace: which partition they reach, and how requests and messages change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use millrace_config::{Acknowledge, ByteSize, PartitionBy};
use millrace_pipeline::publish::DeliveryReceipt;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::mocking::MockCluster;
use rdkafka::{Offset, TopicPartitionList};

use crate::kafka_publisher::{Mock, PATIENCE, Rig};

const PARTITIONS: i32 = 6;

fn mock() -> Mock {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic("otlp_traces", PARTITIONS, 1).unwrap();
    mock
}

/// Returns a request with a span of each trace, in two resources.
fn request(traces: std::ops::Range<u64>, name: &str) -> Vec<u8> {
    let span = |trace: u64| Span {
        trace_id: [trace.to_be_bytes(), (!trace).to_be_bytes()].concat(),
        name: format!("{name} {trace}"),
        ..Span::default()
    };
    let resource = |schema_url: &str, remainder: u64| {
        let spans = traces.clone().filter(|trace| trace % 2 == remainder).map(span).collect();
        ResourceSpans {
            resource: Some(Resource::default()),
            scope_spans: vec![ScopeSpans { spans, ..ScopeSpans::default() }],
            schema_url: schema_url.to_owned(),
        }
    };
    let resource_spans = vec![resource("even", 0), resource("odd", 1)];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

/// A span that was read: its partition, trace, name, and its resource's schema URL.
type Found = (i32, Vec<u8>, String, String);

/// Reads all partitions until `spans` spans were found; also returns the longest message.
fn read(mock: &Mock, spans: usize) -> (Vec<Found>, usize) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", mock.bootstrap_servers())
        .set("group.id", "reader")
        .create()
        .unwrap();
    let mut partitions = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        partitions.add_partition_offset("otlp_traces", partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&partitions).unwrap();
    let start = Instant::now();
    let (mut found, mut longest) = (Vec::new(), 0);
    while found.len() < spans && start.elapsed() < PATIENCE {
        let Some(message) = consumer.poll(std::time::Duration::from_millis(100)) else { continue };
        let message = message.unwrap();
        let payload = message.payload().unwrap();
        longest = longest.max(payload.len());
        for group in ExportTraceServiceRequest::decode(payload).unwrap().resource_spans {
            for span in group.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let url = group.schema_url.clone();
                found.push((message.partition(), span.trace_id, span.name, url));
            }
        }
    }
    assert_eq!(found.len(), spans);
    (found, longest)
}

/// Scenario: spans of the same traces in several requests. Guarantee: each trace is in one
/// partition, traces are in all of them, each span is stored once with its surroundings, and each
/// request is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_spans_of_a_trace_share_a_partition() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| settings.partition_by = PartitionBy::TraceId);
    for name in ["first", "second", "third"] {
        let delivery = rig.publish(&request(0..200, name), 200).unwrap();
        assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
    }
    let (found, _) = read(&mock, 600);
    let mut partitions = BTreeMap::<_, BTreeSet<i32>>::new();
    for (partition, trace, name, url) in &found {
        partitions.entry(trace).or_default().insert(*partition);
        let number: u64 = name.split(' ').nth(1).unwrap().parse().unwrap();
        assert_eq!(url, if number.is_multiple_of(2) { "even" } else { "odd" });
    }
    assert_eq!(partitions.len(), 200);
    assert!(partitions.values().all(|partitions| partitions.len() == 1));
    let used: BTreeSet<i32> = partitions.into_values().flatten().collect();
    assert_eq!(used.len(), PARTITIONS as usize);
    let names: BTreeSet<String> = found.into_iter().map(|(_, _, name, _)| name).collect();
    assert_eq!(names.len(), 600);
    assert_eq!(rig.metric("millrace_records_out_total{signal=\"traces\"}"), 600);
    assert_eq!(rig.budget.used_bytes(), 0);
}

/// Scenario: requests of less than the message limit for each partition arrive together, and one is
/// far longer than a message. Guarantee: the first share messages, the other is cut; no message is
/// over the limit, and a record that no message can hold is reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn sorted_spans_still_share_messages_and_are_cut_to_the_limit() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| {
        settings.partition_by = PartitionBy::TraceId;
        settings.max_message_bytes = ByteSize::kib(16);
        settings.linger_millis = 300;
    });
    let small: Vec<_> =
        (0..20).map(|_| rig.publish(&request(0..60, "small"), 60).unwrap()).collect();
    for delivery in small {
        assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
    }
    let messages = rig.metric("millrace_produce_duration_seconds_count");
    assert!(messages < 20 * PARTITIONS as u64 / 2, "{messages}");
    let long = "x".repeat(500);
    let delivery = rig.publish(&request(0..1000, &long), 1000).unwrap();
    assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
    let delivery = rig.publish(&request(0..1, &"y".repeat(20_000)), 1).unwrap();
    assert_eq!(delivery.await, Ok(DeliveryReceipt::with_rejected(1)));
    let (_, longest) = read(&mock, 20 * 60 + 1000);
    assert!(longest <= 16 * 1024, "{longest}");
    assert_eq!(rig.budget.used_bytes(), 0);
}

/// Scenario: answers after buffering, with a record that no message can hold. Guarantee: the answer
/// reports it at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_early_answer_tells_what_was_left_out() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| {
        settings.partition_by = PartitionBy::TraceId;
        settings.acknowledge = Acknowledge::AfterBuffering;
    });
    let delivery = rig.publish(&request(0..1, &"y".repeat(20_000)), 1).unwrap();
    assert_eq!(delivery.await, Ok(DeliveryReceipt::with_rejected(1)));
    let refused = "millrace_records_refused_total{reason=\"too_large\",signal=\"traces\"}";
    assert_eq!(rig.metric(refused), 1);
}
