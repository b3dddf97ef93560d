//! The readers of tables: what each reader's own tables have in addition to the columns that all
//! readers know. Data only; `docs/schema.md` has the comparison and its omissions.
//!
//! An insert is the same for every reader: only computed columns, keys and indexes differ.
//!
//! Sources: `exporter/clickhouseexporter/internal/sqltemplates` of opentelemetry-collector-contrib
//! 0.165, `docker/otel-collector/schema/seed` of hyperdxio/hyperdx.

use crate::computed::{AttributeColumn, Computed, ComputedType};
use crate::kind::TableKind;
use crate::table::{Expr, Index, IndexKind, Table};
use crate::tables::parts::{bloom_index, token_index};
use crate::types::AttributeStorage;

/// The reader whose tables these are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reader {
    /// The OpenTelemetry Collector's exporter up to 0.150, and the readers of its tables.
    #[default]
    Otel,
    /// The same from 0.151 on: logs sorted by five minutes, without the column of whole seconds,
    /// with Kubernetes' names as columns; metrics by the hour.
    Otel151,
    /// `ClickStack` (HyperDX): names of Kubernetes and of sessions as columns, metrics by the hour.
    ClickStack,
}

impl Reader {
    /// Changes a default table to this reader's.
    pub(crate) fn adapt_table(self, shape: &mut Table) {
        use TableKind::{
            Logs, MetricsExponentialHistogram, MetricsGauge, MetricsHistogram, MetricsSum,
            MetricsSummary, TraceIdTs, Traces,
        };
        match (self, shape.kind) {
            (Self::Otel, _) | (_, TraceIdTs) | (Self::Otel151, Traces) => {}
            (Self::Otel151, Logs) => {
                logs_by_five_minutes(shape);
                index_lower_case(shape);
                shape.indexes.push(bloom_index("idx_event_name", Expr::Column("EventName"), 10));
                shape.computed.extend(OTEL_NAMES);
            }
            (Self::ClickStack, Logs) => {
                index_lower_case(shape);
                shape.computed.extend(CLICKSTACK_NAMES);
            }
            (Self::ClickStack, Traces) => {
                shape.computed.extend([SESSION_ID, SAMPLE_RATE]);
                let session = Expr::Column(SESSION_ID.name);
                shape.indexes.push(bloom_index("idx_rum_session_id", session, 1));
                shape.indexes.push(token_index("idx_lower_span_name", Expr::Lower("SpanName")));
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
    Computed { name, column: AttributeColumn::Resource, path, ty: ComputedType::Name }
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
    ty: ComputedType::Text,
};
/// The number of spans that one span represents.
const SAMPLE_RATE: Computed = Computed {
    name: "SampleRate",
    column: AttributeColumn::Record,
    path: "SampleRate",
    ty: ComputedType::Factor,
};

fn logs_by_five_minutes(shape: &mut Table) {
    shape.columns.retain(|column| column.name != "TimestampTime");
    shape.partition_by = Expr::ToDate("Timestamp");
    shape.ttl_from = Expr::ToDateTime("Timestamp");
    let front = [Expr::ToStartOfFiveMinutes("Timestamp"), Expr::Column("ServiceName")];
    shape.order_by = front.into_iter().chain([Expr::Column("Timestamp")]).collect();
    shape.primary_key = match shape.attributes {
        AttributeStorage::Map => Vec::new(),
        AttributeStorage::Json => front.to_vec(),
    };
}

/// Indexes the lower-case text of bodies, so that case-insensitive searches can use it.
fn index_lower_case(shape: &mut Table) {
    shape.indexes.retain(|index| index.expr != Expr::Column("Body"));
    shape.indexes.push(token_index("idx_lower_body", Expr::Lower("Body")));
}

/// Sorts metrics so that a series' points are adjacent within the hour, by a hash of its attributes
/// instead of the attributes themselves.
fn metrics_by_the_hour(shape: &mut Table) {
    shape.order_by = vec![
        Expr::Column("ServiceName"),
        Expr::Column("MetricName"),
        Expr::ToStartOfHour("TimeUnix"),
    ];
    // A JSON column can't be hashed for a sorting key.
    if shape.attributes == AttributeStorage::Map {
        shape.order_by.push(Expr::CityHash64("Attributes"));
    }
    shape.order_by.push(Expr::Column("TimeUnix"));
    let kind = IndexKind::MinMax;
    let expr = Expr::Column("TimeUnix");
    shape.indexes.push(Index { name: "idx_time_minmax", expr, kind, granularity: 1 });
}
