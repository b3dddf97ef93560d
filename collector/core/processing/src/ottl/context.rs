//! The objects that statements run on, and the enums that they know.

use millrace_wire::Signal;

use crate::config::ContextName;

/// A kind of object. A statement's paths may also name the objects around its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementContext {
    Resource,
    Scope,
    Log,
    Span,
    SpanEvent,
    Metric,
    DataPoint,
    /// A metric's data without its points: temporality and monotonicity, which paths name as fields
    /// of the metric.
    Data,
    /// The values that a statement stores for the following ones.
    Cache,
    /// A span's link. Statements have no names for it.
    Link,
    /// A data point's exemplar. Statements have no names for it.
    Exemplar,
}

/// The number of contexts.
pub(crate) const CONTEXTS: usize = 11;

/// The number of kinds of data points; other objects have one shape.
pub(crate) const SHAPES: usize = 4;

impl StatementContext {
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name in paths.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Scope => "scope",
            Self::Log => "log",
            Self::Span => "span",
            Self::SpanEvent => "spanevent",
            Self::Metric | Self::Data => "metric",
            Self::DataPoint => "datapoint",
            Self::Cache => "cache",
            Self::Link => "link",
            Self::Exemplar => "exemplar",
        }
    }

    /// Returns the context with a name in paths.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "resource" => Self::Resource,
            "scope" | "instrumentation_scope" => Self::Scope,
            "log" => Self::Log,
            "span" => Self::Span,
            "spanevent" => Self::SpanEvent,
            "metric" => Self::Metric,
            "datapoint" => Self::DataPoint,
            _ => return None,
        })
    }

    /// Returns the contexts that a path may name in this one, its own first.
    pub(crate) const fn visible(self) -> &'static [Self] {
        match self {
            Self::Resource | Self::Data | Self::Cache => &[Self::Resource],
            Self::Scope => &[Self::Scope, Self::Resource],
            Self::Log => &[Self::Log, Self::Scope, Self::Resource],
            Self::Span => &[Self::Span, Self::Scope, Self::Resource],
            Self::SpanEvent => &[Self::SpanEvent, Self::Span, Self::Scope, Self::Resource],
            Self::Metric => &[Self::Metric, Self::Scope, Self::Resource],
            Self::DataPoint => &[Self::DataPoint, Self::Metric, Self::Scope, Self::Resource],
            Self::Link => &[Self::Link, Self::Span, Self::Scope, Self::Resource],
            Self::Exemplar => {
                &[Self::Exemplar, Self::DataPoint, Self::Metric, Self::Scope, Self::Resource]
            }
        }
    }

    /// Returns the number of messages around the object.
    pub(crate) const fn depth(self) -> usize {
        self.visible().len()
    }

    /// Whether requests of a signal have such objects.
    pub(crate) fn is_in(self, signal: Signal) -> bool {
        match self {
            Self::Resource | Self::Scope | Self::Cache => true,
            Self::Log => signal == Signal::Logs,
            Self::Span | Self::SpanEvent | Self::Link => signal == Signal::Traces,
            Self::Metric | Self::Data | Self::DataPoint | Self::Exemplar => {
                signal == Signal::Metrics
            }
        }
    }

    /// Returns the number of the attributes' field, by shape.
    pub(crate) const fn attributes(self, shape: usize) -> u32 {
        match self {
            Self::Resource => 1,
            Self::Scope | Self::SpanEvent => 3,
            Self::Log => 6,
            Self::Span => 9,
            Self::Metric => 12,
            Self::DataPoint => [7, 9, 1, 7][shape],
            Self::Link => 4,
            Self::Exemplar => 7,
            Self::Data | Self::Cache => 0,
        }
    }
}

impl From<ContextName> for StatementContext {
    fn from(name: ContextName) -> Self {
        match name {
            ContextName::Resource => Self::Resource,
            ContextName::Scope => Self::Scope,
            ContextName::Log => Self::Log,
            ContextName::Span => Self::Span,
            ContextName::SpanEvent => Self::SpanEvent,
            ContextName::Metric => Self::Metric,
            ContextName::DataPoint => Self::DataPoint,
        }
    }
}

/// Returns the enums that statements of a context know.
pub(crate) fn enums(context: StatementContext) -> Vec<(&'static str, i64)> {
    let lists: &[&[&str]] = match context {
        StatementContext::Log => &[SEVERITIES],
        StatementContext::Span | StatementContext::SpanEvent => &[SPAN_KINDS, STATUS_CODES],
        StatementContext::Metric => &[TEMPORALITIES, METRIC_TYPES],
        StatementContext::DataPoint => &[POINT_FLAGS, TEMPORALITIES, METRIC_TYPES],
        StatementContext::Resource
        | StatementContext::Scope
        | StatementContext::Data
        | StatementContext::Cache
        | StatementContext::Link
        | StatementContext::Exemplar => &[],
    };
    let numbered = |list: &&'static [&'static str]| list.iter().copied().zip(0..);
    lists.iter().flat_map(numbered).collect()
}

const SEVERITIES: &[&str] = &[
    "SEVERITY_NUMBER_UNSPECIFIED",
    "SEVERITY_NUMBER_TRACE",
    "SEVERITY_NUMBER_TRACE2",
    "SEVERITY_NUMBER_TRACE3",
    "SEVERITY_NUMBER_TRACE4",
    "SEVERITY_NUMBER_DEBUG",
    "SEVERITY_NUMBER_DEBUG2",
    "SEVERITY_NUMBER_DEBUG3",
    "SEVERITY_NUMBER_DEBUG4",
    "SEVERITY_NUMBER_INFO",
    "SEVERITY_NUMBER_INFO2",
    "SEVERITY_NUMBER_INFO3",
    "SEVERITY_NUMBER_INFO4",
    "SEVERITY_NUMBER_WARN",
    "SEVERITY_NUMBER_WARN2",
    "SEVERITY_NUMBER_WARN3",
    "SEVERITY_NUMBER_WARN4",
    "SEVERITY_NUMBER_ERROR",
    "SEVERITY_NUMBER_ERROR2",
    "SEVERITY_NUMBER_ERROR3",
    "SEVERITY_NUMBER_ERROR4",
    "SEVERITY_NUMBER_FATAL",
    "SEVERITY_NUMBER_FATAL2",
    "SEVERITY_NUMBER_FATAL3",
    "SEVERITY_NUMBER_FATAL4",
];

const SPAN_KINDS: &[&str] = &[
    "SPAN_KIND_UNSPECIFIED",
    "SPAN_KIND_INTERNAL",
    "SPAN_KIND_SERVER",
    "SPAN_KIND_CLIENT",
    "SPAN_KIND_PRODUCER",
    "SPAN_KIND_CONSUMER",
];

const STATUS_CODES: &[&str] = &["STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"];

const TEMPORALITIES: &[&str] = &[
    "AGGREGATION_TEMPORALITY_UNSPECIFIED",
    "AGGREGATION_TEMPORALITY_DELTA",
    "AGGREGATION_TEMPORALITY_CUMULATIVE",
];

const METRIC_TYPES: &[&str] = &[
    "METRIC_DATA_TYPE_NONE",
    "METRIC_DATA_TYPE_GAUGE",
    "METRIC_DATA_TYPE_SUM",
    "METRIC_DATA_TYPE_HISTOGRAM",
    "METRIC_DATA_TYPE_EXPONENTIAL_HISTOGRAM",
    "METRIC_DATA_TYPE_SUMMARY",
];

const POINT_FLAGS: &[&str] = &["FLAG_NONE", "FLAG_NO_RECORDED_VALUE"];
