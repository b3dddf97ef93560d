//! Declares the tables: database, prefix, signals with their options, cluster. Values are checked
//! on construction, so a [`Declared`] always renders. No clock, no I/O, no SQL text.

pub(crate) mod deduplication_window;
pub(crate) mod explain;
pub(crate) mod names;
pub(crate) mod options;
mod revision;
pub(crate) mod ttl;

use std::collections::BTreeSet;

use millrace_schema::{
    AttributeColumn, Column, ColumnType, ComputedColumn, Expr, Identifier, Presence, Table,
    TableKind, View, attribute_column, laid_out, trace_id_view,
};

use crate::declared::names::{ClusterName, TableName};
use crate::declared::options::{OptionsError, Replication, Signals, TableOptions};

/// The declared tables of one pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The database of all tables.
    pub database: Identifier,
    /// The prefix of `_traces`, `_logs`, `_metrics_...`; normally `otel`.
    pub prefix: Identifier,
    /// The cluster whose servers run every statement (`ON CLUSTER`); `None`: only the queried
    /// server runs it.
    pub cluster: Option<ClusterName>,
    /// The cluster over whose shards each table gets a `Distributed` table for reading, named
    /// `<table>_distributed`; gateways write to the shards' own tables.
    pub distributed: Option<ClusterName>,
    /// Objects whose loss the user agreed to, by the name that plans use: `database.table.column`,
    /// `database.table.index` or `database.table.ttl`.
    pub consent: BTreeSet<String>,
    /// The span tables, if declared.
    pub traces: Option<TableOptions>,
    /// The log table, if declared.
    pub logs: Option<TableOptions>,
    /// The five metric tables, if declared.
    pub metrics: Option<TableOptions>,
}

/// Reports options of one signal that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{signal}.{source}")]
pub struct DeclaredError {
    /// `traces`, `logs` or `metrics`.
    pub signal: &'static str,
    /// The options that do not fit.
    pub source: OptionsError,
}

/// One table of a [`Declared`] set, with everything needed to create it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredTable {
    /// The table's full name.
    pub name: TableName,
    /// Columns, keys and indexes, in the layout of the options.
    pub table: Table,
    /// Engine, time to live, layout.
    pub options: TableOptions,
}

impl DeclaredTable {
    /// Returns a column's type with the typed paths of its JSON, in the server's spelling.
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

    /// Returns whether each partition is a day.
    pub(crate) fn has_day_partitions(&self) -> bool {
        matches!(self.table.partition_by, Expr::ToDate(_))
    }

    /// Returns the columns that the server computes from attributes, if the table has attributes:
    /// first those for its reader, then the user's own.
    pub fn computed_columns(&self) -> impl Iterator<Item = ComputedColumn<'_>> {
        let has_attributes = self.table.kind != TableKind::TraceIdTs;
        let own = self.options.layout.materialized.iter().filter(move |_| has_attributes);
        self.table.computed.iter().map(ComputedColumn::from).chain(own.map(ComputedColumn::from))
    }
}

/// A roll-up that counts each attribute's values in each 15 minutes, so that names and values can
/// be suggested without reading the table. For JSON attributes it has only the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredRollup {
    /// The table that stores it.
    pub name: TableName,
    /// The view that fills it.
    pub view: TableName,
    /// The table the view reads.
    pub source: TableName,
    /// The source's time column.
    pub time: &'static str,
    /// The source's attribute columns.
    pub columns: Vec<&'static str>,
    /// Options of the source; the roll-up has the same engine and retention.
    pub options: TableOptions,
}

/// A table over the tables of all shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredDistributed {
    /// The table's full name.
    pub name: TableName,
    /// The table that it reads on each shard.
    pub local: TableName,
    /// The cluster whose shards it reads.
    pub cluster: ClusterName,
    /// The column whose hash assigns a row written through it to a shard: a trace, or a metric's
    /// series, stays on one shard.
    pub shard_by: &'static str,
}

/// The view of a [`Declared`] set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredView {
    /// The view's full name.
    pub name: TableName,
    /// The table it reads.
    pub source: TableName,
    /// The table it fills.
    pub target: TableName,
    /// The view's query.
    pub view: View,
}

impl Declared {
    /// Declares the same options for every requested signal, on the queried server alone.
    #[must_use]
    pub fn uniform(
        database: Identifier,
        prefix: Identifier,
        signals: Signals,
        options: &TableOptions,
    ) -> Self {
        let Signals { traces, logs, metrics } = signals;
        let options_if = |yes: bool| yes.then(|| options.clone());
        Self {
            database,
            prefix,
            cluster: None,
            distributed: None,
            consent: BTreeSet::new(),
            traces: options_if(traces),
            logs: options_if(logs),
            metrics: options_if(metrics),
        }
    }

    /// Returns the declaration for a database that replicates its statements to its other servers,
    /// which refuses a cluster, and by default a Keeper path and a replica: the server's own take
    /// the place of our defaults. Others, which the user wrote, stay.
    pub(crate) fn for_replicated_database(&self) -> Self {
        let mut adapted = Self { cluster: None, ..self.clone() };
        for options in [&mut adapted.traces, &mut adapted.logs, &mut adapted.metrics] {
            let replication = options.as_mut().and_then(|it| it.engine.replication_mut());
            if let Some(replication) = replication.filter(|it| **it == Replication::default()) {
                *replication = Replication::ServerDefault;
            }
        }
        adapted
    }

    /// Returns the declaration, by default options, of the signals that this one lacks.
    pub(crate) fn of_other_signals(&self) -> Self {
        let Self { database, prefix, traces, logs, metrics, .. } = self;
        let [traces, logs, metrics] = [traces, logs, metrics].map(Option::is_none);
        let signals = Signals { traces, logs, metrics };
        Self::uniform(database.clone(), prefix.clone(), signals, &TableOptions::default())
    }

    fn options_of(&self, kind: TableKind) -> Option<&TableOptions> {
        match kind {
            TableKind::Traces => self.traces.as_ref(),
            // A Null table feeds its views, but stores no rows to look up afterwards.
            TableKind::TraceIdTs => self.traces.as_ref().filter(|options| {
                options.engine.stores_rows() && options.layout.trace_lookup == Presence::Included
            }),
            TableKind::Logs => self.logs.as_ref(),
            TableKind::MetricsGauge
            | TableKind::MetricsSum
            | TableKind::MetricsHistogram
            | TableKind::MetricsExponentialHistogram
            | TableKind::MetricsSummary => self.metrics.as_ref(),
        }
    }

    /// Returns every table, in creation order.
    #[must_use]
    pub fn tables(&self) -> Vec<DeclaredTable> {
        let made = |kind| {
            let options = self.options_of(kind)?.clone();
            Some(DeclaredTable {
                name: TableName::new(&self.database, &self.prefix, kind),
                table: table_shape(kind, &options),
                options,
            })
        };
        TableKind::ALL.into_iter().filter_map(made).collect()
    }

    /// Returns the name of every table, in creation order.
    pub(crate) fn table_names(&self) -> impl Iterator<Item = TableName> {
        TableKind::ALL
            .into_iter()
            .filter(|kind| self.options_of(*kind).is_some())
            .map(|kind| TableName::new(&self.database, &self.prefix, kind))
    }

    /// Returns the view from spans to the trace-id table, where both exist.
    #[must_use]
    pub fn view(&self) -> Option<DeclaredView> {
        let view = trace_id_view();
        self.options_of(view.target)?;
        Some(DeclaredView {
            name: TableName::of_view(&self.database, &self.prefix, &view),
            source: TableName::new(&self.database, &self.prefix, view.source),
            target: TableName::new(&self.database, &self.prefix, view.target),
            view,
        })
    }

    /// Returns the declared roll-ups.
    #[must_use]
    pub fn rollups(&self) -> Vec<DeclaredRollup> {
        let made = |table: DeclaredTable| {
            let DeclaredTable { name, table, options } = table;
            let is_enabled =
                options.layout.rollup == Presence::Included && options.engine.stores_rows();
            let time = if table.column("TimeUnix").is_some() { "TimeUnix" } else { "Timestamp" };
            let columns: Vec<&str> =
                [AttributeColumn::Resource, AttributeColumn::Scope, AttributeColumn::Record]
                    .into_iter()
                    .filter_map(|column| column.column_name(table.kind))
                    .collect();
            (is_enabled && !columns.is_empty()).then(|| DeclaredRollup {
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

    /// Returns the declared tables over all shards.
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

    /// Returns the name of the journal of this set's migrations.
    #[must_use]
    pub fn journal(&self) -> TableName {
        TableName::of_journal(&self.database, &self.prefix)
    }

    /// Returns the Collector exporter's name for its table of exponential histograms.
    pub(crate) fn foreign_exponential(&self) -> TableName {
        TableName::with_suffix(&self.database, &self.prefix, "metrics_exp_histogram")
    }

    /// Checks every signal's options.
    ///
    /// # Errors
    /// The first options that do not fit together.
    pub fn check_options(&self) -> Result<(), DeclaredError> {
        for (signal, options, kinds) in [
            ("traces", &self.traces, &[TableKind::Traces, TableKind::TraceIdTs][..]),
            ("logs", &self.logs, &[TableKind::Logs]),
            ("metrics", &self.metrics, &METRICS),
        ] {
            for kind in options.iter().flat_map(|_| kinds) {
                let checked = options.as_ref().map_or(Ok(()), |options| options.check_table(*kind));
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

/// Returns one table in the layout of its options. Where the engine merges rows of equal key, the
/// key gets an identity that only equal spans share.
fn table_shape(kind: TableKind, options: &TableOptions) -> Table {
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
    use crate::declared::options::Engine;
    use crate::declared::ttl::Ttl;

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

    /// Scenario: one option changes. Guarantee: the revision changes too, and only then.
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
