//! Compares a topic with its declaration: the changes to make, and what stays wrong after them.
//! Pure.

use std::collections::BTreeMap;

use millrace_crds::Reason;

use super::validate::Wanted;
use crate::kafka::{TopicChange, TopicSeen};

/// Changes in order. Empty: nothing of ours to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) changes: Vec<TopicChange>,
}

/// Changes that bring the topic to its declaration.
pub(super) fn plan(wanted: &Wanted, seen: &TopicSeen) -> Plan {
    let Wanted { name: _, partitions, replication_factor, settings } = wanted;
    let changes = match seen {
        TopicSeen::Missing => vec![TopicChange::Create {
            partitions: *partitions,
            replication_factor: *replication_factor,
            settings: settings.clone(),
        }],
        TopicSeen::Found {
            partitions: has,
            replication_factor: _,
            settings: effective,
            own_settings,
        } => {
            let grow = (has < partitions).then_some(TopicChange::Grow { partitions: *partitions });
            let differ = differences(settings, effective).next().is_some();
            let set = differ.then(|| {
                // Settings of others are written back as they are.
                let mut own_settings = own_settings.clone();
                own_settings.extend(settings.clone());
                TopicChange::Set { own_settings }
            });
            grow.into_iter().chain(set).collect()
        }
    };
    Plan { changes }
}

/// How a topic compares with its declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// As declared; the reason is `AsAsked`, or names what exceeds the declaration.
    Fits(Reason, String),
    /// Not yet: the rest has been, or will be, requested from Kafka.
    Differs(Reason, String),
    /// Something only a person can change.
    Stuck(Reason, String),
}

/// Judges a topic.
pub(super) fn judge(wanted: &Wanted, seen: &TopicSeen) -> Standing {
    let name = &wanted.name;
    let TopicSeen::Found { partitions, replication_factor, settings, own_settings: _ } = seen
    else {
        return Standing::Differs(Reason::TopicMissing, format!("topic {name} does not exist"));
    };
    let (has, asked) = (*partitions, wanted.partitions);
    if has < asked {
        let message = format!("topic {name} has {has} of {asked} partitions");
        return Standing::Differs(Reason::TopicTooFewPartitions, message);
    }
    let differ: Vec<String> = differences(&wanted.settings, settings).collect();
    if !differ.is_empty() {
        let message = format!("settings of topic {name} differ: {}", differ.join(", "));
        return Standing::Differs(Reason::Applying, message);
    }
    match wanted.replication_factor {
        Some(copies) if copies != *replication_factor => {
            let message = format!(
                "topic {name} has {replication_factor} copies of a partition, not {copies}: move \
                 its replicas (kafka-reassign-partitions), or write replicationFactor: \
                 {replication_factor}"
            );
            Standing::Stuck(Reason::ReplicationDiffers, message)
        }
        _ if has > asked => Standing::Fits(
            Reason::TopicMorePartitions,
            format!("topic {name} has {has} partitions, more than the {asked} asked for"),
        ),
        _ => Standing::Fits(Reason::AsAsked, format!("topic {name} has {has} partitions")),
    }
}

/// `name is x, not y` for each wanted setting that is not in effect.
fn differences<'a>(
    wanted: &'a BTreeMap<String, String>,
    effective: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = String> + 'a {
    wanted.iter().filter_map(|(name, value)| match effective.get(name) {
        Some(live) if live == value => None,
        Some(live) => Some(format!("{name} is {live}, not {value}")),
        None => Some(format!("{name} is not set to {value}")),
    })
}

#[cfg(test)]
#[path = "../../../tests/unit/controllers/topic/plan.rs"]
mod tests;
