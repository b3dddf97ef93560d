//! Plans the ordered statements from the live to the declared tables, each classified by its cost.
//! Pure: a plan is a value that is shown, judged and then applied.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use millrace_schema::Column;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::declared::names::ClusterName;
use crate::declared::names::TableName;
use crate::declared::ttl::{Ttl, interval_seconds};
use crate::declared::{Declared, DeclaredTable};
use crate::live::drift::{Drift, DriftKind, Severity, find_drift};
use crate::live::observe::Observed;
use crate::privileges::needs;
use crate::privileges::privilege::{Privilege, PrivilegeScope};
use crate::render::{self, Statement};

/// The cost and risk of a statement, from harmless to harmful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepClass {
    /// Changes only metadata: milliseconds whatever the table stores, or for a retention the time
    /// to read each part's times.
    MetadataOnly,
    /// Rewrites the table's data.
    Rewrite,
    /// Deletes existing rows.
    Destructive,
}

impl fmt::Display for StepClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MetadataOnly => "metadata only",
            Self::Rewrite => "rewrite",
            Self::Destructive => "destructive",
        })
    }
}

/// What may run: steps up to a class, and statements that a person approved. A destructive step
/// also needs its object's name, whatever is permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The heaviest class; `None` for approved statements alone.
    class: Option<StepClass>,
    contract: bool,
    approved: BTreeSet<String>,
}

impl Permit {
    /// Permits only what neither rewrites nor deletes rows: missing databases, tables, views,
    /// columns, indexes, settings, a longer retention.
    pub const ADDITIVE: Self = Self::up_to(StepClass::MetadataOnly);

    /// Permits nothing.
    pub const NOTHING: Self = Self { class: None, contract: true, approved: BTreeSet::new() };

    /// Permits every class up to and including this one.
    #[must_use]
    pub const fn up_to(class: StepClass) -> Self {
        Self { class: Some(class), contract: true, approved: BTreeSet::new() }
    }

    /// Returns the same permit without removals, since older collectors are still at work.
    #[must_use]
    pub fn without_contract(self) -> Self {
        Self { contract: false, ..self }
    }

    /// Also permits exactly the statements of an approved plan: what the tables need by the time it
    /// runs may have changed since.
    #[must_use]
    pub fn with_approved(mut self, plan: &MigrationPlan) -> Self {
        let statements = plan.steps.iter().map(|step| step.statement.sql().to_owned());
        self.approved.extend(statements);
        self
    }

    /// Returns whether a step may run.
    #[must_use]
    pub fn allows(&self, step: &PlanStep) -> bool {
        if step.phase == Phase::Contract && !self.contract {
            return false;
        }
        let is_approved = self.approved.contains(step.statement.sql());
        match &step.loss {
            Loss::None => is_approved || self.class.is_some_and(|class| step.class <= class),
            Loss::Agreed(_) => is_approved || self.class.is_some(),
            Loss::Unagreed(_) => false,
        }
    }
}

/// When a statement may run, relative to the collectors' rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Before the rollout: older collectors work before and after it.
    Expand,
    /// After the last older collector has gone, which may have written what it removes.
    Contract,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expand => "expand",
            Self::Contract => "contract",
        })
    }
}

/// The object that a statement destroys.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Loss {
    /// Nothing.
    None,
    /// This object, whose loss the user agreed to by name.
    Agreed(String),
    /// This object, which the user did not name.
    Unagreed(String),
}

/// One statement of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanStep {
    /// `database`, or `database.table`.
    pub object: String,
    /// What it does, in words.
    pub what: String,
    /// Its cost.
    pub class: StepClass,
    /// Before or after the collectors' rollout.
    pub phase: Phase,
    /// The object that it destroys.
    pub loss: Loss,
    /// The table's current rows, as the server counts them.
    pub rows: u64,
    /// The table's current bytes on disk.
    pub bytes: u64,
    /// The privileges that the user needs.
    pub privileges: BTreeSet<Privilege>,
    /// The statement to run.
    #[serde(rename = "sql")]
    pub statement: Statement,
}

/// A difference that no statement of ours repairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// The difference.
    pub drift: Drift,
    /// What a person can do about it.
    pub advice: &'static str,
}

/// The statements from the live to the declared tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MigrationPlan {
    /// Statements, in the order to run them.
    pub steps: Vec<PlanStep>,
    /// Differences that remain whatever is run.
    pub blocked: Vec<Blocked>,
}

impl MigrationPlan {
    /// Returns whether nothing is planned or blocked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.blocked.is_empty()
    }

    /// Returns a short, stable name of exactly these statements: 12 hexadecimal digits. Users
    /// approve a plan by this name; another plan has another name.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        for PlanStep { class, statement, .. } in &self.steps {
            hash.update(class.to_string());
            hash.update(b"\0");
            hash.update(statement.sql());
            hash.update(b"\0");
        }
        hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Plans the statements from `observed` to `declared`, additions first and removals last. It never
/// drops a table, and drops a column or an index only if the declaration's consent names it. In a
/// database that replicates itself the statements name no cluster, Keeper path or replica.
#[must_use]
pub fn plan_migration(declared: &Declared, observed: &Observed) -> MigrationPlan {
    let mut plan = MigrationPlan::default();
    let adapted = observed.replicates_itself.then(|| declared.for_replicated_database());
    let declared = adapted.as_ref().unwrap_or(declared);
    let tables = declared.tables();
    let named: BTreeMap<String, &DeclaredTable> =
        tables.iter().map(|table| (table.name.to_string(), table)).collect();
    for drift in find_drift(declared, observed) {
        let table = named.get(&drift.object).copied();
        let live = table.and_then(|table| observed.tables.get(table.name.table()));
        let (rows, bytes) = live.map_or((0, 0), |live| (live.rows, live.bytes));
        match plan_drift(declared, observed, table, &drift) {
            PlannedAction::Run { class, phase, target, what, statement } => {
                let loss = match target {
                    None => Loss::None,
                    Some(target) if declared.consent.contains(&target) => Loss::Agreed(target),
                    Some(target) => Loss::Unagreed(target),
                };
                let privileges = needs::of_drift(declared, &drift);
                let object = drift.object;
                let statement = match observed.replicates_itself {
                    true => statement.with_replica_timeout(),
                    false => statement,
                };
                plan.steps.push(PlanStep {
                    object,
                    what,
                    class,
                    phase,
                    loss,
                    rows,
                    bytes,
                    privileges,
                    statement,
                });
            }
            PlannedAction::Advise(advice) => plan.blocked.push(Blocked { drift, advice }),
            PlannedAction::Leave => {}
        }
    }
    plan.steps.sort_by_key(|step| step.phase);
    plan
}

/// How the plan answers one difference.
enum PlannedAction {
    Run {
        class: StepClass,
        phase: Phase,
        /// The object that it destroys, by the name to agree to.
        target: Option<String>,
        what: String,
        statement: Statement,
    },
    Advise(&'static str),
    Leave,
}

fn metadata_step(what: impl Into<String>, statement: Statement) -> PlannedAction {
    run(StepClass::MetadataOnly, what, statement)
}

fn run(class: StepClass, what: impl Into<String>, statement: Statement) -> PlannedAction {
    PlannedAction::Run { class, phase: Phase::Expand, target: None, what: what.into(), statement }
}

/// Drops a column or index if the consent names it; otherwise it stays and is not mentioned.
fn drop_if_named(
    declared: &Declared,
    drift: &Drift,
    name: &str,
    what: String,
    render: impl Fn(&TableName) -> Statement,
    table: Option<&DeclaredTable>,
) -> PlannedAction {
    let target = format!("{}.{name}", drift.object);
    match table {
        Some(table) if declared.consent.contains(&target) => PlannedAction::Run {
            class: StepClass::Destructive,
            phase: Phase::Contract,
            target: Some(target),
            what,
            statement: render(&table.name),
        },
        _ => PlannedAction::Leave,
    }
}

fn plan_drift(
    declared: &Declared,
    observed: &Observed,
    table: Option<&DeclaredTable>,
    drift: &Drift,
) -> PlannedAction {
    let cluster = declared.cluster.as_ref();
    match &drift.kind {
        DriftKind::MissingDatabase => {
            let statement = render::create_database(&declared.database, cluster);
            metadata_step("create the database", statement)
        }
        DriftKind::MissingView => missing_view(declared, observed, &drift.object),
        DriftKind::ViewTarget { .. } => PlannedAction::Advise(
            "another view or table has this name: drop or rename it, and the view is created",
        ),
        DriftKind::Engine { .. } => PlannedAction::Advise(
            "an engine cannot be changed: rename the table and let a new one be made, or declare \
             the engine it has",
        ),
        DriftKind::ColumnType { .. } if drift.severity == Severity::Breaking => {
            PlannedAction::Advise(
                "the column's type cannot be changed without writing its data again: rename the table \
             and let a new one be made, or declare what it has",
            )
        }
        DriftKind::MissingTable if table.is_none() => plan_companion(declared, &drift.object),
        DriftKind::MissingColumn { .. } | DriftKind::ExtraColumn { .. } if table.is_none() => {
            plan_distributed_column(declared, drift)
        }
        DriftKind::Ttl { live, .. } if table.is_none() => {
            let rollups = declared.rollups();
            let rollup = rollups.iter().find(|each| each.name.to_string() == drift.object);
            rollup.map_or(PlannedAction::Leave, |rollup| {
                let statement = render::modify_rollup_ttl(rollup, cluster);
                let ttl = rollup.options.ttl;
                plan_retention(&rollup.name, ttl, statement, (cluster, live.as_deref()))
            })
        }
        DriftKind::MissingTable
        | DriftKind::MissingColumn { .. }
        | DriftKind::MissingIndex { .. }
        | DriftKind::ColumnType { .. }
        | DriftKind::Setting { .. }
        | DriftKind::StoragePolicy { .. }
        | DriftKind::Compression { .. }
        | DriftKind::Ttl { .. } => {
            table.map_or(PlannedAction::Leave, |table| in_table(table, cluster, &drift.kind))
        }
        DriftKind::ExtraColumn { column, live } => {
            let what = format!("drop column {column} ({live}) with all its values");
            let drop = |table: &TableName| render::drop_column(table, cluster, column);
            drop_if_named(declared, drift, column, what, drop, table)
        }
        // Once the index is dropped, the declared one is missing and added.
        DriftKind::ExtraIndex { index } | DriftKind::IndexDefinition { index, .. } => {
            let what = format!("drop index {index}; no row is touched");
            let drop = |table: &TableName| render::drop_index(table, cluster, index);
            drop_if_named(declared, drift, index, what, drop, table)
        }
        DriftKind::PartitionKey { .. }
        | DriftKind::SortingKey { .. }
        | DriftKind::ViewQuery { .. } => PlannedAction::Leave,
    }
}

/// Returns the answer for a roll-up or a table over all shards.
fn plan_companion(declared: &Declared, object: &str) -> PlannedAction {
    let cluster = declared.cluster.as_ref();
    if let Some(rollup) = declared.rollups().iter().find(|each| each.name.to_string() == object) {
        return metadata_step("create the roll-up", render::create_rollup(rollup, cluster));
    }
    let distributed = declared.distributed_tables();
    let table = distributed.iter().find(|each| each.name.to_string() == object);
    table.map_or(PlannedAction::Leave, |table| {
        let what = "create the table over all shards";
        metadata_step(what, render::create_distributed(table, cluster))
    })
}

fn missing_view(declared: &Declared, observed: &Observed, object: &str) -> PlannedAction {
    let cluster = declared.cluster.as_ref();
    let trace_view = declared.view().filter(|view| view.name.to_string() == object);
    let found = match trace_view {
        Some(view) => Some((render::create_view(&view, cluster), view.source)),
        None => declared
            .rollups()
            .into_iter()
            .find(|rollup| rollup.view.to_string() == object)
            .map(|rollup| (render::create_rollup_view(&rollup, cluster), rollup.source)),
    };
    found.map_or(PlannedAction::Leave, |(statement, source)| {
        let source = observed.tables.get(source.table());
        let what = match source.map_or(0, |source| source.rows) {
            0 => "create the view".to_owned(),
            rows => format!("create the view; the {rows} rows before it are not included"),
        };
        metadata_step(what, statement)
    })
}

fn in_table(
    table: &DeclaredTable,
    cluster: Option<&ClusterName>,
    kind: &DriftKind,
) -> PlannedAction {
    let DeclaredTable { name, table: shape, options } = table;
    match kind {
        DriftKind::MissingTable => {
            metadata_step("create the table", render::create_table(table, cluster))
        }
        DriftKind::MissingColumn { column: missing, declared } => {
            add_missing_column(table, cluster, missing, declared)
        }
        DriftKind::ColumnType { column, declared, live } => {
            let changed = shape.columns.iter().find(|each| each.name == column);
            let is_typing = live.starts_with("JSON") && declared.starts_with("JSON(");
            changed.filter(|_| is_typing).map_or(PlannedAction::Leave, |changed| {
                let what = format!("store {column} as {declared}: every part is written again");
                run(StepClass::Rewrite, what, render::modify_column_type(table, cluster, changed))
            })
        }
        DriftKind::MissingIndex { index } => {
            let missing = shape.indexes.iter().find(|each| each.name == index);
            missing.filter(|_| options.engine.stores_rows()).map_or(
                PlannedAction::Leave,
                |missing| {
                    let what = format!("add index {index}; existing parts stay without it");
                    metadata_step(what, render::add_index(name, cluster, missing))
                },
            )
        }
        DriftKind::Setting { setting, declared, .. } => {
            set_setting(table, cluster, setting, *declared)
        }
        DriftKind::StoragePolicy { declared, .. } => {
            options.storage.policy.as_ref().map_or(PlannedAction::Leave, |policy| {
                let what = format!("put new parts on storage policy {declared}");
                metadata_step(what, render::modify_storage_policy(name, cluster, policy))
            })
        }
        // An owner's choice for their columns stays, unless the declaration chooses too.
        DriftKind::Compression { .. } if options.layout.compression.is_none() => {
            PlannedAction::Leave
        }
        DriftKind::Compression { columns, .. } => {
            let is_named = |column: &&Column| columns.iter().any(|name| name == column.name);
            let changed: Vec<&Column> = shape.columns.iter().filter(is_named).collect();
            let count = changed.len();
            let what = format!(
                "compress {count} columns as declared; parts written before follow when merged"
            );
            metadata_step(what, render::modify_codecs(table, cluster, &changed))
        }
        DriftKind::Ttl { live, .. } => {
            let statement = render::modify_ttl(table, cluster);
            plan_retention(name, options.ttl, statement, (cluster, live.as_deref()))
        }
        _ => PlannedAction::Leave,
    }
}

/// Returns the statement that gives a table over shards a column of the shards' table, or takes one
/// away that no shard has. It stores nothing, so that nothing is lost.
fn plan_distributed_column(declared: &Declared, drift: &Drift) -> PlannedAction {
    let cluster = declared.cluster.as_ref();
    let mut tables = declared.distributed_tables().into_iter();
    let Some(over) = tables.find(|each| each.name.to_string() == drift.object) else {
        return PlannedAction::Leave;
    };
    match &drift.kind {
        DriftKind::MissingColumn { column, declared: ty } => {
            let local = declared.tables().into_iter().find(|each| each.name == over.local);
            local.map_or(PlannedAction::Leave, |local| {
                let table = DeclaredTable { name: over.name, ..local };
                add_missing_column(&table, cluster, column, ty)
            })
        }
        DriftKind::ExtraColumn { column, .. } => {
            let what = format!("drop column {column}, which no shard has");
            metadata_step(what, render::drop_column(&over.name, cluster, column))
        }
        _ => PlannedAction::Leave,
    }
}

/// Returns the statement that adds a declared column, at its place among the others.
fn add_missing_column(
    table: &DeclaredTable,
    cluster: Option<&ClusterName>,
    missing: &str,
    declared: &str,
) -> PlannedAction {
    let what = |kind: &str| format!("add {kind} {missing} ({declared})");
    if let Some(own) = table.computed_columns().find(|own| own.name == missing) {
        return metadata_step(
            what("computed column"),
            render::add_computed_column(table, cluster, own),
        );
    }
    let columns = &table.table.columns;
    let at = columns.iter().position(|column| column.name == missing);
    at.map_or(PlannedAction::Leave, |at| {
        let before = at.checked_sub(1).map(|before| columns[before].name);
        metadata_step(what("column"), render::add_column(table, cluster, &columns[at], before))
    })
}

/// Returns the step that changes a setting of ours; another setting is left alone.
fn set_setting(
    table: &DeclaredTable,
    cluster: Option<&ClusterName>,
    setting: &str,
    value: u64,
) -> PlannedAction {
    let known = render::retention_settings(true).into_iter();
    let mut known = known.chain(render::deduplication_settings(&table.options));
    known.find(|(name, _)| *name == setting).map_or(PlannedAction::Leave, |(setting, _)| {
        let statement = render::modify_setting(&table.name, cluster, setting, value);
        metadata_step(format!("set {setting} to {value}"), statement)
    })
}

/// Returns the answer that leads from the live rule to the declared one, which `statement` sets. A
/// rule that deletes nothing sooner needs no approval: until it applies, rows expire by the old
/// one. Each table has the setting by which it rewrites no part ([`render::retention_settings`]).
fn plan_retention(
    name: &TableName,
    declared: Option<Ttl>,
    statement: Option<Statement>,
    (cluster, live): (Option<&ClusterName>, Option<&str>),
) -> PlannedAction {
    let Some(statement) = statement else {
        return metadata_step("retain rows forever", render::remove_ttl(name, cluster));
    };
    let live_rule = live.and_then(delete_rule);
    let live_seconds = live_rule.and_then(live_ttl_seconds);
    match (declared, live_rule, live_seconds) {
        (None, None, _) => metadata_step("move rows to another volume with age", statement),
        (None, Some(_), _) => metadata_step("retain rows forever", statement),
        (Some(ttl), _, Some(seconds)) if seconds <= ttl.seconds() => {
            metadata_step(format!("retain rows for {ttl}, not shorter than now"), statement)
        }
        (Some(ttl), ..) => PlannedAction::Run {
            class: StepClass::Destructive,
            phase: Phase::Expand,
            target: Some(format!("{name}.ttl")),
            what: format!("retain rows for {ttl}: older ones are deleted"),
            statement,
        },
    }
}

/// Returns the deleting rule of a time to live, without the rules that move.
fn delete_rule(rules: &str) -> Option<&str> {
    rules.split(", ").find(|rule| !rule.contains(" TO "))
}

/// Returns the seconds of a rule `... + toIntervalDay(30)`; `None` for any other rule.
fn live_ttl_seconds(rule: &str) -> Option<u64> {
    let (_, interval) = rule.rsplit_once(" + ")?;
    interval_seconds(interval)
}

/// Returns the privileges that these steps and their journal need.
#[must_use]
pub fn needed_privileges<'a>(
    declared: &Declared,
    observed: &Observed,
    steps: impl IntoIterator<Item = &'a PlanStep>,
) -> BTreeSet<Privilege> {
    let mut all: BTreeSet<Privilege> =
        steps.into_iter().flat_map(|step| step.privileges.iter().cloned()).collect();
    let journal = declared.journal();
    if !observed.tables.contains_key(journal.table()) {
        all.insert(Privilege {
            name: render::CREATE_TABLE,
            on: PrivilegeScope::Table(journal.clone()),
        });
    }
    for name in ["SELECT", "INSERT"] {
        all.insert(Privilege { name, on: PrivilegeScope::Table(journal.clone()) });
    }
    all
}

#[cfg(test)]
mod tests;
