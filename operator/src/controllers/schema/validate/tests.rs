//! Tests the private parts of `controllers/schema/validate.rs`.

use super::test_support::parse_schema;
use super::validate_schema;
use millrace_ddl as ddl;

const CLICKHOUSE: &str = "clickhouse: {endpoints: ['http://c:8123']}";

/// Scenario: a signal has no settings. Guarantee: database, prefix and options have defaults; other
/// signals are not declared.
#[test]
fn what_is_not_said_has_its_default() {
    let schema = parse_schema(&format!("{CLICKHOUSE}, signals: {{traces: {{}}}}"));
    let declared = validate_schema(&schema).unwrap();
    assert_eq!(declared.database.as_str(), "otel");
    let attributes = ddl::AttributeStorage::Map;
    assert_eq!(declared.traces, Some(ddl::TableOptions { attributes, ..Default::default() }));
    assert_eq!((declared.logs, declared.metrics), (None, None));
}

/// Scenario: a spec sets options of each kind. Guarantee: the declaration contains them.
#[test]
fn options_arrive_in_the_declaration() {
    let text = "signals: {logs: {attributes: Map, engine: ReplicatedMergeTree, ttl: 30d, \
                replication: {path: '/x/{shard}', replica: '{replica}'}}}";
    let declared = validate_schema(&parse_schema(&format!("{CLICKHOUSE}, {text}"))).unwrap();
    let logs = declared.logs.unwrap();
    assert_eq!(logs.attributes, ddl::AttributeStorage::Map);
    assert_eq!(logs.ttl, ddl::Ttl::from_seconds(30 * 86_400));
    let ddl::Engine::ReplicatedMergeTree(replication) = logs.engine else { panic!() };
    let ddl::Replication::Explicit { path, replica: _ } = replication else { panic!() };
    assert_eq!(path.to_string(), "/x/{shard}");
}

/// Scenario: a spec sets every option of storage and layout, over shards. Guarantee: the
/// declaration contains each, and omitted ones have the library's default.
#[test]
fn storage_and_layout_arrive_in_the_declaration() {
    let text = "clickhouse: {endpoints: ['http://c:8123'], cluster: '{cluster}', distributed: \
                shards}, signals: {traces: {engine: ReplacingMergeTree, ttl: 90d, storage: \
                {policy: hot_cold, moveAfter: 7d, moveTo: cold}, attributes: JSON, layout: \
                {partitionBy: Month, compatibility: ClickStack, compression: Zstd3, indexes: {attributes: \
                Text, traceId: false}, traceLookup: false, rollup: true, typedPaths: [{from: Resource, path: \
                k8s.pod.name}], materialized: [{name: Code, from: Record, path: http.code, \
                type: Int64}]}}, logs: {layout: {indexes: {body: Text}}}}";
    let declared = validate_schema(&parse_schema(text)).unwrap();
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
        partition: ddl::PartitionInterval::Month,
        compression: Some(ddl::ColumnCompression::ZstdHigher),
        body_index: ddl::BodyIndex::Tokens,
        attribute_index: ddl::AttributeIndex::Text,
        trace_id_index: ddl::Presence::Omitted,
        trace_lookup: ddl::Presence::Omitted,
        rollup: ddl::Presence::Included,
        typed_paths: vec![ddl::TypedPath {
            column: ddl::AttributeColumn::Resource,
            path: pod("k8s.pod.name"),
            is_repeating: true,
        }],
        materialized: vec![ddl::Materialized {
            name: "Code".parse().unwrap(),
            column: ddl::AttributeColumn::Record,
            path: pod("http.code"),
            ty: ddl::ComputedType::Integer,
        }],
    };
    assert_eq!(traces.layout, expected);
    let logs = declared.logs.unwrap().layout;
    let text = ddl::Layout { body_index: ddl::BodyIndex::Text, ..ddl::Layout::default() };
    assert_eq!(logs, text);
}

/// Scenario: settings conflict in ways that the API server can't detect. Guarantee: they are
/// refused, with the field and what to write.
#[test]
fn conflicts_name_their_field() {
    for (text, words) in [
        (
            "traces: {ttl: 1d, storage: {moveAfter: 2d, moveTo: cold}}",
            "spec.signals: traces.storage.moveAfter: rows move after 2d but are deleted",
        ),
        (
            "logs: {layout: {materialized: [{name: Body, from: Record, path: a, type: String}]}}",
            "spec.signals: logs.layout.materialized: Body already exists",
        ),
        (
            "logs: {attributes: JSON, layout: {typedPaths: [{from: Record, path: a.b}, {from: \
             Record, path: a}]}}",
            "spec.signals: logs.layout.typedPaths: a already exists",
        ),
    ] {
        let text = format!("{CLICKHOUSE}, signals: {{{text}}}");
        let refused = validate_schema(&parse_schema(&text)).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

/// Scenario: a time to live exceeds ClickHouse's time. Guarantee: it is refused by its field.
#[test]
fn a_ttl_beyond_a_century_names_its_field() {
    let text = format!("{CLICKHOUSE}, signals: {{traces: {{ttl: 99999d}}}}");
    let refused = validate_schema(&parse_schema(&text)).unwrap_err().to_string();
    assert!(refused.contains("spec.signals.traces.ttl"), "{refused}");
}
