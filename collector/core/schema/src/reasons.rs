//! One sentence for each column, codec and index that states why it exists: `clickhouse-ddl
//! explain` and the reference print it. A test checks that every column of every table has one.

use crate::kind::TableKind;
use crate::table::{Codec, Expr, Index, IndexKind};

/// Returns what a column stores and where it comes from in OTLP. Empty for a column that no table
/// has.
#[must_use]
pub fn column_reason(kind: TableKind, column: &str) -> &'static str {
    match (kind, column) {
        (TableKind::TraceIdTs, "TraceId") => "the trace; what the lookup is by",
        (_, "Start") => "second in which the trace's first span of an insert began",
        (_, "End") => "second in which its last one began; bounds the search in the span table",
        (TableKind::Traces, "Timestamp") => "start of the span (start_time_unix_nano)",
        (_, "Timestamp") => "time of the record; the observed time where it has none",
        (_, "TimestampTime") => "the same in whole seconds, for readers that filter by it",
        (_, "TraceId") => "trace as 32 hexadecimal digits, empty if none",
        (_, "SpanId") => "span as 16 hexadecimal digits, empty if none",
        (_, "ParentSpanId") => "parent span, empty at the root of a trace",
        (_, "TraceState") => "W3C trace state as sent",
        (_, "SpanName") => "name of the operation; few different ones, so a dictionary",
        (_, "SpanKind") => "Server, Client, Internal, Producer, Consumer or Unspecified",
        (_, "ServiceName") => "service.name of the resource: leads the sorting key",
        (_, "ResourceAttributes") => "attributes of what sent the record",
        (_, "ResourceSchemaUrl") => "schema URL of the resource",
        (_, "ScopeName") => "name of the instrumentation scope",
        (_, "ScopeVersion") => "version of the instrumentation scope",
        (_, "ScopeAttributes") => "attributes of the instrumentation scope",
        (_, "ScopeSchemaUrl") => "schema URL of the scope",
        (_, "ScopeDroppedAttrCount") => "scope attributes the sender omitted",
        (_, "SpanAttributes") => "attributes of the span",
        (_, "LogAttributes") => "attributes of the log record",
        (_, "Attributes") => "attributes of the point: with the name they are its series",
        (_, "Duration") => "end less start, in nanoseconds",
        (_, "StatusCode") => "Unset, Ok or Error",
        (_, "StatusMessage") => "what the sender says of an error",
        (_, "Events.Timestamp") => "time of each event of the span",
        (_, "Events.Name") => "name of each event",
        (_, "Events.Attributes") => "attributes of each event",
        (_, "Links.TraceId") => "trace of each linked span",
        (_, "Links.SpanId") => "each linked span",
        (_, "Links.TraceState") => "trace state of each link",
        (_, "Links.Attributes") => "attributes of each link",
        (_, "TraceFlags") => "W3C trace flags, the low eight bits",
        (_, "SeverityText") => "severity in the sender's words",
        (_, "SeverityNumber") => "severity as a number from 1 (TRACE) to 24 (FATAL4), 0 if none",
        (_, "Body") => "body of the record; what is no text is JSON",
        (_, "EventName") => "name of the event, for records that are events",
        (_, "MetricName") => "name of the metric: second in the sorting key",
        (_, "MetricDescription") => "description of the metric",
        (_, "MetricUnit") => "unit of the metric (UCUM)",
        (_, "StartTimeUnix") => "when the point's time span began",
        (_, "TimeUnix") => "when the point was taken",
        (_, "Value") => "the value; integers as floating point",
        (_, "Flags") => "data point flags; 1: no value was recorded",
        (_, "Exemplars.FilteredAttributes") => "attributes of each exemplar",
        (_, "Exemplars.TimeUnix") => "time of each exemplar",
        (_, "Exemplars.Value") => "value of each exemplar",
        (_, "Exemplars.SpanId") => "span of each exemplar",
        (_, "Exemplars.TraceId") => "trace of each exemplar",
        (_, "AggregationTemporality") => "1 delta, 2 cumulative",
        (_, "IsMonotonic") => "whether the sum only grows",
        (_, "Count") => "number of values",
        (_, "Sum") => "sum of the values",
        (_, "Min") => "smallest value, 0 if not reported",
        (_, "Max") => "largest value, 0 if not reported",
        (_, "BucketCounts") => "values in each bucket",
        (_, "ExplicitBounds") => "upper bounds of the buckets but the last",
        (_, "Scale") => "resolution of the exponential buckets",
        (_, "ZeroCount") => "values that count as zero",
        (_, "PositiveOffset") => "index of the first positive bucket",
        (_, "PositiveBucketCounts") => "values in each positive bucket",
        (_, "NegativeOffset") => "index of the first negative bucket",
        (_, "NegativeBucketCounts") => "values in each negative bucket",
        (_, "ValueAtQuantiles.Quantile") => "each quantile, 0 to 1",
        (_, "ValueAtQuantiles.Value") => "the value at it",
        _ => "",
    }
}

/// Returns why a column has its codec.
#[must_use]
pub const fn codec_reason(codec: Codec) -> &'static str {
    match codec {
        Codec::Default => "server's default: too small to matter",
        Codec::Zstd => "ZSTD(1): half of LZ4's size, at no measurable cost at insert",
        Codec::DeltaZstd { .. } => "Delta before ZSTD(1): values lie near their neighbours",
        Codec::ZstdHigher => "ZSTD(3): a little smaller than ZSTD(1), dearer at every merge",
        Codec::DeltaZstdHigher { .. } => "Delta before ZSTD(3): values lie near their neighbours",
    }
}

/// Returns the purpose of an index, and its cost.
#[must_use]
pub fn index_reason(index: &Index) -> &'static str {
    match (index.expr, index.kind) {
        (Expr::Column("TraceId"), _) => {
            "finds a trace by its id without its time; a cheap bloom filter, for ids are texts"
        }
        (Expr::Column("Duration"), _) => "skips spans shorter than a query needs; costs nothing",
        (_, IndexKind::TokenBloomFilter { .. }) => "skips blocks without a word of the search",
        (_, IndexKind::TextOfWords) => "finds words exactly; dearer at insert than a bloom filter",
        (_, IndexKind::TextOfItems) => "finds attribute names or values exactly",
        (Expr::MapKeys(_) | Expr::JsonAllPaths(_), _) => {
            "skips blocks without the attribute; each insert pays for it"
        }
        (Expr::MapValues(_), _) => "skips blocks without the value; each insert pays for it",
        _ => "skips blocks that cannot match",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::all_tables;
    use crate::types::AttributeStorage;

    /// Guarantee: every column has a reason.
    #[test]
    fn every_column_has_its_reason() {
        for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
            for table in all_tables(attributes) {
                for column in &table.columns {
                    let reason = column_reason(table.kind, column.name);
                    assert!(!reason.is_empty(), "{}.{}", table.kind, column.name);
                }
            }
        }
    }
}
