//! From a spec to the declaration the ddl crate works with. Pure: no client.

use std::fmt::Display;
use std::str::FromStr;

use millrace_crds::Reason;
use millrace_crds::v1alpha1 as crds;
use millrace_ddl as ddl;

use super::options::options;
use crate::cache::claims::Claim;
use crate::error::{Category, Step, StepError};

/// What the spec declares.
///
/// # Errors
/// When the ddl crate's rules are stricter than the API's; the message names the field.
pub(super) fn validate(schema: &crds::TelemetrySchema) -> Result<ddl::Declared, StepError> {
    let crds::TelemetrySchemaSpec {
        clickhouse,
        signals,
        deletion_policy: _,
        changes: _,
        consent,
        shared: _,
        gateways_max,
    } = &schema.spec;
    let crds::ClickHouseTarget {
        endpoints: _,
        shards: _,
        database: _,
        table_prefix: _,
        cluster,
        distributed,
        credentials_secret_ref: _,
        tls: _,
    } = clickhouse;
    let tables = |signal| {
        let settings = signals.get(signal);
        let window = ddl::Window::for_gateways(gateways_max.unwrap_or(0));
        settings.map(|settings| options(signal, settings, window)).transpose()
    };
    let name = |field, name: Option<&millrace_crds::ClusterName>| {
        name.map(|name| read(field, name.as_str())).transpose()
    };
    let declared = ddl::Declared {
        database: read("clickhouse.database", clickhouse.database())?,
        prefix: read("clickhouse.tablePrefix", clickhouse.table_prefix())?,
        cluster: name("clickhouse.cluster", cluster.as_ref())?,
        distributed: name("clickhouse.distributed", distributed.as_ref())?,
        consent: consent.iter().cloned().collect(),
        traces: tables(crds::Signal::Traces)?,
        logs: tables(crds::Signal::Logs)?,
        metrics: tables(crds::Signal::Metrics)?,
    };
    declared.check().map_err(|error| invalid("signals", error))?;
    Ok(declared)
}

/// What a schema's object claims in ClickHouse.
pub(super) fn claim(schema: &crds::TelemetrySchema) -> Claim {
    let place = &schema.spec.clickhouse;
    let (database, prefix) = (place.database(), place.table_prefix());
    // Signals have separate tables: objects without a common signal share nothing.
    let tables = schema.spec.signals.iter().map(|(signal, _)| signal.as_str());
    let things = tables.flat_map(|signal| {
        place.endpoints.iter().map(move |endpoint| {
            let endpoint = endpoint.as_str();
            format!("the tables of {signal} in {database}.{prefix}_* on {endpoint}")
        })
    });
    Claim {
        things: things.collect(),
        shared: schema.spec.shared,
        advice: "another database or tablePrefix",
    }
}

pub(super) fn read<T>(field: &str, text: &str) -> Result<T, StepError>
where
    T: FromStr,
    T::Err: Display,
{
    text.parse().map_err(|error| invalid(field, error))
}

pub(super) fn invalid(field: &str, message: impl Display) -> StepError {
    let text = format!("spec.{field}: {message}");
    StepError::new(Step::Validate, Category::Invalid, Reason::SpecInvalid, text)
}

#[cfg(test)]
pub(super) mod test_support {
    use super::*;

    /// The object of a spec, as the YAML a user writes.
    pub(in crate::controllers::schema) fn schema(spec: &str) -> crds::TelemetrySchema {
        let text = format!(
            "apiVersion: millrace.dev/v1alpha1\nkind: TelemetrySchema\nmetadata: {{name: obj}}\n\
             spec: {{{spec}}}"
        );
        serde_norway::from_str(&text).unwrap()
    }
}

#[cfg(test)]
mod tests {
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
                    orderBy: TimeFirst, compression: LZ4, indexes: {attributes: Text, traceId: \
                    false}, traceLookup: false, rollup: true, typedPaths: [{from: Resource, path: \
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
}
