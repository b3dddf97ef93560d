//! The sections of what is read on a machine: containers' output, log files, the kernel's log.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::section::section;
use crate::selector::LabelSelector;
use crate::units::ByteSize;

section! {
    /// What this node's containers write to their standard output and error.
    pub struct ContainersReceiver {
        /// Where the kubelet keeps it: `NAMESPACE_POD_UID/CONTAINER/RESTARTS.log` below.
        pub directory: PathBuf = PathBuf::from("/var/log/pods"),
        /// Where Docker keeps its containers' log files, if the kubelet's are links to these (with
        /// cri-dockerd). No links are followed when absent.
        pub docker_directory: Option<PathBuf> = None,
        /// Where a file is begun that isn't on record.
        pub start_at: StartAt = StartAt::Beginning,
        /// Namespaces whose pods are read; all when empty.
        pub namespaces: Vec<String> = Vec::new(),
        /// Labels of the namespaces whose pods are read, as the API server tells them. Not beside
        /// `namespaces`, and only where pods are watched.
        pub namespace_selector: Option<LabelSelector> = None,
        /// Namespaces whose pods aren't read.
        pub exclude_namespaces: Vec<String> = Vec::new(),
        /// Whether the API server is asked about this node's pods: labels, annotations, owners.
        /// Only in a pod, which has the node's name in `NODE_NAME`.
        pub watch_pods: bool = false,
        /// Labels of pods that become attributes: names, `*` for all, a beginning and `*`; 64 at
        /// most.
        pub labels: Vec<String> = names(&["*"]),
        /// Annotations of pods that become attributes, likewise. Only where pods are watched.
        pub annotations: Vec<String> = Vec::new(),
        /// Whether pods' annotations (`millrace.dev/logs`, `-parser`, `-multiline`) say how their
        /// logs are read. They are known where pods are watched.
        pub follow_annotations: bool = true,
        /// Shares of namespaces where more is written than can be sent; 1 for all others. 64 at
        /// most.
        pub weights: Vec<NamespaceWeight> = Vec::new(),
        /// Lines that are one record together, of pods whose annotations say nothing of it; each
        /// line is one when absent.
        pub multiline: Option<Multiline> = None,
        /// What of a line becomes fields of its record.
        pub parse: Parse = Parse::default(),
        /// The longest line; what is beyond is cut, marked and counted.
        pub max_line_bytes: ByteSize = ByteSize::kib(256),
    }
}

section! {
    /// A namespace's share.
    pub struct NamespaceWeight {
        /// Its name.
        pub namespace: String = String::new(),
        /// Its share beside others', which have 1.
        pub weight: u8 = 1,
    }
}

section! {
    /// Log files of the host, or of a volume: lines of text.
    pub struct FilesReceiver {
        /// The files, as glob patterns: `*` and `?` within a name, `**` for any directories. At
        /// least one must be given.
        pub include: Vec<String> = Vec::new(),
        /// Those of them that aren't read, likewise.
        pub exclude: Vec<String> = Vec::new(),
        /// Where a file is begun that isn't on record.
        pub start_at: StartAt = StartAt::End,
        /// How their bytes are text.
        pub encoding: Encoding = Encoding::Utf8,
        /// Lines that are one record together; each line is one when absent.
        pub multiline: Option<Multiline> = None,
        /// What of a record's text becomes its fields.
        pub parse: Parse = Parse::default(),
        /// The longest record; what is beyond is cut, marked and counted.
        pub max_line_bytes: ByteSize = ByteSize::kib(256),
    }
}

/// How the bytes of a file are text. A byte order mark decides the order of UTF-16's bytes.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// UTF-8.
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

section! {
    /// The kernel's log.
    pub struct KernelReceiver {
        /// The device that gives it, one record for each read.
        pub device: PathBuf = PathBuf::from("/dev/kmsg"),
    }
}

section! {
    /// Lines that are one record together. One of `start`, `indented` and `traces` must be given.
    pub struct Multiline {
        /// A regular expression: a line in which it is found begins a record.
        pub start: Option<String> = None,
        /// A line that begins with a space or a tab belongs to the record before it.
        pub indented: bool = false,
        /// A stack trace of this runtime belongs to the line before it, and so do indented lines.
        pub traces: Option<Traces> = None,
        /// After this many milliseconds without a further line a record is whole.
        pub timeout_millis: u32 = 1000,
    }
}

/// Whose stack traces are one record, in the words of the annotation
/// `millrace.dev/logs-multiline`.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

section! {
    /// What of a record's text becomes fields of the record. A text that doesn't have the format is
    /// a record as it is, and counted.
    pub struct Parse {
        /// What the text is taken for.
        pub format: ParseFormat = ParseFormat::None,
        /// With `Regex`: a regular expression; its groups that have names are fields.
        pub pattern: Option<String> = None,
        /// Names of the field that becomes the body: of those in a line, the first that is text. 8
        /// at most, as in the other lists of names.
        pub body: Vec<String> = names(&["message", "msg"]),
        /// Names of the field that becomes the severity.
        pub severity: Vec<String> = names(&["level", "severity", "lvl"]),
        /// The field that becomes the time; none when absent.
        pub timestamp: Option<Timestamp> = None,
    }
}

section! {
    /// The field that becomes a record's time.
    pub struct Timestamp {
        /// Its names. At least one must be given.
        pub fields: Vec<String> = Vec::new(),
        /// How the time is written.
        pub format: TimeFormat = TimeFormat::Rfc3339,
        /// With `Layout`: the layout, as in `%d/%b/%Y:%H:%M:%S %z`.
        pub layout: Option<String> = None,
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// What a record's text is taken for.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParseFormat {
    /// Nothing: it is the body.
    None,
    /// An object of JSON.
    #[serde(rename = "JSON")]
    Json,
    /// `name=value` pairs.
    Logfmt,
    /// Whatever a pattern says.
    Regex,
}

/// How a field's time is written.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeFormat {
    /// As in `2026-11-25T04:00:00.123Z`; a space for the `T`, a comma for the point and a missing
    /// offset (UTC) are understood.
    #[serde(rename = "RFC3339")]
    Rfc3339,
    /// A number of seconds since 1970, with or without a fraction.
    UnixSeconds,
    /// A number of milliseconds.
    UnixMillis,
    /// A number of microseconds.
    UnixMicros,
    /// A number of nanoseconds.
    UnixNanos,
    /// By a layout, as `strftime` has them.
    Layout,
}

section! {
    /// Where it is kept how far files, and the kernel's log, are read.
    pub struct Positions {
        /// A directory of this process's own, which survives it.
        pub directory: PathBuf = PathBuf::from("/var/lib/millrace/positions"),
    }
}

/// Where a file is begun that isn't on record.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StartAt {
    /// With its first byte.
    Beginning,
    /// With what is written from now on. A file that appears later is read from its first byte.
    End,
}
