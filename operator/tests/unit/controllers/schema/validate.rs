//! Tests of what `controllers/schema/validate.rs` keeps to itself.

use super::test_support::schema;
use super::validate;
use millrace_ddl as ddl;

const CLICKHOUSE: &str = "clickhouse: {endpoints: ['http://c:8123']}";

/// Scenario: a signal without settings. Guarantee: database, prefix and options by default, the
/// other signals not declared.
#[test]
fn what_is_not_said_has_its_default() {
    let schema = schema(&format!("{CLICKHOUSE}, signals: {{traces: {{}}}}"));
    let declared = validate(&schema).unwrap();
    assert_eq!(declared.database.as_str(), "otel");
    assert_eq!(declared.traces, Some(ddl::TableOptions::default()));
    assert_eq!((declared.logs, declared.metrics), (None, None));
}

/// Scenario: options of each kind. Guarantee: they arrive in the declaration.
#[test]
fn options_arrive_in_the_declaration() {
    let text = "signals: {logs: {attributes: Map, engine: ReplicatedMergeTree, ttl: 30d, \
                replication: {path: '/x/{shard}', replica: '{replica}'}}}";
    let declared = validate(&schema(&format!("{CLICKHOUSE}, {text}"))).unwrap();
    let logs = declared.logs.unwrap();
    assert_eq!(logs.attributes, ddl::Attributes::Map);
    assert_eq!(logs.ttl, ddl::Ttl::from_seconds(30 * 86_400));
    let ddl::Engine::ReplicatedMergeTree(replication) = logs.engine else { panic!() };
    assert_eq!(replication.path.to_string(), "/x/{shard}");
}

/// Scenario: every choice of storage and layout, over shards. Guarantee: each arrives, and what
/// is not said has the library's default.
#[test]
fn storage_and_layout_arrive_in_the_declaration() {
    let text = "clickhouse: {endpoints: ['http://c:8123'], cluster: '{cluster}', distributed: \
                shards}, signals: {traces: {engine: ReplacingMergeTree, ttl: 90d, storage: \
                {policy: hot_cold, moveAfter: 7d, moveTo: cold}, layout: {partitionBy: Week, \
                orderBy: TimeFirst, reader: ClickStack, compression: LZ4, indexes: {attributes: \
                Text, traceId: false}, traceLookup: false, rollup: true, typedPaths: [{from: Resource, path: \
                k8s.pod.name}], materialized: [{name: Code, from: Record, path: http.code, \
                type: Integer}]}}, logs: {layout: {indexes: {body: Text}}}}";
    let declared = validate(&schema(text)).unwrap();
    assert_eq!(declared.distributed.as_ref().unwrap().to_string(), "shards");
    assert_eq!(declared.cluster.as_ref().unwrap().to_string(), "{cluster}");
    let traces = declared.traces.unwrap();
    assert_eq!(traces.engine, ddl::Engine::ReplacingMergeTree);
    let moved = traces.storage.move_after.unwrap();
    assert_eq!((moved.age.seconds(), moved.volume.to_string()), (604_800, "cold".to_owned()));
    assert_eq!(traces.storage.policy.unwrap().to_string(), "hot_cold");
    let pod = |text: &str| text.parse().unwrap();
    let expected = ddl::Layout {
        reader: ddl::Reader::ClickStack,
        partition: ddl::Partition::Week,
        order: ddl::Order::TimeFirst,
        compression: ddl::Compression::Lz4,
        body_index: ddl::BodyIndex::Tokens,
        attribute_index: ddl::AttributeIndex::Text,
        trace_id_index: ddl::Presence::LeftOut,
        trace_lookup: ddl::Presence::LeftOut,
        rollup: ddl::Presence::Kept,
        typed_paths: vec![ddl::TypedPath {
            column: ddl::AttributeColumn::Resource,
            path: pod("k8s.pod.name"),
            is_repeating: true,
        }],
        materialized: vec![ddl::Materialized {
            name: "Code".parse().unwrap(),
            column: ddl::AttributeColumn::Record,
            path: pod("http.code"),
            ty: ddl::OwnType::Integer,
        }],
    };
    assert_eq!(traces.layout, expected);
    let logs = declared.logs.unwrap().layout;
    let text = ddl::Layout { body_index: ddl::BodyIndex::Text, ..ddl::Layout::default() };
    assert_eq!(logs, text);
}

/// Scenario: choices that only fail together, beyond what the API server can see. Guarantee:
/// refused, with the field and what to write.
#[test]
fn conflicts_name_their_field() {
    for (text, words) in [
        (
            "traces: {ttl: 1d, storage: {moveAfter: 2d, moveTo: cold}}",
            "spec.signals: traces.storage.moveAfter: rows move after 2d but are deleted",
        ),
        (
            "logs: {layout: {materialized: [{name: Body, from: Record, path: a, type: Text}]}}",
            "spec.signals: logs.layout.materialized: Body is there already",
        ),
        (
            "logs: {layout: {typedPaths: [{from: Record, path: a.b}, {from: Record, path: a}]}}",
            "spec.signals: logs.layout.typedPaths: a is there already",
        ),
    ] {
        let text = format!("{CLICKHOUSE}, signals: {{{text}}}");
        let refused = validate(&schema(&text)).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

/// Scenario: a time to live that ClickHouse's time can't hold. Guarantee: refused by its field.
#[test]
fn a_ttl_beyond_a_century_names_its_field() {
    let text = format!("{CLICKHOUSE}, signals: {{traces: {{ttl: 99999d}}}}");
    let refused = validate(&schema(&text)).unwrap_err().to_string();
    assert!(refused.contains("spec.signals.traces.ttl"), "{refused}");
}
