//! Checks whether a pool's tables remember inserts for as long as one may be repeated: compares the
//! inserts into each table within the longest time from an insert to its repetition with the number
//! that the live table remembers. Pure.
//!
//! The pool's own rates come from [`crate::cache::replays`]; other pools' inserts into the same
//! tables count as far as [`crate::cache::inserts`] knows them.

use kube::ResourceExt;
use millrace_config as config;
use millrace_crds::v1alpha1::{Delivery, GatewayPool};
use millrace_crds::{ConditionStatus, ConditionType, Reason, find_condition};

use crate::cache::inserts::Rates;
use crate::cache::replays::{Replays, TableRates};
use crate::pool::overrides;
use crate::report::conditions::Conditions;
use crate::telemetry::metrics::{Counter, Metrics, ObjectGauge};

/// Counts each pool whose tables forget inserts too early.
pub(super) const RISKS: Counter<0> = Counter::new(
    "millrace_operator_deduplication_risks_total",
    "Times that a gateway pool's deduplication window became shorter than the longest delay of a \
     repeated insert.",
    [],
);

/// Maximum number of pools with series.
const SHORT_POOLS_MAX: usize = 1_000;

// The scraper itself adds the label `namespace`.
const SHORTFALL: ObjectGauge<3> = ObjectGauge::new(
    "millrace_operator_deduplication_short_ratio",
    "Factor by which a table's deduplication window is shorter than the longest delay of a \
     repeated insert; only of gateway pools whose window is too short.",
    ["pool_namespace", "pool", "table"],
    SHORT_POOLS_MAX,
);

/// The collector's longest wait between two attempts of an insert, in seconds.
const BACK_OFF_SECONDS: u64 = 60;

/// Longer times count as a day.
const DAY_SECONDS: u64 = 24 * 3600;

/// The conclusion for the pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum DeduplicationRisk {
    /// No pod has reported its inserts.
    #[default]
    Unknown,
    /// Every table remembers for long enough.
    Covered(CoveredTable),
    /// The pool's delivery allows copies.
    NotPromised,
    /// A table forgets too early.
    AtRisk(ShortTable),
}

/// The time for which the table that forgets first remembers an insert.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CoveredTable {
    pub(super) table: String,
    /// Rounded down to a power of two, so that the message changes rarely.
    pub(super) seconds: u64,
    /// The time after which an insert may be repeated.
    pub(super) replay_seconds: u64,
}

/// A table that forgets too early.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ShortTable {
    pub(super) table: String,
    /// The factor by which the table should remember more; more than 1.
    pub(super) ratio: f64,
    /// Message text: the table and the remedy.
    pub(super) advice: String,
}

impl Replays {
    /// Judges whether each table remembers for as long as this pool may take to repeat an insert,
    /// given the inserts of `others`.
    pub(super) fn assess_risk(&self, pool: &GatewayPool, others: &Rates) -> DeduplicationRisk {
        if pool.spec.settings.delivery == Delivery::AtLeastOnce {
            return DeduplicationRisk::NotPromised;
        }
        let seconds = replay_seconds(pool);
        // A server gets only its own shard's inserts.
        let shards = f64::from(pool.spec.clickhouse.shards().max(1));
        let mut shortest: Option<CoveredTable> = None;
        for (name, table) in &self.tables {
            let of_others = others.get(name).copied().unwrap_or(0.0);
            let rate = (table.peak_rate() + of_others) / shards;
            // The cast saturates; a rate is finite.
            let needed = (rate * seconds as f64).ceil() as u64;
            let for_ = table.seconds.filter(|for_| *for_ < seconds && needed > 0);
            if needed <= table.inserts && for_.is_none() {
                let lasts = lasts_seconds(table, rate);
                if !table.rates.is_empty() && shortest.as_ref().is_none_or(|it| lasts < it.seconds)
                {
                    let table = name.clone();
                    shortest =
                        Some(CoveredTable { table, seconds: lasts, replay_seconds: seconds });
                }
                continue;
            }
            let by_time = for_.map_or(0.0, |for_| seconds as f64 / for_.max(1) as f64);
            let ratio = by_time.max(needed as f64 / table.inserts.max(1) as f64);
            let advice = risk_advice(name, table, needed, seconds, of_others > 0.0);
            return DeduplicationRisk::AtRisk(ShortTable { table: name.clone(), ratio, advice });
        }
        shortest.map_or(DeduplicationRisk::Unknown, DeduplicationRisk::Covered)
    }
}

/// Sets by what factor a pool's table remembers too little; `None`: its tables remember enough, or
/// it was deleted.
pub(super) fn set_shortfall(
    metrics: &Metrics,
    namespace: &str,
    pool: &str,
    short: Option<(&str, f64)>,
) {
    let row = short.map(|(table, by)| (vec![table.to_owned().into()], by));
    metrics.set_rows(&SHORTFALL, &[namespace, pool], row.into_iter().collect());
}

impl DeduplicationRisk {
    /// Sets the operator's metric. Unknown figures end no warning.
    pub(super) fn set_metric(&self, metrics: &Metrics, pool: &GatewayPool) {
        let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
        let short = match self {
            Self::AtRisk(ShortTable { table, ratio, .. }) => Some((table.as_str(), *ratio)),
            Self::Unknown => return,
            Self::Covered(_) | Self::NotPromised => None,
        };
        set_shortfall(metrics, &namespace, &name, short);
    }

    /// Sets DeduplicationAtRisk. Unknown figures end no warning.
    pub(super) fn state_condition(&self, conditions: &mut Conditions, pool: &GatewayPool) {
        use ConditionType::DeduplicationAtRisk;
        match self {
            Self::AtRisk(ShortTable { advice, .. }) => {
                conditions.set_true(
                    DeduplicationAtRisk,
                    Reason::DeduplicationWindowShort,
                    advice.as_str(),
                );
            }
            Self::Unknown if is_reported(pool) => {}
            Self::Unknown => {
                let message = "no gateway has reported yet how fast it inserts";
                conditions.set_false(
                    DeduplicationAtRisk,
                    Reason::DeduplicationWindowSufficient,
                    message,
                );
            }
            Self::Covered(CoveredTable { table, seconds, replay_seconds }) => {
                let over = match *seconds {
                    DAY_SECONDS.. => "a day".to_owned(),
                    seconds => format!("{seconds} s"),
                };
                let message = format!(
                    "every table remembers inserts for over {over} ({table} the shortest); one may \
                     be sent again after {replay_seconds} s at most"
                );
                conditions.set_false(
                    DeduplicationAtRisk,
                    Reason::DeduplicationWindowSufficient,
                    message,
                );
            }
            Self::NotPromised => {
                let message = "delivery is AtLeastOnce: records may be stored twice";
                conditions.set_false(DeduplicationAtRisk, Reason::DuplicatesAllowed, message);
            }
        }
    }

    /// Returns whether a table at risk was not reported before.
    pub(super) fn is_news(&self, pool: &GatewayPool) -> bool {
        matches!(self, Self::AtRisk(_)) && !is_reported(pool)
    }
}

/// Returns the time for which a table remembers an insert at this rate, in seconds: a power of two
/// or a day.
fn lasts_seconds(table: &TableRates, rate: f64) -> u64 {
    // The cast saturates without inserts; the rate is never negative.
    let by_number = (table.inserts as f64 / rate) as u64;
    let seconds = by_number.min(table.seconds.unwrap_or(DAY_SECONDS)).min(DAY_SECONDS);
    if seconds == DAY_SECONDS { seconds } else { 1 << seconds.max(1).ilog2() }
}

fn is_reported(pool: &GatewayPool) -> bool {
    let conditions = pool
        .status
        .iter()
        .flat_map(|status| find_condition(&status.conditions, ConditionType::DeduplicationAtRisk));
    conditions.into_iter().any(|fact| fact.status == ConditionStatus::True)
}

/// Returns the longest time between an insert and its repetition, in seconds: a gateway dies after
/// the insert and its group waits for the session's time-out, or it drains to its deadline; then
/// the next owner's insert takes its time-out, waits, and is retried.
pub(super) fn replay_seconds(pool: &GatewayPool) -> u64 {
    let theirs = &pool.spec.settings.config;
    let session = config::KafkaReceiver::default().session_timeout_seconds;
    let session =
        overrides::number_or(theirs, &["receivers", "kafka", "sessionTimeoutSeconds"], session);
    let insert = config::ClickHouseExporter::default().insert_timeout_seconds;
    let insert =
        overrides::number_or(theirs, &["exporters", "clickhouse", "insertTimeoutSeconds"], insert);
    u64::from(session)
        + u64::from(pool.spec.settings.drain_seconds)
        + u64::from(insert)
        + BACK_OFF_SECONDS
}

/// Returns the message. Figures are rounded up, so that it changes rarely.
fn risk_advice(
    name: &str,
    table: &TableRates,
    needed: u64,
    seconds: u64,
    with_others: bool,
) -> String {
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
            "{name} remembers {} inserts, and more {come}within the {seconds} s after which one may \
             be sent again: set {setting} to {inserts} at least, or raise batch.maxAgeMillis",
            table.inserts
        ),
    }
}
