//! TelemetrySchema: the ClickHouse tables of the signals, at a revision.

use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::connections::connection::ClickHouseTarget;
use super::connections::coordination::CoordinationStatus;
use super::rules;
use super::signals::{DeletionPolicy, Ownership, PerSignal, Signal, is_not_set};
use super::table::{
    Engine, TABLES_STAY, TableSettings, attributes_expression, signal_table_rules, table_stays,
};
use crate::conditions::Condition;
use crate::kinds::{MillraceKind, OBJECT_NAME_LENGTH};

/// The ClickHouse tables of the signals. The operator creates them, adds missing columns and
/// reports drift. Deleting the object retains the tables by default.
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
    doc = "The ClickHouse tables of the signals. The operator creates them, adds missing columns \
           and reports drift. Deletion retains them by default. Part of a pipeline, or standalone.",
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
    /// Connection to ClickHouse, and where the tables are.
    pub clickhouse: ClickHouseTarget,
    /// Signals with tables, and the settings of these tables.
    #[schemars(transform = tables_fit)]
    pub signals: PerSignal<TableSettings>,
    /// Retain leaves the tables and their rows when the object is deleted; Delete drops them, but
    /// not the database.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Approval of changes to the tables.
    #[serde(flatten)]
    pub approval: SchemaApproval,
    /// Ownership of the tables: with Exclusive a second object is rejected, even in another
    /// cluster, because both would mix their data. Shared allows others that are also Shared.
    /// Default: Exclusive.
    #[serde(default, skip_serializing_if = "Ownership::is_exclusive")]
    pub ownership: Ownership,
    /// Maximum number of gateways, which sizes the deduplication window: five minutes of five
    /// inserts per second and gateway, 10,000 to 100,000 inserts. A larger window of an existing
    /// table stays. Default: 6.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_gateways: Option<u32>,
    /// Pauses reconciliation: the operator only updates the status and does not block deletion. The
    /// tables are unchanged. Default: false.
    #[serde(default, skip_serializing_if = "is_not_set")]
    pub paused: bool,
    /// Takes over what another object holds, even in another cluster: the holder
    /// CLUSTER/NAMESPACE/KIND/NAME, exactly as the message of HeldByAnother names it. Default:
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^\S+$"))]
    pub takes_over: Option<String>,
}

impl MillraceKind for TelemetrySchema {
    const NAME_LENGTH: usize = OBJECT_NAME_LENGTH;
    const INTRODUCTION: &'static str = include_str!("../reference/telemetryschema.md");

    fn is_paused(&self) -> bool {
        self.spec.paused
    }

    fn takes_over(&self) -> Option<&str> {
        self.spec.takes_over.as_deref()
    }

    fn clickhouse(&self) -> Option<&ClickHouseTarget> {
        Some(&self.spec.clickhouse)
    }

    fn table_engines(&self) -> Vec<(Signal, Engine)> {
        let signals = self.spec.signals.iter();
        signals.map(|(signal, table)| (signal, table.engine())).collect()
    }
}

/// Approval of changes to the tables: in a TelemetrySchema, or in `schema` of its pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchemaApproval {
    /// Automatic runs steps that neither rewrite nor delete rows; others wait for approvedPlan.
    /// With Manual all steps wait for it. Default: Automatic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangePolicy>,
    /// Approves one plan, by its status.planHash; destructive steps need consent too. Several
    /// hashes, separated by commas, if servers need different plans. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = r"^[0-9a-f]+( *, *[0-9a-f]+)*$"))]
    pub approved_plan: Option<String>,
    /// Objects that may be deleted, as the plan names them, for example otel.otel_logs.OldColumn,
    /// otel.otel_logs.idx_old or otel.otel_traces.ttl (rows older than a shorter ttl). Nothing else
    /// is ever deleted. List columns only after all older collectors are gone. At most 64. Default:
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(
            length(max = 200),
            regex(pattern = r"^[A-Za-z0-9_]+\.[A-Za-z0-9_]+\.[A-Za-z0-9_.]+$")
        )
    )]
    pub consent: Vec<String>,
}

impl SchemaApproval {
    /// Whether nothing is declared: the fields of the TelemetrySchema are then another manager's.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Which steps run without approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ChangePolicy {
    /// Steps that neither rewrite nor delete rows.
    #[default]
    Automatic,
    /// None.
    Manual,
}

fn tables_fit(schema: &mut Schema) {
    for signal in Signal::ALL {
        let name = signal.as_str();
        let paths: [&[&str]; 1] = [&[name]];
        let attributes = |owner| attributes_expression(owner, &paths);
        signal_table_rules(schema, signal, &paths, &attributes("self"));
        let same = format!("{} == {}", attributes("self"), attributes("oldSelf"));
        let same = (same, format!("attributes can't be changed: {TABLES_STAY}"));
        for (rule, message) in table_stays(&paths).into_iter().chain([same]) {
            // A signal may come and go; only one that stays must keep its tables' shape.
            let stays = format!("!has(self.{name}) || !has(oldSelf.{name}) || {rule}");
            rules::add_rule(schema, &stays, &format!("{name}.{message}"));
        }
    }
}

/// The observed state of the tables.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::own_descriptions)]
pub struct TelemetrySchemaStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, of the types that `conditions/table.rs` lists for this kind.
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
    /// Schema revision of the tables, a digest of all declarations. Absent until the tables are
    /// verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub revision: Option<String>,
    /// Hash of the waiting plan, the value for spec.approvedPlan. Several, separated by commas, if
    /// servers need different plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub plan_hash: Option<String>,
    /// Planned steps that wait, in order. At most 32 are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 256)))]
    pub plan_pending: Vec<String>,
    /// Differences between declared and live tables. At most 32 are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub drift: Vec<SchemaDifference>,
    /// Keeper or ZooKeeper of replicated tables. Absent if no table needs one.
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
    /// Description of the difference.
    #[schemars(length(max = 256))]
    pub difference: String,
}
