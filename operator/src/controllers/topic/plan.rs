//! Compares a topic with its declaration: the changes to make, and the differences that remain.
//! Pure.

use std::collections::BTreeMap;

use millrace_crds::Reason;
use millrace_crds::v1alpha1::{TelemetryTopic, TopicManagement};

use super::validate::DesiredTopic;
use crate::kafka::{TopicChange, TopicObservation};
use crate::report::counts::format_count;

/// Returns the changes that bring the topic to its declaration, in order: none for an observed
/// topic, and settings only if they are `ours_to_set`.
pub(super) fn plan_changes(
    desired: &DesiredTopic,
    observation: &TopicObservation,
    ours_to_set: bool,
) -> Vec<TopicChange> {
    let DesiredTopic { name: _, management, partitions, replication_factor, settings } = desired;
    if *management == TopicManagement::Observed {
        return Vec::new();
    }
    match observation {
        TopicObservation::Missing => vec![TopicChange::Create {
            partitions: *partitions,
            replication_factor: *replication_factor,
            settings: settings.clone(),
        }],
        TopicObservation::Exists {
            partitions: has,
            replication_factor: _,
            settings: effective,
            own_settings,
        } => {
            let grow = (has < partitions).then_some(TopicChange::Grow { partitions: *partitions });
            let differ = ours_to_set && find_differences(settings, effective).next().is_some();
            let set = differ.then(|| {
                // Others' settings are written back unchanged.
                let mut own_settings = own_settings.clone();
                own_settings.extend(settings.clone());
                TopicChange::Set { own_settings }
            });
            grow.into_iter().chain(set).collect()
        }
    }
}

/// How a topic compares with its declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TopicComparison {
    /// The topic is as declared; the reason is `Reconciled`, or names what exceeds the declaration.
    Fits(Reason, String),
    /// Not yet as declared: the changes have been, or will be, requested from Kafka.
    Differs(Reason, String),
    /// Only a person can change the difference.
    Stuck(Reason, String),
}

/// Returns whether settings of this generation are still to be written. Two objects that share a
/// topic would alternately overwrite each other's for ever: each writes its settings until they
/// have been in effect once, and the one that finds them changed afterwards reports it. The status
/// records that in a separate field, since conditions also change when Kafka can't be reached.
pub(super) fn is_ours_to_set(topic: &TelemetryTopic) -> bool {
    let in_effect = topic.status.as_ref().and_then(|status| status.settings_generation);
    !topic.spec.ownership.is_shared()
        || in_effect.is_none()
        || in_effect != topic.metadata.generation
}

/// Returns whether the topic has all declared settings.
pub(super) fn has_settings(desired: &DesiredTopic, observation: &TopicObservation) -> bool {
    match observation {
        TopicObservation::Missing => false,
        TopicObservation::Exists { settings, .. } => {
            find_differences(&desired.settings, settings).next().is_none()
        }
    }
}

pub(super) fn compare_topic(
    desired: &DesiredTopic,
    observation: &TopicObservation,
    ours_to_set: bool,
) -> TopicComparison {
    let name = &desired.name;
    let is_observed = desired.management == TopicManagement::Observed;
    let TopicObservation::Exists { partitions, replication_factor, settings, own_settings: _ } =
        observation
    else {
        if is_observed {
            let message = format!(
                "topic {name} does not exist, and its management is Observed: create it where it \
                 is managed, or write management: Managed"
            );
            return TopicComparison::Stuck(Reason::TopicMissing, message);
        }
        return TopicComparison::Differs(
            Reason::TopicMissing,
            format!("topic {name} does not exist"),
        );
    };
    let (has, requested) = (*partitions, desired.partitions);
    if has < requested && is_observed {
        let message = format!(
            "topic {name} has {has} of {requested} partitions, and its management is Observed: add \
             partitions where it is managed, or write partitions: {has}"
        );
        return TopicComparison::Stuck(Reason::TopicTooFewPartitions, message);
    }
    if has < requested {
        let message = format!("topic {name} has {has} of {requested} partitions");
        return TopicComparison::Differs(Reason::TopicTooFewPartitions, message);
    }
    let differ: Vec<String> = find_differences(&desired.settings, settings).collect();
    let message = format!("settings of topic {name} differ: {}", differ.join(", "));
    match (differ.is_empty(), ours_to_set) {
        (true, _) => {}
        (false, _) if is_observed => {
            let advice = "the topic's management is Observed: change them where it is managed, or \
                          write the present values in settings (retention.ms as retention)";
            return TopicComparison::Stuck(
                Reason::TopicSettingsConflict,
                format!("{message}; {advice}"),
            );
        }
        (false, true) => return TopicComparison::Differs(Reason::Applying, message),
        (false, false) => {
            let advice = "the topic is shared and another client set it: write the same settings \
                          in \
                          all objects of it, then change this spec to write them again";
            return TopicComparison::Stuck(
                Reason::TopicSettingsConflict,
                format!("{message}; {advice}"),
            );
        }
    }
    match desired.replication_factor {
        Some(copies) if copies != *replication_factor => {
            let message = format!(
                "topic {name} has replication factor {replication_factor}, not {copies}: move its \
                 replicas (kafka-reassign-partitions), or write replicationFactor: \
                 {replication_factor}"
            );
            TopicComparison::Stuck(Reason::ReplicationFactorDiffers, message)
        }
        _ if has > requested => TopicComparison::Fits(
            Reason::TopicTooManyPartitions,
            format!("topic {name} has {has} partitions, more than the {requested} declared"),
        ),
        _ => {
            let message = format!("topic {name} has {}", format_count(has, "partition"));
            TopicComparison::Fits(Reason::Reconciled, message)
        }
    }
}

/// Returns `name is x, not y` for each desired setting that is not in effect.
fn find_differences<'a>(
    desired: &'a BTreeMap<String, String>,
    effective: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = String> + 'a {
    desired.iter().filter_map(|(name, value)| match effective.get(name) {
        Some(live) if is_same_value(value, live) => None,
        Some(live) => Some(format!("{name} is {live}, not {value}")),
        None => Some(format!("{name} is not set to {value}")),
    })
}

/// Returns whether Kafka reads both texts as one value. It reports a setting as it has parsed it:
/// `False` as `false`, `0.50` as `0.5`, `compact, delete` without the space. As differences these
/// would be written again for ever.
fn is_same_value(desired: &str, live: &str) -> bool {
    let items = |text: &str| text.split(',').map(|item| item.trim().to_owned()).collect::<Vec<_>>();
    let (desired, live) = (items(desired), items(live));
    desired.len() == live.len() && desired.iter().zip(&live).all(|(one, other)| is_same(one, other))
}

fn is_same(desired: &str, live: &str) -> bool {
    let is_boolean = ["true", "false"].contains(&live);
    match (desired.parse::<i64>(), live.parse::<i64>()) {
        (Ok(desired), Ok(live)) => desired == live,
        _ if is_boolean => desired.eq_ignore_ascii_case(live),
        _ => {
            desired == live || desired.parse::<f64>().is_ok_and(|it| Ok(it) == live.parse::<f64>())
        }
    }
}

#[cfg(test)]
mod tests;
