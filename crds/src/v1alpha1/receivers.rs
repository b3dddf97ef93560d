//! What an edge pool takes in: OTLP from clients, log files of its nodes, their kernels' logs,
//! targets that it scrapes; and how lines are parsed.
//!
//! Each receiver is a block of its own, whose rules stand beside it.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::connection::SecretRef;
use super::discovery::LabelSelector;
use super::pods::yes;
use super::rules;
use super::scrape::PrometheusReceiver;

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
    /// The kernel's log (/dev/kmsg) of each pod's node: an empty object. Needs mode DaemonSet, the
    /// signal logs, and a namespace whose pod security level is privileged. The collector's
    /// container is privileged then, since container runtimes open no device of the node to any
    /// other: give it a pool of its own, to which no client sends. Default: not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelReceiver>,
    /// Targets that are scraped, in Prometheus' formats, and shared out among the pool's pods.
    /// Needs mode Deployment and the signal metrics. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusReceiver>,
}

/// The kernel's log. It has no settings: `kernel: {}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KernelReceiver {}

/// What containers write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = containers_rules)]
pub struct ContainersReceiver {
    /// Where to begin files that existed before this pool first read: Beginning or End.
    #[serde(default)]
    pub start_at: StartAt,
    /// Where Docker keeps its containers' log files on nodes, for nodes with cri-dockerd, where the
    /// kubelet's files are links to these: usually /var/lib/docker/containers. It is mounted
    /// read-only, and log files alone are read there. Every node of the pool must have it.
    /// Default: none; links are not followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub docker_directory: Option<String>,
    /// Namespaces whose pods are read, at most 64. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub namespaces: Vec<String>,
    /// Labels of the namespaces whose pods are read. A namespace that gets the labels is read
    /// within seconds; one that loses them is left where it is, and read on from there if they
    /// return. The pool's account gets the right to list and watch namespaces. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Namespaces whose pods are not read, at most 64. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub exclude_namespaces: Vec<String>,
    /// Watch the pods of each node, so that records have their labels, annotations, node and owner,
    /// and pods' annotations can say how their logs are read. The pool's account gets the right to
    /// list and watch pods. If false, records have only the attributes of a file's path, and pods
    /// have no token.
    #[serde(default = "yes")]
    pub watch_pods: bool,
    /// Labels of pods that become attributes of the resource (k8s.pod.label.NAME): names, or
    /// prefixes that end in `*`. Default: all (`*`).
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
    /// Let pods' annotations say how their logs are read: `millrace.dev/logs: "off"`,
    /// `millrace.dev/logs-parser: json` (logfmt, none) and `millrace.dev/logs-multiline: java`
    /// (python, go, nodejs, rust, none, or a regular expression that begins with `^`); with
    /// `.CONTAINER` behind the name for one container. They go before parse. Known with watchPods
    /// alone. If false, all logs are read as this receiver says.
    #[serde(default = "yes")]
    pub follow_annotations: bool,
    /// Shares of namespaces where more is written than can be sent, at most 64: bytes are read in
    /// proportion to weights. Namespaces without an entry have 1, however many pods each has.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace"])
    )]
    pub weights: Vec<NamespaceWeight>,
    /// Lines that are one record together, of pods whose annotations say nothing of it. Default:
    /// each line is a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiline: Option<Multiline>,
    /// Which parts of a line become fields of its record. Default: none; the line is the body.
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
            watch_pods: yes(),
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
    rules::rule(
        schema,
        "!has(self.dockerDirectory) || \
         self.dockerDirectory.matches('^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+/containers$')",
        "dockerDirectory is a directory of Docker's: write a path that ends in /containers, for \
         example /var/lib/docker/containers",
    );
    rules::rule(
        schema,
        "!has(self.watchPods) || self.watchPods || (!has(self.labels) && !has(self.annotations))",
        "labels and annotations are known from the watch of pods: remove them, or watchPods: false",
    );
    rules::rule(
        schema,
        "!has(self.namespaceSelector) || !has(self.watchPods) || self.watchPods",
        "namespaces' labels are asked for by the account that watches pods: remove \
         namespaceSelector, or watchPods: false",
    );
    rules::rule(
        schema,
        "!has(self.namespaceSelector) || !has(self.namespaces) || size(self.namespaces) == 0",
        "write one of namespaces and namespaceSelector",
    );
    rules::rule(
        schema,
        "!has(self.namespaceSelector) || has(self.namespaceSelector.matchLabels) \
         && size(self.namespaceSelector.matchLabels) > 0 \
         || has(self.namespaceSelector.matchExpressions) \
         && size(self.namespaceSelector.matchExpressions) > 0",
        "an empty namespaceSelector selects all namespaces: remove it",
    );
    rules::rule(
        schema,
        "!has(self.weights) || self.weights.all(it, \
         (!has(self.namespaces) || size(self.namespaces) == 0 \
         || it.__namespace__ in self.namespaces) \
         && (!has(self.excludeNamespaces) || !(it.__namespace__ in self.excludeNamespaces)))",
        "a weight is of a namespace whose pods aren't read: remove it, or read the namespace",
    );
}

/// A namespace's share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceWeight {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Its share: with 3 it gets three times the bytes of a namespace with 1.
    #[schemars(range(min = 1, max = 100))]
    pub weight: u8,
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
    /// Where to begin files that existed before this pool first read: Beginning or End.
    #[serde(default)]
    pub start_at: StartAt,
    /// How the files' bytes are text: utf-8, utf-16le, utf-16be or latin-1 (ISO 8859-1). A byte
    /// order mark decides the order of UTF-16's bytes.
    #[serde(default)]
    pub encoding: Encoding,
    /// Lines that are one record together. Default: each line is a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiline: Option<Multiline>,
    /// Which parts of a record's text become its fields. Default: none; the text is the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parse: Option<Parse>,
}

/// Lines that are one record together: by how a record begins, by indentation, or by what stack
/// traces look like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = multiline_rules)]
pub struct Multiline {
    /// A regular expression (RE2's syntax): a line that contains a match begins a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub start: Option<String>,
    /// A line that begins with a space or a tab belongs to the record before it.
    #[serde(default)]
    pub indented: bool,
    /// A stack trace of this runtime is one record with the line before it, and so are indented
    /// lines: java, python, go, nodejs or rust.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces: Option<Traces>,
}

/// Whose stack traces, in the words of the annotation millrace.dev/logs-multiline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Traces {
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

/// Which parts of a record's text become its fields. A text without the format is the body, and
/// counted. A field with the name of an attribute that the collector writes gets the prefix
/// `line.`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = parse_rules)]
pub struct Parse {
    /// The text's format: None, JSON (an object; its members are fields), Logfmt (name=value pairs)
    /// or Regex (the pattern's named groups).
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

/// The format of a record's text.
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
    /// A pattern's named groups.
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

/// Where to begin a file that has no position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StartAt {
    /// With its first byte.
    #[default]
    Beginning,
    /// With what is written from then on; files that appear later are read from their first byte.
    End,
}

/// How a file's bytes are text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Encoding {
    /// UTF-8.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// UTF-16, low bytes first.
    #[serde(rename = "utf-16le")]
    Utf16Le,
    /// UTF-16, high bytes first.
    #[serde(rename = "utf-16be")]
    Utf16Be,
    /// ISO 8859-1.
    #[serde(rename = "latin-1")]
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
        "(has(self.start) ? 1 : 0) + (has(self.indented) && self.indented ? 1 : 0) \
         + (has(self.traces) ? 1 : 0) == 1",
        "write one of start, indented: true and traces",
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
