//! The sections of what is read on a machine: containers' output, log files, the kernel's log.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::section::section;
use crate::selector::LabelSelector;
use crate::units::ByteSize;

section! {
    /// Standard output and error of this node's containers.
    pub struct ContainersReceiver {
        /// Directory of the kubelet's log files, laid out as
        /// `NAMESPACE_POD_UID/CONTAINER/RESTARTS.log`.
        pub directory: PathBuf = PathBuf::from("/var/log/pods"),
        /// Directory of Docker's container log files, if the kubelet's files are links to them
        /// (with cri-dockerd). No links are followed when absent.
        pub docker_directory: Option<PathBuf> = None,
        /// Where to start reading a file without a stored position.
        pub start_at: StartAt = StartAt::Beginning,
        /// Namespaces whose pods are read; all when empty.
        pub namespaces: Vec<String> = Vec::new(),
        /// Labels of the namespaces whose pods are read, as reported by the API server. Can't be
        /// combined with `namespaces`; requires `podMetadata: KubernetesAPI`.
        pub namespace_selector: Option<LabelSelector> = None,
        /// Namespaces whose pods are not read.
        pub exclude_namespaces: Vec<String> = Vec::new(),
        /// Source of pods' metadata: a file's path, or the API server (labels, annotations, owners
        /// of this node's pods). The latter needs the node's name in `NODE_NAME`.
        pub pod_metadata: PodMetadata = PodMetadata::FilePath,
        /// Pod labels that become attributes: names, a prefix followed by `*`, or `*` for all; at
        /// most 64.
        pub labels: Vec<String> = owned_names(&["*"]),
        /// Pod annotations that become attributes, in the same form. Requires `podMetadata:
        /// KubernetesAPI`.
        pub annotations: Vec<String> = Vec::new(),
        /// Whether pod annotations (`millrace.dev/logs`, `-parser`, `-multiline`) control how a
        /// pod's logs are read. Requires `podMetadata: KubernetesAPI`.
        pub follow_annotations: bool = true,
        /// Shares of namespaces while more is written than can be sent; 1 for all others. At most
        /// 64.
        pub weights: Vec<NamespaceWeight> = Vec::new(),
        /// Rule that joins lines into one record, for pods without an annotation; each line is a
        /// record when absent.
        pub multiline: Option<Multiline> = None,
        /// How fields are parsed from a line.
        pub parse: Parse = Parse::default(),
        /// Longest line; the remainder is cut, marked and counted.
        pub max_line_bytes: ByteSize = ByteSize::kib(256),
    }
}

section! {
    /// Share of a namespace.
    pub struct NamespaceWeight {
        /// Name of the namespace.
        pub namespace: String = String::new(),
        /// Share relative to other namespaces, which have 1.
        pub weight: u8 = 1,
    }
}

section! {
    /// Log files of the host or of a volume: lines of text.
    pub struct FilesReceiver {
        /// Files to read, as glob patterns: `*` and `?` within a name, `**` for any directories.
        /// Required: at least one.
        pub include: Vec<String> = Vec::new(),
        /// Files of `include` that are not read, as glob patterns.
        pub exclude: Vec<String> = Vec::new(),
        /// Where to start reading a file without a stored position.
        pub start_at: StartAt = StartAt::End,
        /// Text encoding of the files.
        pub encoding: Encoding = Encoding::Utf8,
        /// Rule that joins lines into one record; each line is a record when absent.
        pub multiline: Option<Multiline> = None,
        /// How fields are parsed from a record's text.
        pub parse: Parse = Parse::default(),
        /// Longest record; the remainder is cut, marked and counted.
        pub max_line_bytes: ByteSize = ByteSize::kib(256),
    }
}

/// Source of pods' metadata.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodMetadata {
    /// The path of a log file: namespace, pod and container.
    FilePath,
    /// A watch of the node's pods.
    #[serde(rename = "KubernetesAPI")]
    KubernetesApi,
}

/// Text encoding of a file. A byte order mark decides the byte order of UTF-16.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// UTF-8.
    #[serde(rename = "UTF-8")]
    Utf8,
    /// UTF-16, little-endian.
    #[serde(rename = "UTF-16LE")]
    Utf16Le,
    /// UTF-16, big-endian.
    #[serde(rename = "UTF-16BE")]
    Utf16Be,
    /// ISO 8859-1.
    #[serde(rename = "ISO-8859-1")]
    Latin1,
}

section! {
    /// The kernel log.
    pub struct KernelReceiver {
        /// Device of the kernel log, which returns one record per read.
        pub device: PathBuf = PathBuf::from("/dev/kmsg"),
    }
}

section! {
    /// Rule that joins lines into one record. Exactly one of `start`, `indented` and `stackTraces`
    /// is required.
    pub struct Multiline {
        /// Regular expression: a line that contains a match starts a record.
        pub start: Option<String> = None,
        /// Whether a line that begins with a space or a tab belongs to the record before it.
        pub indented: bool = false,
        /// Runtime whose stack traces, and indented lines, belong to the line before them.
        pub stack_traces: Option<StackTraces> = None,
        /// Time without a further line after which a record is complete, in milliseconds.
        pub timeout_millis: u32 = 1000,
    }
}

/// Runtime whose stack traces are one record; the annotation `millrace.dev/logs-multiline` has the
/// same in lower case.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StackTraces {
    /// Java, Kotlin and Scala.
    Java,
    /// Python.
    Python,
    /// Go.
    Go,
    /// Node.js.
    NodeJs,
    /// Rust.
    Rust,
}

section! {
    /// How fields are parsed from a record's text. A text without the expected format is stored
    /// unchanged, and counted.
    pub struct Parse {
        /// Format of the text.
        pub format: ParseFormat = ParseFormat::None,
        /// With `Regex`: a regular expression whose named groups are fields.
        pub pattern: Option<String> = None,
        /// Names of fields for the body: the first one present with a text value is used. At most
        /// 8, as in the other lists of names.
        pub body: Vec<String> = owned_names(&["message", "msg"]),
        /// Names of fields for the severity.
        pub severity: Vec<String> = owned_names(&["level", "severity", "lvl"]),
        /// Field with the record's time; none when absent.
        pub timestamp: Option<Timestamp> = None,
    }
}

section! {
    /// Field with a record's time.
    pub struct Timestamp {
        /// Names of the field. Required: at least one.
        pub fields: Vec<String> = Vec::new(),
        /// Format of the time.
        pub format: TimeFormat = TimeFormat::Rfc3339,
        /// With `Layout`: the layout, as in `%d/%b/%Y:%H:%M:%S %z`.
        pub layout: Option<String> = None,
    }
}

fn owned_names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Format of a record's text.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParseFormat {
    /// No parsing: the text is the body.
    None,
    /// A JSON object.
    #[serde(rename = "JSON")]
    Json,
    /// `name=value` pairs.
    Logfmt,
    /// Fields matched by `pattern`.
    Regex,
}

/// Format of a time.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeFormat {
    /// As in `2026-11-25T04:00:00.123Z`; a space instead of `T`, a comma instead of the point and a
    /// missing offset (UTC) are accepted.
    #[serde(rename = "RFC3339")]
    Rfc3339,
    /// Seconds since 1970, with or without a fraction.
    UnixSeconds,
    /// Milliseconds since 1970.
    UnixMillis,
    /// Microseconds since 1970.
    UnixMicros,
    /// Nanoseconds since 1970.
    UnixNanos,
    /// A layout in the syntax of `strftime`.
    Layout,
}

section! {
    /// Where the read positions in files and in the kernel log are stored.
    pub struct Positions {
        /// Directory for this process alone, which outlives it.
        pub directory: PathBuf = PathBuf::from("/var/lib/millrace/positions"),
    }
}

/// Where to start reading a file without a stored position.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartAt {
    /// At its first byte.
    Beginning,
    /// At its current end. A file that appears later is read from its first byte.
    End,
}
