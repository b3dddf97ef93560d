//! Converts rules between the settings' form, which is unchecked, and [`Rule`].

use millrace_config::{RelabelAction, RelabelRule};

use super::{Action, Rule};

impl From<&RelabelRule> for Rule {
    fn from(written: &RelabelRule) -> Self {
        let RelabelRule {
            action,
            source_labels,
            separator,
            regex,
            modulus,
            replacement,
            target_label,
        } = written.clone();
        let action = Action::from_name(action.as_str()).unwrap_or_default();
        Self { action, source_labels, separator, regex, modulus, replacement, target_label }
    }
}

impl From<&Rule> for RelabelRule {
    fn from(rule: &Rule) -> Self {
        let Rule { action, source_labels, separator, regex, modulus, replacement, target_label } =
            rule.clone();
        let name = action.as_str();
        let action = RelabelAction::ALL.into_iter().find(|action| action.as_str() == name);
        Self {
            action: action.unwrap_or_default(),
            source_labels,
            separator,
            regex,
            modulus,
            replacement,
            target_label,
        }
    }
}
