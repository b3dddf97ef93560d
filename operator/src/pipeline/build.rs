//! From a checked pipeline to its children. Pure: no client.
//!
//! Specs are taken apart without a rest pattern, so that a new field of the pipeline breaks the
//! build here, where it must be handed on.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;
use millrace_crds::MANAGED_BY;
use millrace_crds::v1alpha1::{
    DeletionPolicy, EdgePool, EdgePoolSpec, EdgeSignal, GatewayPool, GatewayPoolSpec,
    GatewaySignal, PipelineSignal, TelemetryPipelineSpec, TelemetrySchema, TelemetrySchemaSpec,
    TelemetryTopic, TelemetryTopicSpec,
};

use super::validate::Validated;

/// The children of a pipeline, not yet written.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) topics: Vec<TelemetryTopic>,
    pub(super) schema: TelemetrySchema,
    pub(super) edge: EdgePool,
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
        edge,
        gateway,
        collector,
        // Version 0.1.0 rolls every change out as a rolling update.
        rollout: _,
    } = &validated.pipeline.spec;
    let name = validated.name;
    let topics = signals.iter().map(|(signal, is)| {
        let PipelineSignal { topic_name, topic, table: _ } = is;
        let named = topic_name.clone().or_else(|| signal.default_topic().parse().ok());
        TelemetryTopic {
            metadata: metadata(name, &validated.topic(signal)),
            spec: TelemetryTopicSpec {
                kafka: kafka.clone(),
                topic_name: named,
                settings: topic.clone(),
                deletion_policy: DeletionPolicy::Retain,
            },
            status: None,
        }
    });
    Prepared {
        topics: topics.collect(),
        schema: TelemetrySchema {
            metadata: metadata(name, name),
            spec: TelemetrySchemaSpec {
                clickhouse: clickhouse.clone(),
                signals: signals.map(|_, is| is.table.clone()),
                deletion_policy: DeletionPolicy::Retain,
            },
            status: None,
        },
        edge: EdgePool {
            metadata: metadata(name, name),
            spec: EdgePoolSpec {
                kafka: kafka.clone(),
                signals: signals.map(|_, is| EdgeSignal { topic_name: is.topic_name.clone() }),
                collector: collector.clone(),
                settings: edge.clone(),
            },
            status: None,
        },
        gateway: GatewayPool {
            metadata: metadata(name, name),
            spec: GatewayPoolSpec {
                kafka: kafka.clone(),
                clickhouse: clickhouse.clone(),
                signals: signals.map(|_, is| GatewaySignal {
                    topic_name: is.topic_name.clone(),
                    attributes: is.table.attributes,
                }),
                collector: collector.clone(),
                settings: gateway.clone(),
            },
            status: None,
        },
        labels: format!("{COMPONENT_LABEL}={COMPONENT},{INSTANCE_LABEL}={name}"),
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
