//! For whose queries tables are made: what a reader's own tables have beyond the columns that all
//! readers know. Data only; `docs/schema.md` has what was compared, and what is left out.
//!
//! What an insert carries is the same for every reader: computed columns, keys and indexes alone
//! differ.
//!
//! Sources: `exporter/clickhouseexporter/internal/sqltemplates` of opentelemetry-collector-contrib
//! 0.165, `docker/otel-collector/schema/seed` of hyperdxio/hyperdx.

use crate::kind::TableKind;
use crate::layout::{AttributeColumn, OwnType};
use crate::table::{Expr, Index, IndexKind, Table};
use crate::tables::parts::{bloom, words};
use crate::types::Attributes;

/// Whose tables these are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reader {
    /// The OpenTelemetry Collector's exporter up to 0.150, and what reads its tables.
    #[default]
    Otel,
    /// The same from 0.151 on: logs by five minutes, without the column of whole seconds, with
    /// Kubernetes' names as columns; metrics by the hour.
    Otel151,
    /// `ClickStack` (HyperDX): names of Kubernetes and of sessions as columns, metrics by the hour.
    ClickStack,
}

/// A column that the server computes from an attribute for a reader, as `SELECT *` leaves it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Computed {
    /// Name, unquoted. May hold dots.
    pub name: &'static str,
    /// Where the attribute is.
    pub column: AttributeColumn,
    /// The attribute's name.
    pub path: &'static str,
    /// The column's type.
    pub ty: OwnType,
}

impl Reader {
    /// Makes one of the usual tables this reader's.
    pub(crate) fn adapt(self, shape: &mut Table) {
        use TableKind::{
            Logs, MetricsExponentialHistogram, MetricsGauge, MetricsHistogram, MetricsSum,
            MetricsSummary, TraceIdTs, Traces,
        };
        match (self, shape.kind) {
            (Self::Otel, _) | (_, TraceIdTs) | (Self::Otel151, Traces) => {}
            (Self::Otel151, Logs) => {
                logs_by_five_minutes(shape);
                find_words_in_any_case(shape);
                shape.indexes.push(bloom("idx_event_name", Expr::Column("EventName"), 10));
                shape.computed.extend(OTEL_NAMES);
            }
            (Self::ClickStack, Logs) => {
                find_words_in_any_case(shape);
                shape.computed.extend(CLICKSTACK_NAMES);
            }
            (Self::ClickStack, Traces) => {
                shape.computed.extend([SESSION_ID, SAMPLE_RATE]);
                let session = Expr::Column(SESSION_ID.name);
                shape.indexes.push(bloom("idx_rum_session_id", session, 1));
                shape.indexes.push(words("idx_lower_span_name", Expr::Lower("SpanName")));
            }
            (
                Self::Otel151 | Self::ClickStack,
                MetricsGauge
                | MetricsSum
                | MetricsHistogram
                | MetricsExponentialHistogram
                | MetricsSummary,
            ) => metrics_by_the_hour(shape),
        }
    }
}

const fn name_of(name: &'static str, path: &'static str) -> Computed {
    Computed { name, column: AttributeColumn::Resource, path, ty: OwnType::Name }
}

macro_rules! names_of {
    ($prefix:literal) => {
        [
            name_of(concat!($prefix, "k8s.cluster.name"), "k8s.cluster.name"),
            name_of(concat!($prefix, "k8s.container.name"), "k8s.container.name"),
            name_of(concat!($prefix, "k8s.deployment.name"), "k8s.deployment.name"),
            name_of(concat!($prefix, "k8s.namespace.name"), "k8s.namespace.name"),
            name_of(concat!($prefix, "k8s.node.name"), "k8s.node.name"),
            name_of(concat!($prefix, "k8s.pod.name"), "k8s.pod.name"),
            name_of(concat!($prefix, "k8s.pod.uid"), "k8s.pod.uid"),
            name_of(concat!($prefix, "deployment.environment.name"), "deployment.environment.name"),
        ]
    };
}
const OTEL_NAMES: [Computed; 8] = names_of!("__otel_materialized_");
const CLICKSTACK_NAMES: [Computed; 8] = names_of!("__hdx_materialized_");

const SESSION_ID: Computed = Computed {
    name: "__hdx_materialized_rum.sessionId",
    column: AttributeColumn::Resource,
    path: "rum.sessionId",
    ty: OwnType::Text,
};
/// How many spans one stands for.
const SAMPLE_RATE: Computed = Computed {
    name: "SampleRate",
    column: AttributeColumn::Record,
    path: "SampleRate",
    ty: OwnType::Factor,
};

fn logs_by_five_minutes(shape: &mut Table) {
    shape.columns.retain(|column| column.name != "TimestampTime");
    shape.partition_by = Expr::ToDate("Timestamp");
    shape.ttl_from = Expr::ToDateTime("Timestamp");
    let front = [Expr::ToStartOfFiveMinutes("Timestamp"), Expr::Column("ServiceName")];
    shape.order_by = front.into_iter().chain([Expr::Column("Timestamp")]).collect();
    shape.primary_key = match shape.attributes {
        Attributes::Map => Vec::new(),
        Attributes::Json => front.to_vec(),
    };
}

/// The index of bodies is over their small letters: a search in any case can use it.
fn find_words_in_any_case(shape: &mut Table) {
    shape.indexes.retain(|index| index.expr != Expr::Column("Body"));
    shape.indexes.push(words("idx_lower_body", Expr::Lower("Body")));
}

/// A series' points lie together within the hour, found by a hash of its attributes instead of the
/// attributes themselves.
fn metrics_by_the_hour(shape: &mut Table) {
    shape.order_by = vec![
        Expr::Column("ServiceName"),
        Expr::Column("MetricName"),
        Expr::ToStartOfHour("TimeUnix"),
    ];
    // A JSON column can't be hashed for a sorting key.
    if shape.attributes == Attributes::Map {
        shape.order_by.push(Expr::CityHash64("Attributes"));
    }
    shape.order_by.push(Expr::Column("TimeUnix"));
    let kind = IndexKind::MinMax;
    let expr = Expr::Column("TimeUnix");
    shape.indexes.push(Index { name: "idx_time_minmax", expr, kind, granularity: 1 });
}
