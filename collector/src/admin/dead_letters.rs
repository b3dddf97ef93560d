//! The newest dead letters of this process as JSON, without their content: the console lists them.

use millrace_sink_kafka::StoredDeadLetter;

/// Returns the answer; the console reads it as `DeadLetterSample`.
pub(super) fn render_json(newest: &[StoredDeadLetter]) -> String {
    let dead_letters: Vec<_> = newest
        .iter()
        .map(|one| {
            serde_json::json!({
                "signal": one.signal.as_str(),
                "topic": one.topic.as_str(),
                "partition": one.partition,
                "offset": one.offset,
                "sourceTopic": &*one.source_topic,
                "sourcePartition": one.source_partition,
                "sourceOffset": one.source_offset,
                "reason": one.reason,
                "bytes": one.payload_bytes,
                "storedAtSeconds": one.stored_at_seconds,
            })
        })
        .collect();
    serde_json::json!({"deadLetters": dead_letters}).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use millrace_config::TopicName;
    use millrace_wire::Signal;

    use super::{StoredDeadLetter, render_json};

    /// Scenario: two dead letters, one whose offset the broker did not report. Guarantee: the text
    /// that the console's test reads (`operator/src/pods/http/tests.rs`).
    #[test]
    fn the_answer_is_what_the_console_reads() {
        let one = StoredDeadLetter {
            signal: Signal::Logs,
            topic: TopicName::new("otlp_logs_dead_letter").unwrap(),
            partition: 1,
            offset: Some(9),
            source_topic: "otlp_logs".into(),
            source_partition: 2,
            source_offset: 42,
            reason: "truncated",
            payload_bytes: 640,
            stored_at_seconds: 1_700_000_000,
        };
        let all = [one.clone(), StoredDeadLetter { offset: None, ..one }];
        let expected = concat!(
            r#"{"deadLetters":[{"bytes":640,"offset":9,"partition":1,"reason":"truncated","#,
            r#""signal":"logs","sourceOffset":42,"sourcePartition":2,"sourceTopic":"otlp_logs","#,
            r#""storedAtSeconds":1700000000,"topic":"otlp_logs_dead_letter"},{"bytes":640,"#,
            r#""offset":null,"partition":1,"reason":"truncated","signal":"logs","#,
            r#""sourceOffset":42,"sourcePartition":2,"sourceTopic":"otlp_logs","#,
            r#""storedAtSeconds":1700000000,"topic":"otlp_logs_dead_letter"}]}"#,
            "\n"
        );
        assert_eq!(render_json(&all), expected);
    }
}
