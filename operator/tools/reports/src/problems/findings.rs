//! Problems, their causes and remedies: the bad conditions of a pipeline and its objects, each
//! reported once, by the object nearest to the cause.

use kube::Resource;
use millrace_crds::{Condition, ConditionClass, ConditionStatus, ConditionType, Reason, Remedy};
use serde::Serialize;

use crate::facts::Facts;
use crate::pools::rollout::{RolloutLine, rollout_lines};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A declared object doesn't exist or work.
    Broken,
    /// Records are lost, or became dead letters.
    Loss,
    /// The state is unknown.
    Unknown,
    /// It works, and a change is recommended.
    Advice,
}

impl Severity {
    /// Returns whether a script should still treat the pipeline as healthy.
    #[must_use]
    pub const fn is_healthy(self) -> bool {
        matches!(self, Self::Advice)
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The condition.
    pub condition: String,
    /// True, False or Unknown.
    pub status: String,
    /// The reason, as a stable word.
    pub reason: String,
    /// The message, for people.
    pub message: String,
    /// How long it has lasted, in seconds.
    pub for_seconds: Option<i64>,
    /// The remedy, if there is one.
    pub remedy: Option<Remedy>,
    /// The image that the object's pods run, or should run; `None` of objects without pods.
    #[serde(skip)]
    pub image: Option<String>,
    /// The rollout that the message is about.
    #[serde(skip)]
    pub rollout: Option<RolloutCause>,
}

/// Why a rollout stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct RolloutCause {
    /// The reason, as a stable word.
    pub reason: String,
    /// The message, for people.
    pub message: String,
}

/// One object's conditions.
struct ObjectConditions<'a> {
    kind: String,
    name: &'a str,
    generation: Option<i64>,
    observed: Option<i64>,
    conditions: &'a [Condition],
}

/// Returns the problems of a pipeline and its objects, the worst first.
#[must_use]
pub fn pipeline_findings(facts: &Facts) -> Vec<Finding> {
    let mut all = Vec::new();
    let rollouts = rollout_lines(facts);
    // Children first: a pipeline repeats their conditions.
    for object in object_conditions(facts) {
        let mut own = findings_of_object(&object, facts.at_second);
        own.retain(|one| !is_reported(&all, one));
        let rollout = rollouts.iter().find(|it| it.kind == object.kind && it.pool == object.name);
        own.iter_mut().for_each(|one| add_rollout(one, rollout));
        all.extend(own);
    }
    all.sort_by_key(|one| one.severity);
    all
}

/// Adds the image and the rollout that a pool's problem is about.
fn add_rollout(finding: &mut Finding, rollout: Option<&RolloutLine>) {
    let Some(rollout) = rollout else { return };
    finding.image.clone_from(&rollout.image_after);
    // A pool's message quotes its rollout's.
    let is_quoted = !rollout.message.is_empty() && finding.message.contains(&rollout.message);
    finding.rollout = is_quoted
        .then(|| RolloutCause { reason: rollout.reason.clone(), message: rollout.message.clone() });
}

fn object_conditions(facts: &Facts) -> Vec<ObjectConditions<'_>> {
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
    let mut objects: Vec<ObjectConditions<'_>> = of!(facts.topics).collect();
    objects.extend(of!(facts.schemas));
    objects.extend(of!(facts.edges));
    objects.extend(of!(facts.gateways));
    objects.extend(of!(std::slice::from_ref(&facts.pipeline)));
    objects
}

fn of_parts<'a, K: Resource<DynamicType = ()>>(
    object: &'a K,
    observed: Option<i64>,
    conditions: &'a [Condition],
) -> ObjectConditions<'a> {
    let meta = object.meta();
    ObjectConditions {
        kind: K::kind(&()).into_owned(),
        name: meta.name.as_deref().unwrap_or_default(),
        generation: meta.generation,
        observed,
        conditions,
    }
}

fn findings_of_object(object: &ObjectConditions<'_>, now: i64) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        object.conditions.iter().filter_map(|one| finding_of_condition(object, one, now)).collect();
    // Ready and Stalled sum up: one that repeats another condition's reason adds nothing.
    let sums_up = |one: &Finding| matches!(&*one.condition, "Ready" | "Stalled");
    let details: Vec<String> =
        found.iter().filter(|one| !sums_up(one)).map(|one| one.reason.clone()).collect();
    found.retain(|one| !sums_up(one) || !details.contains(&one.reason));
    // Four conditions report a waiting plan; `Applied` names the plan and the consent.
    let waits: Vec<String> =
        found.iter().filter(|one| one.condition == "Applied").map(|it| it.reason.clone()).collect();
    let of_plan = |one: &Finding| matches!(&*one.condition, "SchemaReady" | "Drifted" | "Planned");
    found.retain(|one| !of_plan(one) || !waits.contains(&one.reason));
    let twice = found.iter().any(|one| one.condition == "Stalled");
    found.retain(|one| !(twice && one.condition == "Ready"));
    if object.observed != object.generation {
        found.insert(0, unobserved_finding(object));
    }
    found
}

fn finding_of_condition(
    object: &ObjectConditions<'_>,
    condition: &Condition,
    now: i64,
) -> Option<Finding> {
    use ConditionStatus::{False, True, Unknown};
    let type_ = ConditionType::parse(&condition.type_)?;
    let severity = match (type_.class(), condition.status) {
        (ConditionClass::Expected, Unknown) => Severity::Unknown,
        (ConditionClass::Expected, False) if is_degraded(type_, &condition.reason) => {
            Severity::Advice
        }
        (ConditionClass::Expected, False) | (ConditionClass::Fault, True) => Severity::Broken,
        (ConditionClass::Loss, True) => Severity::Loss,
        (ConditionClass::Advice, True) => Severity::Advice,
        _ => return None,
    };
    let reason = Reason::parse(&condition.reason);
    let since = condition.last_transition_time.0;
    Some(Finding {
        severity,
        kind: object.kind.clone(),
        name: object.name.to_owned(),
        condition: condition.type_.clone(),
        status: format!("{:?}", condition.status),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        for_seconds: Some((now - since.as_second()).max(0)),
        remedy: reason.and_then(Reason::remedy),
        image: None,
        rollout: None,
    })
}

/// Returns whether coordination works without redundancy: no insert stops.
fn is_degraded(type_: ConditionType, reason: &str) -> bool {
    type_ == ConditionType::CoordinationHealthy
        && matches!(
            Reason::parse(reason),
            Some(
                Reason::CoordinationServerDown
                    | Reason::CoordinationSessionsLost
                    | Reason::CoordinationUnstable
                    | Reason::CoordinationOverLimit
            )
        )
}

fn unobserved_finding(object: &ObjectConditions<'_>) -> Finding {
    let ObjectConditions { kind, name, generation, observed, .. } = object;
    let generation = generation.unwrap_or_default();
    let message = match observed {
        Some(observed) => format!(
            "the status is of generation {observed}, the spec of generation {generation}: the \
             newest spec is not observed yet"
        ),
        None => "no status: no operator has observed it".to_owned(),
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
        remedy: Reason::NotObserved.remedy(),
        image: None,
        rollout: None,
    }
}

/// Returns whether another object has reported it: a pipeline's message begins with the child's
/// kind and name, and has the child's reason or the child's message.
fn is_reported(all: &[Finding], one: &Finding) -> bool {
    all.iter().any(|other| {
        let child = format!("{} {}", other.kind, other.name);
        let names_it = one.message.contains(&child);
        names_it
            && (one.reason == other.reason
                || one.message.contains(&other.message)
                || other.condition == "Observed")
    })
}
