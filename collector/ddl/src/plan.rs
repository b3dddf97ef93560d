//! From what is to what should be, as ordered statements, each classed by what it costs. Pure: a
//! plan is a value, to be shown, judged and then applied.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use millrace_schema::Column;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::declared::{Declared, DeclaredTable};
use crate::drift::{Drift, DriftKind, Severity, diff};
use crate::names::ClusterName;
use crate::names::TableName;
use crate::needs;
use crate::observe::Observed;
use crate::privilege::{Privilege, Scope};
use crate::render::{self, Statement};
use crate::ttl::Ttl;

/// What a statement costs and risks, from harmless to harmful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepClass {
    /// Changes metadata alone; takes milliseconds whatever the table holds.
    MetadataOnly,
    /// Touches existing parts in the background, and loses nothing.
    Mutation,
    /// Writes the table's data again.
    Rewrite,
    /// Existing rows go.
    Destructive,
}

impl fmt::Display for StepClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MetadataOnly => "metadata only",
            Self::Mutation => "mutation",
            Self::Rewrite => "rewrite",
            Self::Destructive => "destructive",
        })
    }
}

/// The heaviest class that may run. What destroys something runs only for a name that was given,
/// whatever the class permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    class: StepClass,
    contract: bool,
}

impl Permit {
    /// Only what adds: missing databases, tables, views, columns, indexes, settings.
    pub const ADDITIVE: Self = Self::up_to(StepClass::MetadataOnly);

    /// Everything up to and with this class.
    #[must_use]
    pub const fn up_to(class: StepClass) -> Self {
        Self { class, contract: true }
    }

    /// The same, without what takes away: older collectors are still at work.
    #[must_use]
    pub const fn without_contract(self) -> Self {
        Self { contract: false, ..self }
    }

    /// Whether a step may run.
    #[must_use]
    pub fn allows(self, step: &Step) -> bool {
        if step.phase == Phase::Contract && !self.contract {
            return false;
        }
        match &step.loss {
            Loss::None => step.class <= self.class,
            Loss::Agreed(_) => true,
            Loss::Unagreed(_) => false,
        }
    }
}

/// When a statement may run, seen from the collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Before collectors are rolled: older ones work before and after it.
    Expand,
    /// After the last older collector is gone: it may have written what goes.
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

/// What a statement destroys.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Loss {
    /// Nothing.
    None,
    /// This object, and its loss was agreed to by name.
    Agreed(String),
    /// This object, and nobody named it.
    Unagreed(String),
}

/// One statement of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// `database`, or `database.table`.
    pub object: String,
    /// What it does, in words.
    pub what: String,
    /// What it costs.
    pub class: StepClass,
    /// Before or after collectors are rolled.
    pub phase: Phase,
    /// What it destroys.
    pub loss: Loss,
    /// Rows the table holds now, as the server counts them.
    pub rows: u64,
    /// Bytes the table takes on disk now.
    pub bytes: u64,
    /// What the user must be allowed to do.
    pub privileges: BTreeSet<Privilege>,
    /// What runs.
    #[serde(rename = "sql")]
    pub statement: Statement,
}

/// A difference no statement of ours mends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// What differs.
    pub drift: Drift,
    /// What a person can do about it.
    pub advice: &'static str,
}

/// The way from what is to what should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Statements, in the order to run them.
    pub steps: Vec<Step>,
    /// What stays different whatever is run.
    pub blocked: Vec<Blocked>,
}

impl Plan {
    /// Nothing to do, nothing in the way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.blocked.is_empty()
    }

    /// A short, stable name of exactly these statements: 12 hexadecimal digits. Approving a plan
    /// means naming it; another plan has another name.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        for Step { class, statement, .. } in &self.steps {
            hash.update(class.to_string());
            hash.update(b"\0");
            hash.update(statement.sql());
            hash.update(b"\0");
        }
        hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Plans the way from `observed` to `declared`: what adds first, what takes away last. Never drops
/// a table; a column or an index only if the declaration's consent names it.
#[must_use]
pub fn plan(declared: &Declared, observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    let tables = declared.tables();
    let named: BTreeMap<String, &DeclaredTable> =
        tables.iter().map(|table| (table.name.to_string(), table)).collect();
    for drift in diff(declared, observed) {
        let table = named.get(&drift.object).copied();
        let live = table.and_then(|table| observed.tables.get(table.name.table()));
        let (rows, bytes) = live.map_or((0, 0), |live| (live.rows, live.bytes));
        match answer(declared, observed, table, &drift) {
            Answer::Run { class, phase, target, what, statement } => {
                let loss = match target {
                    None => Loss::None,
                    Some(target) if declared.consent.contains(&target) => Loss::Agreed(target),
                    Some(target) => Loss::Unagreed(target),
                };
                let privileges = needs::of_drift(declared, &drift);
                let object = drift.object;
                plan.steps.push(Step {
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
            Answer::Advise(advice) => plan.blocked.push(Blocked { drift, advice }),
            Answer::Leave => {}
        }
    }
    plan.steps.sort_by_key(|step| step.phase);
    plan
}

/// What is done about one difference.
enum Answer {
    Run {
        class: StepClass,
        phase: Phase,
        /// What it destroys, by the name to agree to.
        target: Option<String>,
        what: String,
        statement: Statement,
    },
    Advise(&'static str),
    Leave,
}

fn metadata(what: impl Into<String>, statement: Statement) -> Answer {
    run(StepClass::MetadataOnly, what, statement)
}

fn run(class: StepClass, what: impl Into<String>, statement: Statement) -> Answer {
    Answer::Run { class, phase: Phase::Expand, target: None, what: what.into(), statement }
}

/// A column or index that goes if its name was given, and stays unmentioned otherwise.
fn drop_if_named(
    declared: &Declared,
    drift: &Drift,
    name: &str,
    what: String,
    render: impl Fn(&TableName) -> Statement,
    table: Option<&DeclaredTable>,
) -> Answer {
    let target = format!("{}.{name}", drift.object);
    match table {
        Some(table) if declared.consent.contains(&target) => Answer::Run {
            class: StepClass::Destructive,
            phase: Phase::Contract,
            target: Some(target),
            what,
            statement: render(&table.name),
        },
        _ => Answer::Leave,
    }
}

fn answer(
    declared: &Declared,
    observed: &Observed,
    table: Option<&DeclaredTable>,
    drift: &Drift,
) -> Answer {
    let cluster = declared.cluster.as_ref();
    match &drift.kind {
        DriftKind::MissingDatabase => {
            let statement = render::create_database(&declared.database, cluster);
            metadata("create the database", statement)
        }
        DriftKind::MissingView => missing_view(declared, observed, &drift.object),
        DriftKind::ViewTarget { .. } => Answer::Advise(
            "another view or table stands under this name: drop or rename it, and it will be made",
        ),
        DriftKind::Engine { .. } => Answer::Advise(
            "an engine cannot be changed: rename the table and let a new one be made, or declare \
             the engine it has",
        ),
        DriftKind::ColumnType { .. } if drift.severity == Severity::Breaking => Answer::Advise(
            "the column's type cannot be changed without writing its data again: rename the table \
             and let a new one be made, or declare what it has",
        ),
        DriftKind::MissingTable if table.is_none() => companion(declared, &drift.object),
        DriftKind::MissingTable
        | DriftKind::MissingColumn { .. }
        | DriftKind::MissingIndex { .. }
        | DriftKind::ColumnType { .. }
        | DriftKind::Setting { .. }
        | DriftKind::StoragePolicy { .. }
        | DriftKind::Compression { .. }
        | DriftKind::Ttl { .. } => {
            table.map_or(Answer::Leave, |table| in_table(table, cluster, &drift.kind))
        }
        DriftKind::ExtraColumn { column, live } => {
            let what = format!("drop column {column} ({live}) with all it holds");
            let drop = |table: &TableName| render::drop_column(table, cluster, column);
            drop_if_named(declared, drift, column, what, drop, table)
        }
        DriftKind::ExtraIndex { index } => {
            let what = format!("drop index {index}; no row is touched");
            let drop = |table: &TableName| render::drop_index(table, cluster, index);
            drop_if_named(declared, drift, index, what, drop, table)
        }
        DriftKind::PartitionKey { .. } | DriftKind::SortingKey { .. } => Answer::Leave,
    }
}

/// A roll-up or a table over all shards.
fn companion(declared: &Declared, object: &str) -> Answer {
    let cluster = declared.cluster.as_ref();
    if let Some(rollup) = declared.rollups().iter().find(|each| each.name.to_string() == object) {
        return metadata("create the roll-up", render::create_rollup(rollup, cluster));
    }
    let distributed = declared.distributed_tables();
    let table = distributed.iter().find(|each| each.name.to_string() == object);
    table.map_or(Answer::Leave, |table| {
        let what = "create the table over all shards";
        metadata(what, render::create_distributed(table, cluster))
    })
}

fn missing_view(declared: &Declared, observed: &Observed, object: &str) -> Answer {
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
    found.map_or(Answer::Leave, |(statement, source)| {
        let source = observed.tables.get(source.table());
        let what = match source.map_or(0, |source| source.rows) {
            0 => "create the view".to_owned(),
            rows => format!("create the view; the {rows} rows before it are not looked at"),
        };
        metadata(what, statement)
    })
}

fn in_table(table: &DeclaredTable, cluster: Option<&ClusterName>, kind: &DriftKind) -> Answer {
    let DeclaredTable { name, table: shape, options } = table;
    match kind {
        DriftKind::MissingTable => {
            metadata("create the table", render::create_table(table, cluster))
        }
        DriftKind::MissingColumn { column: missing, declared } => {
            let own = table.own_columns().find(|own| own.name == missing);
            if let Some(own) = own {
                let statement = render::add_own_column(table, cluster, own);
                return metadata(format!("add computed column {missing} ({declared})"), statement);
            }
            let at = shape.columns.iter().position(|column| column.name == missing);
            at.map_or(Answer::Leave, |at| {
                let before = at.checked_sub(1).map(|before| shape.columns[before].name);
                let statement = render::add_column(table, cluster, &shape.columns[at], before);
                metadata(format!("add column {missing} ({declared})"), statement)
            })
        }
        DriftKind::ColumnType { column, declared, live } => {
            let changed = shape.columns.iter().find(|each| each.name == column);
            let is_typing = live.starts_with("JSON") && declared.starts_with("JSON(");
            changed.filter(|_| is_typing).map_or(Answer::Leave, |changed| {
                let what = format!("store {column} as {declared}: every part is written again");
                run(StepClass::Rewrite, what, render::modify_column_type(table, cluster, changed))
            })
        }
        DriftKind::MissingIndex { index } => {
            let missing = shape.indexes.iter().find(|each| each.name == index);
            missing.filter(|_| options.engine.keeps_rows()).map_or(Answer::Leave, |missing| {
                let what = format!("add index {index}; parts written before stay without");
                metadata(what, render::add_index(name, cluster, missing))
            })
        }
        DriftKind::Setting { setting, declared, .. } => {
            let known = render::deduplication_settings(options);
            let known = known.into_iter().find(|(name, _)| name == setting);
            known.map_or(Answer::Leave, |(setting, value)| {
                let what = format!("set {setting} to {declared}");
                metadata(what, render::modify_setting(name, cluster, setting, value))
            })
        }
        DriftKind::StoragePolicy { declared, .. } => {
            options.storage.policy.as_ref().map_or(Answer::Leave, |policy| {
                let what = format!("put new parts on storage policy {declared}");
                metadata(what, render::modify_storage_policy(name, cluster, policy))
            })
        }
        DriftKind::Compression { columns, .. } => {
            let is_named = |column: &&Column| columns.iter().any(|name| name == column.name);
            let changed: Vec<&Column> = shape.columns.iter().filter(is_named).collect();
            let count = changed.len();
            let what = format!(
                "compress {count} columns as declared; parts written before follow when merged"
            );
            metadata(what, render::modify_codecs(table, cluster, &changed))
        }
        DriftKind::Ttl { live, .. } => retention(table, cluster, live.as_deref()),
        _ => Answer::Leave,
    }
}

fn retention(table: &DeclaredTable, cluster: Option<&ClusterName>, live: Option<&str>) -> Answer {
    let DeclaredTable { name, table: _, options } = table;
    let Some(statement) = render::modify_ttl(table, cluster) else {
        return metadata("keep rows for ever", render::remove_ttl(name, cluster));
    };
    let live_rule = live.and_then(delete_rule);
    let live_seconds = live_rule.and_then(live_ttl_seconds);
    match (options.ttl, live_rule, live_seconds) {
        (None, None, _) => {
            run(StepClass::Mutation, "move rows to another volume with age", statement)
        }
        (None, Some(_), _) => run(StepClass::Mutation, "keep rows for ever", statement),
        (Some(kept), _, Some(seconds)) if seconds <= kept.seconds() => {
            let what = format!("keep rows for {kept}, no shorter than now");
            run(StepClass::Mutation, what, statement)
        }
        (Some(kept), ..) => Answer::Run {
            class: StepClass::Destructive,
            phase: Phase::Expand,
            target: Some(format!("{name}.ttl")),
            what: format!("keep rows for {kept}: older ones are deleted"),
            statement,
        },
    }
}

/// The rule of a time to live that deletes, among those that move.
fn delete_rule(rules: &str) -> Option<&str> {
    rules.split(", ").find(|rule| !rule.contains(" TO "))
}

/// The span at the end of `... + toIntervalDay(30)`; `None` for any other rule.
fn live_ttl_seconds(rule: &str) -> Option<u64> {
    let (_, interval) = rule.rsplit_once(" + toInterval")?;
    let (unit, count) = interval.split_once('(')?;
    let count = count.strip_suffix(')')?;
    let letter = match unit {
        "Second" => 's',
        "Minute" => 'm',
        "Hour" => 'h',
        "Day" => 'd',
        "Week" => 'w',
        _ => return None,
    };
    Ttl::parse_optional(&format!("{count}{letter}")).ok().flatten().map(Ttl::seconds)
}

/// What running these steps needs, their journal included.
#[must_use]
pub fn needed<'a>(
    declared: &Declared,
    observed: &Observed,
    steps: impl IntoIterator<Item = &'a Step>,
) -> BTreeSet<Privilege> {
    let mut all: BTreeSet<Privilege> =
        steps.into_iter().flat_map(|step| step.privileges.iter().cloned()).collect();
    let journal = declared.journal();
    if !observed.tables.contains_key(journal.table()) {
        all.insert(Privilege { name: render::CREATE_TABLE, on: Scope::Table(journal.clone()) });
    }
    for name in ["SELECT", "INSERT"] {
        all.insert(Privilege { name, on: Scope::Table(journal.clone()) });
    }
    all
}

#[cfg(test)]
#[path = "../tests/unit/plan.rs"]
mod tests;
