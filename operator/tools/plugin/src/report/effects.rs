//! The documented effects of each field of a pipeline, by path. Pure.
//!
//! An unknown field counts as part of the pods' configuration: a restart announced without need is
//! better than one not announced.

use millrace_crds::v1alpha1::{Signal, TopicSettings};
use millrace_reports::units::format_plural;
use serde::Serialize;
use serde_json::Value;

/// The only cause that replaces pods without a trial.
pub(super) const RESOURCES: &str = "its resources change";

const PARTITIONS_ADDED: &str =
    "partitions are added; the group rebalances; with partitionBy TraceId traces move";

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// Its path in the spec; list items with a name are named by it.
    pub path: String,
    /// Its old value; `None` if it is new.
    pub before: Option<Value>,
    /// Its new value; `None` if it is removed.
    pub after: Option<Value>,
}

/// The kind of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EffectKind {
    /// An object is created.
    Made,
    /// An object is removed.
    Removed,
    /// Pods are replaced.
    Restart,
    /// A topic changes.
    Topic,
    /// Tables change.
    Tables,
    /// An object changes and no pod is replaced.
    InPlace,
}

/// An effect of a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeEffect {
    /// The kind.
    pub kind: EffectKind,
    /// The object.
    pub on: String,
    /// The description.
    pub text: String,
}

fn new_effect(kind: EffectKind, on: String, text: impl Into<String>) -> ChangeEffect {
    ChangeEffect { kind, on, text: text.into() }
}

/// Adds the effects of a new pipeline.
pub(super) fn effects_of_creation(name: &str, spec: &Value, effects: &mut Vec<ChangeEffect>) {
    for signal in spec["signals"].as_object().into_iter().flatten() {
        effects.extend(signal_made(name, signal.0, signal.1));
    }
    effects.extend(edge_names(spec).map(|edge| edge_made(name, edge)));
    let text = "with its workload, once topics and tables are ready";
    effects.push(new_effect(EffectKind::Made, format!("GatewayPool {name}"), text));
}

fn edge_made(name: &str, edge: &str) -> ChangeEffect {
    let service = format!("with its workload and the Service {name}-{edge}-edge");
    new_effect(EffectKind::Made, format!("EdgePool {name}-{edge}"), service)
}

fn signal_made(name: &str, signal: &str, settings: &Value) -> Vec<ChangeEffect> {
    let default = Signal::ALL.into_iter().find(|one| one.as_str() == signal);
    let default = default.map_or("", Signal::default_topic);
    let topic = settings["topicName"].as_str().unwrap_or(default);
    let partitions = settings["topic"]["partitions"].as_u64();
    let partitions = partitions.unwrap_or(u64::from(TopicSettings::DEFAULT_PARTITIONS));
    vec![
        new_effect(
            EffectKind::Made,
            format!("TelemetryTopic {name}-{signal}"),
            format!(
                "topic {topic} with {}, and {topic}_dead_letter with one",
                format_plural(partitions, "partition")
            ),
        ),
        new_effect(
            EffectKind::Tables,
            format!("TelemetrySchema {name}"),
            format!("tables for {signal} are created unless they exist"),
        ),
    ]
}

/// Returns the effects of a changed field.
pub(super) fn effects_of_change(
    name: &str,
    change: &FieldChange,
    spec: &Value,
) -> Vec<ChangeEffect> {
    let path = change.path.strip_prefix("spec").unwrap_or(&change.path).trim_start_matches('.');
    let (head, rest) = path.split_once('.').unwrap_or((path, ""));
    let all = |what: &str| restart_all(name, what, spec);
    match head {
        "kafka" => all("the connection to Kafka changes"),
        "collector" => all("another image"),
        "clickhouse" => {
            let mut effects = vec![gateway_restart(name, "the connection to ClickHouse changes")];
            let text = "checked at the new address";
            effects.push(new_effect(EffectKind::Tables, format!("TelemetrySchema {name}"), text));
            effects
        }
        "signals" => signal_effects(name, rest, change, spec),
        "gateway" => gateway_effects(name, rest),
        "rollout" => vec![new_effect(
            EffectKind::InPlace,
            format!("pools of {name}"),
            "how later changes reach pods; no pod is replaced",
        )],
        "resourceAttributes" => restart_edges(name, "its resource attributes change", spec),
        "deletionPolicy" => vec![new_effect(
            EffectKind::InPlace,
            format!("TelemetryPipeline {name}"),
            match change.after.as_ref().and_then(Value::as_str) {
                Some("Delete") => {
                    "deleting the pipeline would delete its topics and tables, with all data"
                }
                _ => "deleting the pipeline would retain its topics and tables",
            },
        )],
        "ownership" => vec![new_effect(
            EffectKind::InPlace,
            format!("TelemetryPipeline {name}"),
            "whether other pipelines may use its topics, tables and group",
        )],
        edges if edges.starts_with("edges") => edge_effects(name, edges, rest, change),
        _ => all("its configuration changes"),
    }
}

fn restart_all(name: &str, what: &str, spec: &Value) -> Vec<ChangeEffect> {
    let mut effects = restart_edges(name, what, spec);
    effects.push(gateway_restart(name, what));
    effects
}

fn restart_edges(name: &str, what: &str, spec: &Value) -> Vec<ChangeEffect> {
    edge_names(spec).map(|edge| edge_restart(name, edge, what)).collect()
}

/// Returns the names of a spec's edge pools; the spec lists the default one too.
fn edge_names(spec: &Value) -> impl Iterator<Item = &str> {
    spec["edges"].as_array().into_iter().flatten().filter_map(|edge| edge["name"].as_str())
}

fn gateway_restart(name: &str, what: &str) -> ChangeEffect {
    new_effect(EffectKind::Restart, format!("GatewayPool {name}"), what)
}

fn edge_restart(name: &str, edge: &str, what: &str) -> ChangeEffect {
    new_effect(EffectKind::Restart, format!("EdgePool {name}-{edge}"), what)
}

fn signal_effects(name: &str, rest: &str, change: &FieldChange, spec: &Value) -> Vec<ChangeEffect> {
    let (signal, field) = rest.split_once('.').unwrap_or((rest, ""));
    let topic = format!("TelemetryTopic {name}-{signal}");
    if field.is_empty() {
        let mut effects = match &change.after {
            Some(settings) => signal_made(name, signal, settings),
            None => vec![new_effect(
                EffectKind::Removed,
                topic,
                "the object is deleted; the topic and the tables stay, with all data",
            )],
        };
        effects.extend(restart_all(name, "its signals change", spec));
        return effects;
    }
    let values = || change.before.iter().chain(&change.after);
    match field {
        "topic" if values().any(|it| it.get("partitions").is_some()) => {
            vec![new_effect(EffectKind::Topic, topic, PARTITIONS_ADDED)]
        }
        "topic.partitions" => vec![new_effect(EffectKind::Topic, topic, PARTITIONS_ADDED)],
        "topic.replicationFactor" => vec![new_effect(
            EffectKind::Topic,
            topic,
            "nothing: the factor applies only to new topics (ReplicationFactorDiffers is reported)",
        )],
        below if below.starts_with("topic") => {
            vec![new_effect(EffectKind::Topic, topic, "its settings change; no pod is replaced")]
        }
        _ => vec![new_effect(
            EffectKind::Tables,
            format!("TelemetrySchema {name}"),
            format!("the tables of {signal} are planned again"),
        )],
    }
}

fn gateway_effects(name: &str, rest: &str) -> Vec<ChangeEffect> {
    let on = format!("GatewayPool {name}");
    let in_place = |text: &str| vec![new_effect(EffectKind::InPlace, on.clone(), text)];
    let field = rest.split(['.', '[']).next().unwrap_or_default();
    let tables = new_effect(
        EffectKind::Tables,
        format!("TelemetrySchema {name}"),
        "the tables' deduplication window follows the maximum number of gateways",
    );
    match (field, rest) {
        ("replicas", _) => {
            let mut effects = in_place("a fixed size, or sizing by lag again; no pod is replaced");
            effects.push(tables);
            effects
        }
        ("scaling", "scaling.maxReplicas") => {
            let mut effects = in_place("the bounds of its size; no pod is replaced");
            effects.push(tables);
            effects
        }
        ("scaling", "scaling.maxResources.cpu" | "scaling.maxResources" | "scaling") => {
            vec![gateway_restart(name, "worker threads follow maxResources.cpu")]
        }
        ("scaling", _) => in_place("the bounds of its size; no pod is replaced"),
        ("networkPolicy" | "disruptionBudget" | "serviceAccount", _) => {
            in_place("no pod is replaced")
        }
        ("resources", _) => vec![gateway_restart(name, RESOURCES)],
        ("podTemplate", _) => vec![gateway_restart(name, "its pods' template changes")],
        _ => vec![gateway_restart(name, "its configuration changes")],
    }
}

fn edge_effects(name: &str, head: &str, rest: &str, change: &FieldChange) -> Vec<ChangeEffect> {
    let edge = head.trim_start_matches("edges").trim_matches(['[', ']']);
    let on = format!("EdgePool {name}-{edge}");
    if rest.is_empty() {
        return vec![match change.after.is_some() {
            true => edge_made(name, edge),
            false => new_effect(
                EffectKind::Removed,
                on,
                format!(
                    "its pods are drained and deleted, with the Service {name}-{edge}-edge: \
                     reconfigure its clients first"
                ),
            ),
        }];
    }
    let field = rest.split(['.', '[']).next().unwrap_or_default();
    vec![match field {
        "replicas" => new_effect(EffectKind::InPlace, on, "another number of pods"),
        "service" | "serviceAccount" | "networkPolicy" | "disruptionBudget" => {
            new_effect(EffectKind::InPlace, on, "no pod is replaced")
        }
        "resources" => edge_restart(name, edge, RESOURCES),
        "mode" => {
            new_effect(EffectKind::Restart, on, "its mode changes, which replaces the workload")
        }
        _ => edge_restart(name, edge, "its configuration changes"),
    }]
}
