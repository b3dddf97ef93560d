//! EdgePool: collectors that receive telemetry and publish it to Kafka.
//!
//! Works alone or as a pipeline's child; both embed `EdgeSettings`. The short name is `edp`: `ep`
//! is Kubernetes' own for Endpoints, and kubectl would warn at every use.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::connections::connection::KafkaConnection;
use super::pools::collector::CollectorSettings;
use super::pools::nodes::{LogsLostStatus, NodesStatus};
use super::pools::own_telemetry::OwnTelemetry;
use super::pools::pods::{
    DisruptionBudgetSettings, ExtraMetadata, NetworkPolicySettings, PodTemplate, Resources,
    ServiceAccountSettings, yes,
};
use super::pools::rollout::{CanarySettings, RolloutAction};
use super::pools::tuning::{EdgeProducer, any_fields, attributes_map};
use super::processing::ProcessingStep;
use super::processing::routes::PoolRouteStatus;
use super::receivers::Receivers;
use super::receivers::scrape::PrometheusReceiver;
use super::receivers::scrape_status::TargetsStatus;
use super::rules;
use super::signals::{PerSignal, is_not_set};
use crate::amounts::MemoryQuantity;
use crate::conditions::Condition;
use crate::kinds::{MillraceKind, POOL_NAME_LENGTH};
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
    doc = "A pool of collectors that receive telemetry (OTLP, logs, Prometheus metrics) and \
           publish it to Kafka. Part of a pipeline, or standalone.",
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
        name = "Assigned",
        type_ = "integer",
        json_path = ".status.targets.assigned",
        priority = 1,
        description = "Targets assigned to a pod"
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
        description = "Bytes of nodes' log files deleted before they were read"
    ),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoint", priority = 1),
    printcolumn(name = "Image", type_ = "string", json_path = ".status.image", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = pool_rules)]
#[schemars(transform = rules::own_descriptions)]
pub struct EdgePoolSpec {
    /// Connection to the Kafka that records are published to.
    pub kafka: KafkaConnection,
    /// Signals to receive, with the topic of each; records of other signals are rejected.
    pub signals: PerSignal<EdgeSignal>,
    /// Collector image of the pods.
    #[serde(default)]
    pub collector: CollectorSettings,
    /// Rollout of a changed image, allocator or configuration.
    #[serde(default, skip_serializing_if = "EdgeRolloutSettings::is_default")]
    pub rollout: EdgeRolloutSettings,
    /// How the pool runs.
    #[serde(flatten)]
    pub settings: EdgeSettings,
    /// Pauses reconciliation: the operator only updates the status and does not block deletion.
    /// Existing pods keep running. Default: false.
    #[serde(default, skip_serializing_if = "is_not_set")]
    pub paused: bool,
    /// Holds current and future rollouts: Pause stops replacing pods, Abort rolls back. Default:
    /// rollouts proceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_action: Option<RolloutAction>,
}

impl MillraceKind for EdgePool {
    const NAME_LENGTH: usize = POOL_NAME_LENGTH;
    const INTRODUCTION: &'static str = include_str!("../reference/edgepool.md");

    fn is_paused(&self) -> bool {
        self.spec.paused
    }

    fn rollout_action(&self) -> Option<RolloutAction> {
        self.spec.rollout_action
    }

    fn kafka(&self) -> Option<&KafkaConnection> {
        Some(&self.spec.kafka)
    }

    fn prometheus(&self) -> Option<&PrometheusReceiver> {
        self.spec.settings.receivers.prometheus.as_ref()
    }
}

fn pool_rules(schema: &mut Schema) {
    no_number_of_daemons(schema, &[], false);
    for (rule, message) in service_stays("self", "oldSelf") {
        rules::add_rule(schema, &rule, &format!("service.{message}"));
    }
    rules::add_rule(
        schema,
        "!has(self.rollout) || !has(self.rollout.canary) \
         || (has(self.mode) && self.mode == 'DaemonSet')",
        "a canary needs mode DaemonSet: remove rollout.canary, or write mode: DaemonSet",
    );
}

/// Rollout of a changed image, allocator or configuration to an edge pool's pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeRolloutSettings {
    /// In mode DaemonSet: replace the pods of a few nodes first and compare them with the others.
    /// Default: replace the pods of a tenth of the nodes at a time, without a comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanarySettings>,
    /// Roll back automatically if new pods don't start, crash, or perform worse. If false, the
    /// rollout stops and waits for a user.
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

/// The destination of one signal.
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
    /// Deployment (a number of pods behind a Service) or DaemonSet (one pod per node).
    #[serde(default)]
    pub mode: EdgeMode,
    /// Number of pods in mode Deployment, 1 to 1000; `kubectl scale` and autoscalers write it.
    /// Default: 2, written by the operator as field manager millrace-operator/scale, because
    /// autoscalers need a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub replicas: Option<u32>,
    /// Sources of records. Default: OTLP on both ports.
    #[serde(default)]
    pub receivers: Receivers,
    /// Rules that edit, drop, redact, sample, route or enrich records before they are stored, in
    /// this order. In a pipeline, its own processing runs first. At most 32 steps, those of the
    /// pipeline included. A change triggers a rollout. Default: records are stored as they were
    /// received.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub processing: Vec<ProcessingStep>,
    /// Resource attributes of everything that the pool sends, at most 64, for example
    /// k8s.cluster.name. An attribute that a client sent stays. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = attributes_map)]
    pub resource_attributes: BTreeMap<String, String>,
    /// When clients get their response: AfterKafka (the broker has the records) or AfterBuffering
    /// (earlier, but records in memory are lost with the pod).
    #[serde(default)]
    pub acknowledge: Acknowledge,
    /// Partitioning of spans in Kafka: Any (a request's spans stay together; cheapest) or TraceId
    /// (a trace's spans stay together, in smaller messages; for consumers that need complete
    /// traces).
    #[serde(default)]
    pub partition_by: PartitionBy,
    /// Compression of Kafka messages: Zstd (to about a fifth) or Lz4 (to about a third, with less
    /// CPU).
    #[serde(default)]
    pub compression: Compression,
    /// How messages are produced to Kafka.
    #[serde(default, skip_serializing_if = "EdgeProducer::is_default")]
    pub producer: EdgeProducer,
    /// Disk buffer for records received while Kafka is unavailable. Default: none; clients
    /// receive a retryable error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<EdgeBuffer>,
    /// Requests and limits of one pod, as in a Kubernetes container.
    #[serde(default)]
    pub resources: Resources,
    /// The Service in front of the pods.
    #[serde(default)]
    pub service: ServiceSettings,
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
    /// Shutdown deadline of a pod to send its records, 5 to 600 seconds. Records not in Kafka by
    /// then are not acknowledged, and clients retry them.
    #[serde(default = "default_drain_seconds")]
    #[schemars(range(min = 5, max = 600))]
    pub drain_seconds: u32,
}

impl EdgeSettings {
    /// Pods of a pool in mode Deployment when no number is given: two, so that one may go.
    pub const DEFAULT_REPLICAS: u32 = 2;

    /// Whether the pool's pods watch pods: to label log files, or the records of OTLP clients.
    #[must_use]
    pub fn watches_pods(&self) -> bool {
        self.receivers.watches_pods() || self.enriches()
    }

    /// Whether records of OTLP clients get the metadata of their pods.
    #[must_use]
    pub fn enriches(&self) -> bool {
        self.processing.iter().any(|step| step.enrich.is_some())
    }

    /// Whether records of OTLP clients get labels of their pods' namespaces.
    #[must_use]
    pub fn adds_namespace_labels(&self) -> bool {
        let mut steps = self.processing.iter().filter_map(|step| step.enrich.as_ref());
        steps.any(|step| !step.pod_metadata.namespace_labels.is_empty())
    }
}

impl Default for EdgeSettings {
    fn default() -> Self {
        Self {
            mode: EdgeMode::default(),
            replicas: None,
            receivers: Receivers::default(),
            processing: Vec::new(),
            resource_attributes: BTreeMap::new(),
            acknowledge: Acknowledge::default(),
            partition_by: PartitionBy::default(),
            compression: Compression::default(),
            producer: EdgeProducer::default(),
            buffer: None,
            resources: Resources::default(),
            service: ServiceSettings::default(),
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

/// Half of the 60 s that Kubernetes' own default grace period and a slow broker add up to.
fn default_drain_seconds() -> u32 {
    30
}

/// One pod on each node is no number of pods. Where `default_too` is not set, the number that the
/// operator itself writes into a pool may still be there: it takes it out.
pub(crate) fn no_number_of_daemons(schema: &mut Schema, steps: &[&str], default_too: bool) {
    let mode = rules::deep_or_default("self", &[steps, &["mode"]].concat(), "Deployment");
    let (number, is_there) = rules::nested_field("self", &[steps, &["replicas"]].concat());
    let ours = match default_too {
        true => String::new(),
        false => format!(" || {number} == {}", EdgeSettings::DEFAULT_REPLICAS),
    };
    rules::add_rule(
        schema,
        &format!("{mode} != 'DaemonSet' || !({is_there}){ours}"),
        "mode DaemonSet runs one pod per node: remove replicas, or write mode: Deployment",
    );
}

fn edge_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "!has(self.buffer) || !has(self.acknowledge) || self.acknowledge != 'AfterBuffering'",
        "AfterBuffering acknowledges records before they are on disk: write acknowledge: \
         AfterKafka, or remove buffer",
    );
    let reads = "has(self.receivers) && (has(self.receivers.containers) \
                 || has(self.receivers.kernel) \
                 || (has(self.receivers.files) && self.receivers.files.size() > 0))";
    rules::add_rule(
        schema,
        &format!("!({reads}) || (has(self.mode) && self.mode == 'DaemonSet')"),
        "containers, files and kernel are read by a pod on each node: write mode: DaemonSet",
    );
    rules::add_rule(
        schema,
        "!has(self.receivers) || !has(self.receivers.prometheus) || !has(self.mode) \
         || self.mode == 'Deployment'",
        "prometheus needs a number of pods to assign targets to: write mode: Deployment, in a \
         separate pool",
    );
    rules::add_rule(
        schema,
        &format!("!({reads}) || !has(self.buffer)"),
        "nodes store their logs until Kafka accepts them: remove buffer, or receive OTLP in a \
         separate pool",
    );
    rules::add_rule(
        schema,
        &format!("!({reads}) || !has(self.acknowledge) || self.acknowledge != 'AfterBuffering'"),
        "AfterBuffering would record lines as sent before Kafka has them: remove acknowledge",
    );
}

/// Disk buffer of each pod. Its records survive a crash or OOM kill of the collector and a node
/// restart. They are lost if the pod is deleted before Kafka is back; a stopping pod first tries to
/// send them, within drainSeconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = buffer_rules)]
pub struct EdgeBuffer {
    /// Size of one pod's buffer, 16Mi to 1Ti; the volume is slightly larger. Default: 1Gi, about
    /// ten million records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<MemoryQuantity>,
    /// StorageClass of the pods' claims, which are deleted with their pod. Default: the node's disk
    /// (an emptyDir, requested as ephemeral-storage).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<StorageClassName>,
}

impl EdgeBuffer {
    /// Default capacity of a buffer, in bytes: 1 GiB.
    pub const DEFAULT_MAX_BYTES: u64 = 1 << 30;

    /// Capacity of the buffer, in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.max_bytes.as_ref().map_or(Self::DEFAULT_MAX_BYTES, MemoryQuantity::bytes)
    }
}

fn buffer_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "!has(self.maxBytes) || !isQuantity(self.maxBytes) \
         || (quantity(self.maxBytes).compareTo(quantity('16Mi')) >= 0 \
         && quantity(self.maxBytes).compareTo(quantity('1Ti')) <= 0)",
        "maxBytes must be from 16Mi to 1Ti: write for example 10Gi",
    );
}

/// The workload of an edge pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EdgeMode {
    /// A number of pods behind a Service.
    #[default]
    Deployment,
    /// One pod on each node.
    DaemonSet,
}

/// When a client gets its response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Acknowledge {
    /// Once the broker has them.
    #[default]
    AfterKafka,
    /// Once they are in memory.
    AfterBuffering,
}

/// Partitioning of spans in Kafka.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PartitionBy {
    /// A request's spans stay together.
    #[default]
    Any,
    /// A trace's spans stay together.
    TraceId,
}

/// How Kafka messages are compressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Compression {
    /// The smallest messages.
    #[default]
    Zstd,
    /// The least CPU.
    Lz4,
}

/// The Service in front of an edge pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = service_rules)]
pub struct ServiceSettings {
    /// ClusterIP, NodePort or LoadBalancer. For clients outside the cluster also set
    /// receivers.otlp.tls.
    #[serde(default, rename = "type")]
    pub type_: ServiceType,
    /// Labels and annotations, for example of cloud load balancers.
    #[serde(flatten)]
    pub metadata: ExtraMetadata,
    /// Class of the load balancer, for example service.k8s.aws/nlb. Cannot be changed later, unless
    /// type changes too: Kubernetes refuses it. Default: the cluster's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub load_balancer_class: Option<String>,
    /// Client address ranges that the load balancer admits, for example 10.0.0.0/8. At most 64.
    /// Default: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 64)))]
    pub load_balancer_source_ranges: Vec<String>,
    /// Routing of external traffic: Cluster (any pod) or Local (pods on the receiving node, which
    /// see the client's address). Default: Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<TrafficPolicy>,
    /// Routing of traffic inside the cluster: Cluster (any pod) or Local (pods on the client's
    /// node; for mode DaemonSet). Default: Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal_traffic_policy: Option<TrafficPolicy>,
    /// IPv4, IPv6 or both, the primary family first. The primary family cannot be changed later:
    /// Kubernetes refuses it. For another one add an edge pool with another name. Default: the
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
        rules::add_rule(
            schema,
            &format!("!has(self.{field}) || {balanced}"),
            &format!("{field} is for load balancers: write type: LoadBalancer, or remove it"),
        );
    }
    rules::add_rule(
        schema,
        &format!("!has(self.externalTrafficPolicy) || {balanced} || {}", is("NodePort")),
        "externalTrafficPolicy is about traffic from outside the cluster: write type: LoadBalancer \
         or NodePort, or remove it",
    );
}

/// What Kubernetes fixes with a Service, between an edge pool's settings and its old ones.
pub(crate) fn service_stays(now: &str, before: &str) -> [(String, String); 2] {
    let balances = |of| {
        let type_ = rules::deep_or_default(of, &["service", "type"], "ClusterIP");
        format!("{type_} == 'LoadBalancer'")
    };
    let class = |of| rules::deep_or_default(of, &["service", "loadBalancerClass"], "");
    let families = |of| rules::nested_field(of, &["service", "ipFamilies"]);
    let ((family, is_there), (old_family, was_there)) = (families(now), families(before));
    [
        (
            format!(
                "!({}) || !({}) || {} == {}",
                balances(now),
                balances(before),
                class(now),
                class(before)
            ),
            "loadBalancerClass can't be changed: Kubernetes fixes it with the Service. Restore the \
             old value, or change type to ClusterIP first"
                .to_owned(),
        ),
        (
            format!(
                "!({is_there}) || !({was_there}) || size({family}) == 0 || size({old_family}) == 0 \
                 || {family}[0] == {old_family}[0]"
            ),
            "ipFamilies: the primary family can't be changed: Kubernetes fixes it with the \
             Service. Restore the old first entry, or add an edge pool with another name and move \
             clients"
                .to_owned(),
        ),
    ]
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
    /// Address for OTLP over gRPC inside the cluster, host:4317 (HTTP: port 4318).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub endpoint: Option<String>,
    /// Image of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub image: Option<String>,
    /// A change of image or configuration that not all pods have yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_change: Option<PendingChange>,
    /// Progress of reading nodes' logs. Absent if the pool reads none, and until a pod has
    /// answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesStatus>,
    /// Assignment of scrape targets. Absent if the pool scrapes none, and until the pods were
    /// polled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<TargetsStatus>,
    /// Node logs lost before they were read. Absent without losses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs_lost: Option<LogsLostStatus>,
    /// Route steps, and the records that each has sent to its topic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub routes: Vec<PoolRouteStatus>,
}

/// A change of image or configuration that not all pods have yet. A trial pod gets it first, then,
/// with rollout.canary, a few nodes; if new pods fail, it is rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingChange {
    /// Stage of the change.
    pub stage: PendingStage,
    /// Start of the stage.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Time,
    /// Reason in CamelCase.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// Message with details.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// New image.
    #[schemars(length(max = 512))]
    pub image: String,
    /// ConfigMap with the new configuration.
    #[schemars(length(max = 253))]
    pub config_map: String,
    /// Digest of the spec; another digest is another attempt.
    #[schemars(length(max = 64))]
    pub digest: String,
}

/// The stages of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PendingStage {
    /// A trial pod is validating it.
    Validating,
    /// The trial failed: the pool's pods are unchanged.
    Rejected,
    /// The pods of the first nodes get it.
    Canary,
    /// They are compared with the others.
    Analyzing,
    /// The Deployment or DaemonSet replaces the pods.
    RollingOut,
    /// A pod with it failed or performed worse: all pods return, or have returned, to the previous
    /// image and configuration.
    RolledBack,
}
