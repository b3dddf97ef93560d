//! Tests of what `kafka/topics.rs` keeps to itself.

use super::*;

fn creation(number: usize, partitions: u32) -> Job {
    let settings = BTreeMap::new();
    let change = TopicChange::Create { partitions, replication_factor: None, settings };
    Job { topic: format!("t{number}").into(), kind: JobKind::Change(change) }
}

/// Scenario: a thousand small topics, and large ones among small ones. Guarantee: every topic
/// is in one request, in order; no request has more topics or partitions than a controller
/// takes, but for a topic that has too many by itself, which is refused alone.
#[test]
fn requests_are_bounded_by_topics_and_partitions() {
    let sizes = [vec![1; 1_000], vec![1, 4_000, 900, 200, 9_000, 1, 1]];
    for sizes in sizes {
        let jobs: Vec<Job> =
            sizes.iter().enumerate().map(|(number, size)| creation(number, *size)).collect();
        let changes: Vec<Numbered<'_>> = jobs.iter().enumerate().collect();
        let cut = batches(&changes);
        let numbers = cut.iter().flat_map(|batch| batch.iter().map(|(number, _)| *number));
        assert_eq!(numbers.collect::<Vec<_>>(), (0..jobs.len()).collect::<Vec<_>>());
        for batch in cut {
            assert!(batch.len() <= TOPICS_MAX);
            let records: usize = batch.iter().map(|(_, job)| job.records()).sum();
            assert!(records <= RECORDS_MAX || batch.len() == 1, "{records}");
        }
    }
}

/// Scenario: a topic that was made meanwhile, or is gone already, and real refusals. Guarantee:
/// what was so already counts as done; each refusal names its own topic.
#[test]
fn each_topic_has_its_own_outcome() {
    let make = creation(1, 3);
    let delete = Job { topic: "t2".into(), kind: JobKind::Delete };
    assert!(make.outcome(Some(&Err(Code::TopicAlreadyExists))).is_ok());
    assert!(delete.outcome(Some(&Err(Code::UnknownTopicOrPartition))).is_ok());
    assert!(delete.outcome(Some(&Err(Code::TopicAlreadyExists))).is_err());
    let refused = make.outcome(Some(&Err(Code::InvalidReplicationFactor))).unwrap_err();
    assert!(refused.message.starts_with("cannot create topic t1 with 3 partitions: "));
    assert!(make.outcome(None).is_err(), "no answer is no success");
}
