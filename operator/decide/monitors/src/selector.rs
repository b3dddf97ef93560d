//! Selectors of labels, as Kubernetes defines them, and of namespaces, as monitors define them.

use crate::cluster::{Objects, Texts};

/// Selects objects by their labels. Without requirements it selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(pub Vec<Requirement>);

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// The condition on its value.
    pub holds: Holds,
}

/// A condition on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    /// It has one of these values.
    In(Vec<String>),
    /// It has none of these values, or is absent.
    NotIn(Vec<String>),
    /// It exists.
    Exists,
    /// It is absent.
    Absent,
}

impl Selector {
    /// Returns whether the labels meet all requirements.
    #[must_use]
    pub fn selects(&self, labels: &Texts) -> bool {
        self.0.iter().all(|Requirement { key, holds }| {
            let value = labels.get(key);
            match holds {
                Holds::In(values) => value.is_some_and(|value| values.contains(value)),
                Holds::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Holds::Exists => value.is_some(),
                Holds::Absent => value.is_none(),
            }
        })
    }
}

/// The selected namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// All.
    Any,
    /// These.
    Names(Vec<String>),
}

impl Namespaces {
    /// Returns whether the namespace is selected.
    #[must_use]
    pub fn has_namespace(&self, namespace: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Names(names) => names.iter().any(|name| name == namespace),
        }
    }

    /// Returns the objects in the selected namespaces.
    pub(crate) fn select_objects<'a, T>(
        &'a self,
        objects: &'a Objects<T>,
    ) -> impl Iterator<Item = &'a T> {
        let named = match self {
            Self::Any => None,
            Self::Names(names) => Some(names.iter().filter_map(|name| objects.get(name))),
        };
        let all = named.is_none().then(|| objects.values());
        let namespaces = named.into_iter().flatten().chain(all.into_iter().flatten());
        namespaces.flat_map(|objects| objects.values().map(|object| &**object))
    }
}
