//! How fast a pool inserts into its tables, and how many inserts each table remembers, from samples
//! of its pods. Pure; judges nothing.
//!
//! The highest rate of the last [`HELD_SECONDS`] counts, so that a quiet minute doesn't end a
//! warning. Limits: one collector's tables, [`HELD_SECONDS`] in steps of ten seconds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::cache::pools::inserts::{HELD_SECONDS, Rates};
use crate::pods::{PodSample, ScrapeResults};

/// The insert rates and deduplication windows of a pool's tables.
#[derive(Clone, Debug, Default)]
pub struct Replays {
    /// The last answer of each pod.
    pods: BTreeMap<String, Arc<PodSample>>,
    pub(crate) tables: BTreeMap<String, TableRates>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TableRates {
    /// Inserts per second of all pods, with the time of each sample.
    pub(crate) rates: VecDeque<(i64, f64)>,
    /// How many inserts the table remembers, and for how many seconds at most, if reported.
    pub(crate) inserts: u64,
    pub(crate) seconds: Option<u64>,
}

impl Replays {
    /// Adds a sample of the pods.
    pub fn record_samples(&mut self, scrapes: &ScrapeResults, now: i64) {
        let before = std::mem::take(&mut self.pods);
        let mut rates: BTreeMap<&str, f64> = BTreeMap::new();
        let mut remembered: BTreeMap<&str, (u64, Option<u64>)> = BTreeMap::new();
        for (pod, answer) in scrapes {
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
            self.pods.insert(pod.clone(), sample.clone());
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

    /// Returns the pool's highest recent inserts per second, for each table.
    pub fn peak_rates(&self) -> Rates {
        let highest = |(name, table): (&String, &TableRates)| (name.clone(), table.peak_rate());
        self.tables.iter().map(highest).collect()
    }
}

impl TableRates {
    pub(crate) fn peak_rate(&self) -> f64 {
        self.rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }
}

/// Returns inserts per second into each table since the last sample. A restarted process has no
/// rate.
fn rates_of<'a>(before: Option<&Arc<PodSample>>, sample: &'a PodSample) -> Vec<(&'a str, f64)> {
    let Some(before) = before.filter(|before| before.at < sample.at) else { return Vec::new() };
    let elapsed = (sample.at - before.at) as f64;
    let rate = |(table, count): (&'a String, &u64)| {
        let grown = count.checked_sub(before.table_inserts.get(table).copied().unwrap_or(0))?;
        Some((table.as_str(), grown as f64 / elapsed))
    };
    sample.table_inserts.iter().filter_map(rate).collect()
}
