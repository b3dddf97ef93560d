//! The sources of an edge pool: OTLP from clients, log files of its nodes, their kernels' logs,
//! scrape targets; and how lines are parsed.
//!
//! Each receiver is a separate block with its rules next to it.

pub(super) mod discovery;
pub(super) mod scrape;
pub(super) mod scrape_access;
pub(super) mod scrape_rules;
pub(super) mod scrape_status;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::connections::authentication::{CaSource, CertificateSecret};
use super::pools::pods::yes;
use super::pools::tuning::OtlpLimits;
use super::receivers::discovery::LabelSelector;
use super::receivers::scrape::PrometheusReceiver;
use super::rules;

/// The sources of an edge pool's records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receivers {
    /// OTLP over gRPC (port 4317) and HTTP (port 4318).
    #[serde(default)]
    pub otlp: OtlpReceiver,
    /// Standard output and error of the containers on each pod's node. Requires mode DaemonSet, the
    /// signal logs, and a namespace in which pods may mount the node's /var/log. Default: not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containers: Option<ContainersReceiver>,
    /// Other log files below /var/log of each pod's node, with the same requirements. At most 16
    /// entries. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub files: Vec<FilesReceiver>,
    /// Kernel log (/dev/kmsg) of each pod's node: an empty object. Requires mode DaemonSet, the
    /// signal logs, and a namespace with the pod security level privileged. The container then runs
    /// privileged, because runtimes give no other container access to the device: use a separate
    /// pool without clients. Default: not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelReceiver>,
    /// Prometheus scrape targets, assigned to the pool's pods. Requires mode Deployment and the
    /// signal metrics. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusReceiver>,
}

/// The kernel log. It has no settings: `kernel: {}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KernelReceiver {}

/// Logs of containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = containers_rules)]
pub struct ContainersReceiver {
    /// Start position in files that existed before this pool first read: Beginning or End.
    #[serde(default)]
    pub start_at: StartAt,
    /// Docker's directory of log files, for nodes with cri-dockerd, where the kubelet's files are
    /// links into it: usually /var/lib/docker/containers. Mounted read-only; every node of the pool
    /// must have it. Default: none; links are not followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub docker_directory: Option<String>,
    /// Namespaces to read, at most 64. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub namespaces: Vec<String>,
    /// Label selector of the namespaces to read. A namespace that gets the labels is read within
    /// seconds; one that loses them stays at its position. The pool's service account needs the
    /// right to list and watch namespaces (podAccess.grant of the chart). Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Namespaces to exclude, at most 64. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub exclude_namespaces: Vec<String>,
    /// Source of pods' metadata: KubernetesApi (labels, annotations, node and owner, from a watch
    /// of each node's pods, whose annotations can be followed; the pool's service account needs the
    /// right to watch pods: podAccess.grant of the chart) or FilePath (only namespace, pod
    /// and container, from the file's path; pods have no token).
    #[serde(default)]
    pub pod_metadata: PodMetadata,
    /// Pod labels to store as resource attributes (k8s.pod.label.NAME): names, or prefixes that end
    /// in `*`, at most 64. Default: all (`*`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 64),
        inner(length(min = 1, max = 317), regex(pattern = r"^[^*]*\*?$"))
    )]
    pub labels: Option<Vec<String>>,
    /// Pod annotations to store as resource attributes (k8s.pod.annotation.NAME): names, or
    /// prefixes that end in `*`, at most 64. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 1, max = 317), regex(pattern = r"^[^*]*\*?$"))
    )]
    pub annotations: Vec<String>,
    /// Follow pods' annotations: `millrace.dev/logs: "off"`, `millrace.dev/logs-parser: json`
    /// (logfmt, none) and `millrace.dev/logs-multiline: java` (python, go, nodejs, rust, none, or a
    /// regular expression that begins with `^`); with the suffix `.CONTAINER` for one container.
    /// They take precedence over multiline and parse. Requires podMetadata: KubernetesApi.
    #[serde(default = "yes")]
    pub follow_annotations: bool,
    /// Shares of namespaces while a node writes more than its pod can send, at most 64: bytes are
    /// read in proportion to weights. A namespace without an entry has 1. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace"])
    )]
    pub weights: Vec<NamespaceWeight>,
    /// Joins lines to one record, unless a pod's annotations override it. Default: each line is a
    /// record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiline: Option<Multiline>,
    /// Parses lines into fields of the record. Default: the line is the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parse: Option<Parse>,
}

impl Default for ContainersReceiver {
    fn default() -> Self {
        Self {
            start_at: StartAt::default(),
            docker_directory: None,
            namespaces: Vec::new(),
            namespace_selector: None,
            exclude_namespaces: Vec::new(),
            pod_metadata: PodMetadata::default(),
            labels: None,
            annotations: Vec::new(),
            follow_annotations: yes(),
            weights: Vec::new(),
            multiline: None,
            parse: None,
        }
    }
}

fn containers_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "!has(self.dockerDirectory) || \
         self.dockerDirectory.matches('^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+/containers$')",
        "dockerDirectory must be Docker's directory of containers: write a path that ends in \
         /containers, for example /var/lib/docker/containers",
    );
    rules::add_rule(
        schema,
        "!has(self.podMetadata) || self.podMetadata == 'KubernetesApi' \
         || (!has(self.labels) && !has(self.annotations))",
        "labels and annotations come from the Kubernetes API: remove them, or podMetadata: \
         FilePath",
    );
    rules::add_rule(
        schema,
        "!has(self.namespaceSelector) || !has(self.podMetadata) \
         || self.podMetadata == 'KubernetesApi'",
        "namespaceSelector needs the Kubernetes API: remove it, or podMetadata: FilePath",
    );
    rules::add_rule(
        schema,
        "!has(self.namespaceSelector) || !has(self.namespaces) || size(self.namespaces) == 0",
        "write one of namespaces and namespaceSelector",
    );
    rules::add_rule(
        schema,
        "!has(self.namespaceSelector) || has(self.namespaceSelector.matchLabels) \
         && size(self.namespaceSelector.matchLabels) > 0 \
         || has(self.namespaceSelector.matchExpressions) \
         && size(self.namespaceSelector.matchExpressions) > 0",
        "an empty namespaceSelector selects all namespaces: remove it",
    );
    rules::add_rule(
        schema,
        "!has(self.weights) || self.weights.all(it, \
         (!has(self.namespaces) || size(self.namespaces) == 0 \
         || it.__namespace__ in self.namespaces) \
         && (!has(self.excludeNamespaces) || !(it.__namespace__ in self.excludeNamespaces)))",
        "a weight is of a namespace that is not read: remove it, or read the namespace",
    );
}

/// The source of pods' metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodMetadata {
    /// A watch of the node's pods.
    #[default]
    KubernetesApi,
    /// The path of a log file.
    FilePath,
}

/// The share of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceWeight {
    /// Name of the namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Weight, 1 to 100: with 3 it gets three times the bytes of a namespace with 1.
    #[schemars(range(min = 1, max = 100))]
    pub weight: u8,
}

/// Log files of nodes, as lines of text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = files_rules)]
pub struct FilesReceiver {
    /// Glob patterns of files below /var/log, 1 to 16: `*` and `?` within a name, `**` for any
    /// directories.
    #[schemars(length(min = 1, max = 16), inner(length(max = 255)))]
    pub include: Vec<String>,
    /// Glob patterns of files to exclude, at most 16. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 255)))]
    pub exclude: Vec<String>,
    /// Start position in files that existed before this pool first read: Beginning or End.
    #[serde(default)]
    pub start_at: StartAt,
    /// Encoding: UTF-8, UTF-16LE, UTF-16BE or ISO-8859-1. A byte order mark overrides the byte
    /// order of UTF-16.
    #[serde(default)]
    pub encoding: Encoding,
    /// Joins lines to one record. Default: each line is a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiline: Option<Multiline>,
    /// Parses the text into fields of the record. Default: the text is the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parse: Option<Parse>,
}

/// Joins lines to one record: by the first line, by indentation, or by the form of stack traces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = multiline_rules)]
pub struct Multiline {
    /// Regular expression (RE2): a line with a match begins a record. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub start: Option<String>,
    /// A line that begins with a space or tab belongs to the previous record.
    #[serde(default)]
    pub indented: bool,
    /// Joins stack traces of this runtime, and indented lines, to the line before them: Java,
    /// Python, Go, NodeJs or Rust. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_traces: Option<StackTraces>,
}

/// The runtime of stack traces; the annotation millrace.dev/logs-multiline has the same in lower
/// case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StackTraces {
    /// Java's, Kotlin's and Scala's.
    Java,
    /// Python's.
    Python,
    /// Go's.
    Go,
    /// Node.js'.
    NodeJs,
    /// Rust's.
    Rust,
}

/// Parses a record's text into its fields. A text in another format becomes the body and is
/// counted. A field with the name of an attribute that the collector writes gets the prefix
/// `line.`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = parse_rules)]
pub struct Parse {
    /// Format of the text: None, JSON (members of an object), Logfmt (name=value pairs) or Regex
    /// (named groups of the pattern).
    #[serde(default)]
    pub format: ParseFormat,
    /// Regular expression (RE2) with named groups, for example `^(?P<time>\S+) (?P<level>[A-Z]+)
    /// (?P<message>.*)$`. Required with format: Regex. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub pattern: Option<String>,
    /// Names of the field that becomes the body, at most 8; the first valid one of a line is used.
    /// With an empty list the body is the complete text. Default: message, msg.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 255)))]
    pub body: Option<Vec<String>>,
    /// Names of the field that becomes the severity, at most 8; the first valid one of a line is
    /// used. Default: level, severity, lvl.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 255)))]
    pub severity: Option<Vec<String>>,
    /// Field that becomes the record's time. Default: the container runtime's time, or the time of
    /// reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
}

/// The field that becomes a record's time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = timestamp_rules)]
pub struct Timestamp {
    /// Names of the field with the time, 1 to 8; the first valid one of a line is used.
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 255)))]
    pub fields: Vec<String>,
    /// Format of the time: RFC3339 (also with a space for the T, a comma for the point, or without
    /// an offset, which means UTC), UnixSeconds (with or without a fraction), UnixMillis,
    /// UnixMicros, UnixNanos or Layout.
    #[serde(default)]
    pub format: TimeFormat,
    /// Layout of the time, for example `%d/%b/%Y:%H:%M:%S %z`: %Y, %m or %b, %d or %e, %H, %M and
    /// %S once each; %f (fraction) and %z (offset) are optional. Required with format: Layout.
    /// Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 60))]
    pub layout: Option<String>,
}

/// The format of a record's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ParseFormat {
    /// Not parsed: the text is the body.
    #[default]
    None,
    /// A JSON object.
    #[serde(rename = "JSON")]
    Json,
    /// name=value pairs.
    Logfmt,
    /// Named groups of a pattern.
    Regex,
}

/// The format of a time.
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

/// The start position in a file without a stored position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StartAt {
    /// The first byte.
    #[default]
    Beginning,
    /// The end; files that appear later are read from their first byte.
    End,
}

/// The encoding of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Encoding {
    /// UTF-8.
    #[default]
    #[serde(rename = "UTF-8")]
    Utf8,
    /// UTF-16, low bytes first.
    #[serde(rename = "UTF-16LE")]
    Utf16Le,
    /// UTF-16, high bytes first.
    #[serde(rename = "UTF-16BE")]
    Utf16Be,
    /// ISO 8859-1.
    #[serde(rename = "ISO-8859-1")]
    Latin1,
}

impl Receivers {
    /// Whether files of the node are read.
    #[must_use]
    pub fn reads_files(&self) -> bool {
        self.containers.is_some() || !self.files.is_empty()
    }

    /// Where Docker's log files of nodes are, if they are read.
    #[must_use]
    pub fn docker_directory(&self) -> Option<&str> {
        self.containers.as_ref()?.docker_directory.as_deref()
    }

    /// Whether the node's kernel log is read.
    #[must_use]
    pub fn reads_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    /// Whether namespaces are chosen by their labels.
    #[must_use]
    pub fn selects_namespaces(&self) -> bool {
        self.containers.as_ref().is_some_and(|containers| containers.namespace_selector.is_some())
    }

    /// Whether pods of the node are watched, to label log files.
    #[must_use]
    pub fn watches_pods(&self) -> bool {
        self.containers
            .as_ref()
            .is_some_and(|containers| containers.pod_metadata == PodMetadata::KubernetesApi)
    }
}

fn files_rules(schema: &mut Schema) {
    for list in ["include", "exclude"] {
        rules::add_rule(
            schema,
            &format!(
                "!has(self.{list}) || self.{list}.all(it, it.startsWith('/var/log/') \
                 && !it.contains('/../'))"
            ),
            "pods mount only the node's /var/log: write patterns below it, for example \
             /var/log/nginx/*.log",
        );
    }
}

fn multiline_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "(has(self.start) ? 1 : 0) + (has(self.indented) && self.indented ? 1 : 0) \
         + (has(self.stackTraces) ? 1 : 0) == 1",
        "write exactly one of start, indented: true and stackTraces",
    );
}

fn parse_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "has(self.pattern) == (has(self.format) && self.format == 'Regex')",
        "format Regex and pattern go together: write both, or neither",
    );
    rules::add_rule(
        schema,
        "!has(self.pattern) || self.pattern.contains('(?P<') || self.pattern.contains('(?<')",
        "the pattern has no named group: write at least one, for example (?P<level>[A-Z]+)",
    );
    rules::add_rule(
        schema,
        "has(self.format) && self.format != 'None' \
         || !(has(self.body) || has(self.severity) || has(self.timestamp))",
        "body, severity and timestamp need a format: write format: JSON, Logfmt or Regex",
    );
    for (one, other) in [("body", "severity"), ("body", "timestamp"), ("severity", "timestamp")] {
        let names = |list: &str| match list {
            "timestamp" => "self.timestamp.fields".to_owned(),
            list => format!("self.{list}"),
        };
        let (first, second) = (names(one), names(other));
        rules::add_rule(
            schema,
            &format!(
                "!has(self.{one}) || !has(self.{other}) || !{first}.exists(it, it in {second})"
            ),
            "a field is in two of body, severity and timestamp: write it in one of them",
        );
    }
}

fn timestamp_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "has(self.layout) == (has(self.format) && self.format == 'Layout')",
        "format Layout and layout go together: write both, or neither",
    );
}

/// The OTLP receiver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtlpReceiver {
    /// Encrypts both ports with TLS. Default: not encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,
    /// Limits for clients.
    #[serde(default, skip_serializing_if = "OtlpLimits::is_default")]
    pub limits: OtlpLimits,
}

/// TLS of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerTls {
    /// Secret with the server certificate.
    pub certificate_secret: CertificateSecret,
    /// CA of client certificates: only clients with such a certificate may connect. Default: any
    /// client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<CaSource>,
}
