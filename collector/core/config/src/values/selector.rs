//! Kubernetes' label selectors: as settings, and in the text that the API server takes.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::document::section::section;

section! {
    /// Label selector of objects. All requirements must match.
    pub struct LabelSelector {
        /// Labels with exactly these values.
        pub match_labels: BTreeMap<String, String> = BTreeMap::new(),
        /// Additional requirements.
        pub match_expressions: Vec<LabelRequirement> = Vec::new(),
    }
}

section! {
    /// Requirement for one label.
    pub struct LabelRequirement {
        /// Name of the label. Required.
        pub key: String = String::new(),
        /// Operator that is applied to the label's value.
        pub operator: LabelOperator = LabelOperator::Exists,
        /// Values for `In` and `NotIn`.
        pub values: Vec<String> = Vec::new(),
    }
}

/// Operator of a label requirement.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabelOperator {
    /// The value is one of the values.
    In,
    /// The value is none of the values, or the label is missing.
    NotIn,
    /// The label exists, with any value.
    Exists,
    /// The label does not exist.
    DoesNotExist,
}

/// Characters of a label's value, or of the name in its key.
const NAME_CHARACTERS_MAX: usize = 63;
/// Characters of the prefix in a label's key.
const PREFIX_CHARACTERS_MAX: usize = 253;

impl LabelSelector {
    /// Returns each invalid field, and what to write instead.
    pub(crate) fn find_faults(&self) -> Vec<(String, &'static str)> {
        let Self { match_labels, match_expressions } = self;
        let mut faults = Vec::new();
        if match_labels.is_empty() && match_expressions.is_empty() {
            faults.push((
                String::new(),
                "an empty selector matches all objects: remove it, or set a label",
            ));
        }
        for (key, value) in match_labels {
            if !is_key(key) || !is_value(value) {
                faults.push((format!(".matchLabels.{key}"), LABEL));
            }
        }
        for (index, requirement) in match_expressions.iter().enumerate() {
            let LabelRequirement { key, operator, values } = requirement;
            if !is_key(key) || !values.iter().all(|value| is_value(value)) {
                faults.push((format!(".matchExpressions[{index}]"), LABEL));
            }
            let needs_values = matches!(operator, LabelOperator::In | LabelOperator::NotIn);
            if needs_values == values.is_empty() {
                let message = "In and NotIn require values; Exists and DoesNotExist accept none";
                faults.push((format!(".matchExpressions[{index}].values"), message));
            }
        }
        faults
    }
}

const LABEL: &str = "not a valid label: name and value have at most 63 letters, digits, `-`, `_` \
                     and `.`, and begin and end with a letter or digit";

/// As the API server takes it.
impl Display for LabelSelector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { match_labels, match_expressions } = self;
        let labels = match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let further =
            match_expressions.iter().map(
                |LabelRequirement { key, operator, values }| match operator {
                    LabelOperator::In => format!("{key} in ({})", values.join(",")),
                    LabelOperator::NotIn => format!("{key} notin ({})", values.join(",")),
                    LabelOperator::Exists => key.clone(),
                    LabelOperator::DoesNotExist => format!("!{key}"),
                },
            );
        f.write_str(&labels.chain(further).collect::<Vec<_>>().join(","))
    }
}

fn is_key(key: &str) -> bool {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(it, name)| (Some(it), name));
    let is_prefix = |prefix: &str| {
        prefix.len() <= PREFIX_CHARACTERS_MAX
            && prefix.split('.').all(|part| is_label_text(part) && !part.contains('_'))
    };
    is_label_text(name) && name.len() <= NAME_CHARACTERS_MAX && prefix.is_none_or(is_prefix)
}

fn is_value(value: &str) -> bool {
    value.is_empty() || is_label_text(value) && value.len() <= NAME_CHARACTERS_MAX
}

fn is_label_text(word: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = word.as_bytes();
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(is_inner)
}

#[cfg(test)]
pub(crate) mod arbitrary {
    use proptest::prelude::Strategy;

    use super::{LabelOperator, LabelRequirement, LabelSelector};

    pub(crate) fn label_selector() -> impl Strategy<Value = LabelSelector> {
        use LabelOperator::{DoesNotExist, Exists, In, NotIn};
        let operator = proptest::sample::select(vec![In, NotIn, Exists, DoesNotExist]);
        let values = proptest::collection::vec("[ -~]{0,20}", 0..3);
        let requirement = ("[ -~]{0,20}", operator, values)
            .prop_map(|(key, operator, values)| LabelRequirement { key, operator, values });
        let match_labels = proptest::collection::btree_map("[ -~]{0,20}", "[ -~]{0,20}", 0..3);
        (match_labels, proptest::collection::vec(requirement, 0..3)).prop_map(
            |(match_labels, match_expressions)| LabelSelector { match_labels, match_expressions },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: LabelOperator, values: &[&str]) -> LabelRequirement {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        LabelRequirement { key: key.to_owned(), operator, values }
    }

    /// Scenario: a selector with labels and one requirement of each kind. Guarantee: the text that
    /// Kubernetes documents for it, and no fault.
    #[test]
    fn a_selector_is_written_as_the_api_server_takes_it() {
        let selector = LabelSelector {
            match_labels: [("team".to_owned(), "shop".to_owned())].into(),
            match_expressions: vec![
                requirement("example.com/env", LabelOperator::In, &["prod", "test"]),
                requirement("tier", LabelOperator::NotIn, &["", "batch"]),
                requirement("logs", LabelOperator::Exists, &[]),
                requirement("quiet", LabelOperator::DoesNotExist, &[]),
            ],
        };
        let text = "team=shop,example.com/env in (prod,test),tier notin (,batch),logs,!quiet";
        assert_eq!((selector.to_string().as_str(), selector.find_faults()), (text, vec![]));
    }

    /// Scenario: keys and values that are no labels, among them some that would make another
    /// selector of the text. Guarantee: each is a fault.
    #[test]
    fn what_is_no_label_is_a_fault() {
        let long = "x".repeat(64);
        for key in ["", "a,b", "a b", "-a", "a-", "!a", "a/b/c", "/a", "A_/a", "a=b", long.as_str()]
        {
            let exists = vec![requirement(key, LabelOperator::Exists, &[])];
            let selector = LabelSelector { match_expressions: exists, ..LabelSelector::default() };
            assert_eq!(selector.find_faults().len(), 1, "{key}");
        }
        for value in ["a,b", "a)", "_a", long.as_str()] {
            let match_labels = [("a".to_owned(), value.to_owned())].into();
            let selector = LabelSelector { match_labels, ..LabelSelector::default() };
            assert_eq!(selector.find_faults().len(), 1, "{value}");
        }
        let bare = vec![requirement("a", LabelOperator::In, &[])];
        let selector = LabelSelector { match_expressions: bare, ..LabelSelector::default() };
        assert_eq!(selector.find_faults()[0].0, ".matchExpressions[0].values");
        assert_eq!(LabelSelector::default().find_faults().len(), 1);
    }
}
