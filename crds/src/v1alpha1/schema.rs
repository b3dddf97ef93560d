//! TelemetrySchema: the ClickHouse tables of the signals, kept at a revision.

use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::connection::ClickHouseTarget;
use super::rules;
use super::signals::{DeletionPolicy, PerSignal, Signal, is_not_set};
use super::table::{TableSettings, signal_table_rules, table_stays};
use crate::conditions::Condition;

/// The ClickHouse tables of the signals. Made when missing, missing columns added, compared with
/// what was asked for; kept when the object is deleted, unless asked otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "millrace.dev",
    version = "v1alpha1",
    kind = "TelemetrySchema",
    plural = "telemetryschemas",
    shortname = "ts",
    category = "millrace",
    namespaced,
    status = "TelemetrySchemaStatus",
    derive = "PartialEq",
    doc = "The ClickHouse tables of the signals: made when missing, missing columns added, drift \
           reported, kept on deletion unless asked otherwise. A pipeline makes one; it also works \
           by itself.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(name = "Database", type_ = "string", json_path = ".status.database"),
    printcolumn(name = "Schema", type_ = "string", json_path = ".status.revision"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct TelemetrySchemaSpec {
    /// The ClickHouse that has the tables.
    pub clickhouse: ClickHouseTarget,
    /// The signals that get tables, and how each one's are made.
    #[schemars(transform = tables_fit)]
    pub signals: PerSignal<TableSettings>,
    /// Retain keeps the tables and their rows when this object is deleted; Delete drops them (the
    /// database is kept).
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Automatic runs what only adds, and waits with the rest; Manual waits with everything.
    /// Either way the annotation millrace.dev/approve-plan naming status.planHash lets that very
    /// plan run, but for what destroys something. Default: Automatic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangePolicy>,
    /// Objects that may be destroyed, as the plan names them, for example
    /// otel.otel_logs.OldColumn, otel.otel_logs.idx_old or otel.otel_traces.ttl (rows older than a
    /// shorter ttl). Nothing else is ever destroyed. Name columns only after every older
    /// collector is gone. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(
            length(max = 200),
            regex(pattern = r"^[A-Za-z0-9_]+\.[A-Za-z0-9_]+\.[A-Za-z0-9_.]+$")
        )
    )]
    pub consent: Vec<String>,
    /// Others may have these tables too, if they say so as well. Otherwise the second is refused,
    /// in another cluster too: two that don't know of each other mix their data. Default: false.
    #[serde(default, skip_serializing_if = "is_not_set")]
    pub shared: bool,
    /// The most gateways that insert at once. The tables remember as many inserts as these make in
    /// five minutes (five a second each, 10,000 at least and 100,000 at most), to drop one that is
    /// sent again; a larger window of a live table is left as it is. Default: 6.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub gateways_max: Option<u32>,
}

/// What is run without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ChangePolicy {
    /// What only adds.
    #[default]
    Automatic,
    /// Nothing.
    Manual,
}

fn tables_fit(schema: &mut Schema) {
    signal_table_rules(schema, &[]);
    for signal in Signal::ALL {
        let name = signal.as_str();
        for (rule, message) in table_stays("self", "oldSelf", &[name]) {
            // A signal may come and go; only one that stays must keep its tables' shape.
            let stays = format!("!has(self.{name}) || !has(oldSelf.{name}) || {rule}");
            rules::rule(schema, &stays, &format!("{name}.{message}"));
        }
    }
}

/// What was observed of the tables.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TelemetrySchemaStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Facts: Ready, Progressing, Stalled, SchemaReady, Planned, Applied, Drifted, Blocked,
    /// SecretsFound, PasswordExposed, RowsSpread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
    /// Database of the tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub database: Option<String>,
    /// Revision of the schema that the tables are at: a digest of everything declared. Absent
    /// until they have been verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// The plan that waits, by name: what millrace.dev/approve-plan must say. Several, between
    /// commas, where servers need different ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub plan_hash: Option<String>,
    /// Steps that are planned but not run, in order. At most 32 are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 256)))]
    pub plan_pending: Vec<String>,
    /// Differences between what is declared and what is there. At most 32 are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub drift: Vec<SchemaDifference>,
}

/// One difference between a declared table and the live one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchemaDifference {
    /// Name of the table, with its database.
    #[schemars(length(max = 128))]
    pub table: String,
    /// What differs, for people.
    #[schemars(length(max = 256))]
    pub difference: String,
}
