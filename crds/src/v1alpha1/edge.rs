//! EdgePool: collectors that receive telemetry and publish it to Kafka.
//!
//! Works alone or as a pipeline's child; both embed `EdgeSettings`. The short name is `edp`: `ep`
//! is Kubernetes' own for Endpoints, and kubectl would warn at every use.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::collector::CollectorSettings;
use super::connection::{KafkaConnection, SecretRef};
use super::pods::{
    DisruptionBudgetSettings, ExtraMetadata, NetworkPolicySettings, PodTemplate, Resources, yes,
};
use super::rules;
use super::signals::PerSignal;
use crate::amounts::MemoryQuantity;
use crate::conditions::Condition;
use crate::names::{StorageClassName, TopicName};

/// A pool of collectors that take telemetry from clients and publish it to Kafka.
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
           makes one; it also works by itself.",
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
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoint", priority = 1),
    printcolumn(name = "Image", type_ = "string", json_path = ".status.image", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = |schema: &mut Schema| no_number_of_daemons(schema, &[], false))]
pub struct EdgePoolSpec {
    /// The Kafka that records go to.
    pub kafka: KafkaConnection,
    /// The signals taken, and the topic of each. A signal left out is refused to clients.
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

/// How a change of image, allocator or configuration reaches an edge pool's pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeRolloutSettings {
    /// Go back to what ran before when new pods don't come up or crash. If false, the change stops
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
        Self { auto_rollback: yes() }
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
    /// Left out: 2, which the operator writes into the pool, as its own (millrace-operator/scale),
    /// so that an autoscaler finds a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub replicas: Option<u32>,
    /// What the pool listens for. Default: OTLP on both ports.
    #[serde(default)]
    pub receivers: Receivers,
    /// When a client is told that its records are safe: AfterKafka (the broker has them) or
    /// AfterBuffering (sooner, but records in memory are lost with the pod).
    #[serde(default)]
    pub acknowledge: Acknowledge,
    /// Which spans share a Kafka partition: Any (those that came together, the least work) or
    /// TraceId (those of one trace: smaller messages, for readers that need whole traces).
    #[serde(default)]
    pub partition_by: PartitionBy,
    /// How Kafka messages are compressed: Zstd (about a fifth of the size) or Lz4 (about a third,
    /// for less work).
    #[serde(default)]
    pub compression: Compression,
    /// A buffer on disk for when Kafka is away: records are taken and their clients answered, and
    /// sent once Kafka is back. Default: none, and clients keep their records meanwhile.
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
    /// A part of a Kubernetes PodTemplateSpec, merged over the operator's own as server-side apply
    /// merges: containers, volumes and environment by name, mounts by path. What the operator must
    /// decide is refused by its path (SpecInvalid). A change is a rollout. Default: nothing.
    #[serde(default)]
    pub pod_template: PodTemplate,
    /// Longest time a pod takes to hand over what it has when it stops, 5 to 600 seconds. What
    /// is not in Kafka by then was never acknowledged, and clients send it again.
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
                 || (has(self.receivers.files) && self.receivers.files.size() > 0))";
    rules::rule(
        schema,
        &format!("!({reads}) || (has(self.mode) && self.mode == 'DaemonSet')"),
        "containers and files are read by a pod on each node: write mode: DaemonSet",
    );
    rules::rule(
        schema,
        &format!("!({reads}) || !has(self.buffer)"),
        "what is read of files is kept in the files themselves: remove buffer, or take clients' \
         records in a pool of their own",
    );
    rules::rule(
        schema,
        &format!("!({reads}) || !has(self.acknowledge) || self.acknowledge != 'AfterBuffering'"),
        "AfterBuffering would put lines on record as sent before they are: remove acknowledge",
    );
}

/// A buffer on disk, one for each pod. It lives as long as its pod: records in it survive the end
/// of the collector (a crash, a memory limit) and a restart of the node, and are lost when the pod
/// is deleted before Kafka is back. A pod that is asked to stop sends them first, for as long as
/// drainSeconds allow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = buffer_rules)]
pub struct EdgeBuffer {
    /// What the buffer of one pod may take, 16Mi to 1Ti; the volume is a little larger. Default:
    /// 1Gi, about ten million records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<MemoryQuantity>,
    /// A StorageClass: each pod gets a claim of its own, deleted with it. Default: the node's own
    /// disk (an emptyDir).
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

/// Where an edge pool's records come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receivers {
    /// OTLP over gRPC (port 4317) and HTTP (port 4318).
    #[serde(default)]
    pub otlp: OtlpReceiver,
    /// What the containers of each pod's node write to their standard output and error. Needs mode
    /// DaemonSet, the signal logs, and a namespace in which pods may mount /var/log of the node.
    /// Default: not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containers: Option<ContainersReceiver>,
    /// Other log files below /var/log of each pod's node, likewise. At most 16 entries. Default:
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub files: Vec<FilesReceiver>,
}

/// What containers write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = containers_rules)]
pub struct ContainersReceiver {
    /// Where files are begun that were there before this pool first read: Beginning or End.
    #[serde(default)]
    pub start_at: StartAt,
    /// Namespaces whose pods are read, at most 64. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub namespaces: Vec<String>,
    /// Namespaces whose pods are not read, likewise. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub exclude_namespaces: Vec<String>,
    /// Watch the pods of each node, so that records have their labels, annotations, node and owner,
    /// and pods may say `millrace.dev/logs: "off"`. The pool's account gets the right to list and
    /// watch pods. If false, records have what a file's path says, and pods have no token.
    #[serde(default = "yes")]
    pub watch_pods: bool,
    /// Labels of pods that become attributes of the resource (k8s.pod.label.NAME): names, or
    /// beginnings with a `*` behind them. Default: all (`*`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 64),
        inner(length(min = 1, max = 317), regex(pattern = r"^[^*]*\*?$"))
    )]
    pub labels: Option<Vec<String>>,
    /// Annotations of pods that become attributes (k8s.pod.annotation.NAME), likewise. Default:
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 1, max = 317), regex(pattern = r"^[^*]*\*?$"))
    )]
    pub annotations: Vec<String>,
    /// What of a line becomes fields of its record. Default: nothing; the line is the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parse: Option<Parse>,
}

impl Default for ContainersReceiver {
    fn default() -> Self {
        Self {
            start_at: StartAt::default(),
            namespaces: Vec::new(),
            exclude_namespaces: Vec::new(),
            watch_pods: yes(),
            labels: None,
            annotations: Vec::new(),
            parse: None,
        }
    }
}

fn containers_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "!has(self.watchPods) || self.watchPods || (!has(self.labels) && !has(self.annotations))",
        "labels and annotations are known from the watch of pods: remove them, or watchPods: false",
    );
}

/// Log files of nodes: lines of text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = files_rules)]
pub struct FilesReceiver {
    /// The files, as glob patterns below /var/log: `*` and `?` within a name, `**` for any
    /// directories.
    #[schemars(length(min = 1, max = 16), inner(length(max = 255)))]
    pub include: Vec<String>,
    /// Those of them that are not read, likewise. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 255)))]
    pub exclude: Vec<String>,
    /// Where files are begun that were there before this pool first read: Beginning or End.
    #[serde(default)]
    pub start_at: StartAt,
    /// Lines that are one record together. Default: each line is a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiline: Option<Multiline>,
    /// What of a record's text becomes its fields. Default: nothing; the text is the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parse: Option<Parse>,
}

/// Lines that are one record together: by how a record begins, or by indentation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = multiline_rules)]
pub struct Multiline {
    /// A regular expression (RE2's syntax): a line in which it is found begins a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub start: Option<String>,
    /// A line that begins with a space or a tab belongs to the record before it.
    #[serde(default)]
    pub indented: bool,
}

/// What of a record's text becomes fields of the record. A text that doesn't have the format is a
/// record as it stands, and counted. No field can take the place of an attribute that the collector
/// writes: it is kept under its name behind `line.`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = parse_rules)]
pub struct Parse {
    /// What the text is taken for: None, JSON (an object; its members are fields), Logfmt
    /// (name=value pairs) or Regex (the pattern's groups that have names).
    #[serde(default)]
    pub format: ParseFormat,
    /// With Regex: a regular expression (RE2's syntax) with named groups, as in
    /// `^(?P<time>\S+) (?P<level>[A-Z]+) (?P<message>.*)$`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub pattern: Option<String>,
    /// Names of the field that becomes the body. Empty: the body stays the whole text. Default:
    /// message, msg.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 255)))]
    pub body: Option<Vec<String>>,
    /// Names of the field that becomes the severity. Default: level, severity, lvl.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 255)))]
    pub severity: Option<Vec<String>>,
    /// The field that becomes the record's time. Default: none; the time is the container's, or
    /// when the line was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
}

/// The field that becomes a record's time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = timestamp_rules)]
pub struct Timestamp {
    /// Its names.
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 255)))]
    pub fields: Vec<String>,
    /// How the time is written: RFC3339 (also with a space for the T, a comma for the point, and
    /// without an offset, which is UTC then), UnixSeconds (with or without a fraction), UnixMillis,
    /// UnixMicros, UnixNanos or Layout.
    #[serde(default)]
    pub format: TimeFormat,
    /// With Layout: the layout, as in `%d/%b/%Y:%H:%M:%S %z`. %Y, %m or %b, %d or %e, %H, %M and %S
    /// must be there once; %f (a fraction) and %z (an offset) may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 60))]
    pub layout: Option<String>,
}

/// What a record's text is taken for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ParseFormat {
    /// Nothing: it is the body.
    #[default]
    None,
    /// An object of JSON.
    #[serde(rename = "JSON")]
    Json,
    /// Pairs of name=value.
    Logfmt,
    /// Whatever a pattern says.
    Regex,
}

/// How a field's time is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TimeFormat {
    /// As in 2026-11-25T04:00:00.123Z.
    #[default]
    #[serde(rename = "RFC3339")]
    Rfc3339,
    /// A number of seconds since 1970.
    UnixSeconds,
    /// A number of milliseconds.
    UnixMillis,
    /// A number of microseconds.
    UnixMicros,
    /// A number of nanoseconds.
    UnixNanos,
    /// By a layout.
    Layout,
}

/// Where a file is begun that isn't on record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StartAt {
    /// With its first byte.
    #[default]
    Beginning,
    /// With what is written from then on; files that appear later are read from their first byte.
    End,
}

impl Receivers {
    /// Whether files of the node are read.
    #[must_use]
    pub fn reads_files(&self) -> bool {
        self.containers.is_some() || !self.files.is_empty()
    }

    /// Whether pods of the node are watched.
    #[must_use]
    pub fn watches_pods(&self) -> bool {
        self.containers.as_ref().is_some_and(|containers| containers.watch_pods)
    }
}

fn files_rules(schema: &mut Schema) {
    for list in ["include", "exclude"] {
        rules::rule(
            schema,
            &format!(
                "!has(self.{list}) || self.{list}.all(it, it.startsWith('/var/log/') \
                 && !it.contains('/../'))"
            ),
            "only /var/log of a node is mounted: write patterns below it, for example \
             /var/log/nginx/*.log",
        );
    }
}

fn multiline_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "has(self.start) != (has(self.indented) && self.indented)",
        "write one of start and indented: true",
    );
}

fn parse_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "has(self.pattern) == (has(self.format) && self.format == 'Regex')",
        "format Regex and pattern go together: write both, or neither",
    );
    rules::rule(
        schema,
        "!has(self.pattern) || self.pattern.contains('(?P<') || self.pattern.contains('(?<')",
        "no group of the pattern has a name: write one at least, for example (?P<level>[A-Z]+)",
    );
    rules::rule(
        schema,
        "has(self.format) && self.format != 'None' \
         || !(has(self.body) || has(self.severity) || has(self.timestamp))",
        "nothing is parsed, so no field has a place: write format: JSON, Logfmt or Regex",
    );
    for (one, other) in [("body", "severity"), ("body", "timestamp"), ("severity", "timestamp")] {
        let names = |list: &str| match list {
            "timestamp" => "self.timestamp.fields".to_owned(),
            list => format!("self.{list}"),
        };
        let (first, second) = (names(one), names(other));
        rules::rule(
            schema,
            &format!(
                "!has(self.{one}) || !has(self.{other}) || !{first}.exists(it, it in {second})"
            ),
            "a field has one place: write its name in one of body, severity and timestamp",
        );
    }
}

fn timestamp_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "has(self.layout) == (has(self.format) && self.format == 'Layout')",
        "format Layout and layout go together: write both, or neither",
    );
}

/// The OTLP receiver. Its limits on message size, connections and time are the collector's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtlpReceiver {
    /// Encrypts both ports. Default: not encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,
}

/// Encryption of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerTls {
    /// A Secret of type kubernetes.io/tls: keys tls.crt and tls.key. A change of its content rolls
    /// the pods.
    pub certificate_secret_ref: SecretRef,
    /// A Secret whose key ca.crt signed the clients' certificates: only clients that show one are
    /// let in. Default: any client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca_secret_ref: Option<SecretRef>,
}

/// When a client is told that its records are safe.
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

/// What was observed of an edge pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgePoolStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Facts: Ready, Progressing, Stalled, PodsReady, SecretsFound, PasswordExposed.
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
    /// Ready pods of wanted pods, for people: 3/3.
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
}

/// A change of image or configuration that not all pods of the pool have: it is tried in a pod of
/// its own first, and taken back when new pods fail.
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
    /// Why, for people.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// The image that pods are to run.
    #[schemars(length(max = 512))]
    pub image: String,
    /// The ConfigMap with the configuration they are to have.
    #[schemars(length(max = 253))]
    pub config_map: String,
    /// Tells one spec from another: another digest is another try.
    #[schemars(length(max = 64))]
    pub digest: String,
}

/// How far a change has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PendingStage {
    /// A pod of its own tries it.
    Trying,
    /// The try failed: the pool's pods stay as they are.
    Refused,
    /// Pods get it, by their Deployment or DaemonSet.
    RollingOut,
    /// A pod that got it failed: all pods run, or come to run, what they ran before.
    RolledBack,
}
