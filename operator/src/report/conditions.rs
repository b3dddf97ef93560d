//! An object's conditions while its status is computed, and the events of their changes.
//!
//! A condition is stated once per reconcile for the current generation.
//! [`Conditions::derive_ready`] derives `Ready` from the required conditions and nothing else, so
//! that no code path can claim readiness itself: a condition not stated in this reconcile counts as
//! not true.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_crds::{
    Condition, ConditionStatus, ConditionType, Reason, find_condition, set_condition,
};

use crate::report::events::Notice;

/// What follows a failure that the operator may overcome.
pub const RETRIES: &str = "the operator retries automatically";

/// Returns a time for a status, which stores whole seconds: a finer one would make two writes in
/// one second differ.
#[must_use]
pub fn status_time(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Conditions being computed.
#[derive(Clone, Debug)]
pub struct Conditions {
    before: Vec<Condition>,
    conditions: Vec<Condition>,
    stated: Vec<ConditionType>,
    generation: i64,
    now: Time,
}

impl Conditions {
    /// Starts from the last status; `generation` is that of the current spec.
    #[must_use]
    pub fn new(before: &[Condition], generation: Option<i64>, now: Timestamp) -> Self {
        Self {
            before: before.to_vec(),
            conditions: before.to_vec(),
            stated: Vec::new(),
            generation: generation.unwrap_or(0),
            now: status_time(now),
        }
    }

    /// States a condition.
    pub fn state_condition(
        &mut self,
        type_: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
    ) {
        let condition =
            Condition::new(type_, status, reason, message, self.generation, self.now.clone());
        set_condition(&mut self.conditions, condition);
        self.stated.push(type_);
    }

    /// States that a condition is true.
    pub fn set_true(&mut self, type_: ConditionType, reason: Reason, message: impl Into<String>) {
        self.state_condition(type_, ConditionStatus::True, reason, message);
    }

    /// States that a condition is false.
    pub fn set_false(&mut self, type_: ConditionType, reason: Reason, message: impl Into<String>) {
        self.state_condition(type_, ConditionStatus::False, reason, message);
    }

    /// States that a condition could not be observed.
    pub fn set_unknown(
        &mut self,
        type_: ConditionType,
        reason: Reason,
        message: impl Into<String>,
    ) {
        self.state_condition(type_, ConditionStatus::Unknown, reason, message);
    }

    /// States whether a condition holds.
    pub fn set_holds(
        &mut self,
        type_: ConditionType,
        holds: bool,
        reason: Reason,
        message: impl Into<String>,
    ) {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        self.state_condition(type_, status, reason, message);
    }

    /// States `Progressing` and `Stalled`, for one reason.
    pub fn set_progress(
        &mut self,
        (progressing, stalled): (bool, bool),
        reason: Reason,
        message: &str,
    ) {
        self.set_holds(ConditionType::Progressing, progressing, reason, message);
        self.set_holds(ConditionType::Stalled, stalled, reason, message);
    }

    /// States that nothing changes and nothing is stuck.
    pub fn set_idle(&mut self) {
        let reason = Reason::UpToDate;
        self.set_false(ConditionType::Progressing, reason, "no change is under way");
        self.set_false(ConditionType::Stalled, reason, "nothing is stuck");
    }

    /// States that `fact` does not hold yet, and that the change continues.
    pub fn set_moving(&mut self, fact: ConditionType, reason: Reason, message: &str) {
        self.set_false(fact, reason, message);
        self.set_true(ConditionType::Progressing, Reason::Applying, message);
        let message = "the change continues automatically";
        self.set_false(ConditionType::Stalled, Reason::Applying, message);
    }

    /// States that `fact` does not hold until a person changes something.
    pub fn set_stuck(&mut self, fact: ConditionType, reason: Reason, message: &str) {
        self.set_false(fact, reason, message);
        self.set_progress((false, true), reason, message);
    }

    /// States that `fact` does not hold, as the object is paused.
    pub fn set_withheld(&mut self, fact: ConditionType, message: &str) {
        let (reason, message) = (Reason::PausedBySpec, format!("{message}; the object is paused"));
        self.set_false(fact, reason, message.as_str());
        self.set_false(ConditionType::Progressing, reason, message);
        self.set_false(ConditionType::Stalled, reason, "a paused object is not stuck");
    }

    /// States a condition unchanged, for lack of new information. Returns whether it exists.
    pub fn restate(&mut self, type_: ConditionType) -> bool {
        let is_known = find_condition(&self.conditions, type_).is_some();
        self.stated.extend(is_known.then_some(type_));
        is_known
    }

    /// Removes a condition that does not apply (any more).
    pub fn remove_condition(&mut self, type_: ConditionType) {
        self.conditions.retain(|condition| condition.type_ != type_.as_str());
    }

    /// States or removes `Paused`.
    pub fn set_paused(&mut self, paused: bool) {
        if paused {
            let message = "children are compared, not written";
            self.set_true(ConditionType::Paused, Reason::PausedBySpec, message);
        } else {
            self.remove_condition(ConditionType::Paused);
        }
    }

    /// Returns the condition as stated in this reconcile, if it was.
    #[must_use]
    pub fn find_stated(&self, type_: ConditionType) -> Option<&Condition> {
        self.stated.contains(&type_).then(|| find_condition(&self.conditions, type_)).flatten()
    }

    /// Derives `Ready`: true exactly when every condition in `required` was stated true in this
    /// reconcile; otherwise it has the reason of the first that was not. It is unknown, not false,
    /// when the only problem is that the API server could not be read.
    pub fn derive_ready(&mut self, required: &[ConditionType]) {
        let is_missing = |type_: &&ConditionType| {
            self.find_stated(**type_)
                .is_none_or(|condition| condition.status != ConditionStatus::True)
        };
        let missing: Vec<ConditionType> = required.iter().filter(is_missing).copied().collect();
        let unseen = |type_: &ConditionType| self.find_stated(*type_).is_some_and(is_unobserved);
        let telling = missing.iter().find(|type_| !unseen(type_)).or(missing.first()).copied();
        match telling.map(|type_| (type_, self.find_stated(type_).cloned())) {
            None => self.set_true(
                ConditionType::Ready,
                Reason::Reconciled,
                "all resources match the spec",
            ),
            Some((type_, Some(condition))) => {
                let reason = Reason::parse(&condition.reason).unwrap_or(Reason::ChildNotReady);
                let status = match is_unobserved(&condition) {
                    true => ConditionStatus::Unknown,
                    false => ConditionStatus::False,
                };
                let message = format!("{type_}: {}", condition.message);
                self.state_condition(ConditionType::Ready, status, reason, message);
            }
            Some((type_, None)) => {
                let message = format!("{type_} has not been observed yet");
                self.set_false(ConditionType::Ready, Reason::NotObserved, message);
            }
        }
    }

    /// Returns the conditions, in the order of the reference so that equal conditions give equal
    /// lists.
    #[must_use]
    pub fn into_conditions(mut self) -> Vec<Condition> {
        self.conditions.sort_by_key(|condition| ConditionType::parse(&condition.type_));
        self.conditions
    }

    /// Returns one event for each condition that became true, and one for each that is not true for
    /// a new reason. Conditions that are merely in progress publish none.
    #[must_use]
    pub fn new_notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        for condition in &self.conditions {
            let Some(type_) = ConditionType::parse(&condition.type_) else {
                continue;
            };
            let old = find_condition(&self.before, type_);
            let same_status = old.is_some_and(|old| old.status == condition.status);
            let same = same_status && old.is_some_and(|old| old.reason == condition.reason);
            let silent = [ConditionType::Progressing, ConditionType::Paused].contains(&type_);
            if same || silent || !self.stated.contains(&type_) {
                continue;
            }
            let holds = condition.status == ConditionStatus::True;
            let bad = type_.is_bad_when_true() == holds;
            // A stated condition always has a reason of the list.
            let Some(reason) = Reason::parse(&condition.reason) else { continue };
            let passing = matches!(
                reason,
                Reason::Applying
                    | Reason::Waiting
                    | Reason::PodsNotReady
                    | Reason::NotObserved
                    | Reason::ResizePending
            );
            let note =
                format!("{} is {:?}: {}", condition.type_, condition.status, condition.message);
            if bad && !passing {
                notices.push(Notice::warning(reason, "Reconcile", note));
            } else if old.is_some() && !same_status && !(bad && passing) {
                notices.push(Notice::normal(reason, "Reconcile", note));
            }
        }
        // `Ready` repeats the reason of the condition behind it; one event per reason is enough.
        let mut reasons = HashSet::new();
        notices.retain(|notice| reasons.insert(notice.reason));
        notices
    }
}

/// Returns whether the API server could not be read.
fn is_unobserved(condition: &Condition) -> bool {
    condition.status == ConditionStatus::Unknown
        && Reason::parse(&condition.reason) == Some(Reason::ApiServerFailed)
}

#[cfg(test)]
mod tests;
