//! From a spec to the declaration the ddl crate works with. Pure: no client.

use std::fmt::Display;
use std::str::FromStr;

use millrace_crds::Reason;
use millrace_crds::v1alpha1 as crds;
use millrace_ddl as ddl;

use crate::error::{Category, Step, StepError};

/// What the spec declares.
///
/// # Errors
/// When the ddl crate's rules are stricter than the API's; the message names the field.
pub(super) fn validate(schema: &crds::TelemetrySchema) -> Result<ddl::Declared, StepError> {
    let crds::TelemetrySchemaSpec { clickhouse, signals, deletion_policy: _, changes: _, consent } =
        &schema.spec;
    let crds::ClickHouseTarget {
        endpoints: _,
        database: _,
        table_prefix: _,
        cluster,
        credentials_secret_ref: _,
        tls: _,
    } = clickhouse;
    let tables = |signal| {
        let settings = signals.get(signal);
        settings.map(|settings| options(signal, settings)).transpose()
    };
    let declared = ddl::Declared {
        database: read("clickhouse.database", clickhouse.database())?,
        prefix: read("clickhouse.tablePrefix", clickhouse.table_prefix())?,
        cluster: match cluster {
            Some(cluster) => Some(read("clickhouse.cluster", cluster.as_str())?),
            None => None,
        },
        distributed: None,
        consent: consent.iter().cloned().collect(),
        traces: tables(crds::Signal::Traces)?,
        logs: tables(crds::Signal::Logs)?,
        metrics: tables(crds::Signal::Metrics)?,
    };
    declared.check().map_err(|error| invalid("signals", error))?;
    Ok(declared)
}

fn options(
    signal: crds::Signal,
    settings: &crds::TableSettings,
) -> Result<ddl::TableOptions, StepError> {
    let crds::TableSettings { attributes, engine, ttl, replication } = settings;
    let field = |name: &str| format!("signals.{}.{name}", signal.as_str());
    let engine = match engine {
        crds::Engine::MergeTree => ddl::Engine::MergeTree,
        crds::Engine::Null => ddl::Engine::Null,
        crds::Engine::ReplicatedMergeTree => ddl::Engine::ReplicatedMergeTree(match replication {
            None => ddl::Replication::default(),
            Some(crds::Replication { path, replica }) => ddl::Replication {
                path: read(&field("replication.path"), path.as_str())?,
                replica: read(&field("replication.replica"), replica.as_str())?,
            },
        }),
    };
    let ttl = match ttl {
        None => None,
        Some(period) => match ddl::Ttl::from_seconds(period.seconds()) {
            Some(ttl) => Some(ttl),
            None => {
                let message = "longer than 100 years: write less, or leave it out to keep rows";
                return Err(invalid(&field("ttl"), message));
            }
        },
    };
    let attributes = match attributes {
        crds::Attributes::Json => ddl::Attributes::Json,
        crds::Attributes::Map => ddl::Attributes::Map,
    };
    Ok(ddl::TableOptions { attributes, engine, ttl, ..ddl::TableOptions::default() })
}

fn read<T>(field: &str, text: &str) -> Result<T, StepError>
where
    T: FromStr,
    T::Err: Display,
{
    text.parse().map_err(|error| invalid(field, error))
}

fn invalid(field: &str, message: impl Display) -> StepError {
    let text = format!("spec.{field}: {message}");
    StepError::new(Step::Validate, Category::Invalid, Reason::SpecInvalid, text)
}

#[cfg(test)]
pub(super) mod test_support {
    use super::*;

    /// The object of a spec, as the YAML a user writes.
    pub(in crate::schema) fn schema(spec: &str) -> crds::TelemetrySchema {
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

    /// Scenario: a time to live that ClickHouse's time can't hold. Guarantee: refused by its field.
    #[test]
    fn a_ttl_beyond_a_century_names_its_field() {
        let text = format!("{CLICKHOUSE}, signals: {{traces: {{ttl: 99999d}}}}");
        let refused = validate(&schema(&text)).unwrap_err().to_string();
        assert!(refused.contains("spec.signals.traces.ttl"), "{refused}");
    }
}
