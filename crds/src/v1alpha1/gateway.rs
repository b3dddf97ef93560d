//! GatewayPool: collectors that read Kafka and write to ClickHouse.
//!
//! Works alone or as a pipeline's child; both embed `GatewaySettings`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::connections::connection::{ClickHouseTarget, KafkaConnection};
use super::pools::collector::CollectorSettings;
use super::pools::own_telemetry::OwnTelemetry;
use super::pools::pods::{
    DisruptionBudgetSettings, NetworkPolicySettings, PodTemplate, Resources, ServiceAccountSettings,
};
use super::pools::rollout::{RolloutAction, RolloutSettings, RolloutStatus};
use super::pools::status::{LagStatus, TallyStatus};
use super::pools::tuning::{GatewayBatch, any_fields};
use super::rules;
use super::signals::{Ownership, PerSignal, is_not_set};
use super::table::Attributes;
use crate::amounts::{CpuQuantity, MemoryQuantity};
use crate::conditions::Condition;
use crate::kinds::{MillraceKind, POOL_NAME_LENGTH};
use crate::names::{ConsumerGroup, TopicName};

/// A pool of collectors that read telemetry from Kafka and write it to ClickHouse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "millrace.dev",
    version = "v1alpha1",
    kind = "GatewayPool",
    plural = "gatewaypools",
    shortname = "gp",
    category = "millrace",
    namespaced,
    status = "GatewayPoolStatus",
    derive = "PartialEq",
    doc = "A pool of collectors that read telemetry from Kafka and write it to ClickHouse, sized \
           by consumer lag. Part of a pipeline, or standalone.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(
        name = "Lag",
        type_ = "integer",
        json_path = ".status.lag.seconds",
        description = "Age of the oldest message not committed yet, in seconds"
    ),
    printcolumn(name = "Pods", type_ = "string", json_path = ".status.pods"),
    printcolumn(
        name = "Sizing",
        type_ = "string",
        json_path = ".status.sizing.reason",
        priority = 1
    ),
    printcolumn(
        name = "Rollout",
        type_ = "string",
        json_path = ".status.rollout.stage",
        priority = 1
    ),
    printcolumn(
        name = "Lost",
        type_ = "integer",
        json_path = ".status.dataLost.total",
        priority = 1,
        description = "Messages that Kafka deleted before they were read"
    ),
    printcolumn(name = "Image", type_ = "string", json_path = ".status.image", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = |schema: &mut Schema| group_stays(schema, &[]))]
#[schemars(transform = rules::own_descriptions)]
pub struct GatewayPoolSpec {
    /// Connection to the Kafka that records are read from.
    pub kafka: KafkaConnection,
    /// Connection to the ClickHouse that rows are written to.
    pub clickhouse: ClickHouseTarget,
    /// Signals to read, with the topic of each.
    pub signals: PerSignal<GatewaySignal>,
    /// Collector image of the pods.
    #[serde(default)]
    pub collector: CollectorSettings,
    /// Rollout of a changed image or configuration.
    #[serde(default)]
    pub rollout: RolloutSettings,
    /// Ownership of the consumer group: with Exclusive a second pool in the group is rejected, even
    /// in another cluster, because both would mix their data. Shared allows others that are also
    /// Shared. Default: Exclusive.
    #[serde(default, skip_serializing_if = "Ownership::is_exclusive")]
    pub ownership: Ownership,
    /// How the pool runs.
    #[serde(flatten)]
    pub settings: GatewaySettings,
    /// Pauses reconciliation: the operator only updates the status and does not block deletion.
    /// Existing pods keep running. Default: false.
    #[serde(default, skip_serializing_if = "is_not_set")]
    pub paused: bool,
    /// Acknowledged losses, which conditions no longer report.
    #[serde(default, skip_serializing_if = "Acknowledged::is_default")]
    pub acknowledged: Acknowledged,
    /// Takes over what another object holds, even in another cluster: the holder
    /// CLUSTER/NAMESPACE/KIND/NAME, exactly as the message of HeldByAnother names it. Default:
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^\S+$"))]
    pub takes_over: Option<String>,
    /// Holds current and future rollouts: Pause stops replacing pods, Abort rolls back. Default:
    /// rollouts proceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_action: Option<RolloutAction>,
}

impl MillraceKind for GatewayPool {
    const NAME_LENGTH: usize = POOL_NAME_LENGTH;
    const INTRODUCTION: &'static str = include_str!("../reference/gatewaypool.md");

    fn is_paused(&self) -> bool {
        self.spec.paused
    }

    fn takes_over(&self) -> Option<&str> {
        self.spec.takes_over.as_deref()
    }

    fn rollout_action(&self) -> Option<RolloutAction> {
        self.spec.rollout_action
    }

    fn kafka(&self) -> Option<&KafkaConnection> {
        Some(&self.spec.kafka)
    }

    fn clickhouse(&self) -> Option<&ClickHouseTarget> {
        Some(&self.spec.clickhouse)
    }
}

/// Acknowledged losses: totals up to which conditions no longer report them. A number above the
/// current total is ignored, because it would hide later losses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Acknowledged {
    /// Acknowledged messages lost to retention: the value of status.dataLost.total. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub data_lost: Option<i64>,
    /// Acknowledged dead letters: the value of status.deadLetters.total. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub dead_letters: Option<i64>,
}

impl Acknowledged {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One signal's topic and table format.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySignal {
    /// Kafka topic. Default: otlp_traces, otlp_logs or otlp_metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_name: Option<TopicName>,
    /// Type of the tables' attribute columns: JSON or Map. Must match the existing tables.
    #[serde(default)]
    pub attributes: Attributes,
}

/// How a gateway pool runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = gateway_rules)]
pub struct GatewaySettings {
    /// Fixed number of pods, 1 to 1000, which disables sizing by lag; `kubectl scale` and
    /// autoscalers write it. Default: sized by lag; the operator writes the size here as field
    /// manager millrace-operator/scale, because autoscalers need a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub replicas: Option<u32>,
    /// Sizing by lag.
    #[serde(default)]
    pub scaling: Scaling,
    /// When a batch is inserted: at the first limit reached.
    #[serde(default, skip_serializing_if = "GatewayBatch::is_default")]
    pub batch: GatewayBatch,
    /// Requests and limits of one pod, as in a Kubernetes container.
    #[serde(default)]
    pub resources: Resources,
    /// EffectivelyOnce (ClickHouse drops duplicates of retried inserts; tables that can't are
    /// reported and get at-least-once delivery) or AtLeastOnce (duplicates are possible after a
    /// crash; about 3 % more throughput).
    #[serde(default)]
    pub delivery: Delivery,
    /// Nesting depth up to which key-value lists in attribute values become JSON paths, 0 to 30;
    /// deeper lists are stored as JSON text. Ignored with Map attributes.
    #[serde(default = "default_nested_depth")]
    #[schemars(range(min = 0, max = 30))]
    pub nested_depth: u32,
    /// Kafka consumer group. A new group starts at the oldest messages. Cannot be changed later:
    /// another group would read all messages again. For another one create a new pool. Default:
    /// `millrace.NAMESPACE.POOL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_group: Option<ConsumerGroup>,
    /// Rebalance protocol: Classic (any broker) or Consumer (KIP-848; Kafka 4.0 or later; a
    /// rebalance pauses only the moved partitions). Cannot be changed later: pods with different
    /// protocols can't share a group. To change it, delete the pool and create one with the same
    /// consumerGroup, which continues at the committed offsets.
    #[serde(default)]
    pub group_protocol: GroupProtocol,
    /// ServiceAccount of the pods, unless podTemplate names another one.
    #[serde(default, skip_serializing_if = "ServiceAccountSettings::is_default")]
    pub service_account: ServiceAccountSettings,
    /// NetworkPolicy of the pods.
    #[serde(default)]
    pub network_policy: NetworkPolicySettings,
    /// PodDisruptionBudget of the pods.
    #[serde(default)]
    pub disruption_budget: DisruptionBudgetSettings,
    /// Partial Kubernetes PodTemplateSpec, merged over the operator's template like server-side
    /// apply: containers, volumes and env by name, mounts by path. Fields that the operator owns
    /// are rejected with their path (SpecInvalid). A change triggers a rollout. Default: nothing.
    #[serde(default)]
    pub pod_template: PodTemplate,
    /// Export of the pods' own traces and logs. Default: not exported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<OwnTelemetry>,
    /// Further settings of the collector, at most 64 KiB as JSON, merged over those that the
    /// operator writes: see "The collector's settings". Settings with a field in this spec are
    /// refused (SpecInvalid). A trial pod tries a change before a rollout. Default: none.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "any_fields")]
    pub config: Map<String, Value>,
    /// Shutdown deadline of a pod to finish inserts and commit offsets, 5 to 600 seconds. Another
    /// pod rereads uncommitted messages.
    #[serde(default = "default_drain_seconds")]
    #[schemars(range(min = 5, max = 600))]
    pub drain_seconds: u32,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            replicas: None,
            scaling: Scaling::default(),
            batch: GatewayBatch::default(),
            resources: Resources::default(),
            delivery: Delivery::default(),
            nested_depth: default_nested_depth(),
            consumer_group: None,
            group_protocol: GroupProtocol::default(),
            service_account: ServiceAccountSettings::default(),
            network_policy: NetworkPolicySettings::default(),
            disruption_budget: DisruptionBudgetSettings::default(),
            pod_template: PodTemplate::default(),
            telemetry: None,
            config: Map::new(),
            drain_seconds: default_drain_seconds(),
        }
    }
}

/// A batch is at most 2 s old and an insert may be tried for some seconds: 60 s covers both with
/// a slow ClickHouse.
fn default_drain_seconds() -> u32 {
    60
}

/// As deep as the attributes of OpenTelemetry's conventions go, and some; each path costs the
/// server a column.
fn default_nested_depth() -> u32 {
    8
}

/// What can't be changed of a gateway's settings; `steps` lead to them from the value that has the
/// rules, which is always there.
pub(crate) fn group_stays(schema: &mut Schema, steps: &[&str]) {
    rules::make_immutable(
        schema,
        &[steps, &["consumerGroup"]].concat(),
        "",
        "a new group would read all messages again and duplicate rows. Restore the old value, or \
         create another pool",
    );
    rules::make_immutable(
        schema,
        &[steps, &["groupProtocol"]].concat(),
        "Classic",
        "pods with different protocols can't share a group. Restore the old value, or delete the \
         pool and create one with the same consumerGroup, which continues from the committed \
         offsets",
    );
}

fn gateway_rules(schema: &mut Schema) {
    for (name, written) in [("memory", "limits"), ("cpu", "requests"), ("cpu", "limits")] {
        let (most, has_most) = rules::nested_field("self", &["scaling", "maxResources", name]);
        let (start, has_start) = rules::nested_field("self", &["resources", written, name]);
        rules::add_rule(
            schema,
            &format!(
                "!({has_most}) || !({has_start}) || !isQuantity({most}) || !isQuantity({start}) \
                 || quantity({most}).compareTo(quantity({start})) >= 0"
            ),
            &format!(
                "scaling.maxResources.{name} is below resources.{written}.{name}, where pods \
                 start: write a maxResources.{name} of at least that"
            ),
        );
    }
}

/// The rebalance protocol of a consumer group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GroupProtocol {
    /// By its members.
    #[default]
    Classic,
    /// By the broker.
    Consumer,
}

/// Bounds of sizing by lag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = scaling_rules)]
pub struct Scaling {
    /// Minimum number of pods, 1 to 1000.
    #[serde(default = "Scaling::default_min_replicas")]
    #[schemars(range(min = 1, max = 1_000))]
    pub min_replicas: u32,
    /// Maximum number of pods, 1 to 1000; never more than the number of partitions, because further
    /// pods would idle.
    #[serde(default = "Scaling::default_max_replicas")]
    #[schemars(range(min = 1, max = 1_000))]
    pub max_replicas: u32,
    /// Bound of the lag, which is the age of the oldest message not yet in ClickHouse, 1 to 86400
    /// seconds. Above it the pool is not Ready and grows.
    #[serde(default = "Scaling::default_lag_bound_seconds")]
    #[schemars(range(min = 1, max = 86_400))]
    pub lag_bound_seconds: u32,
    /// Target time to process a backlog, 10 to 86400 seconds. A shorter time means more pods after
    /// an outage.
    #[serde(default = "Scaling::default_catch_up_seconds")]
    #[schemars(range(min = 10, max = 86_400))]
    pub catch_up_seconds: u32,
    /// How long one pod fewer must have sufficed before a large pool shrinks by it, 30 to 86400
    /// seconds. Half of the pods may go after half of this time, none before a sixth. A shorter
    /// time saves pods between peaks and costs rebalances.
    #[serde(default = "Scaling::default_shrink_after_seconds")]
    #[schemars(range(min = 30, max = 86_400))]
    pub shrink_after_seconds: u32,
    /// Resources up to which running pods may grow in place, without a restart or rebalance. They
    /// fall back towards resources, where pods start, after six calm hours. Default: no growth.
    #[serde(default, skip_serializing_if = "MaxResources::is_default")]
    pub max_resources: MaxResources,
}

/// Resources up to which running pods may grow in place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaxResources {
    /// Memory limit up to which pods may grow, for example 4Gi. The limit rises if memory use nears
    /// it or a pod is OOM-killed. Default: no growth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryQuantity>,
    /// CPU up to which pods may grow, for example "4"; pods have a worker thread for each core up
    /// to it. With resources.limits.cpu, the limit rises while pods use all of it and messages
    /// wait, before pods are added. Without it, the request follows the use. Default: no growth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuQuantity>,
}

impl MaxResources {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Scaling {
    fn default_min_replicas() -> u32 {
        1
    }

    /// As many as a topic has partitions by default.
    fn default_max_replicas() -> u32 {
        super::TopicSettings::DEFAULT_PARTITIONS
    }

    fn default_lag_bound_seconds() -> u32 {
        60
    }

    fn default_catch_up_seconds() -> u32 {
        300
    }

    /// The next peak often comes within half an hour, and a pod too many for so long costs less
    /// than two rebalances and a late start.
    fn default_shrink_after_seconds() -> u32 {
        1_800
    }
}

impl Default for Scaling {
    fn default() -> Self {
        Self {
            min_replicas: Self::default_min_replicas(),
            max_replicas: Self::default_max_replicas(),
            lag_bound_seconds: Self::default_lag_bound_seconds(),
            catch_up_seconds: Self::default_catch_up_seconds(),
            shrink_after_seconds: Self::default_shrink_after_seconds(),
            max_resources: MaxResources::default(),
        }
    }
}

fn scaling_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "(has(self.minReplicas) ? self.minReplicas : 1) \
         <= (has(self.maxReplicas) ? self.maxReplicas : 12)",
        "minReplicas is above maxReplicas (defaults: 1 and 12): write a minReplicas that is at \
         most maxReplicas",
    );
}

/// The delivery guarantee.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Delivery {
    /// Duplicates are possible after a crash.
    AtLeastOnce,
    /// ClickHouse drops duplicates of retried inserts.
    #[default]
    EffectivelyOnce,
}

/// The observed state of a gateway pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::own_descriptions)]
pub struct GatewayPoolStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, of the types that `conditions/table.rs` lists for this kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
    /// Number of desired pods.
    #[serde(default)]
    pub replicas: i32,
    /// Number of ready pods.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Ready and desired pods, for example 3/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub pods: Option<String>,
    /// Label selector of the pods, for autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub selector: Option<String>,
    /// Lag of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<LagStatus>,
    /// Messages that Kafka's retention deleted before they were read, by topic. Absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_lost: Option<TallyStatus>,
    /// Records that became dead letters, by signal. Absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<TallyStatus>,
    /// Last sizing decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizing: Option<SizingStatus>,
    /// Image of the pods; during a rollout, the previous one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub image: Option<String>,
    /// Current or last rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
}

/// A sizing decision: observation, result and reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SizingStatus {
    /// Number of pods decided.
    pub replicas: i32,
    /// Number of pods without holds, or without another autoscaler.
    #[serde(default)]
    pub proposed_replicas: i32,
    /// Reason in CamelCase.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// Message with the figures.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Time of the decision.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub decided_at: Time,
    /// Earliest time of the next change, while a window runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub earliest_change_at: Option<Time>,
    /// Number of partitions of all topics read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<i32>,
    /// The autoscaler that sets the size instead, for example HorizontalPodAutoscaler prod; this
    /// decision is then only a recommendation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 320))]
    pub sized_by: Option<String>,
    /// Memory limit decided for each pod, if scaling.maxResources.memory is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub memory_limit: Option<String>,
    /// Memory request decided for each pod, if scaling.maxResources.memory is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub memory_request: Option<String>,
    /// CPU limit decided for each pod, if scaling.maxResources.cpu and resources.limits.cpu are
    /// set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cpu_limit: Option<String>,
    /// CPU request decided for each pod, if scaling.maxResources.cpu is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cpu_request: Option<String>,
    /// Reason of the last change of memory or CPU, in CamelCase.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub resources_reason: Option<String>,
    /// Figures of the pods. Absent before the first poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signals: Option<SizingSignals>,
    /// Terms of the decision. Absent while arrivals or a pod's capacity are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terms: Option<SizingTerms>,
    /// A partition that receives more than one pod can process; more pods don't help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot_partition: Option<HotPartition>,
    /// Start of the uninterrupted need for more pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub more_needed_since: Option<Time>,
    /// Start of the uninterrupted time with almost no lag, while capacity is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub idle_since: Option<Time>,
    /// Time of the last size change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub changed_at: Option<Time>,
    /// Number of pods before the last size change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_from: Option<i32>,
    /// How often in a row the pool had to grow soon after it shrank. Each time doubles the wait
    /// before it shrinks.
    #[serde(default)]
    pub premature_shrinks: i32,
    /// Time until which the pool does not grow, because growing did not help twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub back_off_until: Option<Time>,
    /// Measured capacity of one pod by image, allocator, configuration and resources, the newest
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    pub capacities: Vec<LearnedCapacity>,
}

/// Figures of a pool's pods, at most a minute old.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SizingSignals {
    /// Number of polled pods.
    pub pods: i32,
    /// Number of pods that answered on their admin port.
    pub pods_reporting: i32,
    /// Number of pods that did not answer, with figures from the metrics API instead. Absent if
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_metered: Option<i32>,
    /// Highest memory use of a pod, in percent of its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_percent: Option<i32>,
    /// Highest CPU use of a pod, in percent of its limit. Absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<i32>,
    /// Highest CPU use of a pod, in thousandths of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_millicores: Option<i32>,
    /// Percentage of inserts since the last observation that ClickHouse rejected. Absent without
    /// inserts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inserts_rejected_percent: Option<i32>,
}

/// The terms of a sizing decision. Rates are in messages per second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SizingTerms {
    /// Arrival rate of all partitions, in messages per second.
    pub arrival_per_second: i64,
    /// Arrival rate expected by the time that new pods work, in messages per second.
    pub expected_per_second: i64,
    /// Messages in the backlog, without those being written.
    pub backlog_messages: i64,
    /// Rate that processes the backlog within scaling.catchUpSeconds, in messages per second.
    pub backlog_per_second: i64,
    /// Rate that compensates for one rebalance, in messages per second.
    pub rebalance_per_second: i64,
    /// Required rate in messages per second: expectedPerSecond, backlogPerSecond and
    /// rebalancePerSecond, with headroom.
    pub needed_per_second: i64,
    /// Capacity of one pod, in messages per second.
    pub capacity_per_second: i64,
    /// Whether the capacity was measured with busy pods; otherwise it is an estimate.
    pub capacity_measured: bool,
    /// Arrival rate of the hottest partition, in messages per second.
    pub hottest_per_second: i64,
    /// Smallest number of pods with the capacity for neededPerSecond.
    pub size_needed: i32,
}

/// A partition that receives more than one pod can process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HotPartition {
    /// Topic of the partition.
    #[schemars(length(max = 249))]
    pub topic: String,
    /// Number of the partition.
    pub partition: i32,
    /// Arrival rate of the partition, in messages per second.
    pub arrival_per_second: i64,
    /// Number of partitions with which one pod could process each, if the keys spread.
    pub recommended_partitions: i32,
}

/// Measured capacity of one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LearnedCapacity {
    /// Digest of image, allocator, configuration and resources.
    #[schemars(length(max = 63))]
    pub key: String,
    /// Messages per second.
    pub messages_per_second: i64,
    /// Number of observations of busy pods; 0 means an estimate.
    pub samples: i32,
}
