//! The section of rules that change labels, drop targets or samples.
//!
//! Here they are read; what they do, and whether their regular expressions can be used, is the
//! scraper's to say, before anything is scraped.

use serde::{Deserialize, Serialize};

use crate::document::section::section;

section! {
    /// Relabeling rule, as in Prometheus' `relabel_config`.
    pub struct RelabelRule {
        /// Action of the rule.
        pub action: RelabelAction = RelabelAction::Replace,
        /// Labels whose values, joined by the separator, are the source.
        pub source_labels: Vec<String> = Vec::new(),
        /// Separator between the values of the source labels.
        pub separator: String = ";".to_owned(),
        /// Regular expression that the complete source, or label name, must match.
        pub regex: String = "(.*)".to_owned(),
        /// Modulus of the hash.
        pub modulus: u64 = 0,
        /// Replacement text, with `$1` for the first group.
        pub replacement: String = "$1".to_owned(),
        /// Label that is set.
        pub target_label: String = String::new(),
    }
}

/// Action of a relabeling rule.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RelabelAction {
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
    /// Sets the target label to a hash of the source.
    HashMod,
    /// Copies labels whose names match to other names.
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

impl RelabelAction {
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

    /// Its name.
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
}

#[cfg(test)]
pub(crate) mod arbitrary {
    use super::{RelabelAction, RelabelRule};
    use proptest::prelude::{Strategy, any};

    pub(crate) fn rule() -> impl Strategy<Value = RelabelRule> {
        let action = proptest::sample::select(RelabelAction::ALL.to_vec());
        let source = proptest::collection::vec("[ -~é]{0,6}", 0..3);
        let texts = ("[ -~]{0,3}", "[ -~é]{0,10}", "[ -~]{0,5}", "[ -~]{0,5}");
        (action, source, any::<u64>(), texts).prop_map(
            |(action, source_labels, modulus, (separator, regex, replacement, target_label))| {
                RelabelRule {
                    action,
                    source_labels,
                    separator,
                    regex,
                    modulus,
                    replacement,
                    target_label,
                }
            },
        )
    }
}
