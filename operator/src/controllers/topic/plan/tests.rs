//! Tests the private parts of `controllers/topic/plan.rs`.

use super::*;
use crate::controllers::topic::validate::test_support::desired_topic;
use millrace_crds::v1alpha1::Ownership;
use proptest::prelude::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn found(partitions: u32, settings: &[(&str, &str)], own: &[(&str, &str)]) -> TopicObservation {
    // Declared topics have this setting by default.
    let mut effective = map(&[("message.timestamp.type", "LogAppendTime")]);
    effective.extend(map(settings));
    TopicObservation::Exists {
        partitions,
        replication_factor: 1,
        settings: effective,
        own_settings: map(own),
    }
}

/// Scenario: a topic has another team's setting, and one of the operator's to change. Guarantee:
/// theirs is written back with the operator's.
#[test]
fn settings_of_others_are_written_back() {
    let wanted = desired_topic("topicName: t, retention: 1h");
    let live = [("retention.ms", "1"), ("cleanup.policy", "compact")];
    let plan = plan_changes(&wanted, &found(12, &live, &[("cleanup.policy", "compact")]), true);
    let own_settings = map(&[
        ("cleanup.policy", "compact"),
        ("message.timestamp.type", "LogAppendTime"),
        ("retention.ms", "3600000"),
    ]);
    assert_eq!(plan, [TopicChange::Set { own_settings }]);
}

/// Scenario: the broker's default already equals a declared setting. Guarantee: no change.
#[test]
fn a_setting_in_effect_is_not_set_again() {
    let wanted = desired_topic("topicName: t, settings: {cleanup.policy: delete}");
    let plan = plan_changes(&wanted, &found(12, &[("cleanup.policy", "delete")], &[]), true);
    assert!(plan.is_empty());
}

/// Scenario: settings are written in other spellings than those in which Kafka reports the values
/// that it has parsed, then with other values. Guarantee: the first are no differences, and nothing
/// is written; the others are.
#[test]
fn a_setting_in_another_spelling_is_no_difference() {
    let spellings = [
        ("unclean.leader.election.enable", "False", "false"),
        ("min.cleanable.dirty.ratio", "0.50", "0.5"),
        ("min.insync.replicas", "02", "2"),
        ("cleanup.policy", "compact, delete", "compact,delete"),
    ];
    let desired = |of: &dyn Fn(&'static str) -> &'static str| DesiredTopic {
        settings: spellings
            .iter()
            .map(|(name, value, _)| ((*name).into(), of(value).into()))
            .collect(),
        ..desired_topic("topicName: t")
    };
    let live: Vec<_> = spellings.iter().map(|(name, _, live)| (*name, *live)).collect();
    let seen = found(12, &live, &live);
    let same = desired(&|value| value);
    assert_eq!(plan_changes(&same, &seen, true), []);
    assert!(matches!(compare_topic(&same, &seen, true), TopicComparison::Fits(..)));
    let other = desired(&|value| match value {
        "False" => "true",
        "0.50" => "0.51",
        "02" => "20",
        _ => "compact",
    });
    assert_eq!(find_differences(&other.settings, &map(&live)).count(), spellings.len());
}

/// Scenario: a topic has fewer copies than declared. Guarantee: nothing is changed, and the message
/// advises a person.
#[test]
fn a_replication_factor_is_told_not_changed() {
    let wanted = desired_topic("topicName: t, replicationFactor: 3");
    let seen = found(12, &[], &[]);
    assert!(plan_changes(&wanted, &seen, true).is_empty());
    let TopicComparison::Stuck(reason, message) = compare_topic(&wanted, &seen, true) else {
        panic!("not stuck")
    };
    assert_eq!(reason, Reason::ReplicationFactorDiffers);
    assert!(message.contains("write replicationFactor: 1"), "{message}");
}

fn shared_topic(generation: i64, settings_generation: Option<i64>) -> TelemetryTopic {
    serde_json::from_value(serde_json::json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryTopic",
        "metadata": {"name": "t", "namespace": "n", "generation": generation},
        "spec": {"kafka": {"bootstrapServers": ["k:9092"]}, "ownership": "Shared"},
        "status": {"settingsGeneration": settings_generation},
    }))
    .unwrap()
}

/// Scenario: settings of a shared topic were never in effect, those of the generation before were,
/// or those of this one; another topic isn't shared. Guarantee: settings are written until they
/// were in effect once, and again after a change of the spec; later differences are reported, and
/// partitions always grow.
#[test]
fn settings_of_a_shared_topic_are_written_until_in_effect_once() {
    for (in_effect, expected) in [(None, true), (Some(1), true), (Some(2), false)] {
        let mut topic = shared_topic(2, in_effect);
        assert_eq!(is_ours_to_set(&topic), expected, "{in_effect:?}");
        topic.spec.ownership = Ownership::Exclusive;
        assert!(is_ours_to_set(&topic), "{in_effect:?}");
    }
    let wanted = desired_topic("topicName: t, partitions: 24, retention: 1h");
    let seen = found(12, &[("retention.ms", "1")], &[]);
    assert_eq!(plan_changes(&wanted, &seen, false), [TopicChange::Grow { partitions: 24 }]);
    let seen = found(24, &[("retention.ms", "1")], &[]);
    assert_eq!(plan_changes(&wanted, &seen, false), []);
    let TopicComparison::Stuck(reason, message) = compare_topic(&wanted, &seen, false) else {
        panic!()
    };
    assert_eq!(reason, Reason::TopicSettingsConflict);
    assert!(message.contains("retention.ms is 1, not 3600000"), "{message}");
}

/// Scenario: two objects share a topic and declare different settings, one of them also a number of
/// copies that the topic doesn't have; both are reconciled alternately for long, then one spec
/// changes. Guarantee: settings are written once for each generation, and at the end exactly one
/// object reports the difference.
#[test]
fn two_owners_of_a_topic_do_not_write_in_turn() {
    let specs =
        ["topicName: t, retention: 1h", "topicName: t, retention: 2h, replicationFactor: 3"]
            .map(desired_topic);
    let mut topics = [shared_topic(1, None), shared_topic(1, None)];
    let mut reasons = [Reason::Reconciled; 2];
    let (mut live, mut writes) = ("1".to_owned(), 0);
    for turn in 0..40 {
        let (topic, wanted) = (&mut topics[turn % 2], &specs[turn % 2]);
        if turn == 20 {
            topic.metadata.generation = Some(2);
        }
        let ours = is_ours_to_set(topic);
        for change in plan_changes(wanted, &found(12, &[("retention.ms", &live)], &[]), ours) {
            let TopicChange::Set { own_settings } = change else { panic!("{change:?}") };
            live.clone_from(&own_settings["retention.ms"]);
            writes += 1;
        }
        let seen = found(12, &[("retention.ms", &live)], &[]);
        let (TopicComparison::Fits(reason, _)
        | TopicComparison::Stuck(reason, _)
        | TopicComparison::Differs(reason, _)) = compare_topic(wanted, &seen, ours);
        reasons[turn % 2] = reason;
        if has_settings(wanted, &seen) {
            let generation = topic.metadata.generation;
            *topic = shared_topic(generation.unwrap(), generation);
        }
    }
    assert_eq!((writes, live.as_str()), (3, "3600000"));
    assert_eq!(reasons, [Reason::Reconciled, Reason::TopicSettingsConflict]);
}

proptest! {
    /// Scenario: any numbers of live and declared partitions. Guarantee: the plan never shrinks,
    /// and a topic that fits has at least the declared number and nothing to change.
    #[test]
    fn partitions_only_ever_grow(has in 1u32..200, asked in 1u32..200) {
        let wanted = desired_topic(&format!("topicName: t, partitions: {asked}"));
        let seen = found(has, &[], &[]);
        let changes = plan_changes(&wanted, &seen, true);
        for change in &changes {
            let TopicChange::Grow { partitions } = change else { panic!("{change:?}") };
            prop_assert!(*partitions > has && *partitions == asked);
        }
        match compare_topic(&wanted, &seen, true) {
            TopicComparison::Fits(..) => prop_assert!(has >= asked && changes.is_empty()),
            TopicComparison::Differs(reason, _) => {
                prop_assert_eq!(reason, Reason::TopicTooFewPartitions);
                prop_assert_eq!(changes.len(), 1);
            }
            TopicComparison::Stuck(..) => prop_assert!(false, "never stuck over partitions"),
        }
    }
}

/// Scenario: an observed topic is missing, too small, has other settings, or fits. Guarantee: no
/// change is ever planned; each difference is reported with the way out, which is declaring what
/// exists.
#[test]
fn an_observed_topic_is_checked_and_never_changed() {
    let small = found(6, &[], &[]);
    let other = found(12, &[("retention.ms", "1")], &[]);
    for (spec, live, expected) in [
        ("", TopicObservation::Missing, Some((Reason::TopicMissing, "management: Managed"))),
        ("", small.clone(), Some((Reason::TopicTooFewPartitions, "write partitions: 6"))),
        ("partitions: 6, ", small, None),
        (
            "retention: 1h, ",
            other.clone(),
            Some((Reason::TopicSettingsConflict, "retention.ms is 1")),
        ),
        ("", other, None),
    ] {
        let wanted = desired_topic(&format!("{spec}topicName: t, management: Observed"));
        assert!(plan_changes(&wanted, &live, true).is_empty(), "{spec}");
        match (compare_topic(&wanted, &live, true), expected) {
            (TopicComparison::Fits(..), None) => {}
            (TopicComparison::Stuck(reason, message), Some((due, advice))) => {
                assert_eq!(reason, due, "{message}");
                assert!(message.contains(advice), "{message}");
            }
            (other, _) => panic!("{spec}: {other:?}"),
        }
    }
}

/// Scenario: a topic with one declared partition. Guarantee: the condition's message has no
/// plural.
#[test]
fn one_partition_has_no_plural() {
    let declared = desired_topic("topicName: t, partitions: 1");
    let TopicComparison::Fits(_, message) = compare_topic(&declared, &found(1, &[], &[]), true)
    else {
        panic!("it fits")
    };
    assert_eq!(message, "topic t has 1 partition");
}
