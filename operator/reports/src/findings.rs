//! What is wrong, why, and what to do: the bad conditions of a pipeline and its objects, each told
//! once, by the object nearest to the cause.

use kube::Resource;
use millrace_crds::{Condition, ConditionStatus, ConditionType, Reason, Remedy, remedy};
use serde::Serialize;

use crate::facts::Facts;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something asked for doesn't exist or work.
    Broken,
    /// Records are lost, or set aside.
    Loss,
    /// It is not known.
    Unknown,
    /// It works, and something should be changed.
    Advice,
}

impl Severity {
    /// Whether a script should take the pipeline for healthy all the same.
    #[must_use]
    pub const fn is_healthy(self) -> bool {
        matches!(self, Self::Advice)
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The condition.
    pub condition: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, as a stable word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// For how long, in seconds.
    pub for_seconds: Option<i64>,
    /// What to do, if there is something.
    pub remedy: Option<Remedy>,
}

/// One object's part of the facts.
struct Told<'a> {
    kind: String,
    name: &'a str,
    generation: Option<i64>,
    observed: Option<i64>,
    conditions: &'a [Condition],
}

/// What is wrong with a pipeline and its objects, the worst first.
#[must_use]
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = Vec::new();
    // Children first: a pipeline repeats what they say.
    for told in told(facts) {
        let mut own = of_object(&told, facts.at_second);
        own.retain(|one| !is_told(&all, one));
        all.extend(own);
    }
    all.sort_by_key(|one| one.severity);
    all
}

fn told(facts: &Facts) -> Vec<Told<'_>> {
    macro_rules! of {
        ($objects:expr) => {
            $objects.iter().map(|one| {
                let status = one.status.as_ref();
                of_parts(
                    one,
                    status.and_then(|status| status.observed_generation),
                    status.map_or(&[], |status| &status.conditions),
                )
            })
        };
    }
    let mut told: Vec<Told<'_>> = of!(facts.topics).collect();
    told.extend(of!(facts.schemas));
    told.extend(of!(facts.edges));
    told.extend(of!(facts.gateways));
    told.extend(of!(std::slice::from_ref(&facts.pipeline)));
    told
}

fn of_parts<'a, K: Resource<DynamicType = ()>>(
    object: &'a K,
    observed: Option<i64>,
    conditions: &'a [Condition],
) -> Told<'a> {
    let meta = object.meta();
    Told {
        kind: K::kind(&()).into_owned(),
        name: meta.name.as_deref().unwrap_or_default(),
        generation: meta.generation,
        observed,
        conditions,
    }
}

fn of_object(told: &Told<'_>, now: i64) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        told.conditions.iter().filter_map(|one| of_condition(told, one, now)).collect();
    // Ready and Stalled sum up: one that repeats another condition's reason adds nothing.
    let sums_up = |one: &Finding| matches!(&*one.condition, "Ready" | "Stalled");
    let details: Vec<String> =
        found.iter().filter(|one| !sums_up(one)).map(|one| one.reason.clone()).collect();
    found.retain(|one| !sums_up(one) || !details.contains(&one.reason));
    // A plan that waits is a fact of three conditions; `Applied` says which plan, and what to name.
    let waits: Vec<String> =
        found.iter().filter(|one| one.condition == "Applied").map(|it| it.reason.clone()).collect();
    let of_plan = |one: &Finding| matches!(&*one.condition, "SchemaReady" | "Drifted");
    found.retain(|one| !of_plan(one) || !waits.contains(&one.reason));
    let twice = found.iter().any(|one| one.condition == "Stalled");
    found.retain(|one| !(twice && one.condition == "Ready"));
    if told.observed != told.generation {
        found.insert(0, unobserved(told));
    }
    found
}

fn of_condition(told: &Told<'_>, condition: &Condition, now: i64) -> Option<Finding> {
    let type_ = ConditionType::parse(&condition.type_);
    let bad_when_true = type_.is_some_and(ConditionType::is_bad_when_true);
    let severity = match (type_, condition.status) {
        // `Progressing` is neither good nor bad.
        (None | Some(ConditionType::Progressing), _) => return None,
        (Some(ConditionType::Paused), ConditionStatus::True) => Severity::Advice,
        (Some(ConditionType::Paused), _) => return None,
        (_, ConditionStatus::Unknown) if bad_when_true => return None,
        (_, ConditionStatus::Unknown) => Severity::Unknown,
        (Some(type_), ConditionStatus::True) if bad_when_true => when_true(type_),
        (Some(ConditionType::CoordinationHealthy), ConditionStatus::False)
            if is_degraded(&condition.reason) =>
        {
            Severity::Advice
        }
        (_, ConditionStatus::False) if !bad_when_true => Severity::Broken,
        _ => return None,
    };
    let reason = Reason::parse(&condition.reason);
    let since = condition.last_transition_time.0;
    Some(Finding {
        severity,
        kind: told.kind.clone(),
        name: told.name.to_owned(),
        condition: condition.type_.clone(),
        status: format!("{:?}", condition.status),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        for_seconds: Some((now - since.as_second()).max(0)),
        remedy: reason.and_then(remedy),
    })
}

/// Whether coordination works and has no margin: no insert stops.
fn is_degraded(reason: &str) -> bool {
    matches!(
        Reason::parse(reason),
        Some(
            Reason::CoordinationServerDown
                | Reason::CoordinationPartlyLost
                | Reason::CoordinationUnsteady
                | Reason::CoordinationOverLimit
        )
    )
}

const fn when_true(type_: ConditionType) -> Severity {
    match type_ {
        ConditionType::DataLost | ConditionType::LogsLost | ConditionType::DeadLettersKept => {
            Severity::Loss
        }
        ConditionType::PasswordExposed
        | ConditionType::RowsSpread
        | ConditionType::DeduplicationAtRisk
        | ConditionType::ScrapeCapReached => Severity::Advice,
        _ => Severity::Broken,
    }
}

fn unobserved(told: &Told<'_>) -> Finding {
    let Told { kind, name, generation, observed, .. } = told;
    let generation = generation.unwrap_or_default();
    let message = match observed {
        Some(observed) => format!(
            "the status is of generation {observed}, the spec of generation {generation}: no \
             condition speaks of the newest spec"
        ),
        None => "there is no status: no operator has looked at it".to_owned(),
    };
    Finding {
        severity: Severity::Unknown,
        kind: kind.clone(),
        name: (*name).to_owned(),
        condition: "Observed".to_owned(),
        status: "False".to_owned(),
        reason: Reason::NotObserved.as_str().to_owned(),
        message,
        for_seconds: None,
        remedy: remedy(Reason::NotObserved),
    }
}

/// Whether another object has said it: a pipeline's message begins with the child's kind and name,
/// and has the child's reason or the child's message.
fn is_told(all: &[Finding], one: &Finding) -> bool {
    all.iter().any(|other| {
        let child = format!("{} {}", other.kind, other.name);
        let names_it = one.message.contains(&child);
        names_it
            && (one.reason == other.reason
                || one.message.contains(&other.message)
                || other.condition == "Observed")
    })
}
