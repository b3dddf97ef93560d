//! TelemetrySchema: the ClickHouse tables of the signals, kept at a revision.

use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::connection::ClickHouseTarget;
use super::coordination::CoordinationStatus;
use super::rules;
use super::signals::{DeletionPolicy, PerSignal, Signal, is_not_set};
use super::table::{TableSettings, signal_table_rules, table_stays};
use crate::conditions::Condition;

/// The ClickHouse tables of the signals. The operator makes them, adds missing columns and reports
/// differences. Deleting the object keeps the tables by default.
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
    doc = "The ClickHouse tables of the signals. The operator makes them, adds missing columns and \
           reports drift. Deletion keeps them by default. A pipeline makes one; it also works by \
           itself.",
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
#[schemars(transform = rules::own_descriptions)]
pub struct TelemetrySchemaSpec {
    /// The ClickHouse that has the tables.
    pub clickhouse: ClickHouseTarget,
    /// The signals that get tables, and how these are made.
    #[schemars(transform = tables_fit)]
    pub signals: PerSignal<TableSettings>,
    /// Retain keeps the tables and their rows when this object is deleted; Delete drops them (the
    /// database is kept).
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Automatic runs steps that only add; other steps wait. With Manual all steps wait. The
    /// annotation millrace.dev/approve-plan with the value of status.planHash approves exactly that
    /// plan, except for destructive steps. Default: Automatic.
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
    /// Shares the tables with other objects that also set this. Otherwise the second object is
    /// refused, also one of another cluster, because two would mix their data. Default: false.
    #[serde(default, skip_serializing_if = "is_not_set")]
    pub shared: bool,
    /// The most gateways that insert at once. The tables remember the inserts of five minutes (five
    /// a second for each gateway; at least 10,000, at most 100,000) to drop repeated ones. A live
    /// table's larger window stays. Default: 6.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub gateways_max: Option<u32>,
}

/// Which steps run without approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ChangePolicy {
    /// Steps that only add.
    #[default]
    Automatic,
    /// None.
    Manual,
}

fn tables_fit(schema: &mut Schema) {
    signal_table_rules(schema, &[]);
    for signal in Signal::ALL {
        let name = signal.as_str();
        for (rule, message) in table_stays("self", "oldSelf", &[name], Some("JSON")) {
            // A signal may come and go; only one that stays must keep its tables' shape.
            let stays = format!("!has(self.{name}) || !has(oldSelf.{name}) || {rule}");
            rules::rule(schema, &stays, &format!("{name}.{message}"));
        }
    }
}

/// The observed state of the tables.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::own_descriptions)]
pub struct TelemetrySchemaStatus {
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions: Ready, Progressing, Stalled, SchemaReady, Planned, Applied, Drifted, Blocked,
    /// SecretsFound, PasswordExposed, RowsSpread, CoordinationHealthy.
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
    /// Revision of the schema that the tables have: a digest of all declarations. Absent until they
    /// are verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// Hash of the waiting plan, the value for millrace.dev/approve-plan. Several, separated by
    /// commas, where servers need different plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub plan_hash: Option<String>,
    /// Steps that are planned but not run, in order. At most 32 are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 256)))]
    pub plan_pending: Vec<String>,
    /// Differences between declared and live tables. At most 32 are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub drift: Vec<SchemaDifference>,
    /// The Keeper or ZooKeeper of replicated tables. Absent where no table needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination: Option<CoordinationStatus>,
}

/// One difference between a declared table and the live one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchemaDifference {
    /// Name of the table, with its database.
    #[schemars(length(max = 128))]
    pub table: String,
    /// The difference, as a message.
    #[schemars(length(max = 256))]
    pub difference: String,
}
