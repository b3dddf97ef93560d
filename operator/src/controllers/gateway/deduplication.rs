//! Whether a pool's tables remember inserts for as long as one may be sent again: how many inserts
//! came to each within the longest time between an insert and its repetition, against how many the
//! live table remembers. Pure.
//!
//! Rates come from two looks at the pods; the highest of the last [`HELD_SECONDS`] counts, so that
//! a quiet minute doesn't end the warning. Other pools' inserts into the same tables count in, as
//! far as `inserts` knows them. Limits: the tables of one collector, [`HELD_SECONDS`] by ten
//! seconds.

use std::collections::{BTreeMap, VecDeque};

use kube::ResourceExt;
use millrace_config as config;
use millrace_crds::v1alpha1::{Delivery, GatewayPool};
use millrace_crds::{ConditionStatus, ConditionType, Reason, find};

use crate::inserts::{HELD_SECONDS, Rates};
use crate::pods::{Look, Sample};
use crate::report::conditions::Conditions;
use crate::telemetry::metrics::Metrics;

/// The collector's longest wait between two tries of an insert, in seconds.
const BACK_OFF_SECONDS: u64 = 60;

/// What is kept of a pool's tables between looks.
#[derive(Clone, Debug, Default)]
pub struct Replays {
    /// The last answer of each pod: when, and inserts by table.
    pods: BTreeMap<String, (i64, BTreeMap<String, u64>)>,
    tables: BTreeMap<String, Table>,
}

#[derive(Clone, Debug, Default)]
struct Table {
    /// Inserts a second of all pods, by when.
    rates: VecDeque<(i64, f64)>,
    /// Inserts that it remembers, and for how many seconds at most if it says so.
    inserts: u64,
    seconds: Option<u64>,
}

/// What follows for the pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Verdict {
    /// No pod has told of it.
    #[default]
    Unknown,
    /// Every table remembers for long enough.
    Covered,
    /// Copies are allowed.
    NotPromised,
    /// One forgets too early.
    AtRisk(Short),
}

/// A table that forgets too early.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Short {
    pub(super) table: String,
    /// How many times as much it would have to remember; more than 1.
    pub(super) ratio: f64,
    /// For people: which, and what to do.
    pub(super) advice: String,
}

impl Replays {
    /// Takes a look at the pods.
    pub(super) fn note(&mut self, look: &Look, now: i64) {
        let before = std::mem::take(&mut self.pods);
        let mut rates: BTreeMap<&str, f64> = BTreeMap::new();
        let mut remembered: BTreeMap<&str, (u64, Option<u64>)> = BTreeMap::new();
        for (pod, answer) in look {
            let Ok(sample) = answer else { continue };
            for (table, inserts) in &sample.table_remembers_inserts {
                let seconds = sample.table_remembers_seconds.get(table).copied();
                let least = remembered.entry(table).or_insert((*inserts, seconds));
                least.0 = least.0.min(*inserts);
                least.1 = least.1.into_iter().chain(seconds).min();
            }
            for (table, rate) in rates_of(before.get(pod), sample) {
                *rates.entry(table).or_default() += rate;
            }
            self.pods.insert(pod.clone(), (sample.at, sample.table_inserts.clone()));
        }
        for (name, (inserts, seconds)) in remembered {
            let table = self.tables.entry(name.to_owned()).or_default();
            (table.inserts, table.seconds) = (inserts, seconds);
        }
        for (name, table) in &mut self.tables {
            table.rates.extend(rates.get(name.as_str()).map(|rate| (now, *rate)));
            table.rates.retain(|(at, _)| now - at <= HELD_SECONDS);
        }
    }

    /// Inserts a second of the pool into each table, the highest that counts.
    pub(super) fn rates(&self) -> Rates {
        let highest = |(name, table): (&String, &Table)| (name.clone(), table.rate());
        self.tables.iter().map(highest).collect()
    }

    /// Whether each table remembers for as long as this pool may take to repeat an insert, with
    /// what `others` insert meanwhile.
    pub(super) fn judge(&self, pool: &GatewayPool, others: &Rates) -> Verdict {
        if pool.spec.settings.delivery == Delivery::AtLeastOnce {
            return Verdict::NotPromised;
        }
        let seconds = replay_seconds(pool);
        // A server has the inserts of its own shard.
        let shards = f64::from(pool.spec.clickhouse.shards().max(1));
        let measured = self.tables.values().any(|table| !table.rates.is_empty());
        for (name, table) in &self.tables {
            let of_others = others.get(name).copied().unwrap_or(0.0);
            let rate = (table.rate() + of_others) / shards;
            // Saturates; a rate is finite.
            let needed = (rate * seconds as f64).ceil() as u64;
            let for_ = table.seconds.filter(|for_| *for_ < seconds && needed > 0);
            if needed <= table.inserts && for_.is_none() {
                continue;
            }
            let by_time = for_.map_or(0.0, |for_| seconds as f64 / for_.max(1) as f64);
            let ratio = by_time.max(needed as f64 / table.inserts.max(1) as f64);
            let advice = advice(name, table, needed, seconds, of_others > 0.0);
            return Verdict::AtRisk(Short { table: name.clone(), ratio, advice });
        }
        if measured { Verdict::Covered } else { Verdict::Unknown }
    }
}

impl Table {
    fn rate(&self) -> f64 {
        self.rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }
}

impl Verdict {
    /// Tells it in the operator's own figures. What is not known ends no warning.
    pub(super) fn count(&self, metrics: &Metrics, pool: &GatewayPool) {
        let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
        match self {
            Self::AtRisk(Short { table, ratio, .. }) => {
                metrics.deduplication_is_short(namespace, name, table.clone(), *ratio);
            }
            Self::Unknown => {}
            Self::Covered | Self::NotPromised => metrics.deduplication_is_covered(namespace, name),
        }
    }

    /// States DeduplicationAtRisk. What is not known ends no warning.
    pub(super) fn state(&self, conditions: &mut Conditions, pool: &GatewayPool) {
        use ConditionType::DeduplicationAtRisk;
        let covered = "every table remembers inserts for as long as one may be sent again, as far \
                       as gateways have told";
        match self {
            Self::AtRisk(Short { advice, .. }) => {
                conditions.holds(
                    DeduplicationAtRisk,
                    Reason::DeduplicationWindowShort,
                    advice.as_str(),
                );
            }
            Self::Unknown if is_told(pool) => {}
            Self::Unknown | Self::Covered => {
                conditions.fails(DeduplicationAtRisk, Reason::DeduplicationCovered, covered);
            }
            Self::NotPromised => {
                let message = "delivery is AtLeastOnce: records may be stored twice";
                conditions.fails(DeduplicationAtRisk, Reason::CopiesAllowed, message);
            }
        }
    }

    /// Whether this is news: a table at risk, where none was told of.
    pub(super) fn is_news(&self, pool: &GatewayPool) -> bool {
        matches!(self, Self::AtRisk(_)) && !is_told(pool)
    }
}

fn is_told(pool: &GatewayPool) -> bool {
    let conditions = pool
        .status
        .iter()
        .flat_map(|status| find(&status.conditions, ConditionType::DeduplicationAtRisk));
    conditions.into_iter().any(|fact| fact.status == ConditionStatus::True)
}

/// Inserts a second into each table since the look before. A process that began anew has no rate.
fn rates_of<'a>(
    before: Option<&(i64, BTreeMap<String, u64>)>,
    sample: &'a Sample,
) -> Vec<(&'a str, f64)> {
    let Some((at, inserts)) = before.filter(|(at, _)| *at < sample.at) else { return Vec::new() };
    let elapsed = (sample.at - at) as f64;
    let rate = |(table, count): (&'a String, &u64)| {
        let grown = count.checked_sub(inserts.get(table).copied().unwrap_or(0))?;
        Some((table.as_str(), grown as f64 / elapsed))
    };
    sample.table_inserts.iter().filter_map(rate).collect()
}

/// The longest time between an insert and its repetition, in seconds: a gateway dies behind the
/// insert and its group waits for the session's time-out, or drains to its deadline; then the next
/// owner's own insert takes its time-out, waits, and is tried again.
pub(super) fn replay_seconds(pool: &GatewayPool) -> u64 {
    let session = config::KafkaReceiver::default().session_timeout_seconds;
    let insert = config::ClickHouseExporter::default().insert_timeout_seconds;
    u64::from(session)
        + u64::from(pool.spec.settings.drain_seconds)
        + u64::from(insert)
        + BACK_OFF_SECONDS
}

/// Figures are rounded up, so that the message changes seldom.
fn advice(name: &str, table: &Table, needed: u64, seconds: u64, with_others: bool) -> String {
    let come = if with_others { "come, with other pools', " } else { "come " };
    let inserts = needed.saturating_mul(2).next_power_of_two();
    let (setting, for_) = match table.seconds {
        Some(for_) if for_ < seconds => ("replicated_deduplication_window_seconds", Some(for_)),
        Some(_) => ("replicated_deduplication_window", None),
        None => ("non_replicated_deduplication_window", None),
    };
    match for_ {
        Some(for_) => format!(
            "{name} remembers inserts for {for_} s, and one may be sent again after {seconds} s: \
             set {setting} to {} at least",
            2 * seconds
        ),
        None => format!(
            "{name} remembers {} inserts, and more {come}within the {seconds} s after which one \
             may be sent again: set {setting} to {inserts} at least, or cut larger batches",
            table.inserts
        ),
    }
}
