//! One rule: its written form, its checks, and the operation of each action.

use md5::{Digest, Md5};

use super::labels::{LabelSet, TooLong};
use super::matcher::Matcher;
use super::pattern::PatternError;
use super::template::Template;
use super::{RULES_MAX, RelabelScratch, SOURCE_LABELS_MAX, TEXT_BYTES_MAX, case};

/// The label with the metric's name.
const METRIC_NAME: &str = "__name__";

/// Separates the values of source labels.
pub const DEFAULT_SEPARATOR: &str = ";";

/// Matches any value, as its first group.
pub const DEFAULT_REGEX: &str = "(.*)";

/// The first group.
pub const DEFAULT_REPLACEMENT: &str = "$1";

/// The action of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Action {
    /// Sets the target label to the replacement if the source matches.
    #[default]
    Replace,
    /// Keeps only targets or samples whose source matches.
    Keep,
    /// Drops those whose source matches.
    Drop,
    /// Drops those whose source and target label differ.
    KeepEqual,
    /// Drops those whose source and target label are equal.
    DropEqual,
    /// Sets the target label to a hash of the source, modulo `modulus`.
    HashMod,
    /// Copies labels whose names match to names that the replacement forms.
    LabelMap,
    /// Removes labels whose names match.
    LabelDrop,
    /// Removes labels whose names don't match.
    LabelKeep,
    /// Sets the target label to the source in lower case.
    Lowercase,
    /// Sets the target label to the source in upper case.
    Uppercase,
}

impl Action {
    /// All actions, in the order of the documentation.
    pub const ALL: [Self; 11] = [
        Self::Replace,
        Self::Keep,
        Self::Drop,
        Self::KeepEqual,
        Self::DropEqual,
        Self::HashMod,
        Self::LabelMap,
        Self::LabelDrop,
        Self::LabelKeep,
        Self::Lowercase,
        Self::Uppercase,
    ];

    /// Returns the action's name in Prometheus.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Keep => "keep",
            Self::Drop => "drop",
            Self::KeepEqual => "keepequal",
            Self::DropEqual => "dropequal",
            Self::HashMod => "hashmod",
            Self::LabelMap => "labelmap",
            Self::LabelDrop => "labeldrop",
            Self::LabelKeep => "labelkeep",
            Self::Lowercase => "lowercase",
            Self::Uppercase => "uppercase",
        }
    }

    /// Returns the action with a name, in any case, as in Prometheus.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str().eq_ignore_ascii_case(name))
    }

    const fn needs_target(self) -> bool {
        !matches!(
            self,
            Self::Keep | Self::Drop | Self::LabelMap | Self::LabelDrop | Self::LabelKeep
        )
    }
}

/// A rule as written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The action.
    pub action: Action,
    /// The labels whose joined values are its source.
    pub source_labels: Vec<String>,
    /// The text between those values.
    pub separator: String,
    /// The pattern that the complete source, or a label's name, must match.
    pub regex: String,
    /// The divisor of the hash.
    pub modulus: u64,
    /// The replacement.
    pub replacement: String,
    /// The label that is written.
    pub target_label: String,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            action: Action::default(),
            source_labels: Vec::new(),
            separator: DEFAULT_SEPARATOR.to_owned(),
            regex: DEFAULT_REGEX.to_owned(),
            modulus: 0,
            replacement: DEFAULT_REPLACEMENT.to_owned(),
            target_label: String::new(),
        }
    }
}

/// The reason why a rule is refused. Messages begin with the rule's field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleFault {
    /// More than [`RULES_MAX`] rules.
    #[error("more than {RULES_MAX} rules")]
    TooMany,
    /// More than [`SOURCE_LABELS_MAX`] source labels.
    #[error("more than {SOURCE_LABELS_MAX} source labels")]
    SourceLabels,
    /// A text is longer than [`TEXT_BYTES_MAX`].
    #[error("a name, separator or replacement is longer than {TEXT_BYTES_MAX} bytes")]
    LongText,
    /// A required target label is missing.
    #[error("`{}` requires a target label", .0.as_str())]
    NoTarget(Action),
    /// `hashmod` has no modulus.
    #[error("`hashmod` requires a modulus of at least 1")]
    NoModulus,
    /// `labelmap` has no replacement.
    #[error("`labelmap` requires a replacement: the new name of the labels")]
    NoReplacement,
    /// The action doesn't have this field.
    #[error("`{}` does not use {field}: remove it", .action.as_str())]
    Field {
        /// The action.
        action: Action,
        /// The field, in words.
        field: &'static str,
    },
    /// The regular expression is refused.
    #[error("regex: {0}")]
    Pattern(#[from] PatternError),
}

/// A checked and compiled rule.
#[derive(Debug, Clone)]
pub(super) struct CompiledRule {
    source: Vec<String>,
    separator: String,
    what: RuleOperation,
}

#[derive(Debug, Clone)]
enum RuleOperation {
    Keep(Matcher),
    Drop(Matcher),
    KeepEqual(String),
    DropEqual(String),
    Replace { matcher: Matcher, target: Template, replacement: Template, needs_groups: bool },
    HashMod { target: String, modulus: u64 },
    LabelMap { matcher: Matcher, replacement: Template },
    LabelDrop(Matcher),
    LabelKeep(Matcher),
    Lowercase(String),
    Uppercase(String),
}

impl CompiledRule {
    pub(super) fn new(rule: &Rule) -> Result<Self, RuleFault> {
        check_rule(rule)?;
        let target = || rule.target_label.clone();
        // It is compiled even if the action doesn't use it, as in Prometheus.
        let matcher = Matcher::new(&rule.regex)?;
        let what = match rule.action {
            Action::Keep => RuleOperation::Keep(matcher),
            Action::Drop => RuleOperation::Drop(matcher),
            Action::KeepEqual => RuleOperation::KeepEqual(target()),
            Action::DropEqual => RuleOperation::DropEqual(target()),
            Action::Replace => {
                let target = Template::new(&rule.target_label, matcher.groups());
                let replacement = Template::new(&rule.replacement, matcher.groups());
                let needs_groups = target.has_groups() || replacement.has_groups();
                RuleOperation::Replace { matcher, target, replacement, needs_groups }
            }
            Action::HashMod => RuleOperation::HashMod { target: target(), modulus: rule.modulus },
            Action::LabelMap => {
                let replacement = Template::new(&rule.replacement, matcher.groups());
                RuleOperation::LabelMap { matcher, replacement }
            }
            Action::LabelDrop => RuleOperation::LabelDrop(matcher),
            Action::LabelKeep => RuleOperation::LabelKeep(matcher),
            Action::Lowercase => RuleOperation::Lowercase(target()),
            Action::Uppercase => RuleOperation::Uppercase(target()),
        };
        Ok(Self { source: rule.source_labels.clone(), separator: rule.separator.clone(), what })
    }

    /// Whether it only keeps or drops by the metric's name.
    pub(super) fn is_of_names(&self) -> bool {
        matches!(self.what, RuleOperation::Keep(_) | RuleOperation::Drop(_))
            && self.source == [METRIC_NAME]
    }

    /// Whether a rule that [`CompiledRule::is_of_names`] keeps a name.
    pub(super) fn accepts_name(&self, name: &str) -> bool {
        match &self.what {
            RuleOperation::Keep(matcher) => matcher.matches(name),
            RuleOperation::Drop(matcher) => !matcher.matches(name),
            _ => true,
        }
    }

    /// Applies the rule. Returns whether the target or sample is retained.
    pub(super) fn apply(
        &self,
        labels: &mut LabelSet,
        scratch: &mut RelabelScratch,
    ) -> Result<bool, TooLong> {
        let RelabelScratch { value, name, result, pairs } = scratch;
        // Most rules only match the value of one source label.
        match (&self.what, &self.source[..]) {
            (RuleOperation::Keep(matcher), [source]) => {
                return Ok(matcher.matches(labels.get(source)));
            }
            (RuleOperation::Drop(matcher), [source]) => {
                return Ok(!matcher.matches(labels.get(source)));
            }
            _ => self.join_sources(labels, value),
        }
        match &self.what {
            RuleOperation::Keep(matcher) => return Ok(matcher.matches(value)),
            RuleOperation::Drop(matcher) => return Ok(!matcher.matches(value)),
            RuleOperation::KeepEqual(target) => return Ok(labels.get(target) == value),
            RuleOperation::DropEqual(target) => return Ok(labels.get(target) != value),
            RuleOperation::Replace { matcher, target, replacement, needs_groups } => {
                let found = matcher.match_groups(value, *needs_groups, |groups| {
                    target.expand_into(value, groups, name);
                    replacement.expand_into(value, groups, result);
                });
                if found.is_some() && !name.is_empty() {
                    labels.set(name, result)?;
                }
            }
            RuleOperation::HashMod { target, modulus } => {
                let hash = Md5::digest(value.as_bytes());
                let (_, last) = hash.split_at(8);
                let hash = last.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
                labels.set(target, &(hash % (*modulus).max(1)).to_string())?;
            }
            RuleOperation::LabelMap { matcher, replacement } => {
                pairs.clear();
                for (known, value) in labels.iter() {
                    let mapped = matcher.match_groups(known, replacement.has_groups(), |groups| {
                        replacement.expand_into(known, groups, name);
                    });
                    if mapped.is_some() {
                        pairs.push((name.clone(), value.to_owned()));
                    }
                }
                for (name, value) in pairs.drain(..) {
                    labels.set(&name, &value)?;
                }
            }
            RuleOperation::LabelDrop(matcher) => labels.retain(|name| !matcher.matches(name)),
            RuleOperation::LabelKeep(matcher) => labels.retain(|name| matcher.matches(name)),
            RuleOperation::Lowercase(target) => {
                case::write_lowercase(value, result);
                labels.set(target, result)?;
            }
            RuleOperation::Uppercase(target) => {
                case::write_uppercase(value, result);
                labels.set(target, result)?;
            }
        }
        Ok(true)
    }

    /// Joins the values of the source labels.
    fn join_sources(&self, labels: &LabelSet, value: &mut String) {
        value.clear();
        for (index, source) in self.source.iter().enumerate() {
            if index > 0 {
                value.push_str(&self.separator);
            }
            value.push_str(labels.get(source));
        }
    }
}

/// Refuses rules that Prometheus refuses or that exceed the limits here.
fn check_rule(rule: &Rule) -> Result<(), RuleFault> {
    let Rule { action, source_labels, separator, regex, modulus, replacement, target_label } = rule;
    let action = *action;
    if source_labels.len() > SOURCE_LABELS_MAX {
        return Err(RuleFault::SourceLabels);
    }
    let mut texts = source_labels.iter().chain([separator, replacement, target_label]);
    if texts.any(|text| text.len() > TEXT_BYTES_MAX) {
        return Err(RuleFault::LongText);
    }
    if action == Action::HashMod && *modulus == 0 {
        return Err(RuleFault::NoModulus);
    }
    if action.needs_target() && target_label.is_empty() {
        return Err(RuleFault::NoTarget(action));
    }
    if action == Action::LabelMap && replacement.is_empty() {
        return Err(RuleFault::NoReplacement);
    }
    let is_equal = matches!(action, Action::KeepEqual | Action::DropEqual);
    let is_case = matches!(action, Action::Lowercase | Action::Uppercase);
    let is_of_names = matches!(action, Action::LabelDrop | Action::LabelKeep);
    for (is_refused, is_default, field) in [
        (is_of_names, source_labels.is_empty(), "source labels"),
        (is_of_names, target_label.is_empty(), "target label"),
        (is_of_names || is_equal, *modulus == 0, "modulus"),
        (is_of_names || is_equal, separator == DEFAULT_SEPARATOR, "separator"),
        (is_of_names || is_equal || is_case, replacement == DEFAULT_REPLACEMENT, "replacement"),
        (is_equal, regex == DEFAULT_REGEX, "regex"),
    ] {
        if is_refused && !is_default {
            return Err(RuleFault::Field { action, field });
        }
    }
    Ok(())
}
