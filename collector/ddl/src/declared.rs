//! What the tables should be: database, prefix, signals with their options, cluster. Values are
//! checked when made, so a [`Declared`] always renders. No clock, no I/O, no SQL text.

use std::collections::BTreeSet;

use millrace_schema::{
    AttributeColumn, Column, ColumnType, Expr, Identifier, OwnColumn, Presence, Table, TableKind,
    View, attribute_column, laid_out, trace_id_view,
};

use crate::names::{ClusterName, TableName};
use crate::options::{OptionsError, Signals, TableOptions};

/// The tables of one pipeline, as they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Database of all tables.
    pub database: Identifier,
    /// What stands before `_traces`, `_logs`, `_metrics_...`; normally `otel`.
    pub prefix: Identifier,
    /// Servers to run every statement on (`ON CLUSTER`); `None`: only on the server that is asked.
    pub cluster: Option<ClusterName>,
    /// Cluster over whose shards a `Distributed` table is made beside each table, named
    /// `<table>_distributed`, for reading; gateways write to the shards' own tables.
    pub distributed: Option<ClusterName>,
    /// Objects whose loss was agreed to, each by its name as plans spell it:
    /// `database.table.column`, `database.table.index` or `database.table.ttl`.
    pub consent: BTreeSet<String>,
    /// Span tables, if wanted.
    pub traces: Option<TableOptions>,
    /// Log table, if wanted.
    pub logs: Option<TableOptions>,
    /// The five metric tables, if wanted.
    pub metrics: Option<TableOptions>,
}

/// Options of one signal that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{signal}.{source}")]
pub struct DeclaredError {
    /// `traces`, `logs` or `metrics`.
    pub signal: &'static str,
    /// What does not fit.
    pub source: OptionsError,
}

/// One table of a [`Declared`] set, with everything needed to make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredTable {
    /// Its full name.
    pub name: TableName,
    /// Columns, keys, indexes, laid out as the options say.
    pub table: Table,
    /// Engine, time to live, layout.
    pub options: TableOptions,
}

impl DeclaredTable {
    /// A column's type with the typed paths of its JSON, in the server's spelling.
    #[must_use]
    pub fn column_type(&self, column: &Column) -> String {
        let owner = attribute_column(self.table.kind, column.name);
        let (Some(owner), ColumnType::Json) = (owner, column.ty) else {
            return column.ty.to_string();
        };
        let mut paths: Vec<String> = self
            .options
            .layout
            .typed_paths
            .iter()
            .filter(|path| path.column == owner)
            .map(|path| format!("`{}` {}", path.path, path.type_name()))
            .collect();
        paths.sort_unstable();
        if paths.is_empty() { column.ty.to_string() } else { format!("JSON({})", paths.join(", ")) }
    }

    /// The columns the server computes from attributes, where the table has attributes: those for
    /// its reader, then a user's own.
    pub fn own_columns(&self) -> impl Iterator<Item = OwnColumn<'_>> {
        let has_attributes = self.table.kind != TableKind::TraceIdTs;
        let own = self.options.layout.materialized.iter().filter(move |_| has_attributes);
        self.table.computed.iter().map(OwnColumn::from).chain(own.map(OwnColumn::from))
    }
}

/// A roll-up: how often each attribute had which value in each 15 minutes, for suggesting names
/// and values without reading the table. Of JSON attributes the names alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredRollup {
    /// The table that holds it.
    pub name: TableName,
    /// The view that fills it.
    pub view: TableName,
    /// The table the view reads.
    pub source: TableName,
    /// The source's column of time.
    pub time: &'static str,
    /// The source's attribute columns.
    pub columns: Vec<&'static str>,
    /// Options of the source: engine and retention hold here too.
    pub options: TableOptions,
}

/// A table over all shards' tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredDistributed {
    /// Its full name.
    pub name: TableName,
    /// The table it reads on each shard.
    pub local: TableName,
    /// The cluster whose shards it reads.
    pub cluster: ClusterName,
    /// Column by whose hash a row written through it finds its shard: a trace stays on one, a
    /// metric's series too.
    pub shard_by: &'static str,
}

/// The view of a [`Declared`] set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredView {
    /// Its full name.
    pub name: TableName,
    /// The table it reads.
    pub source: TableName,
    /// The table it fills.
    pub target: TableName,
    /// What it computes.
    pub view: View,
}

impl Declared {
    /// The same options for every signal asked for, on the server that is asked.
    #[must_use]
    pub fn uniform(
        database: Identifier,
        prefix: Identifier,
        signals: Signals,
        options: &TableOptions,
    ) -> Self {
        let Signals { traces, logs, metrics } = signals;
        let wanted = |yes: bool| yes.then(|| options.clone());
        Self {
            database,
            prefix,
            cluster: None,
            distributed: None,
            consent: BTreeSet::new(),
            traces: wanted(traces),
            logs: wanted(logs),
            metrics: wanted(metrics),
        }
    }

    fn options(&self, kind: TableKind) -> Option<&TableOptions> {
        match kind {
            TableKind::Traces => self.traces.as_ref(),
            // A Null table feeds its views, but there is nothing to look up afterwards.
            TableKind::TraceIdTs => self.traces.as_ref().filter(|options| {
                options.engine.keeps_rows() && options.layout.trace_lookup == Presence::Kept
            }),
            TableKind::Logs => self.logs.as_ref(),
            TableKind::MetricsGauge
            | TableKind::MetricsSum
            | TableKind::MetricsHistogram
            | TableKind::MetricsExponentialHistogram
            | TableKind::MetricsSummary => self.metrics.as_ref(),
        }
    }

    /// Every table, in the order they are made.
    #[must_use]
    pub fn tables(&self) -> Vec<DeclaredTable> {
        let made = |kind| {
            let options = self.options(kind)?.clone();
            Some(DeclaredTable {
                name: TableName::new(&self.database, &self.prefix, kind),
                table: shape(kind, &options),
                options,
            })
        };
        TableKind::ALL.into_iter().filter_map(made).collect()
    }

    /// The names of every table, in the order they are made.
    pub(crate) fn table_names(&self) -> impl Iterator<Item = TableName> {
        TableKind::ALL
            .into_iter()
            .filter(|kind| self.options(*kind).is_some())
            .map(|kind| TableName::new(&self.database, &self.prefix, kind))
    }

    /// The view from spans to the trace-id table, where both exist.
    #[must_use]
    pub fn view(&self) -> Option<DeclaredView> {
        let view = trace_id_view();
        self.options(view.target)?;
        Some(DeclaredView {
            name: TableName::of_view(&self.database, &self.prefix, &view),
            source: TableName::new(&self.database, &self.prefix, view.source),
            target: TableName::new(&self.database, &self.prefix, view.target),
            view,
        })
    }

    /// The roll-ups asked for.
    #[must_use]
    pub fn rollups(&self) -> Vec<DeclaredRollup> {
        let made = |table: DeclaredTable| {
            let DeclaredTable { name, table, options } = table;
            let is_wanted = options.layout.rollup == Presence::Kept && options.engine.keeps_rows();
            let time = if table.column("TimeUnix").is_some() { "TimeUnix" } else { "Timestamp" };
            let columns: Vec<&str> =
                [AttributeColumn::Resource, AttributeColumn::Scope, AttributeColumn::Record]
                    .into_iter()
                    .filter_map(|column| column.name(table.kind))
                    .collect();
            (is_wanted && !columns.is_empty()).then(|| DeclaredRollup {
                view: name.followed_by("kv_rollup_15m_mv"),
                source: name.clone(),
                name: name.followed_by("kv_rollup_15m"),
                time,
                columns,
                options,
            })
        };
        self.tables().into_iter().filter_map(made).collect()
    }

    /// The tables over all shards, where asked for.
    #[must_use]
    pub fn distributed_tables(&self) -> Vec<DeclaredDistributed> {
        let Some(cluster) = &self.distributed else {
            return Vec::new();
        };
        let made = |table: DeclaredTable| DeclaredDistributed {
            name: table.name.followed_by("distributed"),
            cluster: cluster.clone(),
            shard_by: match table.table.kind {
                TableKind::Traces | TableKind::TraceIdTs | TableKind::Logs => "TraceId",
                _ => "MetricName",
            },
            local: table.name,
        };
        self.tables().into_iter().map(made).collect()
    }

    /// The journal of this set's migrations.
    #[must_use]
    pub fn journal(&self) -> TableName {
        TableName::of_journal(&self.database, &self.prefix)
    }

    /// The Collector's exporter names its table of exponential histograms otherwise.
    pub(crate) fn foreign_exponential(&self) -> TableName {
        TableName::under(&self.database, &self.prefix, "metrics_exp_histogram")
    }

    /// Checks every signal's options.
    ///
    /// # Errors
    /// The first that do not fit together.
    pub fn check(&self) -> Result<(), DeclaredError> {
        for (signal, options, kinds) in [
            ("traces", &self.traces, &[TableKind::Traces, TableKind::TraceIdTs][..]),
            ("logs", &self.logs, &[TableKind::Logs]),
            ("metrics", &self.metrics, &METRICS),
        ] {
            for kind in options.iter().flat_map(|_| kinds) {
                let checked = options.as_ref().map_or(Ok(()), |options| options.check(*kind));
                checked.map_err(|source| DeclaredError { signal, source })?;
            }
        }
        Ok(())
    }
}

const METRICS: [TableKind; 5] = [
    TableKind::MetricsGauge,
    TableKind::MetricsSum,
    TableKind::MetricsHistogram,
    TableKind::MetricsExponentialHistogram,
    TableKind::MetricsSummary,
];

/// One table as its options lay it out; where rows of equal key are merged, with an identity in
/// the key that only equal spans share.
fn shape(kind: TableKind, options: &TableOptions) -> Table {
    let mut shape = laid_out(kind, options.attributes, &options.layout);
    if options.engine.is_replacing() && kind == TableKind::Traces {
        if shape.primary_key.is_empty() {
            shape.primary_key.clone_from(&shape.order_by);
        }
        shape.order_by.extend([Expr::Column("TraceId"), Expr::Column("SpanId")]);
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Engine;
    use crate::ttl::Ttl;

    fn declared(signals: Signals, engine: Engine) -> Declared {
        let options = TableOptions { engine, ..TableOptions::default() };
        let name = |text| Identifier::new(text).unwrap();
        Declared::uniform(name("telemetry"), name("otel"), signals, &options)
    }

    /// Scenario: all signals, then Null tables. Guarantee: eight tables and the view; a Null set
    /// has neither the trace-id table nor the view.
    #[test]
    fn the_set_of_tables_follows_signals_and_engine() {
        let all = declared(Signals::ALL, Engine::MergeTree);
        assert_eq!(all.tables().len(), TableKind::ALL.len());
        assert!(all.view().is_some());
        let null = declared(Signals::ALL, Engine::Null);
        assert_eq!(null.tables().len(), TableKind::ALL.len() - 1);
        assert!(null.view().is_none());
        let logs = declared(Signals { logs: true, ..Signals::default() }, Engine::MergeTree);
        let names: Vec<_> = logs.tables().iter().map(|t| t.name.to_string()).collect();
        assert_eq!(names, ["telemetry.otel_logs"]);
        assert!(logs.view().is_none());
    }

    /// Scenario: one option changes. Guarantee: so does the revision, and only then.
    #[test]
    fn the_revision_changes_exactly_with_what_is_made() {
        let one = declared(Signals::ALL, Engine::MergeTree);
        assert_eq!(one.revision(), one.clone().revision());
        assert_eq!(one.revision().len(), 12);
        let mut other = one.clone();
        other.logs = other.logs.map(|logs| TableOptions { ttl: Ttl::from_seconds(60), ..logs });
        assert_ne!(one.revision(), other.revision());
    }
}
