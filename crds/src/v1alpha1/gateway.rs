//! GatewayPool: collectors that read Kafka and write to ClickHouse.
//!
//! Works alone or as a pipeline's child; both embed `GatewaySettings`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::collector::CollectorSettings;
use super::connection::{ClickHouseTarget, KafkaConnection};
use super::own::OwnTelemetry;
use super::pods::{DisruptionBudgetSettings, NetworkPolicySettings, PodTemplate, Resources};
use super::rollout::{RolloutSettings, RolloutStatus};
use super::rules;
use super::signals::{PerSignal, is_not_set};
use super::status::{LagStatus, TallyStatus};
use super::table::Attributes;
use crate::amounts::{CpuQuantity, MemoryQuantity};
use crate::conditions::Condition;
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
           from consumer lag. A pipeline makes one; it also works by itself.",
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
    /// The Kafka that records come from.
    pub kafka: KafkaConnection,
    /// The ClickHouse that rows go to.
    pub clickhouse: ClickHouseTarget,
    /// The signals read, and the topic of each.
    pub signals: PerSignal<GatewaySignal>,
    /// Which collector image runs.
    #[serde(default)]
    pub collector: CollectorSettings,
    /// How a change of image or configuration reaches the pods.
    #[serde(default)]
    pub rollout: RolloutSettings,
    /// Shares the consumer group with other pools that also set this. Otherwise the second pool is
    /// refused, also one of another cluster, because two pools in one group mix their data.
    /// Default: false.
    #[serde(default, skip_serializing_if = "is_not_set")]
    pub shared: bool,
    /// How the pool runs.
    #[serde(flatten)]
    pub settings: GatewaySettings,
}

/// One signal's topic and table format.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySignal {
    /// Kafka topic. Default: otlp_traces, otlp_logs or otlp_metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_name: Option<TopicName>,
    /// How the tables store attributes: JSON or Map; must be what the tables were made with.
    #[serde(default)]
    pub attributes: Attributes,
}

/// How a gateway pool runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = gateway_rules)]
pub struct GatewaySettings {
    /// A fixed number of pods, 1 to 1000, which turns sizing by lag off. `kubectl scale` and other
    /// autoscalers write it. Default: sized by lag; the operator writes the size here, as field
    /// manager millrace-operator/scale, so that autoscalers find a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub replicas: Option<u32>,
    /// Sizing by lag.
    #[serde(default)]
    pub scaling: Scaling,
    /// Memory and processor time of one pod.
    #[serde(default)]
    pub resources: Resources,
    /// EffectivelyOnce (ClickHouse recognises and drops rows sent again; tables that can't get
    /// at-least-once delivery, which is reported) or AtLeastOnce (after a crash some rows may be
    /// written twice; some 3 % more throughput).
    #[serde(default)]
    pub delivery: Delivery,
    /// Levels of key-value lists inside attribute values that become JSON paths, 0 to 30; deeper
    /// lists are stored as JSON text. Map attributes always hold text.
    #[serde(default = "default_nested_depth")]
    #[schemars(range(min = 0, max = 30))]
    pub nested_depth: u32,
    /// Kafka consumer group. A new group starts with the oldest messages. Default:
    /// `millrace.NAMESPACE.POOL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_group: Option<ConsumerGroup>,
    /// How partitions are assigned: Classic (by the members; any broker) or Consumer (KIP-848, by
    /// the broker, Kafka 4.0 or later: pods that keep their partitions never wait). Can't be
    /// changed later.
    #[serde(default)]
    pub group_protocol: GroupProtocol,
    /// Who may connect to the pods.
    #[serde(default)]
    pub network_policy: NetworkPolicySettings,
    /// How many pods may be evicted at once.
    #[serde(default)]
    pub disruption_budget: DisruptionBudgetSettings,
    /// A part of a Kubernetes PodTemplateSpec, merged over the operator's template like server-side
    /// apply: containers, volumes and environment by name, mounts by path. Fields that the operator
    /// owns are refused by their path (SpecInvalid). A change is a rollout. Default: nothing.
    #[serde(default)]
    pub pod_template: PodTemplate,
    /// What pods say of themselves to others: own traces and logs. Default: nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<OwnTelemetry>,
    /// Longest time a stopping pod takes to finish inserts and commit, 5 to 600 seconds. Another
    /// pod reads again what is not committed by then.
    #[serde(default = "default_drain_seconds")]
    #[schemars(range(min = 5, max = 600))]
    pub drain_seconds: u32,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            replicas: None,
            scaling: Scaling::default(),
            resources: Resources::default(),
            delivery: Delivery::default(),
            nested_depth: default_nested_depth(),
            consumer_group: None,
            group_protocol: GroupProtocol::default(),
            network_policy: NetworkPolicySettings::default(),
            disruption_budget: DisruptionBudgetSettings::default(),
            pod_template: PodTemplate::default(),
            telemetry: None,
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
    rules::unchangeable(
        schema,
        &[steps, &["consumerGroup"]].concat(),
        "",
        "a new group would read everything again and double rows. Keep it, or make a new pool",
    );
    rules::unchangeable(
        schema,
        &[steps, &["groupProtocol"]].concat(),
        "Classic",
        "pods of both kinds don't work in one group. Keep it, or delete the pool and make one with \
         the same consumerGroup, which goes on where that one stopped",
    );
}

fn gateway_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "!has(self.scaling) || !has(self.scaling.memoryMax) || !has(self.resources) \
         || !has(self.resources.memory) || !has(self.resources.memory.max) \
         || !isQuantity(self.scaling.memoryMax) || !isQuantity(self.resources.memory.max) \
         || quantity(self.scaling.memoryMax).compareTo(quantity(self.resources.memory.max)) >= 0",
        "scaling.memoryMax is below resources.memory.max, where pods start: write a memoryMax that is \
         at least that",
    );
    for end in ["min", "max"] {
        rules::rule(
            schema,
            &format!(
                "!has(self.scaling) || !has(self.scaling.cpuMax) || !has(self.resources) \
                 || !has(self.resources.cpu) || !has(self.resources.cpu.{end}) \
                 || !isQuantity(self.scaling.cpuMax) || !isQuantity(self.resources.cpu.{end}) \
                 || quantity(self.scaling.cpuMax).compareTo(quantity(self.resources.cpu.{end})) \
                 >= 0"
            ),
            &format!(
                "scaling.cpuMax is below resources.cpu.{end}, where pods start: write a cpuMax that \
                 is at least that"
            ),
        );
    }
}

/// How a consumer group's partitions are assigned.
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
    /// Fewest pods, 1 to 1000.
    #[serde(default = "Scaling::default_min_replicas")]
    #[schemars(range(min = 1, max = 1_000))]
    pub min_replicas: u32,
    /// Most pods, 1 to 1000. The number of partitions is a limit too: more pods would idle.
    #[serde(default = "Scaling::default_max_replicas")]
    #[schemars(range(min = 1, max = 1_000))]
    pub max_replicas: u32,
    /// Bound of the lag, the age of the oldest message not yet in ClickHouse, 1 to 86400 seconds.
    /// Above it the pool is not Ready and grows.
    #[serde(default = "Scaling::default_lag_bound_seconds")]
    #[schemars(range(min = 1, max = 86_400))]
    pub lag_bound_seconds: u32,
    /// Time to work off a backlog, 10 to 86400 seconds: shorter means more pods after an outage.
    #[serde(default = "Scaling::default_catch_up_seconds")]
    #[schemars(range(min = 10, max = 86_400))]
    pub catch_up_seconds: u32,
    /// How long a size one pod smaller must have sufficed before a large pool shrinks to it, 30 to
    /// 86400 seconds. Half of the pods are removed after half of this time, none before a sixth of
    /// it. A shorter time saves pods between peaks and costs rebalances.
    #[serde(default = "Scaling::default_shrink_after_seconds")]
    #[schemars(range(min = 30, max = 86_400))]
    pub shrink_after_seconds: u32,
    /// Memory limit up to which pods may grow, for example 4Gi. When their use comes near their
    /// limit, or a pod was killed for it, running pods get a higher limit in place, without a
    /// restart or a rebalance. After six calm hours it falls towards resources.memory.max, where
    /// pods start. Default: no growth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_max: Option<MemoryQuantity>,
    /// Processor time up to which pods may grow, for example "4". With resources.cpu.max, which is
    /// then the limit that pods start with, the limit rises in place before pods are added, while
    /// pods use all of it and messages wait; pods have a worker thread for each core they may grow
    /// to. Without it, the request follows the use, from resources.cpu.min to this. After six calm
    /// hours it falls again. Default: no growth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_max: Option<CpuQuantity>,
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
            memory_max: None,
            cpu_max: None,
        }
    }
}

fn scaling_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "(has(self.minReplicas) ? self.minReplicas : 1) \
         <= (has(self.maxReplicas) ? self.maxReplicas : 12)",
        "minReplicas is above maxReplicas (1 and 12 when left out): write a minReplicas that is at \
         most maxReplicas",
    );
}

/// What a crash may do to rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Delivery {
    /// Some rows may be written twice.
    AtLeastOnce,
    /// Rows sent again are dropped by ClickHouse.
    #[default]
    EffectivelyOnce,
}

/// The observed state of a gateway pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::own_descriptions)]
pub struct GatewayPoolStatus {
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions: Ready, Progressing, Stalled, PodsReady, SecretsFound, LagWithinBound, DataLost,
    /// DeadLettersKept, DeduplicationAtRisk, PasswordExposed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
    /// Pods wanted.
    #[serde(default)]
    pub replicas: i32,
    /// Pods that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Ready pods of wanted pods, as text: 3/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub pods: Option<String>,
    /// Label selector of the pods, for autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub selector: Option<String>,
    /// How far the pool is behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<LagStatus>,
    /// Messages that Kafka's retention deleted before they were read, by topic. Absent while there
    /// are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_lost: Option<TallyStatus>,
    /// Records kept as dead letters, by signal. Absent while there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<TallyStatus>,
    /// The last decision about the pool's size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizing: Option<SizingStatus>,
    /// The image the pods run; while a change is under way, the one from before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub image: Option<String>,
    /// The rollout under way, or the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
}

/// A decision about a pool's size: observation, result and reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SizingStatus {
    /// Pods decided on.
    pub replicas: i32,
    /// Pods wanted if nothing held the change back, or if nobody else sized this pool.
    #[serde(default)]
    pub wanted: i32,
    /// Why, as one stable word.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// Why, as a message with the figures.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// When it was decided.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub decided_at: Time,
    /// When the next change could come at the earliest, while a window runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub earliest_change_at: Option<Time>,
    /// Partitions of all topics read, at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<i32>,
    /// Who sets the size instead, such as HorizontalPodAutoscaler prod. This decision is then only
    /// a recommendation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 320))]
    pub sized_by: Option<String>,
    /// The memory limit decided on for each pod, where scaling.memoryMax lets it grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub memory_limit: Option<String>,
    /// The memory requested for each pod beside that limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub memory_request: Option<String>,
    /// The limit of processor time decided on for each pod, where scaling.cpuMax lets it grow and
    /// resources.cpu.max sets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cpu_limit: Option<String>,
    /// The processor time requested for each pod, where scaling.cpuMax lets it grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cpu_request: Option<String>,
    /// Why memory or processor time last changed, as one stable word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub resources_reason: Option<String>,
    /// How such changes reach the pods. Absent until there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize: Option<ResizeStatus>,
    /// Figures of the pods at that time. Absent before the first request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signals: Option<SizingSignals>,
    /// The terms of the decision. Absent while arrivals or a pod's capacity are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terms: Option<SizingTerms>,
    /// A partition that gets more than one pod can do: more pods can't help it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot_partition: Option<HotPartition>,
    /// Since when more pods have been needed without a break.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub more_needed_since: Option<Time>,
    /// Since when there has been almost no lag without a break, while capacity is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub idle_since: Option<Time>,
    /// When the size was last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub changed_at: Option<Time>,
    /// Pods before that change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_from: Option<i32>,
    /// How often in a row the pool had to grow soon after it shrank. Each doubles its wait before
    /// it shrinks.
    #[serde(default)]
    pub regrets: i32,
    /// Until when the pool does not grow, because growing did not help twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub back_off_until: Option<Time>,
    /// Measured capacity of one pod, by image, allocator, configuration and resources; the newest
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    pub capacities: Vec<LearnedCapacity>,
}

/// How changes of memory and processor time reach a pool's pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResizeStatus {
    /// InPlace (running pods are resized) or Rolling (pods that can't be resized are replaced one
    /// by one).
    pub way: ResizeWay,
    /// Why, as one stable word: Resized, Pending; Refused, Infeasible, Deferred, NoNode.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// Why, as a message.
    #[schemars(length(max = 1024))]
    pub message: String,
}

/// A way in which changes of resources reach the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ResizeWay {
    /// Running pods are resized.
    InPlace,
    /// Pods are replaced.
    Rolling,
}

/// Figures of a pool's pods, at most a minute old.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SizingSignals {
    /// Pods that were asked.
    pub pods: i32,
    /// Pods that answered on their admin port.
    pub pods_told: i32,
    /// Pods that did not answer and whose figures the cluster's metrics API gave. Absent when none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_metered: Option<i32>,
    /// The memory of the fullest pod, in percent of its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_percent: Option<i32>,
    /// The processor time of the busiest pod, in percent of its limit. Absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<i32>,
    /// The processor time of the busiest pod, in thousandths of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_millicores: Option<i32>,
    /// Inserts that ClickHouse did not take, in percent of those tried since the last observation.
    /// Absent when none was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sink_refused_percent: Option<i32>,
}

/// The terms of a sizing decision. Rates are in messages per second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SizingTerms {
    /// Arrivals.
    pub arrival_per_second: i64,
    /// Arrivals expected by the time that new pods would work.
    pub expected_per_second: i64,
    /// Messages that wait, without those being written.
    pub backlog_messages: i64,
    /// Rate that works these off within catchUpSeconds.
    pub backlog_per_second: i64,
    /// Rate that makes up for one rebalance.
    pub pause_per_second: i64,
    /// The sum, with headroom.
    pub needed_per_second: i64,
    /// Capacity of one pod.
    pub capacity_per_second: i64,
    /// Whether the capacity was measured with busy pods; else it is an estimate.
    pub capacity_measured: bool,
    /// Arrivals of the hottest partition.
    pub hottest_per_second: i64,
    /// The smallest size with the needed capacity.
    pub size_needed: i32,
}

/// A partition that one pod can't serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HotPartition {
    /// Its topic.
    #[schemars(length(max = 249))]
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// Its arrivals, in messages per second.
    pub arrival_per_second: i64,
    /// Partitions that would let one pod serve each, if the keys can be spread.
    pub partitions_advised: i32,
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
    /// Observations of busy pods behind it; 0 is an estimate.
    pub samples: i32,
}
