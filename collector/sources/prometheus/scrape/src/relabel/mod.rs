//! Relabeling: rules that change labels and drop targets or samples, as Prometheus 3 applies them.
//!
//! A [`Rule`] is the written form; [`Rules`] are checked and compiled; [`Rules::apply`] changes
//! [`LabelSet`]. The module does no I/O, and no result depends on the order of a map.
//!
//! # Limits
//! [`RULES_MAX`] rules in a list, [`SOURCE_LABELS_MAX`] source labels per rule, patterns of
//! [`PATTERN_BYTES_MAX`] that compile to [`COMPILED_BYTES_MAX`], texts of [`TEXT_BYTES_MAX`], and
//! [`LABELS_BYTES_MAX`] bytes of labels while rules are applied. [`PatternError`] lists what is not
//! supported of Prometheus' regular expressions.

mod case;
mod labels;
mod matcher;
mod pattern;
mod rule;
mod settings;
mod template;

pub use labels::{LABELS_BYTES_MAX, LabelSet, RELABELED_LABELS_MAX, TooLong};
pub use matcher::{COMPILED_BYTES_MAX, PATTERN_BYTES_MAX};
pub use pattern::PatternError;
pub use rule::{Action, DEFAULT_REGEX, DEFAULT_REPLACEMENT, DEFAULT_SEPARATOR, Rule, RuleFault};

use rule::CompiledRule;

/// The most rules of a list. Large Prometheus files have some 50 in a job.
pub const RULES_MAX: usize = 256;

/// The most source labels of a rule.
pub const SOURCE_LABELS_MAX: usize = 64;

/// The longest label name, separator or replacement of a rule.
pub const TEXT_BYTES_MAX: usize = 4096;

/// A rule that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {place}: {fault}")]
pub struct RelabelRuleError {
    /// Its index in the list, from 0.
    pub place: usize,
    /// The fault.
    pub fault: RuleFault,
}

/// Compiled rules in the order of application.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<CompiledRule>);

impl Rules {
    /// Checks and compiles rules.
    ///
    /// # Errors
    /// The first rule that is refused, and the reason.
    pub fn new<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Result<Self, RelabelRuleError> {
        let mut ready = Vec::new();
        for (index, rule) in rules.into_iter().enumerate() {
            let fault = |fault| RelabelRuleError { place: index, fault };
            if index == RULES_MAX {
                return Err(fault(RuleFault::TooMany));
            }
            ready.push(CompiledRule::new(rule).map_err(fault)?);
        }
        Ok(Self(ready))
    }

    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies all rules. Returns `false` if one drops the target or sample; the labels are
    /// undefined then. Otherwise they are sorted by name.
    ///
    /// # Errors
    /// Rules made the labels too long.
    pub fn apply(
        &self,
        labels: &mut LabelSet,
        scratch: &mut RelabelScratch,
    ) -> Result<bool, TooLong> {
        labels.ensure_sorted();
        for rule in &self.0 {
            if !rule.apply(labels, scratch)? {
                return Ok(false);
            }
        }
        labels.sort();
        Ok(true)
    }
}

/// Rules for samples. Leading rules that only keep or drop by `__name__` need no labels, and are
/// applied once for consecutive lines with the same name.
#[derive(Debug, Clone, Default)]
pub struct MetricRules {
    of_names: Rules,
    label_rules: Rules,
}

impl From<Rules> for MetricRules {
    fn from(Rules(mut rules): Rules) -> Self {
        let end = rules.iter().position(|rule| !rule.is_of_names()).unwrap_or(rules.len());
        let rest = rules.split_off(end);
        Self { of_names: Rules(rules), label_rules: Rules(rest) }
    }
}

impl MetricRules {
    /// Whether there is no rule.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of_names.is_empty() && self.label_rules.is_empty()
    }

    /// Whether all rules only keep or drop by name.
    pub(crate) fn are_of_names(&self) -> bool {
        self.label_rules.is_empty()
    }

    /// Whether the name rules keep samples with a name.
    pub(crate) fn accepts_name(&self, name: &str) -> bool {
        self.of_names.0.iter().all(|rule| rule.accepts_name(name))
    }

    /// Applies the other rules.
    pub(crate) fn apply_label_rules(
        &self,
        labels: &mut LabelSet,
        scratch: &mut RelabelScratch,
    ) -> Result<bool, TooLong> {
        self.label_rules.apply(labels, scratch)
    }
}

/// Buffers of rules, for reuse.
#[derive(Debug, Default)]
pub struct RelabelScratch {
    value: String,
    name: String,
    result: String,
    pairs: Vec<(String, String)>,
}

#[cfg(test)]
mod tests;
