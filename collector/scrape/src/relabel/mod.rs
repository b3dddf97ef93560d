//! Relabeling: rules that change labels, drop targets or samples, as Prometheus 3 applies them.
//!
//! A [`Rule`] says what is to be done; [`Rules`] are checked and ready; [`Rules::apply`] changes
//! [`Labels`]. Nothing is read or sent, and nothing depends on the order of a map.
//!
//! # Limits
//! [`RULES_MAX`] rules in a list, [`SOURCE_LABELS_MAX`] source labels of one, patterns of
//! [`PATTERN_BYTES_MAX`] that compile to [`COMPILED_BYTES_MAX`], texts of [`TEXT_BYTES_MAX`], and
//! [`LABELS_BYTES_MAX`] bytes of labels while rules are applied. What of Prometheus' regular
//! expressions isn't taken is named in [`PatternError`].

mod case;
mod labels;
mod matcher;
mod pattern;
mod rule;
mod settings;
mod template;

pub use labels::{LABELS_BYTES_MAX, Labels, RELABELED_LABELS_MAX, TooLong};
pub use matcher::{COMPILED_BYTES_MAX, PATTERN_BYTES_MAX};
pub use pattern::PatternError;
pub use rule::{Action, DEFAULT_REGEX, DEFAULT_REPLACEMENT, DEFAULT_SEPARATOR, Rule, RuleFault};

use rule::Ready;

/// Most rules of a list. Large Prometheus files have some 50 in a job.
pub const RULES_MAX: usize = 256;

/// Most source labels of a rule.
pub const SOURCE_LABELS_MAX: usize = 64;

/// The longest label name, separator or replacement of a rule.
pub const TEXT_BYTES_MAX: usize = 4096;

/// A rule that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {place}: {fault}")]
pub struct RuleError {
    /// Its place in the list, from 0.
    pub place: usize,
    /// What is wrong with it.
    pub fault: RuleFault,
}

/// Rules in the order in which they are applied.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<Ready>);

impl Rules {
    /// Checks rules and makes them ready.
    ///
    /// # Errors
    /// The first rule that is refused, and why.
    pub fn new<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Result<Self, RuleError> {
        let mut ready = Vec::new();
        for (place, rule) in rules.into_iter().enumerate() {
            let fault = |fault| RuleError { place, fault };
            if place == RULES_MAX {
                return Err(fault(RuleFault::TooMany));
            }
            ready.push(Ready::new(rule).map_err(fault)?);
        }
        Ok(Self(ready))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies all rules. False where one drops what has these labels; what they are then means
    /// nothing. The labels are sorted by name afterwards.
    ///
    /// # Errors
    /// Rules made the labels too long.
    pub fn apply(&self, labels: &mut Labels, scratch: &mut Scratch) -> Result<bool, TooLong> {
        labels.begin();
        for rule in &self.0 {
            if !rule.apply(labels, scratch)? {
                return Ok(false);
            }
        }
        labels.sort();
        Ok(true)
    }
}

/// Rules for samples. Those that come first and only keep or drop by `__name__` need no labels, and
/// are applied once for lines of one name that follow each other.
#[derive(Debug, Clone, Default)]
pub struct MetricRules {
    of_names: Rules,
    rest: Rules,
}

impl From<Rules> for MetricRules {
    fn from(Rules(mut rules): Rules) -> Self {
        let end = rules.iter().position(|rule| !rule.is_of_names()).unwrap_or(rules.len());
        let rest = rules.split_off(end);
        Self { of_names: Rules(rules), rest: Rules(rest) }
    }
}

impl MetricRules {
    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of_names.is_empty() && self.rest.is_empty()
    }

    /// Whether all of them only keep or drop by name.
    pub(crate) fn are_of_names(&self) -> bool {
        self.rest.is_empty()
    }

    /// Whether samples of a name are kept by it.
    pub(crate) fn keeps_name(&self, name: &str) -> bool {
        self.of_names.0.iter().all(|rule| rule.keeps_name(name))
    }

    /// Applies the others.
    pub(crate) fn apply(
        &self,
        labels: &mut Labels,
        scratch: &mut Scratch,
    ) -> Result<bool, TooLong> {
        self.rest.apply(labels, scratch)
    }
}

/// Memory that rules work with, to be used again.
#[derive(Debug, Default)]
pub struct Scratch {
    value: String,
    name: String,
    result: String,
    pairs: Vec<(String, String)>,
}

#[cfg(test)]
#[path = "../../tests/unit/relabel.rs"]
mod tests;
