//! Checks of the live tables: when an answer may concern the table, and periodically.
//!
//! A check is two short queries of system tables, for all tables of this sink at once. Its result
//! becomes [plans](super::plan); what a person should know becomes metrics, a log line per change,
//! and a note beside readiness. A failed check changes nothing.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use millrace_ddl::render::{columns, insert_targets};
use millrace_ddl::{ObservedColumn, ObservedTable, ServerVersion};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::deliver::Delivery;
use super::plan::Plan;
use super::tables::TableEntry;

/// Between checks while every table is as declared: a dropped column is met by the next insert at
/// once, so this is for what inserts don't show.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// Between checks while some table lacks something, so that a repair is used soon.
const REPAIR_INTERVAL: Duration = Duration::from_secs(10);
/// Before the first check succeeded.
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

/// What a check saw of a table.
struct Seen {
    table: ObservedTable,
    /// Where it can be read.
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

impl Delivery {
    /// Checks periodically, until the process drains.
    pub(super) async fn keep_looking(&self) {
        // Many collectors started together don't ask together.
        let jitter = RandomState::new();
        for turn in 0_u64.. {
            let mut seen = true;
            for endpoint in 0..self.client.endpoints() {
                seen &= self.look(endpoint, Instant::now()).await;
            }
            let interval = match (seen, self.lacks_something()) {
                (false, _) => FIRST_INTERVAL,
                (true, true) => REPAIR_INTERVAL,
                (true, false) => LOOK_INTERVAL,
            };
            // Between three and five quarters of the interval.
            let share = 192 + (jitter.hash_one(turn) % 129) as u32;
            tokio::select! {
                () = tokio::time::sleep(interval * share / 256) => {}
                // The interval may be another one now.
                () = self.changed.notified() => {}
                () = self.drain.begun() => return,
            }
        }
    }

    /// Checks an endpoint's tables, unless that was done since `since`. False when it can't be
    /// asked.
    pub(super) async fn look(&self, endpoint: usize, since: Instant) -> bool {
        let Some(last) = self.looks.get(endpoint) else { return false };
        // Inserts that fail together cause one check.
        let mut last = last.lock().await;
        if last.is_some_and(|last| last >= since) {
            return true;
        }
        *last = Some(Instant::now());
        match self.observe(endpoint).await {
            Ok(observed) => {
                self.learn(endpoint, &observed);
                true
            }
            Err(reason) => {
                let endpoint = self.client.endpoint_name(endpoint);
                tracing::debug!(endpoint, reason, "cannot look at the live tables");
                false
            }
        }
    }

    async fn observe(&self, endpoint: usize) -> Result<BTreeMap<String, Seen>, String> {
        let mut observed = BTreeMap::new();
        let names: Vec<&str> = self.tables.all().map(|table| table.full_name.table()).collect();
        let Some(database) = self.tables.all().next().map(|table| table.full_name.database())
        else {
            return Ok(observed);
        };
        let answer = self.client.ask(endpoint, &insert_targets(database, &names)).await?;
        for row in rows::<TableRow>(&answer)? {
            let TableRow { name, engine, engine_full, partition_key, server } = row;
            let table =
                ObservedTable { engine, engine_full, partition_key, ..ObservedTable::default() };
            observed.insert(name, Seen { table, server: server.parse().ok() });
        }
        let answer = self.client.ask(endpoint, &columns(database, &names)).await?;
        for row in rows::<ColumnRow>(&answer)? {
            let ColumnRow { table, name, kind, default_kind } = row;
            if let Some(seen) = observed.get_mut(&table) {
                seen.table.columns.push(ObservedColumn {
                    name,
                    ty: kind,
                    default_kind,
                    // Nothing about an insert depends on it.
                    codec: String::new(),
                });
            }
        }
        Ok(observed)
    }

    fn learn(&self, endpoint: usize, observed: &BTreeMap<String, Seen>) {
        let mut notes = Vec::new();
        for table in self.tables.all() {
            if let Some(Seen { table: live, server }) = observed.get(table.full_name.table())
                && let Some((before, now)) = self.plans.learn(endpoint, table, live, *server)
            {
                tell_change(self.client.endpoint_name(endpoint), table, &before, &now);
            }
            let plans: Vec<_> = self.plans.everywhere(table.index).collect();
            if plans.iter().all(|plan| plan.deduplicates().is_none()) {
                continue;
            }
            let missing = plans.iter().map(|plan| plan.missing()).max().unwrap_or(0);
            let deduplicates = plans.iter().all(|plan| plan.deduplicates() != Some(false));
            self.telemetry.table_seen(&table.name, missing, deduplicates);
            let remembers = || plans.iter().filter_map(|plan| plan.remembers());
            if let Some(inserts) = remembers().map(|it| it.inserts).min() {
                let seconds = remembers().filter_map(|it| it.seconds).min();
                self.telemetry.table_remembers(&table.name, inserts, seconds);
            }
            notes.extend(plans.iter().find_map(|plan| note(table, plan)));
        }
        let typed = self.plans.typed(&self.tables);
        self.typed.send_if_modified(|known| {
            let is_new = *known != typed;
            *known = typed;
            is_new
        });
        self.state.note((!notes.is_empty()).then(|| notes.join("; ")));
    }

    fn lacks_something(&self) -> bool {
        let plans = self.tables.all().flat_map(|table| self.plans.everywhere(table.index));
        plans.into_iter().any(|plan| plan.missing() > 0 || plan.has_other_types())
    }
}

/// Rows of an answer in the format `JSONEachRow`.
pub(super) fn rows<T: DeserializeOwned>(answer: &[u8]) -> Result<Vec<T>, String> {
    let rows = serde_json::Deserializer::from_slice(answer).into_iter();
    rows.collect::<Result<_, _>>().map_err(|error| format!("an answer that isn't rows: {error}"))
}

/// One line per change, and none for a table that is right from the first check on.
fn tell_change(endpoint: &str, table: &TableEntry, before: &Plan, now: &Plan) {
    let table = table.name.as_ref();
    if now.left_out() != before.left_out() {
        match now.left_out() {
            [] => tracing::info!(endpoint, table, "all columns are there again and written"),
            columns => tracing::warn!(
                endpoint,
                table,
                ?columns,
                "the live table lacks columns; rows are stored without them"
            ),
        }
    }
    if let Some(obstacle) = now.obstacle()
        && before.obstacle().as_deref() != Some(&obstacle)
    {
        tracing::warn!(endpoint, table, obstacle, "the live table may refuse inserts");
    }
    if now.undeduplicated() != before.undeduplicated() {
        match now.undeduplicated() {
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

/// The note for a table that takes inserts.
fn note(table: &TableEntry, plan: &Plan) -> Option<String> {
    let mut notes = Vec::new();
    if !plan.left_out().is_empty() {
        notes.push(format!("rows are stored without {}", plan.left_out().join(", ")));
    }
    notes.extend(plan.obstacle());
    if let Some(reason) = plan.undeduplicated() {
        notes.push(format!("a repeated insert may be stored twice, {reason}"));
    }
    (!notes.is_empty()).then(|| format!("{}: {}", table.name, notes.join(", ")))
}
