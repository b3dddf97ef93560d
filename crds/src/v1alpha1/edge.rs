//! EdgePool: collectors that receive telemetry and publish it to Kafka.
//!
//! Works alone or as a pipeline's child; both embed `EdgeSettings`. The short name is `edp`: `ep`
//! is Kubernetes' own for Endpoints, and kubectl would warn at every use.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::collector::CollectorSettings;
use super::connection::KafkaConnection;
use super::nodes::{LogsLostStatus, NodesStatus};
use super::own::OwnTelemetry;
use super::pods::{
    DisruptionBudgetSettings, ExtraMetadata, NetworkPolicySettings, PodTemplate, Resources, yes,
};
use super::receivers::Receivers;
use super::rollout::CanarySettings;
use super::rules;
use super::scraping::TargetsStatus;
use super::signals::PerSignal;
use crate::amounts::MemoryQuantity;
use crate::conditions::Condition;
use crate::names::{StorageClassName, TopicName};

/// A pool of collectors that receive telemetry and publish it to Kafka.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "millrace.dev",
    version = "v1alpha1",
    kind = "EdgePool",
    plural = "edgepools",
    shortname = "edp",
    category = "millrace",
    namespaced,
    status = "EdgePoolStatus",
    derive = "PartialEq",
    doc = "A pool of collectors that take telemetry (OTLP) and publish it to Kafka. A pipeline \
           makes some; it also works by itself.",
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
    printcolumn(name = "Pods", type_ = "string", json_path = ".status.pods"),
    printcolumn(
        name = "Targets",
        type_ = "integer",
        json_path = ".status.targets.total",
        description = "Scrape targets of the pool"
    ),
    printcolumn(
        name = "Up",
        type_ = "integer",
        json_path = ".status.targets.up",
        description = "Targets whose last scrape succeeded"
    ),
    printcolumn(
        name = "Shared",
        type_ = "integer",
        json_path = ".status.targets.shared",
        priority = 1,
        description = "Targets that a pod was given"
    ),
    printcolumn(
        name = "Behind",
        type_ = "integer",
        json_path = ".status.nodes.behindBytes",
        priority = 1,
        description = "Bytes of nodes' log files that Kafka has not confirmed yet"
    ),
    printcolumn(
        name = "Lost",
        type_ = "integer",
        json_path = ".status.logsLost.bytes",
        priority = 1,
        description = "Bytes of nodes' log files that went before they were read"
    ),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoint", priority = 1),
    printcolumn(name = "Image", type_ = "string", json_path = ".status.image", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = pool_rules)]
#[schemars(transform = rules::own_descriptions)]
pub struct EdgePoolSpec {
    /// The Kafka that records go to.
    pub kafka: KafkaConnection,
    /// The signals received, and the topic of each. Others are refused.
    pub signals: PerSignal<EdgeSignal>,
    /// Which collector image runs.
    #[serde(default)]
    pub collector: CollectorSettings,
    /// How a change of image, allocator or configuration reaches the pods.
    #[serde(default, skip_serializing_if = "EdgeRolloutSettings::is_default")]
    pub rollout: EdgeRolloutSettings,
    /// How the pool runs.
    #[serde(flatten)]
    pub settings: EdgeSettings,
}

fn pool_rules(schema: &mut Schema) {
    no_number_of_daemons(schema, &[], false);
    rules::rule(
        schema,
        "!has(self.rollout) || !has(self.rollout.canary) \
         || (has(self.mode) && self.mode == 'DaemonSet')",
        "the pods of a Deployment are not compared: remove rollout.canary, or write mode: DaemonSet",
    );
}

/// How a change of image, allocator or configuration reaches an edge pool's pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeRolloutSettings {
    /// In mode DaemonSet: replace the pods of a few nodes first and compare them with the others.
    /// Default: a tenth of the nodes at a time, each of which must become ready, without a
    /// comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanarySettings>,
    /// Roll back when new pods don't start, crash, or perform worse. If false, the change stops
    /// there and waits for a person.
    #[serde(default = "yes")]
    pub auto_rollback: bool,
}

impl EdgeRolloutSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for EdgeRolloutSettings {
    fn default() -> Self {
        Self { canary: None, auto_rollback: yes() }
    }
}

/// Where one signal goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeSignal {
    /// Kafka topic. Default: otlp_traces, otlp_logs or otlp_metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_name: Option<TopicName>,
}

/// How an edge pool runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = edge_rules)]
pub struct EdgeSettings {
    /// Deployment (a number of pods behind a Service) or DaemonSet (one pod on each node).
    #[serde(default)]
    pub mode: EdgeMode,
    /// Number of pods, 1 to 1000, in mode Deployment; `kubectl scale` and autoscalers write it.
    /// Default: 2, which the operator writes here, as field manager millrace-operator/scale, so
    /// that autoscalers find a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub replicas: Option<u32>,
    /// What the pool listens for. Default: OTLP on both ports.
    #[serde(default)]
    pub receivers: Receivers,
    /// When a client gets its answer: AfterKafka (the broker has its records) or AfterBuffering
    /// (sooner, but records in memory are lost with the pod).
    #[serde(default)]
    pub acknowledge: Acknowledge,
    /// Which spans share a Kafka partition: Any (those that came together; the least work) or
    /// TraceId (those of one trace; smaller messages, for readers that need whole traces).
    #[serde(default)]
    pub partition_by: PartitionBy,
    /// Compression of Kafka messages: Zstd (to about a fifth) or Lz4 (to about a third, for less
    /// work).
    #[serde(default)]
    pub compression: Compression,
    /// A buffer on disk for records received while Kafka is away, which are sent once it is back.
    /// Default: none; clients are asked to send again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<EdgeBuffer>,
    /// Memory and processor time of one pod.
    #[serde(default)]
    pub resources: Resources,
    /// The Service in front of the pods.
    #[serde(default)]
    pub service: ServiceSettings,
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
    /// Longest time a stopping pod takes to send its records, 5 to 600 seconds. Records not in
    /// Kafka by then were never acknowledged, and clients send them again.
    #[serde(default = "default_drain_seconds")]
    #[schemars(range(min = 5, max = 600))]
    pub drain_seconds: u32,
}

impl EdgeSettings {
    /// Pods of a pool in mode Deployment when no number is given: two, so that one may go.
    pub const DEFAULT_REPLICAS: u32 = 2;
}

impl Default for EdgeSettings {
    fn default() -> Self {
        Self {
            mode: EdgeMode::default(),
            replicas: None,
            receivers: Receivers::default(),
            acknowledge: Acknowledge::default(),
            partition_by: PartitionBy::default(),
            compression: Compression::default(),
            buffer: None,
            resources: Resources::default(),
            service: ServiceSettings::default(),
            network_policy: NetworkPolicySettings::default(),
            disruption_budget: DisruptionBudgetSettings::default(),
            pod_template: PodTemplate::default(),
            telemetry: None,
            drain_seconds: default_drain_seconds(),
        }
    }
}

/// Half of the 60 s that Kubernetes' own default grace period and a slow broker add up to.
fn default_drain_seconds() -> u32 {
    30
}

/// One pod on each node is no number of pods. Where `default_too` is not set, the number that the
/// operator itself writes into a pool may still be there: it takes it out.
pub(crate) fn no_number_of_daemons(schema: &mut Schema, steps: &[&str], default_too: bool) {
    let mode = rules::deep_or_default("self", &[steps, &["mode"]].concat(), "Deployment");
    let (number, is_there) = rules::deep("self", &[steps, &["replicas"]].concat());
    let ours = match default_too {
        true => String::new(),
        false => format!(" || {number} == {}", EdgeSettings::DEFAULT_REPLICAS),
    };
    rules::rule(
        schema,
        &format!("{mode} != 'DaemonSet' || !({is_there}){ours}"),
        "mode DaemonSet runs one pod on each node: remove replicas, or write mode: Deployment",
    );
}

fn edge_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "!has(self.buffer) || !has(self.acknowledge) || self.acknowledge != 'AfterBuffering'",
        "AfterBuffering answers before anything is safe, which a buffer on disk is for: write \
         acknowledge: AfterKafka or remove buffer",
    );
    let reads = "has(self.receivers) && (has(self.receivers.containers) \
                 || has(self.receivers.kernel) \
                 || (has(self.receivers.files) && self.receivers.files.size() > 0))";
    rules::rule(
        schema,
        &format!("!({reads}) || (has(self.mode) && self.mode == 'DaemonSet')"),
        "containers, files and kernel are read by a pod on each node: write mode: DaemonSet",
    );
    rules::rule(
        schema,
        "!has(self.receivers) || !has(self.receivers.prometheus) || !has(self.mode) \
         || self.mode == 'Deployment'",
        "targets are shared out among a number of pods: write mode: Deployment, in a pool of their \
         own beside that of nodes",
    );
    rules::rule(
        schema,
        &format!("!({reads}) || !has(self.buffer)"),
        "what is read on a node is kept there: remove buffer, or take clients' records in a pool \
         of their own",
    );
    rules::rule(
        schema,
        &format!("!({reads}) || !has(self.acknowledge) || self.acknowledge != 'AfterBuffering'"),
        "AfterBuffering would put lines on record as sent before they are: remove acknowledge",
    );
}

/// A buffer on disk for each pod. Its records survive the end of the collector (a crash, a memory
/// limit) and a restart of the node, and are lost when the pod is deleted before Kafka is back. A
/// stopping pod sends them first, within drainSeconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = buffer_rules)]
pub struct EdgeBuffer {
    /// Size of one pod's buffer, 16Mi to 1Ti; the volume is a little larger. Default: 1Gi, about
    /// ten million records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<MemoryQuantity>,
    /// A StorageClass: each pod gets its own claim, deleted with the pod. Default: the node's disk
    /// (an emptyDir).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<StorageClassName>,
}

impl EdgeBuffer {
    /// What a buffer may take when nothing is said, in bytes: 1 GiB.
    pub const DEFAULT_MAX_BYTES: u64 = 1 << 30;

    /// What the buffer may take, in bytes.
    pub fn bytes(&self) -> u64 {
        self.max_bytes.as_ref().map_or(Self::DEFAULT_MAX_BYTES, MemoryQuantity::bytes)
    }
}

fn buffer_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "!has(self.maxBytes) || !isQuantity(self.maxBytes) \
         || (quantity(self.maxBytes).compareTo(quantity('16Mi')) >= 0 \
         && quantity(self.maxBytes).compareTo(quantity('1Ti')) <= 0)",
        "maxBytes is from 16Mi to 1Ti: write such an amount, for example 10Gi",
    );
}

/// What an edge pool is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EdgeMode {
    /// A number of pods behind a Service.
    #[default]
    Deployment,
    /// One pod on each node.
    DaemonSet,
}

/// When a client gets its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Acknowledge {
    /// Once the broker has them.
    #[default]
    AfterKafka,
    /// Once they are in memory.
    AfterBuffering,
}

/// Which spans share a Kafka partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PartitionBy {
    /// Those that came together.
    #[default]
    Any,
    /// Those of one trace.
    TraceId,
}

/// How Kafka messages are compressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Compression {
    /// The smallest messages.
    #[default]
    Zstd,
    /// The least work.
    Lz4,
}

/// The Service in front of an edge pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = service_rules)]
pub struct ServiceSettings {
    /// ClusterIP (inside the cluster), NodePort or LoadBalancer (from outside: set receivers.otlp
    /// .tls too).
    #[serde(default, rename = "type")]
    pub type_: ServiceType,
    /// Labels and annotations, as cloud load balancers want them.
    #[serde(flatten)]
    pub metadata: ExtraMetadata,
    /// Which load balancer serves it, for example service.k8s.aws/nlb. Can't be changed while the
    /// type stays. Default: the cluster's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub load_balancer_class: Option<String>,
    /// Address ranges that a load balancer takes clients from, for example 10.0.0.0/8. At most 64.
    /// Default: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 64)))]
    pub load_balancer_source_ranges: Vec<String>,
    /// Where traffic from outside goes: Cluster (any pod) or Local (pods of the node that got it,
    /// which see the client's address). Default: Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<TrafficPolicy>,
    /// Where traffic of the cluster goes: Cluster (any pod) or Local (pods of the client's node,
    /// for mode DaemonSet). Default: Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal_traffic_policy: Option<TrafficPolicy>,
    /// IPv4, IPv6 or both, the primary one first. The primary one can't be changed. Default: the
    /// cluster's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub ip_families: Vec<IpFamily>,
    /// SingleStack, PreferDualStack or RequireDualStack. Default: SingleStack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_family_policy: Option<IpFamilyPolicy>,
}

fn service_rules(schema: &mut Schema) {
    let is = |type_: &str| format!("(has(self.type) && self.type == '{type_}')");
    let balanced = is("LoadBalancer");
    for field in ["loadBalancerClass", "loadBalancerSourceRanges"] {
        rules::rule(
            schema,
            &format!("!has(self.{field}) || {balanced}"),
            &format!("{field} is for load balancers: write type: LoadBalancer, or remove it"),
        );
    }
    rules::rule(
        schema,
        &format!("!has(self.externalTrafficPolicy) || {balanced} || {}", is("NodePort")),
        "externalTrafficPolicy is about traffic from outside: write type: LoadBalancer or \
         NodePort, or remove it",
    );
}

/// A type of Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// Inside the cluster.
    #[default]
    ClusterIP,
    /// A port on each node.
    NodePort,
    /// An address from the cloud.
    LoadBalancer,
}

/// Which pods get traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrafficPolicy {
    /// Any.
    Cluster,
    /// Those of the same node.
    Local,
}

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IpFamily {
    /// Four bytes.
    IPv4,
    /// Sixteen bytes.
    IPv6,
}

/// How many families a Service has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IpFamilyPolicy {
    /// One.
    SingleStack,
    /// Two where the cluster has them.
    PreferDualStack,
    /// Two.
    RequireDualStack,
}

/// The observed state of an edge pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::own_descriptions)]
pub struct EdgePoolStatus {
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions: Ready, Progressing, Stalled, PodsReady, SecretsFound, LogsLost, WatchesAllowed,
    /// TargetsShared, ScrapeCapReached, PasswordExposed.
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
    /// Where clients inside the cluster send OTLP over gRPC: host:4317 (HTTP: port 4318).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub endpoint: Option<String>,
    /// The image the pods run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub image: Option<String>,
    /// A change of image or configuration that not all pods of the pool have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_change: Option<PendingChange>,
    /// How far the reading of nodes' logs is. Absent where none are read, and until a pod has
    /// answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesStatus>,
    /// Where scrape targets are. Absent where none are scraped, and until pods were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<TargetsStatus>,
    /// What was lost of nodes' logs before it was read. Absent while nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs_lost: Option<LogsLostStatus>,
}

/// A change of image or configuration that not all pods of the pool have. A trial pod gets it
/// first, then, with rollout.canary, a few nodes; it is rolled back when new pods fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingChange {
    /// How far it has come.
    pub stage: PendingStage,
    /// Since when.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Time,
    /// Why, as one stable word.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// Why, as a message.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// The new image.
    #[schemars(length(max = 512))]
    pub image: String,
    /// The ConfigMap with the new configuration.
    #[schemars(length(max = 253))]
    pub config_map: String,
    /// Identifies the spec: another digest is another attempt.
    #[schemars(length(max = 64))]
    pub digest: String,
}

/// How far a change has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PendingStage {
    /// A trial pod checks it.
    Trying,
    /// The trial failed: the pool's pods stay.
    Refused,
    /// The pods of the first nodes get it.
    Canary,
    /// They are compared with the others.
    Judging,
    /// Pods get it, by their Deployment or DaemonSet.
    RollingOut,
    /// A pod with it failed or performed worse: all pods return, or have returned, to what they ran
    /// before.
    RolledBack,
}
