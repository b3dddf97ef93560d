//! Every statement that makes tables, under review: the committed files are what users get. After a
//! wanted change: `UPDATE_SNAPSHOTS=1 cargo test -p millrace-ddl rendered::`, then read the
//! diff.

use std::fs;
use std::path::PathBuf;

use millrace_ddl::render::{create_all, insert_statement};
use millrace_ddl::{
    AttributeStorage, Declared, Engine, Identifier, Layout, Reader, Replication, Signals,
    TableOptions, Ttl,
};

fn name(text: &str) -> Identifier {
    text.parse().unwrap()
}

fn declared(attributes: AttributeStorage, engine: Engine, ttl: &str) -> Declared {
    let ttl = Ttl::parse_optional(ttl).unwrap();
    let options = TableOptions { attributes, engine, ttl, ..TableOptions::default() };
    // Names that differ from the usual ones, so that a swapped or forgotten one shows.
    Declared::uniform(name("telemetry"), name("acme"), Signals::ALL, &options)
}

fn assert_snapshot(file: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(file);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "{file} differs from what is rendered now; see the head of this file"
    );
}

fn create(declared: &Declared) -> String {
    create_all(declared).iter().map(|statement| format!("{};\n\n", statement.sql())).collect()
}

/// Guarantee: JSON attributes, rows kept for 30 days.
#[test]
fn json_tables_are_as_committed() {
    assert_snapshot(
        "json.sql",
        &create(&declared(AttributeStorage::Json, Engine::MergeTree, "30d")),
    );
}

/// Guarantee: Map attributes with their indexes, rows kept for ever.
#[test]
fn map_tables_are_as_committed() {
    assert_snapshot("map.sql", &create(&declared(AttributeStorage::Map, Engine::MergeTree, "0s")));
}

/// Guarantee: the tables of the Collector's exporter from 0.151 on, and those of ClickStack.
#[test]
fn tables_for_each_reader_are_as_committed() {
    let readers = [("otel151.sql", Reader::Otel151), ("clickstack.sql", Reader::ClickStack)];
    for (file, reader) in readers {
        let layout = Layout { reader, ..Layout::default() };
        let options =
            TableOptions { attributes: AttributeStorage::Map, layout, ..TableOptions::default() };
        let declared = Declared::uniform(name("telemetry"), name("acme"), Signals::ALL, &options);
        assert_snapshot(file, &create(&declared));
    }
}

/// Guarantee: Keeper paths that differ by table, on every server of a cluster.
#[test]
fn replicated_tables_are_as_committed() {
    let engine = Engine::ReplicatedMergeTree(Replication::default());
    let mut declared = declared(AttributeStorage::Json, engine, "36h");
    declared.cluster = Some("{cluster}".parse().unwrap());
    assert_snapshot("replicated.sql", &create(&declared));
    for statement in create_all(&declared) {
        assert!(statement.sql().contains(" ON CLUSTER '{cluster}'"), "{}", statement.sql());
        assert_eq!(statement.settings()[0].0, "distributed_ddl_task_timeout");
    }
}

/// Guarantee: where the server says where replicas are, no statement does; an engine with a version
/// column keeps it.
#[test]
fn tables_by_the_servers_defaults_name_no_keeper_path() {
    let of = |engine| {
        let mut declared = declared(AttributeStorage::Json, engine, "36h");
        (declared.logs, declared.metrics) = (None, None);
        create(&declared)
    };
    let plain = of(Engine::ReplicatedMergeTree(Replication::ServerDefault));
    assert_eq!(plain.matches("\nENGINE = ReplicatedMergeTree\n").count(), 2, "{plain}");
    let replacing = of(Engine::ReplicatedReplacingMergeTree(Replication::ServerDefault));
    assert!(replacing.contains("ENGINE = ReplicatedReplacingMergeTree\n"), "{replacing}");
    assert!(replacing.contains("ENGINE = ReplicatedReplacingMergeTree(`End`)\n"), "{replacing}");
    for text in [plain, replacing] {
        assert!(!text.contains("/clickhouse/") && !text.contains("{replica}"), "{text}");
    }
}

/// Guarantee: Null tables have neither keys nor view, and the same columns.
#[test]
fn null_tables_are_as_committed() {
    assert_snapshot("null.sql", &create(&declared(AttributeStorage::Json, Engine::Null, "30d")));
}

/// Guarantee: an insert names exactly the columns that blocks carry, none that the server computes.
#[test]
fn insert_headers_are_as_committed() {
    let mut text = String::new();
    for table in declared(AttributeStorage::Map, Engine::MergeTree, "0s").tables() {
        let header = insert_statement(&table.name, &table.table);
        assert!(!header.sql().contains("TimestampTime"));
        text.push_str(header.sql());
        text.push_str("\n\n");
    }
    assert_snapshot("inserts.sql", &text);
}
