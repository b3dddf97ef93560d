//! Checks the live tables: when an answer may concern the table, and periodically.
//!
//! A check is two short queries of system tables, for all tables of this sink at once. Its result
//! becomes [plans](crate::insert::plan), and for people metrics, a log line per change, and a note
//! alongside readiness. A failed check changes nothing.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use millrace_ddl::render::{insert_targets, select_columns};
use millrace_ddl::{ObservedColumn, ObservedTable, ServerVersion};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::insert::deliver::InsertDelivery;
use crate::insert::plan::InsertPlan;
use crate::tables::TableEntry;

/// The time between checks while every table is as declared: the next insert detects a dropped
/// column at once, so these checks are for what inserts don't show.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The time between checks while some table lacks something, so that a repair is used soon.
const REPAIR_INTERVAL: Duration = Duration::from_secs(10);
/// The time between checks before the first success.
const FIRST_INTERVAL: Duration = Duration::from_secs(2);

/// One table, as in `system.tables`.
#[derive(Deserialize)]
struct TableRow {
    name: String,
    engine: String,
    engine_full: String,
    partition_key: String,
    /// The server's version.
    #[serde(default)]
    server: String,
}

/// A check's observation of a table.
struct TableObservation {
    table: ObservedTable,
    /// The server's version, where readable.
    server: Option<ServerVersion>,
}

/// One column, as in `system.columns`.
#[derive(Deserialize)]
struct ColumnRow {
    table: String,
    name: String,
    kind: String,
    default_kind: String,
}

impl InsertDelivery {
    /// Checks periodically, until the process drains.
    pub(crate) async fn check_periodically(&self) {
        // The jitter spreads the queries of collectors that started together.
        let jitter = RandomState::new();
        for round in 0_u64.. {
            let mut all_observed = true;
            for endpoint in 0..self.client.endpoint_count() {
                all_observed &= self.check_endpoint(endpoint, Instant::now()).await;
            }
            let interval = match (all_observed, self.lacks_something()) {
                (false, _) => FIRST_INTERVAL,
                (true, true) => REPAIR_INTERVAL,
                (true, false) => CHECK_INTERVAL,
            };
            // Between three and five quarters of the interval.
            let share = 192 + (jitter.hash_one(round) % 129) as u32;
            tokio::select! {
                () = tokio::time::sleep(interval * share / 256) => {}
                // The interval may have changed.
                () = self.changed.notified() => {}
                () = self.drain.wait_for_begin() => return,
            }
        }
    }

    /// Checks an endpoint's tables, unless that was done since `since`. Returns false when the
    /// query fails.
    pub(crate) async fn check_endpoint(&self, endpoint: usize, since: Instant) -> bool {
        // Inserts that fail together cause one check.
        let mut last = self.last_checks[endpoint].lock().await;
        if last.is_some_and(|last| last >= since) {
            return true;
        }
        *last = Some(Instant::now());
        match self.observe_tables(endpoint).await {
            Ok(observed) => {
                self.apply_observations(endpoint, &observed);
                true
            }
            Err(reason) => {
                let endpoint = self.client.endpoint_name(endpoint);
                tracing::debug!(endpoint, reason, "cannot check the live tables");
                false
            }
        }
    }

    async fn observe_tables(
        &self,
        endpoint: usize,
    ) -> Result<BTreeMap<String, TableObservation>, String> {
        let mut observed = BTreeMap::new();
        let names: Vec<&str> =
            self.tables.all_entries().map(|table| table.full_name.table()).collect();
        let Some(database) =
            self.tables.all_entries().next().map(|table| table.full_name.database())
        else {
            return Ok(observed);
        };
        let query = async |statement| {
            let answer = self.client.run_query(endpoint, &statement).await;
            answer.map_err(|verdict| verdict.to_string())
        };
        let answer = query(insert_targets(database, &names)).await?;
        for row in parse_rows::<TableRow>(&answer)? {
            let TableRow { name, engine, engine_full, partition_key, server } = row;
            let table =
                ObservedTable { engine, engine_full, partition_key, ..ObservedTable::default() };
            observed.insert(name, TableObservation { table, server: server.parse().ok() });
        }
        let answer = query(select_columns(database, &names)).await?;
        for row in parse_rows::<ColumnRow>(&answer)? {
            let ColumnRow { table, name, kind, default_kind } = row;
            if let Some(observation) = observed.get_mut(&table) {
                observation.table.columns.push(ObservedColumn {
                    name,
                    ty: kind,
                    default_kind,
                    // No insert depends on it.
                    codec: String::new(),
                });
            }
        }
        Ok(observed)
    }

    fn apply_observations(&self, endpoint: usize, observed: &BTreeMap<String, TableObservation>) {
        let mut notes = Vec::new();
        for table in self.tables.all_entries() {
            if let Some(TableObservation { table: live, server }) =
                observed.get(table.full_name.table())
                && let Some((before, now)) = self.plans.update_plan(endpoint, table, live, *server)
            {
                log_change(self.client.endpoint_name(endpoint), table, &before, &now);
            }
            let plans: Vec<_> = self.plans.plans_of_table(table.index).collect();
            if plans.iter().all(|plan| plan.has_dedup().is_none()) {
                continue;
            }
            let missing = plans.iter().map(|plan| plan.missing_count()).max().unwrap_or(0);
            let deduplicates = plans.iter().all(|plan| plan.has_dedup() != Some(false));
            self.telemetry.record_table_check(&table.name, missing, deduplicates);
            let remembers = || plans.iter().filter_map(|plan| plan.dedup_window());
            if let Some(inserts) = remembers().map(|it| it.inserts).min() {
                let seconds = remembers().filter_map(|it| it.seconds).min();
                self.telemetry.record_dedup_window(&table.name, inserts, seconds);
            }
            notes.extend(plans.iter().find_map(|plan| table_warning(table, plan)));
        }
        let typed = self.plans.typed_columns(&self.tables);
        self.typed.send_if_modified(|known| {
            let is_new = *known != typed;
            *known = typed;
            is_new
        });
        self.state.set_warning((!notes.is_empty()).then(|| notes.join("; ")));
    }

    fn lacks_something(&self) -> bool {
        let plans =
            self.tables.all_entries().flat_map(|table| self.plans.plans_of_table(table.index));
        plans.into_iter().any(|plan| plan.missing_count() > 0 || plan.has_other_types())
    }
}

/// Parses rows of an answer in the format `JSONEachRow`.
pub(crate) fn parse_rows<T: DeserializeOwned>(answer: &[u8]) -> Result<Vec<T>, String> {
    let rows = serde_json::Deserializer::from_slice(answer).into_iter();
    rows.collect::<Result<_, _>>().map_err(|error| format!("an answer that isn't rows: {error}"))
}

/// Logs one line per change, and none for a table that is correct from the first check on.
fn log_change(endpoint: &str, table: &TableEntry, before: &InsertPlan, now: &InsertPlan) {
    let table = table.name.as_ref();
    if now.omitted_columns() != before.omitted_columns() {
        match now.omitted_columns() {
            [] => tracing::info!(endpoint, table, "all columns exist again and are written"),
            columns => tracing::warn!(
                endpoint,
                table,
                ?columns,
                "the live table lacks columns; rows are stored without them"
            ),
        }
    }
    if let Some(obstacle) = now.insert_obstacle()
        && before.insert_obstacle().as_deref() != Some(&obstacle)
    {
        tracing::warn!(endpoint, table, obstacle, "the live table may refuse inserts");
    }
    if now.dedup_fault() != before.dedup_fault() {
        match now.dedup_fault() {
            None => tracing::info!(endpoint, table, "repeated inserts are recognised"),
            Some(reason) => tracing::warn!(
                endpoint,
                table,
                %reason,
                "a repeated insert may be stored twice: delivery into this table is at least once"
            ),
        }
    }
}

/// Returns the note for a table that accepts inserts.
fn table_warning(table: &TableEntry, plan: &InsertPlan) -> Option<String> {
    let mut notes = Vec::new();
    if !plan.omitted_columns().is_empty() {
        notes.push(format!("rows are stored without {}", plan.omitted_columns().join(", ")));
    }
    notes.extend(plan.insert_obstacle());
    if let Some(reason) = plan.dedup_fault() {
        notes.push(format!("a repeated insert may be stored twice, {reason}"));
    }
    (!notes.is_empty()).then(|| format!("{}: {}", table.name, notes.join(", ")))
}
