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
        coordination: _,
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
#[path = "../../../tests/unit/controllers/schema/validate.rs"]
mod tests;
