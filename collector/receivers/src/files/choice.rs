//! Which namespaces' pods are read: by name, or by labels as somebody else tells them.
//!
//! By labels nobody knows at first. Nothing is read then: files of a namespace that isn't chosen
//! would be, or those of a chosen one would be taken for new later.

use std::collections::HashSet;
use std::sync::Arc;

use millrace_config::ContainersReceiver;

/// Which namespaces are read.
#[derive(Debug)]
pub(super) struct Choice {
    wanted: Wanted,
    excluded: HashSet<String>,
}

#[derive(Debug)]
enum Wanted {
    All,
    Named(HashSet<String>),
    /// By labels: those that have them, once that is known.
    Told(Option<Arc<HashSet<String>>>),
}

impl Choice {
    pub(super) fn of(settings: &ContainersReceiver) -> Self {
        let set = |names: &[String]| names.iter().cloned().collect();
        let wanted = if settings.namespace_selector.is_some() {
            Wanted::Told(None)
        } else if settings.namespaces.is_empty() {
            Wanted::All
        } else {
            Wanted::Named(set(&settings.namespaces))
        };
        Self { wanted, excluded: set(&settings.exclude_namespaces) }
    }

    /// Whether it is known.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self.wanted, Wanted::Told(None))
    }

    /// Takes in which namespaces have the labels. Whether that matters here.
    pub(super) fn tell(&mut self, told: &Arc<HashSet<String>>) -> bool {
        let Wanted::Told(known) = &mut self.wanted else { return false };
        known.replace(Arc::clone(told)).as_ref() != Some(told)
    }

    /// Whether a namespace is read.
    pub(super) fn has(&self, namespace: &str) -> bool {
        let is_wanted = match &self.wanted {
            Wanted::All => true,
            Wanted::Named(names) => names.contains(namespace),
            Wanted::Told(names) => names.as_ref().is_some_and(|names| names.contains(namespace)),
        };
        is_wanted && !self.excluded.contains(namespace)
    }
}

#[cfg(test)]
mod tests {
    use millrace_config::LabelSelector;

    use super::*;

    /// Scenario: all namespaces, named ones, and those with a label, which is told later; one is
    /// excluded each time. Guarantee: each is read as settings say, the excluded one never, and by
    /// labels none before it is told.
    #[test]
    fn namespaces_are_read_as_settings_say() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let settings = |namespaces: &[&str], namespace_selector| ContainersReceiver {
            namespaces: names(namespaces),
            exclude_namespaces: vec!["b".to_owned()],
            namespace_selector,
            ..ContainersReceiver::default()
        };
        let read = |choice: &Choice| ["a", "b", "c"].map(|namespace| choice.has(namespace));
        let all = Choice::of(&settings(&[], None));
        assert_eq!((all.is_known(), read(&all)), (true, [true, false, true]));
        let named = Choice::of(&settings(&["a", "b"], None));
        assert_eq!((named.is_known(), read(&named)), (true, [true, false, false]));
        let mut told = Choice::of(&settings(&[], Some(LabelSelector::default())));
        assert_eq!((told.is_known(), read(&told)), (false, [false; 3]));
        let set = Arc::new(["b".to_owned(), "c".to_owned()].into());
        assert!(told.tell(&set));
        assert_eq!((told.is_known(), read(&told)), (true, [false, false, true]));
        assert!(!told.tell(&Arc::new((*set).clone())), "it is the same set");
    }
}
