//! Builds a checked pipeline's children. Pure: no client.
//!
//! Specs are destructured without `..`, so that a new field of the pipeline fails to compile here
//! until a child gets it.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;
use millrace_crds::v1alpha1::{
    Acknowledged, ClickHouseTarget, DeletionPolicy, EdgeMode, EdgePool, EdgePoolSpec,
    EdgeRolloutSettings, EdgeSignal, GatewayPool, GatewayPoolSpec, GatewaySignal, KafkaConnection,
    PipelineEdge, PipelineSignal, RolloutSettings, TableSettings, TelemetryPipelineSpec,
    TelemetrySchema, TelemetrySchemaSpec, TelemetryTopic, TelemetryTopicSpec, TopicSettings,
};
use millrace_crds::{EdgeName, MANAGED_BY, TopicName};

use super::validate::Validated;

/// The children of a pipeline, not yet written.
#[derive(Clone, Debug)]
pub(super) struct PipelineChildren {
    pub(super) topics: Vec<TelemetryTopic>,
    pub(super) schema: TelemetrySchema,
    /// Never empty; each with its name in the pipeline.
    pub(super) edges: Vec<(EdgeName, EdgePool)>,
    pub(super) gateway: GatewayPool,
    /// Selects the children of this pipeline.
    pub(super) labels: String,
}

pub(super) fn build_children(validated: &Validated<'_>) -> PipelineChildren {
    let TelemetryPipelineSpec {
        kafka,
        clickhouse,
        signals,
        schema,
        // The edge pools have it.
        processing: _,
        // Merged into those of the edge pools.
        resource_attributes: _,
        edges: _,
        gateway,
        collector,
        rollout,
        // Children get the policy once the pipeline is deleted.
        deletion_policy: _,
        ownership,
        // Children continue: they are paused one by one.
        paused: _,
    } = &validated.pipeline.spec;
    let (ownership, signals) = (*ownership, signals.with_defaults());
    let (name, attributes) = (validated.name, Some(validated.attributes));
    PipelineChildren {
        topics: build_topics(validated),
        schema: TelemetrySchema {
            metadata: build_metadata(name, name),
            spec: TelemetrySchemaSpec {
                clickhouse: clickhouse.clone(),
                signals: signals.map(|_, is| TableSettings { attributes, ..is.table.clone() }),
                deletion_policy: DeletionPolicy::Retain,
                // Fields that the pipeline omits belong to whoever wrote them in the schema.
                approval: schema.clone(),
                ownership,
                max_gateways: Some(gateway.replicas.unwrap_or(gateway.scaling.max_replicas)),
                paused: false,
                takes_over: None,
            },
            status: None,
        },
        edges: build_edges(validated),
        gateway: GatewayPool {
            metadata: build_metadata(name, name),
            spec: GatewayPoolSpec {
                kafka: kafka.clone(),
                // The schema queries coordination; another address changes no gateway.
                clickhouse: ClickHouseTarget {
                    coordination: None,
                    admin: None,
                    ..clickhouse.clone()
                },
                signals: signals.map(|_, is| GatewaySignal {
                    topic_name: is.topic_name.clone(),
                    attributes: validated.attributes,
                }),
                collector: collector.clone(),
                rollout: rollout.clone(),
                ownership,
                settings: gateway.clone(),
                paused: false,
                takes_over: None,
                acknowledged: Acknowledged::default(),
                rollout_action: None,
            },
            status: None,
        },
        labels: format!("{COMPONENT_LABEL}={COMPONENT},{INSTANCE_LABEL}={name}"),
    }
}

/// Returns the edge pools, in the order of the spec.
fn build_edges(validated: &Validated<'_>) -> Vec<(EdgeName, EdgePool)> {
    let spec = &validated.pipeline.spec;
    let signals = &spec.signals.each;
    let pool = |PipelineEdge { name, mut settings }: PipelineEdge| {
        let mut attributes = spec.resource_attributes.clone();
        attributes.append(&mut settings.resource_attributes);
        settings.resource_attributes = attributes;
        let RolloutSettings { canary, auto_rollback } = spec.rollout.clone();
        let pool = EdgePool {
            metadata: build_metadata(validated.name, &validated.edge_name(&name)),
            spec: EdgePoolSpec {
                // Nothing of an edge pool needs the credentials for administration.
                kafka: KafkaConnection { admin: None, ..spec.kafka.clone() },
                signals: signals.map(|_, is| EdgeSignal { topic_name: is.topic_name.clone() }),
                collector: spec.collector.clone(),
                rollout: EdgeRolloutSettings {
                    canary: canary.filter(|_| settings.mode == EdgeMode::DaemonSet),
                    auto_rollback,
                },
                settings,
                paused: false,
                rollout_action: None,
            },
            status: None,
        };
        (name, pool)
    };
    validated.edges.iter().cloned().map(pool).collect()
}

/// Returns the topic and dead-letter topic of each signal.
fn build_topics(validated: &Validated<'_>) -> Vec<TelemetryTopic> {
    let TelemetryPipelineSpec { kafka, signals, ownership, .. } = &validated.pipeline.spec;
    let (name, signals) = (validated.name, signals.with_defaults());
    let topics = signals.iter().flat_map(|(signal, is)| {
        let PipelineSignal { topic_name, topic, table: _ } = is;
        let named = topic_name.as_ref().map_or(signal.default_topic(), TopicName::as_str);
        let made = |object: &str, named: &str, settings: TopicSettings| TelemetryTopic {
            metadata: build_metadata(name, object),
            spec: TelemetryTopicSpec {
                kafka: kafka.clone(),
                topic_name: named.parse().ok(),
                settings,
                deletion_policy: DeletionPolicy::Retain,
                ownership: *ownership,
                paused: false,
                takes_over: None,
            },
            status: None,
        };
        let letters = format!("{named}{DEAD_LETTER_ENDING}");
        [
            made(&validated.topic_name(signal), named, with_partitions(topic)),
            made(&validated.dead_letter_name(signal), &letters, dead_letter_settings(topic)),
        ]
    });
    topics.collect()
}

/// The suffix of a dead-letter topic's name, the same as the collector's.
const DEAD_LETTER_ENDING: &str = "_dead_letter";

/// Returns a topic's settings with their number of partitions, so that another default of a later
/// release changes no topic.
fn with_partitions(topic: &TopicSettings) -> TopicSettings {
    TopicSettings { partitions: Some(topic.partitions()), ..topic.clone() }
}

/// Dead letters are few and unordered: one partition, the topic's replication, the broker's default
/// retention. The topic is created in advance: with a broker that creates none, the first broken
/// record would block its partition.
fn dead_letter_settings(topic: &TopicSettings) -> TopicSettings {
    TopicSettings {
        management: topic.management,
        partitions: Some(1),
        replication_factor: topic.replication_factor,
        ..TopicSettings::default()
    }
}

const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
const COMPONENT: &str = "pipeline";
const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";

fn build_metadata(pipeline: &str, name: &str) -> ObjectMeta {
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
