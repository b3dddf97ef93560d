//! What the operator does about each field of a pipeline: the documented effects, by path. Pure.
//!
//! A field that is not listed counts as part of the pods' configuration: rather one restart too
//! many is announced than one too few.

use millrace_crds::v1alpha1::Signal;
use serde_json::Value;

use super::plan::{Change, Effect, EffectKind};

/// The one cause that replaces pods without a trial.
pub(super) const RESOURCES: &str = "its resources change";

fn effect(kind: EffectKind, on: String, text: impl Into<String>) -> Effect {
    Effect { kind, on, text: text.into() }
}

/// What a new pipeline makes.
pub(super) fn made(name: &str, spec: &Value, effects: &mut Vec<Effect>) {
    for signal in spec["signals"].as_object().into_iter().flatten() {
        effects.extend(signal_made(name, signal.0, signal.1));
    }
    let edges: Vec<&str> = spec["edges"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it["name"].as_str())
        .collect();
    let edges = if edges.is_empty() { vec!["clients"] } else { edges };
    for edge in edges {
        effects.push(edge_made(name, edge));
    }
    let text = "with its workload, once topics and tables are ready";
    effects.push(effect(EffectKind::Made, format!("GatewayPool {name}"), text));
}

fn edge_made(name: &str, edge: &str) -> Effect {
    let service = format!("with its workload and the Service {name}-{edge}-edge");
    effect(EffectKind::Made, format!("EdgePool {name}-{edge}"), service)
}

fn signal_made(name: &str, signal: &str, asked: &Value) -> Vec<Effect> {
    let default = Signal::ALL.into_iter().find(|one| one.as_str() == signal);
    let default = default.map_or("", Signal::default_topic);
    let topic = asked["topicName"].as_str().unwrap_or(default);
    let partitions = asked["topic"]["partitions"].as_i64().unwrap_or(12);
    vec![
        effect(
            EffectKind::Made,
            format!("TelemetryTopic {name}-{signal}"),
            format!("topic {topic} with {partitions} partitions, and {topic}_dead_letter with one"),
        ),
        effect(
            EffectKind::Tables,
            format!("TelemetrySchema {name}"),
            format!("tables for {signal} are made, unless they exist"),
        ),
    ]
}

/// What a changed field does.
pub(super) fn of(name: &str, change: &Change, spec: &Value) -> Vec<Effect> {
    let path = change.path.strip_prefix("spec").unwrap_or(&change.path).trim_start_matches('.');
    let (head, rest) = path.split_once('.').unwrap_or((path, ""));
    let all = |what: &str| everything(name, what, spec);
    match head {
        "kafka" => all("the way to Kafka changes"),
        "collector" => all("another image"),
        "clickhouse" => {
            let mut effects = vec![gateway_restart(name, "the way to ClickHouse changes")];
            let text = "checked at the new place";
            effects.push(effect(EffectKind::Tables, format!("TelemetrySchema {name}"), text));
            effects
        }
        "signals" => of_signal(name, rest, change, spec),
        "gateway" => of_gateway(name, rest),
        "rollout" => vec![effect(
            EffectKind::InPlace,
            format!("pools of {name}"),
            "how later changes reach pods; no pod is replaced",
        )],
        "deletionPolicy" => vec![effect(
            EffectKind::InPlace,
            format!("TelemetryPipeline {name}"),
            match change.after.as_ref().and_then(Value::as_str) {
                Some("Delete") => {
                    "deleting the pipeline would delete its topics and tables, with all data"
                }
                _ => "deleting the pipeline would leave its topics and tables",
            },
        )],
        "shared" => vec![effect(
            EffectKind::InPlace,
            format!("TelemetryPipeline {name}"),
            "who else may use its topics, tables and group",
        )],
        edges if edges.starts_with("edges") => of_edge(name, edges, rest, change),
        _ => all("its configuration changes"),
    }
}

fn everything(name: &str, what: &str, spec: &Value) -> Vec<Effect> {
    let edges = spec["edges"].as_array().into_iter().flatten();
    let mut names: Vec<&str> = edges.filter_map(|edge| edge["name"].as_str()).collect();
    if names.is_empty() {
        names.push("clients");
    }
    let mut effects: Vec<Effect> =
        names.into_iter().map(|edge| edge_restart(name, edge, what)).collect();
    effects.push(gateway_restart(name, what));
    effects
}

fn gateway_restart(name: &str, what: &str) -> Effect {
    effect(EffectKind::Restart, format!("GatewayPool {name}"), what)
}

fn edge_restart(name: &str, edge: &str, what: &str) -> Effect {
    effect(EffectKind::Restart, format!("EdgePool {name}-{edge}"), what)
}

fn of_signal(name: &str, rest: &str, change: &Change, spec: &Value) -> Vec<Effect> {
    let (signal, field) = rest.split_once('.').unwrap_or((rest, ""));
    let topic = format!("TelemetryTopic {name}-{signal}");
    if field.is_empty() {
        let mut effects = match &change.after {
            Some(asked) => signal_made(name, signal, asked),
            None => vec![effect(
                EffectKind::Removed,
                topic,
                "the object goes; the topic and the tables stay, with all data",
            )],
        };
        effects.extend(everything(name, "its signals change", spec));
        return effects;
    }
    match field {
        "topic.partitions" => vec![effect(
            EffectKind::Topic,
            topic,
            "partitions are added; the group rebalances; with partitionBy TraceId traces move",
        )],
        "topic.replicationFactor" => vec![effect(
            EffectKind::Topic,
            topic,
            "nothing: the factor counts when a topic is made (ReplicationDiffers is reported)",
        )],
        below if below.starts_with("topic") => {
            vec![effect(EffectKind::Topic, topic, "its settings change; no pod is replaced")]
        }
        _ => vec![effect(
            EffectKind::Tables,
            format!("TelemetrySchema {name}"),
            format!("the tables of {signal} are planned anew"),
        )],
    }
}

fn of_gateway(name: &str, rest: &str) -> Vec<Effect> {
    let on = format!("GatewayPool {name}");
    let in_place = |text: &str| vec![effect(EffectKind::InPlace, on.clone(), text)];
    let field = rest.split(['.', '[']).next().unwrap_or_default();
    let tables = effect(
        EffectKind::Tables,
        format!("TelemetrySchema {name}"),
        "how many inserts the tables remember follows the most gateways",
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
        ("scaling", "scaling.cpuMax" | "scaling") => {
            vec![gateway_restart(name, "worker threads follow cpuMax")]
        }
        ("scaling", _) => in_place("the bounds of its size; no pod is replaced"),
        ("networkPolicy" | "disruptionBudget", _) => in_place("no pod is replaced"),
        ("resources", _) => vec![gateway_restart(name, RESOURCES)],
        ("podTemplate", _) => vec![gateway_restart(name, "its pods' template changes")],
        _ => vec![gateway_restart(name, "its configuration changes")],
    }
}

fn of_edge(name: &str, head: &str, rest: &str, change: &Change) -> Vec<Effect> {
    let edge = head.trim_start_matches("edges").trim_matches(['[', ']']);
    if edge.is_empty() {
        let text = "the list of edge pools appears or goes: pools that are no longer named are drained and deleted";
        return vec![effect(EffectKind::Removed, format!("edge pools of {name}"), text)];
    }
    let on = format!("EdgePool {name}-{edge}");
    if rest.is_empty() {
        return vec![match change.after.is_some() {
            true => edge_made(name, edge),
            false => effect(
                EffectKind::Removed,
                on,
                format!(
                    "its pods drain and go, with the Service {name}-{edge}-edge: point clients \
                     elsewhere first"
                ),
            ),
        }];
    }
    let field = rest.split(['.', '[']).next().unwrap_or_default();
    vec![match field {
        "replicas" => effect(EffectKind::InPlace, on, "another number of pods"),
        "service" | "networkPolicy" | "disruptionBudget" => {
            effect(EffectKind::InPlace, on, "no pod is replaced")
        }
        "resources" => edge_restart(name, edge, RESOURCES),
        "mode" => effect(EffectKind::Restart, on, "its mode changes, which is another workload"),
        _ => edge_restart(name, edge, "its configuration changes"),
    }]
}
