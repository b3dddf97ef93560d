//! Tests of what `controllers/topic/plan.rs` keeps to itself.

use super::*;
use crate::controllers::topic::validate::test_support::wanted;
use proptest::prelude::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn found(partitions: u32, settings: &[(&str, &str)], own: &[(&str, &str)]) -> TopicSeen {
    // As declared topics are, where nothing else is said.
    let mut effective = map(&[("message.timestamp.type", "LogAppendTime")]);
    effective.extend(map(settings));
    TopicSeen::Found {
        partitions,
        replication_factor: 1,
        settings: effective,
        own_settings: map(own),
    }
}

/// Scenario: another team's setting on the topic, and one of ours to change. Guarantee: theirs
/// is written back with ours.
#[test]
fn settings_of_others_are_written_back() {
    let wanted = wanted("topicName: t, retention: 1h");
    let live = [("retention.ms", "1"), ("cleanup.policy", "compact")];
    let plan = plan(&wanted, &found(12, &live, &[("cleanup.policy", "compact")]));
    let own_settings = map(&[
        ("cleanup.policy", "compact"),
        ("message.timestamp.type", "LogAppendTime"),
        ("retention.ms", "3600000"),
    ]);
    assert_eq!(plan.changes, [TopicChange::Set { own_settings }]);
}

/// Scenario: a setting that is as asked for by the broker's default. Guarantee: no change.
#[test]
fn a_setting_in_effect_is_not_set_again() {
    let wanted = wanted("topicName: t, settings: {cleanup.policy: delete}");
    let plan = plan(&wanted, &found(12, &[("cleanup.policy", "delete")], &[]));
    assert!(plan.changes.is_empty());
}

/// Scenario: fewer copies than asked for. Guarantee: nothing is changed and a person is told
/// what to do.
#[test]
fn a_replication_factor_is_told_not_changed() {
    let wanted = wanted("topicName: t, replicationFactor: 3");
    let seen = found(12, &[], &[]);
    assert!(plan(&wanted, &seen).changes.is_empty());
    let Standing::Stuck(reason, message) = judge(&wanted, &seen) else { panic!("not stuck") };
    assert_eq!(reason, Reason::ReplicationDiffers);
    assert!(message.contains("write replicationFactor: 1"), "{message}");
}

proptest! {
    /// Scenario: any number of partitions there and asked for. Guarantee: the plan never
    /// shrinks, and a topic that fits has at least what was asked for and nothing to change.
    #[test]
    fn partitions_only_ever_grow(has in 1u32..200, asked in 1u32..200) {
        let wanted = wanted(&format!("topicName: t, partitions: {asked}"));
        let seen = found(has, &[], &[]);
        let changes = plan(&wanted, &seen).changes;
        for change in &changes {
            let TopicChange::Grow { partitions } = change else { panic!("{change:?}") };
            prop_assert!(*partitions > has && *partitions == asked);
        }
        match judge(&wanted, &seen) {
            Standing::Fits(..) => prop_assert!(has >= asked && changes.is_empty()),
            Standing::Differs(reason, _) => {
                prop_assert_eq!(reason, Reason::TopicTooFewPartitions);
                prop_assert_eq!(changes.len(), 1);
            }
            Standing::Stuck(..) => prop_assert!(false, "never stuck over partitions"),
        }
    }
}
