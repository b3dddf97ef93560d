//! `CREATE`: database, tables, view. Every statement may be run again without effect.

use millrace_schema::{Column, Origin};

use super::expression::{codec, expression, index, list, ttl};
use super::{Statement, change, full, literal, on_cluster, quote};
use crate::declared::{
    ClusterName, Declared, DeclaredTable, DeclaredView, Engine, Replication, TableOptions,
};
use millrace_schema::Identifier;

/// How many inserts a table remembers, to drop one that is sent again under its token. A retry must
/// fall inside the window: 24 gateways with one insert a second each give a slow retry
/// 10,000 / 24 = 416 s, seven times our longest back-off. An entry is some 100 bytes on disk.
const DEDUPLICATION_WINDOW: u64 = 10_000;

/// How long a replicated table remembers, in seconds: a week, so that the count above decides.
const DEDUPLICATION_SECONDS: u64 = 7 * 24 * 3600;

/// Every statement that makes a declared set, in order, on a server that has none of it.
#[must_use]
pub fn create_all(declared: &Declared) -> Vec<Statement> {
    let cluster = declared.cluster.as_ref();
    let mut statements = vec![create_database(&declared.database, cluster)];
    statements.extend(declared.tables().iter().map(|table| create_table(table, cluster)));
    statements.extend(declared.view().iter().map(|view| create_view(view, cluster)));
    statements
}

/// The database, with the server's default engine.
pub(crate) fn create_database(name: &Identifier, cluster: Option<&ClusterName>) -> Statement {
    let sql =
        format!("CREATE DATABASE IF NOT EXISTS {}{}", quote(name.as_str()), on_cluster(cluster));
    change(sql, cluster)
}

/// One table.
pub(crate) fn create_table(table: &DeclaredTable, cluster: Option<&ClusterName>) -> Statement {
    let DeclaredTable { name, table: shape, options } = table;
    let mut lines: Vec<String> = shape.columns.iter().map(column).collect();
    let keeps_rows = options.engine != Engine::Null;
    if keeps_rows {
        lines.extend(shape.indexes.iter().map(|each| format!("INDEX {}", index(each))));
    }
    let mut sql = format!(
        "CREATE TABLE IF NOT EXISTS {}{}\n(\n    {}\n)\nENGINE = {}",
        full(name),
        on_cluster(cluster),
        lines.join(",\n    "),
        engine(table),
    );
    if keeps_rows {
        sql.push_str(&format!("\nPARTITION BY {}", expression(shape.partition_by)));
        if !shape.primary_key.is_empty() {
            sql.push_str(&format!("\nPRIMARY KEY ({})", list(&shape.primary_key)));
        }
        sql.push_str(&format!("\nORDER BY ({})", list(&shape.order_by)));
        if let Some(kept) = options.ttl {
            sql.push_str(&format!("\nTTL {}", ttl(shape.ttl_from, kept)));
        }
        let settings: Vec<String> = settings(options)
            .into_iter()
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        sql.push_str(&format!("\nSETTINGS {}", settings.join(", ")));
    }
    change(sql, cluster)
}

/// The view that fills the trace-id table from inserted spans.
pub(crate) fn create_view(declared: &DeclaredView, cluster: Option<&ClusterName>) -> Statement {
    let DeclaredView { name, source, target, view } = declared;
    let (group_by, time) = (quote(view.group_by), quote(view.time));
    let sql = format!(
        "CREATE MATERIALIZED VIEW IF NOT EXISTS {}{} TO {}\nAS SELECT\n    {group_by},\n    \
         min({time}) AS {},\n    max({time}) AS {}\nFROM {}\nWHERE {group_by} != ''\n\
         GROUP BY {group_by}",
        full(name),
        on_cluster(cluster),
        full(target),
        quote(view.minimum),
        quote(view.maximum),
        full(source),
    );
    change(sql, cluster)
}

/// `name type [DEFAULT expr] [CODEC(...)]`.
pub(super) fn column(column: &Column) -> String {
    let Column { name, ty, codec: packing, origin } = column;
    let default = match origin {
        Origin::Insert => String::new(),
        Origin::Default(expr) => format!(" DEFAULT {}", expression(*expr)),
    };
    format!("{} {ty}{default}{}", quote(name), codec(*packing))
}

fn engine(table: &DeclaredTable) -> String {
    match &table.options.engine {
        Engine::MergeTree => "MergeTree".to_owned(),
        Engine::Null => "Null".to_owned(),
        Engine::ReplicatedMergeTree(Replication { path, replica }) => {
            let path = format!("{path}/{}/{}", table.name.database(), table.name.table());
            let replica = literal(&replica.to_string());
            format!("ReplicatedMergeTree({}, {replica})", literal(&path))
        }
    }
}

fn settings(options: &TableOptions) -> Vec<(&'static str, u64)> {
    let mut settings = vec![("index_granularity", 8192)];
    if options.ttl.is_some() {
        // Days are partitions: whole parts expire together and are unlinked, never rewritten.
        settings.push(("ttl_only_drop_parts", 1));
    }
    settings.extend(deduplication_settings(&options.engine));
    settings
}

/// The settings that let a table drop an insert it has already taken, and their values.
pub(crate) fn deduplication_settings(engine: &Engine) -> Vec<(&'static str, u64)> {
    match engine {
        Engine::MergeTree => {
            vec![("non_replicated_deduplication_window", DEDUPLICATION_WINDOW)]
        }
        Engine::ReplicatedMergeTree(_) => vec![
            ("replicated_deduplication_window", DEDUPLICATION_WINDOW),
            ("replicated_deduplication_window_seconds", DEDUPLICATION_SECONDS),
        ],
        Engine::Null => Vec::new(),
    }
}
