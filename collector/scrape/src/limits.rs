//! Every limit on a body, with its reason, and what is wrong with one.

/// The longest line. Real ones have under 2 KiB; with the longest names and values that exporters
/// of Kubernetes objects write, some 20 KiB.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// The longest metric of the protobuf format, whose buckets and exemplars come with it.
pub const METRIC_BYTES_MAX: usize = LINE_BYTES_MAX;

/// Most buckets of an exponential histogram's side, empty ones between others included: 25 times
/// what instrumentation libraries make. More are joined.
pub const DENSE_BUCKETS_MAX: i64 = 4096;

/// Most labels of a sample: Prometheus' users set 30 to 60. Each is compared with each other one,
/// so 128 are 8,128 short comparisons at most.
pub const LABELS_MAX: usize = 128;

/// Where a request is full. A node exporter's whole body comes to some 300 KiB.
pub const REQUEST_BYTES: usize = 512 * 1024;

/// Most histograms and summaries of a family that are open at the same time. Usual exporters write
/// one after the other; some write all buckets first, then all sums.
pub const GROUPS_MAX: usize = 4096;

/// What those may take: 4,096 with 16 buckets of 16 bytes, and their labels' text.
pub const GROUPS_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The longest description that is written. It stands in each request anew, and tables have it in
/// each row.
pub const DESCRIPTION_BYTES_MAX: usize = 1024;

/// The longest attributes that `target_info` may give: every point's row has them.
pub const TARGET_INFO_BYTES_MAX: usize = 16 * 1024;

/// What a target may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest body, in bytes, after decompression.
    pub body_bytes: u64,
    /// Most samples.
    pub samples: u64,
    /// Most labels of a sample: [`LABELS_MAX`] at most.
    pub labels: usize,
}

/// A body that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part} {number}: {kind}")]
pub struct Fault {
    /// Of what.
    pub part: Part,
    /// Its number, from 1.
    pub number: u64,
    /// What is wrong with it.
    pub kind: FaultKind,
}

/// A part of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A line of text.
    Line,
    /// A metric family of protobuf.
    Family,
}

impl std::fmt::Display for Part {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(match self {
            Self::Line => "line",
            Self::Family => "metric family",
        })
    }
}

impl From<millrace_wire::protobuf::Fault> for FaultKind {
    fn from(_: millrace_wire::protobuf::Fault) -> Self {
        Self::Protobuf
    }
}

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("it is longer than {LINE_BYTES_MAX} bytes")]
    LongLine,
    /// The body is longer than its limit.
    #[error("the body is longer than {0} bytes (limits.bodyBytes)")]
    LongBody(u64),
    /// More samples than the limit.
    #[error("there are more than {0} samples (limits.samples)")]
    Samples(u64),
    /// More labels than the limit.
    #[error("it has more than {0} labels (limits.labels)")]
    Labels(usize),
    /// Bytes that aren't UTF-8.
    #[error("it is not UTF-8")]
    NotText,
    /// No metric's name where one should be.
    #[error("a metric's name is missing or has a wrong character")]
    Name,
    /// A label without name, or with a wrong one.
    #[error("a label's name is missing or has a wrong character")]
    LabelName,
    /// Something else where `="value"` should be.
    #[error("a label's value is missing: write name=\"value\"")]
    LabelValue,
    /// No closing quote.
    #[error("a quoted text doesn't end")]
    Quote,
    /// Neither a comma nor a closing brace behind a label.
    #[error("a comma or a closing brace is missing behind a label")]
    Brace,
    /// A label twice.
    #[error("a label is there twice")]
    LabelTwice,
    /// A value that isn't a number.
    #[error("the value is not a number")]
    Value,
    /// A time that isn't one.
    #[error("the timestamp is not a number")]
    Timestamp,
    /// Something behind the last field.
    #[error("there is something behind the sample")]
    Trailing,
    /// An exemplar that can't be read.
    #[error("the exemplar can't be read")]
    Exemplar,
    /// An unknown type.
    #[error("the type is not known")]
    Type,
    /// A line that OpenMetrics doesn't have.
    #[error("OpenMetrics has no empty lines and no free comments")]
    NoSample,
    /// Something behind `# EOF`.
    #[error("there is something behind `# EOF`")]
    BehindEnd,
    /// Not what the format says.
    #[error("it is not protobuf as it should be")]
    Protobuf,
    /// A metric longer than [`METRIC_BYTES_MAX`].
    #[error("a metric is longer than {METRIC_BYTES_MAX} bytes")]
    LongMetric,
    /// Fields in a wrong order.
    #[error("its name, help or type comes behind its metrics: write fields in their order")]
    Order,
    /// The last family isn't whole.
    #[error("the body ends inside of it")]
    CutOff,
    /// OpenMetrics without `# EOF`.
    #[error("the body ends without `# EOF`")]
    NoEnd,
    /// Rules made its labels too long.
    #[error("the job's metric rules make its labels too long")]
    Relabeled,
    /// Rules left no name.
    #[error("the job's metric rules leave no `__name__`, or make a label without a name")]
    RelabeledName,
    /// More open histograms and summaries than there is room for.
    #[error(
        "more than {GROUPS_MAX} histograms or summaries of one name, or {GROUPS_BYTES_MAX} bytes of \
         them, are open: write the lines of each behind each other"
    )]
    OpenGroups,
}
