//! The limits of a body with their reasons, and the faults of a body.

/// The longest line. Real ones have under 2 KiB; with the longest names and values that exporters
/// of Kubernetes objects write, some 20 KiB.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// The longest metric of the protobuf format, including its buckets and exemplars.
pub const METRIC_BYTES_MAX: usize = LINE_BYTES_MAX;

/// The most buckets on one side of an exponential histogram, including empty ones between others:
/// 25 times the usual number of instrumentation libraries. Further ones are merged.
pub const DENSE_BUCKETS_MAX: i64 = 4096;

/// The most labels of a sample: Prometheus' users set 30 to 60. Each is compared with each other
/// one, so 128 cost 8,128 short comparisons at most.
pub const LABELS_MAX: usize = 128;

/// The size at which a request is full. A node exporter's complete body takes some 300 KiB.
pub const REQUEST_BYTES: usize = 512 * 1024;

/// The most histograms and summaries of a family that are open at once. Most exporters write one
/// after the other; some write all buckets first, then all sums.
pub const GROUPS_MAX: usize = 4096;

/// The most bytes of those: 4,096 with 16 buckets of 16 bytes, and their labels' text.
pub const GROUPS_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The longest description that is written. Each request repeats it, and tables have it in each
/// row.
pub const DESCRIPTION_BYTES_MAX: usize = 1024;

/// The longest attributes of `target_info`: every point's row has them.
pub const TARGET_INFO_BYTES_MAX: usize = 16 * 1024;

/// The limits of a target's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// The most bytes of the body, after decompression.
    pub body_bytes: u64,
    /// The most samples.
    pub samples: u64,
    /// The most labels of a sample: [`LABELS_MAX`] at most.
    pub labels: usize,
}

/// The reason why a body is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part} {number}: {kind}")]
pub struct BodyFault {
    /// The part with the fault.
    pub part: BodyPart,
    /// Its number, from 1.
    pub number: u64,
    /// The fault.
    pub kind: FaultKind,
}

/// A part of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPart {
    /// A line of text.
    Line,
    /// A metric family of protobuf.
    Family,
}

impl std::fmt::Display for BodyPart {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(match self {
            Self::Line => "line",
            Self::Family => "metric family",
        })
    }
}

impl From<millrace_wire::protobuf::WireFault> for FaultKind {
    fn from(_: millrace_wire::protobuf::WireFault) -> Self {
        Self::Protobuf
    }
}

/// The fault of a body's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// The line is longer than [`LINE_BYTES_MAX`].
    #[error("it is longer than {LINE_BYTES_MAX} bytes")]
    LongLine,
    /// The body is longer than its limit.
    #[error("the body is longer than {0} bytes (limits.bodyBytes)")]
    LongBody(u64),
    /// The body has more samples than the limit.
    #[error("there are more than {0} samples (limits.samples)")]
    Samples(u64),
    /// The sample has more labels than the limit.
    #[error("it has more than {0} labels (limits.labels)")]
    Labels(usize),
    /// The bytes aren't UTF-8.
    #[error("it is not UTF-8")]
    NotText,
    /// The metric's name is missing or invalid.
    #[error("a metric's name is missing or has an invalid character")]
    Name,
    /// A label's name is missing or invalid.
    #[error("a label's name is missing or has an invalid character")]
    LabelName,
    /// A label lacks `="value"`.
    #[error("a label's value is missing: write name=\"value\"")]
    LabelValue,
    /// A closing quote is missing.
    #[error("a quoted string doesn't end")]
    Quote,
    /// A label is followed by neither a comma nor a closing brace.
    #[error("a comma or a closing brace is missing after a label")]
    Brace,
    /// A label is duplicate.
    #[error("duplicate label")]
    LabelTwice,
    /// The value isn't a number.
    #[error("the value is not a number")]
    Value,
    /// The timestamp isn't a number.
    #[error("the timestamp is not a number")]
    Timestamp,
    /// Text follows the last field.
    #[error("unexpected text after the sample")]
    Trailing,
    /// The exemplar is malformed.
    #[error("the exemplar is malformed")]
    Exemplar,
    /// The type is unknown.
    #[error("unknown type")]
    Type,
    /// OpenMetrics doesn't permit this line.
    #[error("OpenMetrics allows neither empty lines nor free comments")]
    NoSample,
    /// Text follows `# EOF`.
    #[error("unexpected text after `# EOF`")]
    BehindEnd,
    /// The bytes are no valid protobuf message of the format.
    #[error("malformed protobuf")]
    Protobuf,
    /// A metric is longer than [`METRIC_BYTES_MAX`].
    #[error("a metric is longer than {METRIC_BYTES_MAX} bytes")]
    LongMetric,
    /// Fields are out of order.
    #[error("its name, help or type comes after its metrics: write fields in their order")]
    Order,
    /// The last family is truncated.
    #[error("the body ends inside it")]
    CutOff,
    /// OpenMetrics lacks `# EOF`.
    #[error("the body ends without `# EOF`")]
    NoEnd,
    /// Rules made the labels too long.
    #[error("the job's metric rules make its labels too long")]
    Relabeled,
    /// Rules left no name.
    #[error("the job's metric rules remove `__name__`, or create a label without a name")]
    RelabeledName,
    /// Too many histograms and summaries are open.
    #[error(
        "more than {GROUPS_MAX} histograms or summaries of one name, or {GROUPS_BYTES_MAX} bytes \
         of them, are open: write the lines of each one consecutively"
    )]
    OpenGroups,
}
