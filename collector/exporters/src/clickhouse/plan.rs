//! How inserts go into each table of each endpoint, depending on its live columns.
//!
//! Until a table was checked, inserts name every column. After that they name those that it has;
//! the body stays the same, and the server skips what isn't named. JSON columns whose live type has
//! paths of its own are written as that type, once all endpoints have it. So the rows, the blocks
//! and the token of an insert don't depend on the check.

use std::sync::{Arc, PoisonError, RwLock};

use millrace_columns::TypedColumn;
use millrace_ddl::render::{insert_columns, insert_statement};
use millrace_ddl::{Fit, fit};
use millrace_ddl::{ObservedTable, Remembers, ServerVersion, Undeduplicated};
use millrace_pipeline::sink::TableIndex;

use super::tables::{TableEntry, Tables, percent_encoded};

/// Makes the server pass over columns of a body that the statement doesn't name. Its default, but
/// a user's profile may say otherwise.
const SKIP_UNKNOWN: &str = "&input_format_skip_unknown_fields=1";

/// A setting that older servers don't know: they would refuse the insert.
struct Newer {
    since: ServerVersion,
    parameter: &'static str,
}

/// Leaves data-skipping indexes to the first merge: a third of what an insert costs the server, and
/// a merge builds them anew anyway. Until then a search reads such a part without them, and finds
/// the same.
const INDEXES_LATER: Newer = Newer {
    since: ServerVersion { year: 24, minor: 6 },
    parameter: "&materialize_skip_indexes_on_insert=0",
};

/// How often the server asks a lost Keeper again before it answers an insert into a replicated
/// table: 100 ms, doubled each time, are 12.7 s after 7. Its default, 20, is 143 s: longer than the
/// insert may take here, so the code that says why would never come, and each repetition would wait
/// in the server beside the one before it. Older servers don't wait.
const KEEPER_RETRIES: Newer = Newer {
    since: ServerVersion { year: 23, minor: 2 },
    parameter: "&insert_keeper_max_retries=7",
};

/// How inserts go into one table of one endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Settings and statement, percent-encoded, to be put behind a URL's other parameters.
    parameters: String,
    /// Columns that aren't named.
    left_out: Vec<&'static str>,
    /// Missing columns that are named all the same: without them there is no row.
    lost: Vec<&'static str>,
    /// Live JSON columns with a type of their own.
    typed: Vec<TypedColumn>,
    /// What the last check found; none before.
    fit: Option<Fit>,
}

impl Plan {
    /// Every column.
    fn whole(table: &TableEntry) -> Self {
        let statement = insert_statement(&table.full_name, &table.definition);
        let parameters = format!("&query={}", percent_encoded(statement.sql()));
        Self { parameters, left_out: Vec::new(), lost: Vec::new(), typed: Vec::new(), fit: None }
    }

    /// The columns that a live table takes, and what its server may be told: nothing where its
    /// version isn't known. `None` when nothing of the table was seen.
    fn of_live(
        table: &TableEntry,
        live: &ObservedTable,
        server: Option<ServerVersion>,
    ) -> Option<Self> {
        let fit = fit(&table.definition, live)?;
        let essential = table.definition.kind.essential_columns();
        let (lost, left_out): (Vec<_>, Vec<_>) =
            fit.missing.iter().partition(|column| essential.contains(column));
        let mut plan = Self::whole(table);
        if !left_out.is_empty() {
            let names = table.definition.insert_columns().map(|column| column.name);
            let names: Vec<_> = names.filter(|name| !left_out.contains(name)).collect();
            let statement = insert_columns(&table.full_name, &names);
            plan.parameters = format!("{SKIP_UNKNOWN}&query={}", percent_encoded(statement.sql()));
        }
        for Newer { since, parameter } in [KEEPER_RETRIES, INDEXES_LATER] {
            if server.is_some_and(|server| server >= since) {
                plan.parameters.insert_str(0, parameter);
            }
        }
        let kind = table.definition.kind;
        let typed = live.columns.iter();
        let typed = typed.filter_map(|live| TypedColumn::of_live(kind, &live.name, &live.ty));
        Some(Self { left_out, lost, typed: typed.collect(), fit: Some(fit), ..plan })
    }

    pub(super) fn parameters(&self) -> &str {
        &self.parameters
    }

    pub(super) fn left_out(&self) -> &[&'static str] {
        &self.left_out
    }

    /// Columns of ours that the live table lacks.
    pub(super) fn missing(&self) -> usize {
        self.left_out.len() + self.lost.len()
    }

    /// Whether a repeated insert is recognised, once that is known.
    pub(super) fn deduplicates(&self) -> Option<bool> {
        Some(self.fit.as_ref()?.undeduplicated.is_none())
    }

    /// How many inserts the live table remembers, once that is known.
    pub(super) fn remembers(&self) -> Option<Remembers> {
        Some(self.fit.as_ref()?.remembers)
    }

    /// Why a repeated insert isn't recognised.
    pub(super) fn undeduplicated(&self) -> Option<&Undeduplicated> {
        self.fit.as_ref()?.undeduplicated.as_ref()
    }

    /// Whether values may not fit into a column because its type was changed.
    pub(super) fn has_other_types(&self) -> bool {
        self.fit.as_ref().is_some_and(|fit| !fit.differing.is_empty())
    }

    /// What in the live table may keep inserts out.
    pub(super) fn obstacle(&self) -> Option<String> {
        let lost = self.lost.iter().map(|column| format!("column {column} is missing"));
        let differing = self.fit.iter().flat_map(|fit| &fit.differing).map(ToString::to_string);
        let found: Vec<String> = lost.chain(differing).collect();
        (!found.is_empty()).then(|| found.join(", "))
    }
}

/// The plans of all tables, by endpoint: replicas may be altered one after the other.
#[derive(Debug)]
pub(super) struct Plans {
    endpoints: Vec<RwLock<Vec<Arc<Plan>>>>,
}

impl Plans {
    pub(super) fn new(tables: &Tables, endpoints: usize) -> Self {
        let whole: Vec<_> = tables.all().map(|table| Arc::new(Plan::whole(table))).collect();
        Self { endpoints: (0..endpoints).map(|_| RwLock::new(whole.clone())).collect() }
    }

    /// The plan for a table, if there are such a table and endpoint.
    pub(super) fn of(&self, endpoint: usize, table: TableIndex) -> Option<Arc<Plan>> {
        // Writers replace whole plans.
        let plans = self.endpoints.get(endpoint)?.read().unwrap_or_else(PoisonError::into_inner);
        plans.get(usize::from(table.0)).cloned()
    }

    /// Takes in what a check of a live table found: the plan before and the one from now on, where
    /// they differ.
    pub(super) fn learn(
        &self,
        endpoint: usize,
        table: &TableEntry,
        live: &ObservedTable,
        server: Option<ServerVersion>,
    ) -> Option<(Arc<Plan>, Arc<Plan>)> {
        let now = Arc::new(Plan::of_live(table, live, server)?);
        let mut plans =
            self.endpoints.get(endpoint)?.write().unwrap_or_else(PoisonError::into_inner);
        let place = plans.get_mut(usize::from(table.index.0))?;
        if *place == now {
            return None;
        }
        Some((std::mem::replace(place, Arc::clone(&now)), now))
    }

    /// Live JSON columns with a type of their own that all endpoints have alike: the bytes of an
    /// insert are made before its endpoint is chosen.
    pub(super) fn typed(&self, tables: &Tables) -> Vec<TypedColumn> {
        let of_table = |table: &TableEntry| {
            let mut plans = self.everywhere(table.index);
            let first = plans.next().map(|plan| plan.typed.clone()).unwrap_or_default();
            plans.fold(first, |mut alike, plan| {
                alike.retain(|column| plan.typed.contains(column));
                alike
            })
        };
        tables.all().flat_map(of_table).collect()
    }

    /// The plans of one table at every endpoint.
    pub(super) fn everywhere(&self, table: TableIndex) -> impl Iterator<Item = Arc<Plan>> {
        (0..self.endpoints.len()).filter_map(move |endpoint| self.of(endpoint, table))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/clickhouse/plan.rs"]
mod tests;
