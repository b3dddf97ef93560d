//! Sums messages lost to retention, and dead letters, over gateways and restarts, and reports them
//! until someone acknowledges them. Pure.
//!
//! A process counts from zero; the status stores how much of its count is in the total. So an
//! operator that restarted, or decides from an older status, neither forgets nor counts twice.
//! Counts between a process's last sample and its end are missed. Limits: ongoing growth is added
//! once a minute; [`COUNTED_MAX`] processes, [`PARTS_MAX`] names.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_crds::v1alpha1::{
    Acknowledged, GatewayPool, GatewayPoolStatus, TallyPart, TallyProcess, TallyStatus,
};
use millrace_crds::{ConditionStatus, ConditionType, Reason, find_condition};

use super::deduplication::DeduplicationRisk;
use crate::pods::{PodSample, ScrapeResults};
use crate::pool::process_counts::{is_recent, is_same_process, reserve_slot};
use crate::pool::status::as_i64;
use crate::report::conditions::{Conditions, status_time};
use crate::report::events::Notice;

/// The time after which growth is a new event, though the condition never changed.
const REPORT_AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(600);
/// The number of stored counts: three topics or signals of each of 100 pods, as in the status.
/// Counts of further pods aren't added: the total is then too low, never too high.
const COUNTED_MAX: usize = 300;
/// The number of topics or signals counted separately; there are three. The status has the same
/// limit.
const PARTS_MAX: usize = 16;

/// Both counts, as in the status; and whether copies are possible.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Losses {
    pub(super) replays: DeduplicationRisk,
    pub(super) lost: Option<TallyStatus>,
    pub(super) dead_letters: Option<TallyStatus>,
}

/// One count: its object and its report.
struct LossKind {
    type_: ConditionType,
    /// The spec's field that acknowledges the count.
    field: &'static str,
    known: fn(&Acknowledged) -> Option<i64>,
    none: (Reason, &'static str),
    some: Reason,
    acknowledged: Reason,
    /// The object of the count.
    what: &'static str,
    /// The remedy.
    remedy: &'static str,
    of: fn(&Losses) -> Option<&TallyStatus>,
}

const KINDS: [LossKind; 2] = [
    LossKind {
        type_: ConditionType::DataLost,
        field: "spec.acknowledged.dataLost",
        known: |acknowledged| acknowledged.data_lost,
        none: (Reason::NoDataLost, "no gateway has reported a message deleted before it was read"),
        some: Reason::MessagesLostToRetention,
        acknowledged: Reason::LossAcknowledged,
        what: "messages were deleted by Kafka's retention before a gateway read them",
        remedy: "raise the topic's retention, or scaling.maxReplicas",
        of: |losses| losses.lost.as_ref(),
    },
    LossKind {
        type_: ConditionType::DeadLettersPresent,
        field: "spec.acknowledged.deadLetters",
        known: |acknowledged| acknowledged.dead_letters,
        none: (Reason::NoDeadLetters, "no gateway has reported a dead letter"),
        some: Reason::RecordsDeadLettered,
        acknowledged: Reason::DeadLettersAcknowledged,
        what: "records could not be stored and are dead letters",
        remedy: "list them with kubectl millrace dead-letters list, fix the cause, resend them",
        of: |losses| losses.dead_letters.as_ref(),
    },
];

impl Losses {
    /// Returns the counts in the status.
    pub(super) fn from_status(status: Option<&GatewayPoolStatus>) -> Self {
        let Some(status) = status else { return Self::default() };
        let (lost, letters) = (status.data_lost.clone(), status.dead_letters.clone());
        Self { lost, dead_letters: letters, ..Self::default() }
    }

    /// Adds the growth of the pods' counts.
    pub(super) fn record_scrapes(&mut self, scrapes: &ScrapeResults, now: Timestamp) {
        let Time(now) = status_time(now);
        add_growth(&mut self.lost, scrapes, |sample| &sample.lost_to_retention, now);
        add_growth(&mut self.dead_letters, scrapes, |sample| &sample.dead_lettered, now);
    }

    /// Sets DataLost, DeadLettersPresent and DeduplicationAtRisk.
    pub(super) fn state_losses(&self, conditions: &mut Conditions, pool: &GatewayPool) {
        self.replays.state_condition(conditions, pool);
        for kind in &KINDS {
            let Some(tally) = (kind.of)(self) else {
                conditions.set_false(kind.type_, kind.none.0, kind.none.1);
                continue;
            };
            let text = tally_text(tally, kind);
            match acknowledged_count(pool, kind, tally.total) {
                Ok(known) if known == tally.total => {
                    conditions.set_false(
                        kind.type_,
                        kind.acknowledged,
                        format!("{text}; acknowledged"),
                    );
                }
                Ok(known) => {
                    let new = match known {
                        0 => String::new(),
                        known => format!(" ({} since acknowledged)", tally.total - known),
                    };
                    conditions.set_true(
                        kind.type_,
                        kind.some,
                        format!("{text}{new}; {}", tally_advice(tally, kind)),
                    );
                }
                Err(invalid) => {
                    let advice = tally_advice(tally, kind);
                    let message = format!("{text}; {} is {invalid}; {advice}", kind.field);
                    conditions.set_true(kind.type_, kind.some, message);
                }
            }
        }
    }

    /// Returns events of growth that resumed after a while. The condition did not change, so it
    /// publishes none.
    pub(super) fn growth_notices(&self, before: &GatewayPoolStatus) -> Vec<Notice> {
        let reported = Self::from_status(Some(before));
        let again = |kind: &LossKind| {
            let (was, now) = ((kind.of)(&reported)?, (kind.of)(self)?);
            let fact = find_condition(&before.conditions, kind.type_)?;
            let calm = now.last_increase_at.0.duration_since(was.last_increase_at.0);
            let grew = now.total > was.total && calm >= REPORT_AGAIN_AFTER;
            let note = || format!("{} more; {}", now.total - was.total, tally_text(now, kind));
            (grew && fact.status == ConditionStatus::True)
                .then(|| Notice::warning(kind.some, "Reconcile", note()))
        };
        KINDS.iter().filter_map(again).collect()
    }
}

/// Adds the growth of the pods' counts to a total, unless the total is recent: a later addition
/// includes the growth.
fn add_growth(
    tally: &mut Option<TallyStatus>,
    scrapes: &ScrapeResults,
    of: fn(&PodSample) -> &BTreeMap<String, u64>,
    now: Timestamp,
) {
    if tally.as_ref().is_some_and(|tally| is_recent(&tally.last_increase_at, now)) {
        return;
    }
    let counted = tally.as_ref().map_or(&[][..], |tally| &tally.processes);
    let mut grown = Vec::new();
    for (pod, answer) in scrapes {
        let Ok(sample) = answer else { continue };
        for (name, count) in of(sample) {
            let count = as_i64(*count);
            let last = counted.iter().find(|it| it.pod == *pod && it.name == *name);
            let last = last.filter(|last| {
                is_same_process(last.started_at, sample.started_at, count >= last.count)
            });
            let growth = count - last.map_or(0, |last| last.count);
            if growth > 0 {
                let (pod, name, started_at) = (pod.clone(), name.clone(), sample.started_at);
                grown.push((TallyProcess { pod, name, started_at, count }, growth));
            }
        }
    }
    if grown.is_empty() {
        return;
    }
    let tally = tally.get_or_insert_with(|| TallyStatus {
        total: 0,
        last_increase_at: Time(now),
        parts: Vec::new(),
        processes: Vec::new(),
    });
    for (counted, growth) in grown {
        let is_it = |it: &TallyProcess| it.pod == counted.pod && it.name == counted.name;
        let exists = |it: &TallyProcess| scrapes.contains_key(&it.pod);
        if !tally.processes.iter().any(is_it)
            && !reserve_slot(&mut tally.processes, COUNTED_MAX, exists)
        {
            continue;
        }
        tally.last_increase_at = Time(now);
        tally.total = tally.total.saturating_add(growth);
        add_part(&mut tally.parts, &counted.name, growth);
        tally.processes.retain(|it| !is_it(it));
        tally.processes.push(counted);
    }
    tally.processes.sort_by(|a, b| (&a.pod, &a.name).cmp(&(&b.pod, &b.name)));
}

fn add_part(parts: &mut Vec<TallyPart>, name: &str, growth: i64) {
    if let Some(part) = parts.iter_mut().find(|part| part.name == name) {
        part.count = part.count.saturating_add(growth);
    } else if parts.len() < PARTS_MAX {
        parts.push(TallyPart { name: name.to_owned(), count: growth });
        parts.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

/// Returns how many are acknowledged.
///
/// # Errors
/// When the number is too large: it would hide future ones.
fn acknowledged_count(pool: &GatewayPool, kind: &LossKind, total: i64) -> Result<i64, i64> {
    let known = (kind.known)(&pool.spec.acknowledged).unwrap_or_default();
    if (0..=total).contains(&known) { Ok(known) } else { Err(known) }
}

fn tally_text(tally: &TallyStatus, kind: &LossKind) -> String {
    let parts: Vec<String> =
        tally.parts.iter().map(|part| format!("{} {}", part.name, part.count)).collect();
    let (total, what, at) = (tally.total, kind.what, tally.last_increase_at.0);
    format!("{total} {what} ({}), the last observed at {at}", parts.join(", "))
}

fn tally_advice(tally: &TallyStatus, kind: &LossKind) -> String {
    let LossKind { field, remedy, .. } = kind;
    format!("{remedy}; once resolved, set this pool's {field} to {}", tally.total)
}

#[cfg(test)]
mod tests;
