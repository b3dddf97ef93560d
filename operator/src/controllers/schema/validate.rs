//! Translates a spec to the ddl crate's declaration. Pure: no client.

use millrace_crds::v1alpha1 as crds;
use millrace_ddl as ddl;

use super::options::{build_options, invalid_field, parse_field};
use crate::cache::claims::Claim;
use crate::error::StepError;

/// Returns the spec's declaration.
///
/// # Errors
/// When the ddl crate's rules are stricter than the API's; the message names the field.
pub(super) fn validate_schema(schema: &crds::TelemetrySchema) -> Result<ddl::Declared, StepError> {
    let crds::TelemetrySchemaSpec {
        clickhouse,
        signals,
        deletion_policy: _,
        approval: crds::SchemaApproval { changes: _, approved_plan: _, consent },
        ownership: _,
        max_gateways,
        paused: _,
        takes_over: _,
    } = &schema.spec;
    let crds::ClickHouseTarget {
        endpoints: _,
        shards: _,
        database: _,
        table_prefix: _,
        cluster,
        distributed,
        authentication: _,
        admin: _,
        tls: _,
        coordination: _,
    } = clickhouse;
    let tables = |signal| {
        let settings = signals.get(signal);
        let window = ddl::DeduplicationWindow::for_gateways(max_gateways.unwrap_or(0));
        settings.map(|settings| build_options(signal, settings, window)).transpose()
    };
    let name = |field, name: Option<&millrace_crds::ClusterName>| {
        name.map(|name| parse_field(field, name.as_str())).transpose()
    };
    let declared = ddl::Declared {
        database: parse_field("clickhouse.database", clickhouse.database())?,
        prefix: parse_field("clickhouse.tablePrefix", clickhouse.table_prefix())?,
        cluster: name("clickhouse.cluster", cluster.as_ref())?,
        distributed: name("clickhouse.distributed", distributed.as_ref())?,
        consent: consent.iter().cloned().collect(),
        traces: tables(crds::Signal::Traces)?,
        logs: tables(crds::Signal::Logs)?,
        metrics: tables(crds::Signal::Metrics)?,
    };
    declared.check_options().map_err(|error| invalid_field("signals", error))?;
    Ok(declared)
}

pub(super) fn claim_of_schema(schema: &crds::TelemetrySchema) -> Claim {
    let target = &schema.spec.clickhouse;
    let (database, prefix) = (target.database(), target.table_prefix());
    // Signals have separate tables: objects without a common signal share nothing.
    let tables = schema.spec.signals.iter().map(|(signal, _)| signal.as_str());
    let things = tables.flat_map(|signal| {
        target.endpoints.iter().map(move |endpoint| {
            let endpoint = endpoint.as_str();
            format!("the tables of {signal} in {database}.{prefix}_* on {endpoint}")
        })
    });
    Claim {
        things: things.collect(),
        shared: schema.spec.ownership.is_shared(),
        advice: "another database or tablePrefix",
    }
}

#[cfg(test)]
pub(super) mod test_support {
    use super::*;

    /// Returns the object of a spec, as the YAML that a user writes.
    pub(in crate::controllers::schema) fn parse_schema(spec: &str) -> crds::TelemetrySchema {
        let text = format!(
            "apiVersion: millrace.dev/v1alpha1\nkind: TelemetrySchema\nmetadata: {{name: obj}}\n\
             spec: {{{spec}}}"
        );
        serde_norway::from_str(&text).unwrap()
    }
}

#[cfg(test)]
mod tests;
