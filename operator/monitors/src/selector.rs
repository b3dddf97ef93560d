//! Selectors of labels, as Kubernetes has them, and of namespaces, as monitors have them.

use crate::cluster::{Objects, Texts};

/// Selects objects by their labels. Without requirements it selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(pub Vec<Requirement>);

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// What it must be.
    pub holds: Holds,
}

/// What a label must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    /// One of these.
    In(Vec<String>),
    /// None of these, or not there.
    NotIn(Vec<String>),
    /// There.
    Exists,
    /// Not there.
    Absent,
}

impl Selector {
    /// Whether labels are selected.
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

/// Namespaces that are looked into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// All.
    Any,
    /// These.
    Names(Vec<String>),
}

impl Namespaces {
    /// Whether it is one of them.
    #[must_use]
    pub fn has(&self, namespace: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Names(names) => names.iter().any(|name| name == namespace),
        }
    }

    /// Objects in them.
    pub(crate) fn of<'a, T>(&'a self, objects: &'a Objects<T>) -> impl Iterator<Item = &'a T> {
        let named = match self {
            Self::Any => None,
            Self::Names(names) => Some(names.iter().filter_map(|name| objects.get(name))),
        };
        let all = named.is_none().then(|| objects.values());
        let namespaces = named.into_iter().flatten().chain(all.into_iter().flatten());
        namespaces.flat_map(|objects| objects.values().map(|object| &**object))
    }
}
