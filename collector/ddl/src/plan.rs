//! From what is to what should be, as ordered statements, each classed by what it costs. Pure: a
//! plan is a value, to be shown, judged and then applied.

use std::fmt;

use serde::Serialize;

use crate::declared::{ClusterName, Declared, DeclaredTable, Engine};
use crate::drift::{Drift, DriftKind, Severity, diff};
use crate::observe::Observed;
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

/// The heaviest class that may run without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit(StepClass);

impl Permit {
    /// Only what adds: missing databases, tables, views, columns, indexes, settings.
    pub const ADDITIVE: Self = Self(StepClass::MetadataOnly);

    /// Everything up to and with this class.
    #[must_use]
    pub const fn up_to(class: StepClass) -> Self {
        Self(class)
    }

    /// Whether a step of that class may run.
    #[must_use]
    pub fn allows(self, class: StepClass) -> bool {
        class <= self.0
    }
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
    /// Rows the table holds now, as the server counts them.
    pub rows: u64,
    /// Bytes the table takes on disk now.
    pub bytes: u64,
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
}

/// Plans the way from `observed` to `declared`. Never drops a table or a column.
#[must_use]
pub fn plan(declared: &Declared, observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    let tables = declared.tables();
    for drift in diff(declared, observed) {
        let table = tables.iter().find(|table| table.name.to_string() == drift.object);
        let live = table.and_then(|table| observed.tables.get(table.name.table()));
        let (rows, bytes) = live.map_or((0, 0), |live| (live.rows, live.bytes));
        match answer(declared, observed, table, &drift) {
            Answer::Run { class, what, statement } => {
                plan.steps.push(Step { object: drift.object, what, class, rows, bytes, statement });
            }
            Answer::Advise(advice) => plan.blocked.push(Blocked { drift, advice }),
            Answer::Leave => {}
        }
    }
    plan
}

/// What is done about one difference.
enum Answer {
    Run { class: StepClass, what: String, statement: Statement },
    Advise(&'static str),
    Leave,
}

fn metadata(what: impl Into<String>, statement: Statement) -> Answer {
    Answer::Run { class: StepClass::MetadataOnly, what: what.into(), statement }
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
        DriftKind::MissingView => declared.view().map_or(Answer::Leave, |view| {
            let source = observed.tables.get(view.source.table());
            let what = match source.map_or(0, |source| source.rows) {
                0 => "create the view".to_owned(),
                rows => format!("create the view; the {rows} rows before it are not looked at"),
            };
            metadata(what, render::create_view(&view, cluster))
        }),
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
        DriftKind::MissingTable
        | DriftKind::MissingColumn { .. }
        | DriftKind::MissingIndex { .. }
        | DriftKind::Setting { .. }
        | DriftKind::Ttl { .. } => {
            table.map_or(Answer::Leave, |table| in_table(table, cluster, &drift.kind))
        }
        DriftKind::ColumnType { .. }
        | DriftKind::ExtraColumn { .. }
        | DriftKind::PartitionKey { .. }
        | DriftKind::SortingKey { .. } => Answer::Leave,
    }
}

fn in_table(table: &DeclaredTable, cluster: Option<&ClusterName>, kind: &DriftKind) -> Answer {
    let DeclaredTable { name, table: shape, options } = table;
    match kind {
        DriftKind::MissingTable => {
            metadata("create the table", render::create_table(table, cluster))
        }
        DriftKind::MissingColumn { column: missing, declared } => {
            let at = shape.columns.iter().position(|column| column.name == missing);
            at.map_or(Answer::Leave, |at| {
                let before = at.checked_sub(1).map(|before| shape.columns[before].name);
                let statement = render::add_column(name, cluster, &shape.columns[at], before);
                metadata(format!("add column {missing} ({declared})"), statement)
            })
        }
        DriftKind::MissingIndex { index } => {
            let missing = shape.indexes.iter().find(|each| each.name == index);
            missing.filter(|_| options.engine != Engine::Null).map_or(Answer::Leave, |missing| {
                let what = format!("add index {index}; parts written before stay without");
                metadata(what, render::add_index(name, cluster, missing))
            })
        }
        DriftKind::Setting { setting, declared, .. } => {
            let known = render::deduplication_settings(&options.engine);
            let known = known.into_iter().find(|(name, _)| name == setting);
            known.map_or(Answer::Leave, |(setting, value)| {
                let what = format!("set {setting} to {declared}");
                metadata(what, render::modify_setting(name, cluster, setting, value))
            })
        }
        DriftKind::Ttl { live, .. } => retention(table, cluster, live.as_deref()),
        _ => Answer::Leave,
    }
}

fn retention(table: &DeclaredTable, cluster: Option<&ClusterName>, live: Option<&str>) -> Answer {
    let DeclaredTable { name, table: shape, options } = table;
    let Some(kept) = options.ttl else {
        let statement = render::remove_ttl(name, cluster);
        return metadata("keep rows for ever", statement);
    };
    let statement = render::modify_ttl(name, cluster, shape.ttl_from, kept);
    let live_seconds = live.and_then(live_ttl_seconds);
    let (class, what) = match live_seconds {
        Some(seconds) if seconds <= kept.seconds() => {
            (StepClass::Mutation, format!("keep rows for {kept}, longer than now"))
        }
        _ => (StepClass::Destructive, format!("keep rows for {kept}: older ones are deleted")),
    };
    Answer::Run { class, what, statement }
}

/// The span at the end of `... + toIntervalDay(30)`; `None` for any other rule.
fn live_ttl_seconds(rule: &str) -> Option<u64> {
    let (_, interval) = rule.rsplit_once(" + toInterval")?;
    let (unit, count) = interval.strip_suffix(')')?.split_once('(')?;
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

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
