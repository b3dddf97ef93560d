//! From a checked pipeline to its children. Pure: no client.
//!
//! Specs are destructured without `..`, so that a new field of the pipeline fails to compile here
//! until it is handed on.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;
use millrace_crds::v1alpha1::{
    ClickHouseTarget, DeletionPolicy, EdgeMode, EdgePool, EdgePoolSpec, EdgeRolloutSettings,
    EdgeSignal, GatewayPool, GatewayPoolSpec, GatewaySignal, PipelineEdge, PipelineSignal,
    RolloutSettings, TableSettings, TelemetryPipelineSpec, TelemetrySchema, TelemetrySchemaSpec,
    TelemetryTopic, TelemetryTopicSpec, TopicSettings,
};
use millrace_crds::{EdgeName, MANAGED_BY, TopicName};

use super::validate::Validated;

/// The children of a pipeline, not yet written.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) topics: Vec<TelemetryTopic>,
    pub(super) schema: TelemetrySchema,
    /// Never empty; each beside its name in the pipeline.
    pub(super) edges: Vec<(EdgeName, EdgePool)>,
    pub(super) gateway: GatewayPool,
    /// Selects the children of this pipeline.
    pub(super) labels: String,
}

/// Builds the children.
pub(super) fn build(validated: &Validated<'_>) -> Prepared {
    let TelemetryPipelineSpec {
        kafka,
        clickhouse,
        signals,
        edges: _,
        gateway,
        collector,
        rollout,
        // Children have it once the pipeline is deleted.
        deletion_policy: _,
        shared,
    } = &validated.pipeline.spec;
    let shared = *shared;
    let (name, attributes) = (validated.name, Some(validated.attributes));
    Prepared {
        topics: topics(validated),
        schema: TelemetrySchema {
            metadata: metadata(name, name),
            spec: TelemetrySchemaSpec {
                clickhouse: clickhouse.clone(),
                signals: signals.map(|_, is| TableSettings { attributes, ..is.table.clone() }),
                deletion_policy: DeletionPolicy::Retain,
                // An autoscaler's field: the pipeline must not set or reset it.
                changes: None,
                consent: Vec::new(),
                shared,
                gateways_max: Some(gateway.replicas.unwrap_or(gateway.scaling.max_replicas)),
            },
            status: None,
        },
        edges: edges(validated),
        gateway: GatewayPool {
            metadata: metadata(name, name),
            spec: GatewayPoolSpec {
                kafka: kafka.clone(),
                // The schema asks; another address changes no gateway.
                clickhouse: ClickHouseTarget { coordination: None, ..clickhouse.clone() },
                signals: signals.map(|_, is| GatewaySignal {
                    topic_name: is.topic_name.clone(),
                    attributes: validated.attributes,
                }),
                collector: collector.clone(),
                rollout: rollout.clone(),
                shared,
                settings: gateway.clone(),
            },
            status: None,
        },
        labels: format!("{COMPONENT_LABEL}={COMPONENT},{INSTANCE_LABEL}={name}"),
    }
}

/// The edge pools, in the order of the spec.
fn edges(validated: &Validated<'_>) -> Vec<(EdgeName, EdgePool)> {
    let spec = &validated.pipeline.spec;
    let pool = |PipelineEdge { name, settings }: PipelineEdge| {
        let RolloutSettings { canary, auto_rollback } = spec.rollout.clone();
        let pool = EdgePool {
            metadata: metadata(validated.name, &validated.edge(&name)),
            spec: EdgePoolSpec {
                kafka: spec.kafka.clone(),
                signals: spec.signals.map(|_, is| EdgeSignal { topic_name: is.topic_name.clone() }),
                collector: spec.collector.clone(),
                rollout: EdgeRolloutSettings {
                    canary: canary.filter(|_| settings.mode == EdgeMode::DaemonSet),
                    auto_rollback,
                },
                settings,
            },
            status: None,
        };
        (name, pool)
    };
    spec.edge_pools().into_iter().map(pool).collect()
}

/// The topic and dead-letter topic of each signal.
fn topics(validated: &Validated<'_>) -> Vec<TelemetryTopic> {
    let TelemetryPipelineSpec { kafka, signals, shared, .. } = &validated.pipeline.spec;
    let name = validated.name;
    let topics = signals.iter().flat_map(|(signal, is)| {
        let PipelineSignal { topic_name, topic, table: _ } = is;
        let named = topic_name.as_ref().map_or(signal.default_topic(), TopicName::as_str);
        let made = |object: &str, named: &str, settings: TopicSettings| TelemetryTopic {
            metadata: metadata(name, object),
            spec: TelemetryTopicSpec {
                kafka: kafka.clone(),
                topic_name: named.parse().ok(),
                settings,
                deletion_policy: DeletionPolicy::Retain,
                shared: *shared,
            },
            status: None,
        };
        let letters = format!("{named}{DEAD_LETTER_ENDING}");
        [
            made(&validated.topic(signal), named, topic.clone()),
            made(&validated.dead_letters(signal), &letters, dead_letter_settings(topic)),
        ]
    });
    topics.collect()
}

/// The ending of a dead-letter topic's name, the same as the collector's.
const DEAD_LETTER_ENDING: &str = "_dead_letter";

/// Dead letters are few and unordered: one partition, the topic's replication, the broker's default
/// retention. Created beforehand: with a broker that creates no topics, the first broken record
/// would block its partition.
fn dead_letter_settings(topic: &TopicSettings) -> TopicSettings {
    TopicSettings {
        partitions: 1,
        replication_factor: topic.replication_factor,
        ..TopicSettings::default()
    }
}

const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
const COMPONENT: &str = "pipeline";
const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";

fn metadata(pipeline: &str, name: &str) -> ObjectMeta {
    let labels = [
        ("app.kubernetes.io/name", "millrace"),
        (INSTANCE_LABEL, pipeline),
        (COMPONENT_LABEL, COMPONENT),
        ("app.kubernetes.io/managed-by", MANAGED_BY),
    ];
    let labels: BTreeMap<_, _> =
        labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() }
}
