//! Conditions of a status. Must not decide anything; controllers do. Must not read a clock: callers
//! pass the time of a change.
//!
//! Limits: messages are cut to 1,024 bytes (the API convention allows 32,768; a status that is
//! watched by many stays small).

mod remedies;
mod table;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use remedies::Remedy;
pub use table::{ConditionClass, ConditionType, Reason};

/// Longest message of a condition, in bytes.
const MESSAGE_BYTES: usize = 1_024;

/// One condition of an object, observed at one generation of its spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition, for example Ready; the reference lists all types.
    #[serde(rename = "type")]
    #[schemars(length(max = 63))]
    pub type_: String,
    /// True, False, or Unknown (not observed yet).
    pub status: ConditionStatus,
    /// Reason in CamelCase; stable, for scripts and alerts.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// What was observed and what to do, for people.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Time at which status last changed.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_transition_time: Time,
    /// metadata.generation that was observed; if it is older than the current one, the condition is
    /// out of date.
    pub observed_generation: i64,
}

impl Condition {
    /// A condition as observed at `generation`; `now` counts only if the status changed.
    pub fn new(
        type_: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
        generation: i64,
        now: Time,
    ) -> Self {
        let mut message = message.into();
        truncate_text(&mut message, MESSAGE_BYTES);
        Self {
            type_: type_.as_str().to_owned(),
            status,
            reason: reason.as_str().to_owned(),
            message,
            last_transition_time: now,
            observed_generation: generation,
        }
    }

    /// Whether the fact holds for this very generation of the spec.
    pub fn holds_for(&self, generation: i64) -> bool {
        self.status == ConditionStatus::True && self.observed_generation == generation
    }
}

/// Cuts a text to so many bytes at most, at a character boundary.
pub fn truncate_text(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
    }
}

/// Whether a fact holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// The condition is true.
    True,
    /// The condition is false.
    False,
    /// Not observed, or the observation is too old.
    Unknown,
}

/// Adds or replaces a condition in the list; the time of the last transition is unchanged while the
/// status is the same. Returns whether anything but the time differs from before.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition) -> bool {
    match conditions.iter_mut().find(|old| old.type_ == new.type_) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time.clone();
            }
            let changed = *old != new;
            *old = new;
            changed
        }
        None => {
            conditions.push(new);
            true
        }
    }
}

/// The condition of this type, if it was ever set.
pub fn find_condition(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == type_.as_str())
}

/// Whether a condition is true for this very generation.
pub fn is_true(conditions: &[Condition], type_: ConditionType, generation: i64) -> bool {
    find_condition(conditions, type_).is_some_and(|condition| condition.holds_for(generation))
}

#[cfg(test)]
mod tests;
