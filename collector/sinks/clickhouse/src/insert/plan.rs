//! Plans how inserts go into each table of each endpoint, by its live columns.
//!
//! Until a table was checked, inserts name every column and have every setting. After that they
//! name the columns that it has, and have the settings that its server knows; the body stays the
//! same, and the server skips unnamed columns. JSON columns whose live type
//! declares paths are written as that type, once all endpoints have it. So the rows, the blocks and
//! the token of an insert don't depend on the check.

use std::sync::{Arc, PoisonError, RwLock};

use millrace_columns::TypedColumn;
use millrace_ddl::render::{insert_columns, insert_statement};
use millrace_ddl::{DedupFault, LiveDeduplicationWindow, ObservedTable, ServerVersion};
use millrace_ddl::{Fit, assess_fit};
use millrace_pipeline::sink::TableIndex;

use crate::tables::{SinkTables, TableEntry, percent_encoded};

/// Makes the server skip columns of a body that the statement doesn't name. It is the default, but
/// a user's profile may change it.
const SKIP_UNKNOWN: &str = "&input_format_skip_unknown_fields=1";

/// A setting that older servers don't know: they would refuse the insert.
struct Newer {
    since: ServerVersion,
    parameter: &'static str,
}

/// Defers data-skipping indexes to the first merge: they are a third of an insert's cost on the
/// server, and a merge rebuilds them anyway. Until then a search reads such a part without them,
/// with the same result.
const INDEXES_LATER: Newer = Newer {
    since: ServerVersion { year: 24, minor: 6 },
    parameter: "&materialize_skip_indexes_on_insert=0",
};

/// How often the server retries a lost Keeper before it answers an insert into a replicated table:
/// 100 ms, doubled each time, are 12.7 s after 7. Its default, 20, is 143 s: longer than the
/// insert's timeout here, so the code with the cause would never arrive, and each repetition would
/// wait in the server alongside the previous one. Older servers don't wait.
const KEEPER_RETRIES: Newer = Newer {
    since: ServerVersion { year: 23, minor: 2 },
    parameter: "&insert_keeper_max_retries=7",
};

/// Deduplicates, whatever a user's profile says. From this version on the setting overrides
/// `insert_deduplicate`, and with `disable` the server would ignore each token.
const DEDUPLICATE: Newer =
    Newer { since: ServerVersion { year: 26, minor: 2 }, parameter: "&deduplicate_insert=enable" };

/// Retains one token per insert, whatever a user's profile says. With strict limits the server
/// divides an insert at the profile's `max_insert_block_size`, and each block takes a token of the
/// table's deduplication window: a repetition is stored again much sooner.
const ONE_BLOCK: Newer = Newer {
    since: ServerVersion { year: 26, minor: 4 },
    parameter: "&use_strict_insert_block_limits=0",
};

/// All of them. Until a server's version is known each insert has them all: without them a user's
/// profile would apply, and a repetition could be stored twice. An older server refuses such an
/// insert (code 115) and stores none of it; then its version is read, and the insert sent again.
const NEWER: [Newer; 4] = [KEEPER_RETRIES, INDEXES_LATER, DEDUPLICATE, ONE_BLOCK];

/// The first version known to count all rows of an insert that it dropped as a repetition. Others
/// may answer such an insert with no rows.
const COUNTS_REPETITIONS: ServerVersion = ServerVersion { year: 26, minor: 9 };

/// How inserts go into one table of one endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InsertPlan {
    /// Settings and statement, percent-encoded, to be appended to a URL's parameters.
    parameters: String,
    /// The columns that aren't named.
    omitted_columns: Vec<&'static str>,
    /// Missing columns that are named nevertheless: a row requires them.
    lost: Vec<&'static str>,
    /// Live JSON columns that declare their own type.
    typed: Vec<TypedColumn>,
    /// Whether the server counts the rows of a repeated insert too.
    counts_repetitions: bool,
    /// The last check's result; `None` before the first.
    fit: Option<Fit>,
}

impl InsertPlan {
    /// Plans every column.
    fn all_columns(table: &TableEntry) -> Self {
        let statement = insert_statement(&table.full_name, &table.definition);
        let parameters = format!("&query={}", percent_encoded(statement.sql()));
        Self {
            parameters,
            omitted_columns: Vec::new(),
            lost: Vec::new(),
            typed: Vec::new(),
            counts_repetitions: false,
            fit: None,
        }
    }

    /// Plans every column and every setting, for a table that no check has found yet.
    fn unchecked(table: &TableEntry) -> Self {
        let mut plan = Self::all_columns(table);
        plan.add_settings(|_| true);
        plan
    }

    fn add_settings(&mut self, is_known: impl Fn(ServerVersion) -> bool) {
        for Newer { since, parameter } in NEWER {
            if is_known(since) {
                self.parameters.insert_str(0, parameter);
            }
        }
    }

    /// Plans the columns that a live table accepts, and the settings that its server's version
    /// knows: none for an unknown version. `None` when none of its columns was observed.
    fn from_live(
        table: &TableEntry,
        live: &ObservedTable,
        server: Option<ServerVersion>,
    ) -> Option<Self> {
        let fit = assess_fit(&table.definition, live)?;
        let essential = table.definition.kind.essential_columns();
        let (lost, left_out): (Vec<_>, Vec<_>) =
            fit.missing.iter().partition(|column| essential.contains(column));
        let mut plan = Self::all_columns(table);
        if !left_out.is_empty() {
            let names = table.definition.insert_columns().map(|column| column.name);
            let names: Vec<_> = names.filter(|name| !left_out.contains(name)).collect();
            let statement = insert_columns(&table.full_name, &names);
            plan.parameters = format!("{SKIP_UNKNOWN}&query={}", percent_encoded(statement.sql()));
        }
        let is_known = |since| server.is_some_and(|server| server >= since);
        plan.add_settings(is_known);
        let kind = table.definition.kind;
        let typed = live.columns.iter();
        let typed = typed.filter_map(|live| TypedColumn::from_live(kind, &live.name, &live.ty));
        Some(Self {
            omitted_columns: left_out,
            lost,
            typed: typed.collect(),
            counts_repetitions: is_known(COUNTS_REPETITIONS),
            fit: Some(fit),
            ..plan
        })
    }

    pub(crate) fn parameters(&self) -> &str {
        &self.parameters
    }

    pub(crate) fn omitted_columns(&self) -> &[&'static str] {
        &self.omitted_columns
    }

    /// Returns the number of our columns that the live table lacks.
    pub(crate) fn missing_count(&self) -> usize {
        self.omitted_columns.len() + self.lost.len()
    }

    /// Returns whether the server is known to count the rows of a repeated insert too.
    pub(crate) fn counts_repetitions(&self) -> bool {
        self.counts_repetitions
    }

    /// Returns whether a repeated insert is recognised, once known.
    pub(crate) fn has_dedup(&self) -> Option<bool> {
        Some(self.fit.as_ref()?.dedup_fault.is_none())
    }

    /// Returns how many inserts the live table remembers, once known.
    pub(crate) fn dedup_window(&self) -> Option<LiveDeduplicationWindow> {
        Some(self.fit.as_ref()?.dedup_window)
    }

    /// Returns why a repeated insert isn't recognised.
    pub(crate) fn dedup_fault(&self) -> Option<&DedupFault> {
        self.fit.as_ref()?.dedup_fault.as_ref()
    }

    /// Returns whether values may not fit into a column because its type was changed.
    pub(crate) fn has_other_types(&self) -> bool {
        self.fit.as_ref().is_some_and(|fit| !fit.mismatched.is_empty())
    }

    /// Returns what in the live table may prevent inserts.
    pub(crate) fn insert_obstacle(&self) -> Option<String> {
        let lost = self.lost.iter().map(|column| format!("column {column} is missing"));
        let differing = self.fit.iter().flat_map(|fit| &fit.mismatched).map(ToString::to_string);
        let found: Vec<String> = lost.chain(differing).collect();
        (!found.is_empty()).then(|| found.join(", "))
    }
}

/// The plans of all tables, by endpoint: replicas may be altered one after the other.
#[derive(Debug)]
pub(crate) struct Plans {
    endpoints: Vec<RwLock<Vec<Arc<InsertPlan>>>>,
}

impl Plans {
    pub(crate) fn new(tables: &SinkTables, endpoints: usize) -> Self {
        let unchecked: Vec<_> =
            tables.all_entries().map(|table| Arc::new(InsertPlan::unchecked(table))).collect();
        Self { endpoints: (0..endpoints).map(|_| RwLock::new(unchecked.clone())).collect() }
    }

    /// Returns the plan for one of the sink's tables at one of its endpoints.
    pub(crate) fn plan_of(&self, endpoint: usize, table: TableIndex) -> Arc<InsertPlan> {
        // Writers replace complete plans.
        let plans = self.endpoints[endpoint].read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&plans[usize::from(table.0)])
    }

    /// Applies a check of a live table. Returns the plan before and the one from now on, if they
    /// differ.
    pub(crate) fn update_plan(
        &self,
        endpoint: usize,
        table: &TableEntry,
        live: &ObservedTable,
        server: Option<ServerVersion>,
    ) -> Option<(Arc<InsertPlan>, Arc<InsertPlan>)> {
        let now = Arc::new(InsertPlan::from_live(table, live, server)?);
        let mut plans = self.endpoints[endpoint].write().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut plans[usize::from(table.index.0)];
        if *slot == now {
            return None;
        }
        Some((std::mem::replace(slot, Arc::clone(&now)), now))
    }

    /// Returns the live JSON columns whose declared type is the same at all endpoints: the bytes of
    /// an insert are made before its endpoint is chosen.
    pub(crate) fn typed_columns(&self, tables: &SinkTables) -> Vec<TypedColumn> {
        let of_table = |table: &TableEntry| {
            let mut plans = self.plans_of_table(table.index);
            let first = plans.next().map(|plan| plan.typed.clone()).unwrap_or_default();
            plans.fold(first, |mut alike, plan| {
                alike.retain(|column| plan.typed.contains(column));
                alike
            })
        };
        tables.all_entries().flat_map(of_table).collect()
    }

    /// Returns the plans of one table at every endpoint.
    pub(crate) fn plans_of_table(
        &self,
        table: TableIndex,
    ) -> impl Iterator<Item = Arc<InsertPlan>> {
        (0..self.endpoints.len()).map(move |endpoint| self.plan_of(endpoint, table))
    }
}

#[cfg(test)]
mod tests;
