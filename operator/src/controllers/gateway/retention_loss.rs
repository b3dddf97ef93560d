//! Messages lost to retention, and dead letters, as gateways count them: summed over pods and
//! restarts, and reported until somebody acknowledges them. Pure.
//!
//! A process counts from zero; the status keeps how much of its count is in the total. So an
//! operator that restarted, or decides from an older status, neither forgets nor counts twice.
//! Counts between a process's last sample and its end are missed. Limits: ongoing growth is added
//! once a minute; [`COUNTED_MAX`] processes, [`PARTS_MAX`] names.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use millrace_crds::v1alpha1::{
    GatewayPool, GatewayPoolStatus, TallyCounted, TallyPart, TallyStatus,
};
use millrace_crds::{
    ACKNOWLEDGE_DATA_LOST_ANNOTATION, ACKNOWLEDGE_DEAD_LETTERS_ANNOTATION, ConditionStatus,
    ConditionType, Reason, find,
};

use super::deduplication::Verdict;
use crate::pods::{Look, Sample};
use crate::report::conditions::Conditions;
use crate::report::events::Notice;

/// Ongoing growth is written at most this often.
const REFRESH: SignedDuration = SignedDuration::from_secs(60);
/// Growth after this long is a new event, though the condition never changed.
const TOLD_AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(600);
/// Counts remembered: three topics or signals of each of 100 pods, as in the status. Counts of
/// further pods aren't added: the total is then too low, never too high.
const COUNTED_MAX: usize = 300;
/// Topics or signals counted separately; there are three. The status has the same limit.
const PARTS_MAX: usize = 16;

/// Both counts, as in the status; and whether copies are possible.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Losses {
    pub(super) replays: Verdict,
    pub(super) lost: Option<TallyStatus>,
    pub(super) letters: Option<TallyStatus>,
}

/// One of them: what is counted, and how it is reported.
struct Kind {
    type_: ConditionType,
    annotation: &'static str,
    none: (Reason, &'static str),
    some: Reason,
    acknowledged: Reason,
    /// What was counted.
    what: &'static str,
    /// What can be done about it.
    remedy: &'static str,
    of: fn(&Losses) -> Option<&TallyStatus>,
}

const KINDS: [Kind; 2] = [
    Kind {
        type_: ConditionType::DataLost,
        annotation: ACKNOWLEDGE_DATA_LOST_ANNOTATION,
        none: (Reason::NothingLost, "no gateway has told of a message deleted before it was read"),
        some: Reason::MessagesLostToRetention,
        acknowledged: Reason::LossAcknowledged,
        what: "messages were deleted by Kafka's retention before a gateway read them",
        remedy: "keep messages for longer (the topic's retention), or raise scaling.maxReplicas",
        of: |losses| losses.lost.as_ref(),
    },
    Kind {
        type_: ConditionType::DeadLettersKept,
        annotation: ACKNOWLEDGE_DEAD_LETTERS_ANNOTATION,
        none: (Reason::NoDeadLetters, "no gateway has told of a dead letter"),
        some: Reason::RecordsDeadLettered,
        acknowledged: Reason::DeadLettersAcknowledged,
        what: "records could not be stored and are kept as dead letters",
        remedy: "look at them with millrace-collector dead-letters, mend the cause, resend them",
        of: |losses| losses.letters.as_ref(),
    },
];

impl Losses {
    /// What the status says.
    pub(super) fn told(status: Option<&GatewayPoolStatus>) -> Self {
        let Some(status) = status else { return Self::default() };
        let (lost, letters) = (status.data_lost.clone(), status.dead_letters.clone());
        Self { lost, letters, ..Self::default() }
    }

    /// Adds what pods counted since.
    pub(super) fn note(&mut self, look: &Look, now: Timestamp) {
        // As conditions have it: whole seconds.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        add(&mut self.lost, look, |sample| &sample.lost_to_retention, now);
        add(&mut self.letters, look, |sample| &sample.dead_lettered, now);
    }

    /// States DataLost, DeadLettersKept and DeduplicationAtRisk.
    pub(super) fn state(&self, conditions: &mut Conditions, pool: &GatewayPool) {
        self.replays.state(conditions, pool);
        for kind in &KINDS {
            let Some(tally) = (kind.of)(self) else {
                conditions.fails(kind.type_, kind.none.0, kind.none.1);
                continue;
            };
            let text = text(tally, kind);
            match acknowledged(pool, kind, tally.total) {
                Ok(known) if known == tally.total => {
                    conditions.fails(
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
                    conditions.holds(
                        kind.type_,
                        kind.some,
                        format!("{text}{new}; {}", advice(tally, kind)),
                    );
                }
                Err(said) => {
                    let advice = advice(tally, kind);
                    let message = format!("{text}; the annotation says {said:?}; {advice}");
                    conditions.holds(kind.type_, kind.some, message);
                }
            }
        }
    }

    /// Events of growth that resumed after a while. The condition did not change, so it publishes
    /// none.
    pub(super) fn notices(&self, before: &GatewayPoolStatus) -> Vec<Notice> {
        let told = Self::told(Some(before));
        let again = |kind: &Kind| {
            let (was, now) = ((kind.of)(&told)?, (kind.of)(self)?);
            let fact = find(&before.conditions, kind.type_)?;
            let calm = now.grew_at.0.duration_since(was.grew_at.0);
            let grew = now.total > was.total && calm >= TOLD_AGAIN_AFTER;
            let note = || format!("{} more; {}", now.total - was.total, text(now, kind));
            (grew && fact.status == ConditionStatus::True)
                .then(|| Notice::warning(kind.some, "Reconcile", note()))
        };
        KINDS.iter().filter_map(again).collect()
    }
}

/// Adds the growth of the pods' counts to a total. A recent total waits: nothing is lost by that.
fn add(
    tally: &mut Option<TallyStatus>,
    look: &Look,
    of: fn(&Sample) -> &BTreeMap<String, u64>,
    now: Timestamp,
) {
    let age = tally.as_ref().map(|tally| now.duration_since(tally.grew_at.0));
    if age.is_some_and(|age| age >= SignedDuration::ZERO && age < REFRESH) {
        return;
    }
    let counted = tally.as_ref().map_or(&[][..], |tally| &tally.counted);
    let mut grown = Vec::new();
    for (pod, answer) in look {
        let Ok(sample) = answer else { continue };
        for (name, count) in of(sample) {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            let last = counted.iter().find(|it| it.pod == *pod && it.name == *name);
            let last = last.filter(|last| is_same_process(last, sample.started_at, count));
            let growth = count - last.map_or(0, |last| last.count);
            if growth > 0 {
                let (pod, name, started_at) = (pod.clone(), name.clone(), sample.started_at);
                grown.push((TallyCounted { pod, name, started_at, count }, growth));
            }
        }
    }
    if grown.is_empty() {
        return;
    }
    let tally = tally.get_or_insert_with(|| TallyStatus {
        total: 0,
        grew_at: Time(now),
        parts: Vec::new(),
        counted: Vec::new(),
    });
    let asked: BTreeSet<&String> = look.keys().collect();
    for (counted, growth) in grown {
        let is_it = |it: &TallyCounted| it.pod == counted.pod && it.name == counted.name;
        if !tally.counted.iter().any(is_it) && !has_room(&mut tally.counted, &asked) {
            continue;
        }
        tally.grew_at = Time(now);
        tally.total = tally.total.saturating_add(growth);
        add_part(&mut tally.parts, &counted.name, growth);
        tally.counted.retain(|it| !is_it(it));
        tally.counted.push(counted);
    }
    tally.counted.sort_by(|a, b| (&a.pod, &a.name).cmp(&(&b.pod, &b.name)));
}

/// Whether a count continues one that was added before, by the same process.
fn is_same_process(last: &TallyCounted, started_at: Option<i64>, count: i64) -> bool {
    match (last.started_at, started_at) {
        (Some(before), Some(now)) if before != now => false,
        // Two processes without a start time may have the same count: then some are missed, and
        // none is counted twice.
        _ => count >= last.count,
    }
}

fn add_part(parts: &mut Vec<TallyPart>, name: &str, growth: i64) {
    if let Some(part) = parts.iter_mut().find(|part| part.name == name) {
        part.count = part.count.saturating_add(growth);
    } else if parts.len() < PARTS_MAX {
        parts.push(TallyPart { name: name.to_owned(), count: growth });
        parts.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

/// Whether one more count can be remembered. An ended pod's count makes room; a live pod's never
/// does, or it would be added from zero again.
fn has_room(counted: &mut Vec<TallyCounted>, asked: &BTreeSet<&String>) -> bool {
    if counted.len() < COUNTED_MAX {
        return true;
    }
    let gone = counted.iter().position(|it| !asked.contains(&it.pod));
    gone.map(|at| counted.remove(at)).is_some()
}

/// How many are acknowledged.
///
/// # Errors
/// An annotation that is not such a number. A number that is too large would hide future ones.
fn acknowledged<'a>(pool: &'a GatewayPool, kind: &Kind, total: i64) -> Result<i64, &'a str> {
    let Some(said) = pool.annotations().get(kind.annotation) else { return Ok(0) };
    let known = said.trim().parse().ok().filter(|known| (0..=total).contains(known));
    known.ok_or_else(|| said.get(..32).unwrap_or(said))
}

fn text(tally: &TallyStatus, kind: &Kind) -> String {
    let parts: Vec<String> =
        tally.parts.iter().map(|part| format!("{} {}", part.name, part.count)).collect();
    let (total, what, at) = (tally.total, kind.what, tally.grew_at.0);
    format!("{total} {what} ({}), the last seen at {at}", parts.join(", "))
}

fn advice(tally: &TallyStatus, kind: &Kind) -> String {
    let Kind { annotation, remedy, .. } = kind;
    format!("{remedy}; once seen to, annotate this pool with {annotation}={}", tally.total)
}

#[cfg(test)]
#[path = "../../../tests/unit/controllers/gateway/retention_loss.rs"]
mod tests;
