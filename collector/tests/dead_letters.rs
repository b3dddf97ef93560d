//! Dead letters on the admin port of a running gateway.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use serde_json::{Value, json};

use crate::command::{PATIENCE, Running, Settings, request};

/// Scenario: a gateway reads a message that is no OTLP. Guarantee: `/dead-letters` is empty before,
/// and then has its positions in both topics, reason and size, without its bytes.
#[test]
fn a_gateway_lists_a_dead_letter_without_its_content() {
    let mock = MockCluster::new(1).unwrap();
    for topic in ["otlp_traces", "otlp_traces_dead_letter"] {
        mock.create_topic(topic, 1, 1).unwrap();
    }
    let servers = mock.bootstrap_servers();
    let settings = Settings::new(&format!(
        "admin: {{address: '127.0.0.1:0'}}\nmemory: {{limitBytes: 512Mi}}\n\
         shutdown: {{deadlineSeconds: 5}}\n\
         receivers:\n  kafka:\n    workers: 1\n    topics: {{traces: otlp_traces}}\n    \
         connection: {{bootstrapServers: ['{servers}']}}\n\
         exporters: {{clickhouse: {{endpoints: ['http://127.0.0.1:1']}}}}\n",
    ));
    let mut gateway = Running::start(&settings);
    let admin = gateway.admin();
    let list = || {
        let (status, text) = request(&admin, "GET", "/dead-letters", &[], b"");
        assert_eq!(status, 200, "{text}");
        text
    };
    assert_eq!(list(), "{\"deadLetters\":[]}\n");
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", &servers).create().unwrap();
    let payload = b"\x0a\x7fconfidential";
    producer.send(BaseRecord::<(), _>::to("otlp_traces").payload(payload)).unwrap();
    producer.flush(PATIENCE).unwrap();
    let start = Instant::now();
    let mut text = list();
    while !text.contains("otlp_traces_dead_letter") {
        assert!(start.elapsed() < PATIENCE, "no dead letter is listed: {text}");
        std::thread::sleep(Duration::from_millis(20));
        text = list();
    }
    let mut answer: Value = serde_json::from_str(&text).unwrap();
    let stored_at = answer["deadLetters"][0].as_object_mut().unwrap().remove("storedAtSeconds");
    assert!(stored_at.unwrap().as_u64().unwrap() > 0);
    let expected = json!({"deadLetters": [{
        "signal": "traces", "topic": "otlp_traces_dead_letter", "partition": 0, "offset": 0,
        "sourceTopic": "otlp_traces", "sourcePartition": 0, "sourceOffset": 0,
        "reason": "truncated", "bytes": payload.len(),
    }]});
    assert_eq!(answer, expected);
    assert!(!text.contains("confidential"), "{text}");
    let (status, log) = gateway.end();
    assert_eq!(status.code(), Some(0), "{log}");
}
