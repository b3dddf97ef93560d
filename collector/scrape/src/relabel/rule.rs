//! One rule: what may be written, and what each action does.

use md5::{Digest, Md5};

use super::labels::{Labels, TooLong};
use super::matcher::Matcher;
use super::pattern::PatternError;
use super::template::Template;
use super::{RULES_MAX, SOURCE_LABELS_MAX, Scratch, TEXT_BYTES_MAX, case};

/// The label that is the metric's name.
const METRIC_NAME: &str = "__name__";

/// What stands between values of source labels.
pub const DEFAULT_SEPARATOR: &str = ";";

/// Matches anything, as its first group.
pub const DEFAULT_REGEX: &str = "(.*)";

/// The first group.
pub const DEFAULT_REPLACEMENT: &str = "$1";

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Action {
    /// Sets the target label to the replacement where the source matches.
    #[default]
    Replace,
    /// Drops what doesn't match.
    Keep,
    /// Drops what matches.
    Drop,
    /// Drops where source and target label differ.
    KeepEqual,
    /// Drops where they are equal.
    DropEqual,
    /// Sets the target label to a hash of the source, modulo `modulus`.
    HashMod,
    /// Copies labels whose names match to names by the replacement.
    LabelMap,
    /// Removes labels whose names match.
    LabelDrop,
    /// Removes labels whose names don't match.
    LabelKeep,
    /// Sets the target label to the source in lower case.
    Lowercase,
    /// Sets it to the source in upper case.
    Uppercase,
}

impl Action {
    /// All, in the order of the documentation.
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

    /// Its name as Prometheus writes it.
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

    /// The action of a name, in any case, as Prometheus takes it.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str().eq_ignore_ascii_case(name))
    }

    const fn needs_target(self) -> bool {
        !matches!(
            self,
            Self::Keep | Self::Drop | Self::LabelMap | Self::LabelDrop | Self::LabelKeep
        )
    }
}

/// A rule as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// What it does.
    pub action: Action,
    /// The labels whose values are its source.
    pub source_labels: Vec<String>,
    /// What stands between them.
    pub separator: String,
    /// What the source, or a label's name, must match as a whole.
    pub regex: String,
    /// What a hash is divided by.
    pub modulus: u64,
    /// What is written.
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

/// Why a rule is refused. Each is said with the rule's field before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleFault {
    /// More than [`RULES_MAX`] rules.
    #[error("there are more than {RULES_MAX} rules")]
    TooMany,
    /// More than [`SOURCE_LABELS_MAX`] source labels.
    #[error("more than {SOURCE_LABELS_MAX} source labels")]
    SourceLabels,
    /// A text over [`TEXT_BYTES_MAX`].
    #[error("a name, separator or replacement is longer than {TEXT_BYTES_MAX} bytes")]
    LongText,
    /// No target label where one is needed.
    #[error("`{}` needs a target label", .0.as_str())]
    NoTarget(Action),
    /// `hashmod` without a modulus.
    #[error("`hashmod` needs a modulus of 1 or more")]
    NoModulus,
    /// `labelmap` without a replacement.
    #[error("`labelmap` needs a replacement: the name that labels get")]
    NoReplacement,
    /// A field that the action doesn't have.
    #[error("`{}` has no {field}: leave it out", .action.as_str())]
    Field {
        /// The action.
        action: Action,
        /// The field, in words.
        field: &'static str,
    },
    /// A regular expression that is refused.
    #[error("regex: {0}")]
    Pattern(#[from] PatternError),
}

/// A rule that is checked.
#[derive(Debug, Clone)]
pub(super) struct Ready {
    source: Vec<String>,
    separator: String,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
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

impl Ready {
    pub(super) fn new(rule: &Rule) -> Result<Self, RuleFault> {
        check(rule)?;
        let target = || rule.target_label.clone();
        // Also where the action doesn't use it, as in Prometheus.
        let matcher = Matcher::new(&rule.regex)?;
        let what = match rule.action {
            Action::Keep => What::Keep(matcher),
            Action::Drop => What::Drop(matcher),
            Action::KeepEqual => What::KeepEqual(target()),
            Action::DropEqual => What::DropEqual(target()),
            Action::Replace => {
                let target = Template::new(&rule.target_label, matcher.groups());
                let replacement = Template::new(&rule.replacement, matcher.groups());
                let needs_groups = target.has_groups() || replacement.has_groups();
                What::Replace { matcher, target, replacement, needs_groups }
            }
            Action::HashMod => What::HashMod { target: target(), modulus: rule.modulus },
            Action::LabelMap => {
                let replacement = Template::new(&rule.replacement, matcher.groups());
                What::LabelMap { matcher, replacement }
            }
            Action::LabelDrop => What::LabelDrop(matcher),
            Action::LabelKeep => What::LabelKeep(matcher),
            Action::Lowercase => What::Lowercase(target()),
            Action::Uppercase => What::Uppercase(target()),
        };
        Ok(Self { source: rule.source_labels.clone(), separator: rule.separator.clone(), what })
    }

    /// Whether it only keeps or drops by the metric's name.
    pub(super) fn is_of_names(&self) -> bool {
        matches!(self.what, What::Keep(_) | What::Drop(_)) && self.source == [METRIC_NAME]
    }

    /// Whether one that [`Ready::is_of_names`] keeps a name.
    pub(super) fn keeps_name(&self, name: &str) -> bool {
        match &self.what {
            What::Keep(matcher) => matcher.matches(name),
            What::Drop(matcher) => !matcher.matches(name),
            _ => true,
        }
    }

    /// Applies the rule. Whether what has these labels is kept.
    pub(super) fn apply(
        &self,
        labels: &mut Labels,
        scratch: &mut Scratch,
    ) -> Result<bool, TooLong> {
        let Scratch { value, name, result, pairs } = scratch;
        // Most rules have one source label, and only look at it.
        match (&self.what, &self.source[..]) {
            (What::Keep(matcher), [source]) => return Ok(matcher.matches(labels.get(source))),
            (What::Drop(matcher), [source]) => return Ok(!matcher.matches(labels.get(source))),
            _ => self.join(labels, value),
        }
        match &self.what {
            What::Keep(matcher) => return Ok(matcher.matches(value)),
            What::Drop(matcher) => return Ok(!matcher.matches(value)),
            What::KeepEqual(target) => return Ok(labels.get(target) == value),
            What::DropEqual(target) => return Ok(labels.get(target) != value),
            What::Replace { matcher, target, replacement, needs_groups } => {
                let found = matcher.find(value, *needs_groups, |groups| {
                    target.expand(value, groups, name);
                    replacement.expand(value, groups, result);
                });
                if found.is_some() && !name.is_empty() {
                    labels.set(name, result)?;
                }
            }
            What::HashMod { target, modulus } => {
                let hash = Md5::digest(value.as_bytes());
                let (_, last) = hash.split_at(8);
                let hash = last.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
                labels.set(target, &(hash % (*modulus).max(1)).to_string())?;
            }
            What::LabelMap { matcher, replacement } => {
                pairs.clear();
                for (known, value) in labels.iter() {
                    let mapped = matcher.find(known, replacement.has_groups(), |groups| {
                        replacement.expand(known, groups, name);
                    });
                    if mapped.is_some() {
                        pairs.push((name.clone(), value.to_owned()));
                    }
                }
                for (name, value) in pairs.drain(..) {
                    labels.set(&name, &value)?;
                }
            }
            What::LabelDrop(matcher) => labels.retain(|name| !matcher.matches(name)),
            What::LabelKeep(matcher) => labels.retain(|name| matcher.matches(name)),
            What::Lowercase(target) => {
                case::lower(value, result);
                labels.set(target, result)?;
            }
            What::Uppercase(target) => {
                case::upper(value, result);
                labels.set(target, result)?;
            }
        }
        Ok(true)
    }

    /// Joins the values of the source labels.
    fn join(&self, labels: &Labels, value: &mut String) {
        value.clear();
        for (place, source) in self.source.iter().enumerate() {
            if place > 0 {
                value.push_str(&self.separator);
            }
            value.push_str(labels.get(source));
        }
    }
}

/// Refuses what Prometheus refuses, and what is longer than here.
fn check(rule: &Rule) -> Result<(), RuleFault> {
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
