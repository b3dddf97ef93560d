//! Selects the namespaces whose pods are read: by name, or by labels that a watcher reports.
//!
//! Until the watcher reports, a selection by labels reads nothing: otherwise files of unselected
//! namespaces would be read, or those of selected ones would count as new later.

use std::collections::HashSet;
use std::sync::Arc;

use millrace_config::ContainersReceiver;

#[derive(Debug)]
pub(crate) struct NamespaceFilter {
    included: NamespaceSet,
    excluded: HashSet<String>,
}

#[derive(Debug)]
enum NamespaceSet {
    All,
    Named(HashSet<String>),
    /// The namespaces with the selected labels, once they are known.
    ByLabels(Option<Arc<HashSet<String>>>),
}

impl NamespaceFilter {
    pub(crate) fn from_settings(settings: &ContainersReceiver) -> Self {
        let set = |names: &[String]| names.iter().cloned().collect();
        let included = if settings.namespace_selector.is_some() {
            NamespaceSet::ByLabels(None)
        } else if settings.namespaces.is_empty() {
            NamespaceSet::All
        } else {
            NamespaceSet::Named(set(&settings.namespaces))
        };
        Self { included, excluded: set(&settings.exclude_namespaces) }
    }

    /// Whether the selected namespaces are known.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self.included, NamespaceSet::ByLabels(None))
    }

    /// Sets the namespaces that have the labels, and returns whether this changes the selection.
    pub(super) fn set_labeled(&mut self, labeled: &Arc<HashSet<String>>) -> bool {
        let NamespaceSet::ByLabels(known) = &mut self.included else { return false };
        known.replace(Arc::clone(labeled)).as_ref() != Some(labeled)
    }

    pub(super) fn reads_namespace(&self, namespace: &str) -> bool {
        let is_included = match &self.included {
            NamespaceSet::All => true,
            NamespaceSet::Named(names) => names.contains(namespace),
            NamespaceSet::ByLabels(names) => {
                names.as_ref().is_some_and(|names| names.contains(namespace))
            }
        };
        is_included && !self.excluded.contains(namespace)
    }
}

#[cfg(test)]
mod tests {
    use millrace_config::LabelSelector;

    use super::*;

    /// Scenario: all namespaces, named ones, and those with a label, which is reported later; one
    /// is excluded each time. Guarantee: namespaces are read as configured, the excluded one never,
    /// and none by labels before the report.
    #[test]
    fn namespaces_are_read_as_settings_say() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let settings = |namespaces: &[&str], namespace_selector| ContainersReceiver {
            namespaces: names(namespaces),
            exclude_namespaces: vec!["b".to_owned()],
            namespace_selector,
            ..ContainersReceiver::default()
        };
        let read = |choice: &NamespaceFilter| {
            ["a", "b", "c"].map(|namespace| choice.reads_namespace(namespace))
        };
        let all = NamespaceFilter::from_settings(&settings(&[], None));
        assert_eq!((all.is_known(), read(&all)), (true, [true, false, true]));
        let named = NamespaceFilter::from_settings(&settings(&["a", "b"], None));
        assert_eq!((named.is_known(), read(&named)), (true, [true, false, false]));
        let mut labeled =
            NamespaceFilter::from_settings(&settings(&[], Some(LabelSelector::default())));
        assert_eq!((labeled.is_known(), read(&labeled)), (false, [false; 3]));
        let set = Arc::new(["b".to_owned(), "c".to_owned()].into());
        assert!(labeled.set_labeled(&set));
        assert_eq!((labeled.is_known(), read(&labeled)), (true, [false, false, true]));
        assert!(!labeled.set_labeled(&Arc::new((*set).clone())), "it is the same set");
    }
}
