//! Tests of the private parts of `kafka/topics.rs`.

use super::*;

fn creation(number: usize, partitions: u32) -> TopicJob {
    let settings = BTreeMap::new();
    let change = TopicChange::Create { partitions, replication_factor: None, settings };
    TopicJob { topic: format!("t{number}").into(), kind: JobKind::Change(change) }
}

/// Scenario: a thousand small topics, and large ones among small ones. Guarantee: every topic is in
/// one request, in order; no request has more topics or partitions than a controller accepts,
/// except for a topic that has too many itself, which is refused separately.
#[test]
fn requests_are_bounded_by_topics_and_partitions() {
    let sizes = [vec![1; 1_000], vec![1, 4_000, 900, 200, 9_000, 1, 1]];
    for sizes in sizes {
        let jobs: Vec<TopicJob> =
            sizes.iter().enumerate().map(|(number, size)| creation(number, *size)).collect();
        let changes: Vec<Numbered<'_>> = jobs.iter().enumerate().collect();
        let cut = split_batches(&changes);
        let numbers = cut.iter().flat_map(|batch| batch.iter().map(|(number, _)| *number));
        assert_eq!(numbers.collect::<Vec<_>>(), (0..jobs.len()).collect::<Vec<_>>());
        for batch in cut {
            assert!(batch.len() <= TOPICS_MAX);
            let records: usize = batch.iter().map(|(_, job)| job.record_count()).sum();
            assert!(records <= RECORDS_MAX || batch.len() == 1, "{records}");
        }
    }
}

/// Scenario: a topic that another replica created first, or that is already deleted, and real
/// refusals. Guarantee: the first two count as done; each refusal names its own topic.
#[test]
fn each_topic_has_its_own_outcome() {
    let make = creation(1, 3);
    let delete = TopicJob { topic: "t2".into(), kind: JobKind::Delete };
    assert!(make.outcome_of(Some(&Err(Code::TopicAlreadyExists))).is_ok());
    assert!(delete.outcome_of(Some(&Err(Code::UnknownTopicOrPartition))).is_ok());
    assert!(delete.outcome_of(Some(&Err(Code::TopicAlreadyExists))).is_err());
    let refused = make.outcome_of(Some(&Err(Code::InvalidReplicationFactor))).unwrap_err();
    assert!(refused.message.starts_with("cannot create topic t1 with 3 partitions: "));
    assert!(make.outcome_of(None).is_err(), "no answer is no success");
}
