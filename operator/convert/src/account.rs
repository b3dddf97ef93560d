//! What became of each value of the file. An entry stands for the value at its path and all below
//! it; whoever opens a block accounts for each of its fields.

use std::collections::HashSet;

use serde::{Serialize, Serializer};

use crate::tree::{Node, Path, Text};

/// What became of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "fate", rename_all = "camelCase")]
pub enum Fate {
    /// The pipeline says it too.
    Carried {
        /// The pipeline's field.
        to: String,
        /// How the field differs from it, if it does.
        #[serde(skip_serializing_if = "Option::is_none")]
        but: Option<String>,
    },
    /// The pipeline has a field for it whose value has to be written by hand.
    FillIn {
        /// The pipeline's field.
        to: String,
        /// What to write or make.
        what: String,
    },
    /// Millrace does it, or has no use for it, without being told.
    NotNeeded {
        /// Why.
        why: String,
    },
    /// It has no counterpart.
    Left {
        /// What to do instead.
        instead: String,
    },
}

impl Fate {
    pub(crate) fn carried(to: impl Into<String>) -> Self {
        Self::Carried { to: to.into(), but: None }
    }

    pub(crate) fn not_needed(why: impl Into<String>) -> Self {
        Self::NotNeeded { why: why.into() }
    }

    pub(crate) fn left(instead: impl Into<String>) -> Self {
        Self::Left { instead: instead.into() }
    }
}

/// A value of the file, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its path in the file. None where the pipeline needs a value that the file doesn't have.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub at: Option<Path>,
    /// What became of it.
    #[serde(flatten)]
    pub fate: Fate,
}

fn as_text<S: Serializer>(path: &Option<Path>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.collect_str(path),
        None => serializer.serialize_none(),
    }
}

/// All entries so far.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) entries: Vec<Entry>,
}

impl Account {
    pub(crate) fn put(&mut self, node: &Node<'_>, fate: Fate) {
        self.entries.push(Entry { at: Some(node.path.clone()), fate });
    }

    pub(crate) fn carried(&mut self, node: &Node<'_>, to: impl Into<String>) {
        self.put(node, Fate::carried(to));
    }

    pub(crate) fn differs(
        &mut self,
        node: &Node<'_>,
        to: impl Into<String>,
        but: impl Into<String>,
    ) {
        self.put(node, Fate::Carried { to: to.into(), but: Some(but.into()) });
    }

    pub(crate) fn fill_in(
        &mut self,
        node: &Node<'_>,
        to: impl Into<String>,
        what: impl Into<String>,
    ) {
        self.put(node, Fate::FillIn { to: to.into(), what: what.into() });
    }

    /// A value that the pipeline needs and the file doesn't have.
    pub(crate) fn missing(&mut self, to: impl Into<String>, what: impl Into<String>) {
        self.entries
            .push(Entry { at: None, fate: Fate::FillIn { to: to.into(), what: what.into() } });
    }

    pub(crate) fn not_needed(&mut self, node: &Node<'_>, why: impl Into<String>) {
        self.put(node, Fate::not_needed(why));
    }

    pub(crate) fn left(&mut self, node: &Node<'_>, instead: impl Into<String>) {
        self.put(node, Fate::left(instead));
    }

    /// The text of a value. Otherwise it is accounted for: a variable is to be filled in at `to`.
    pub(crate) fn text(&mut self, node: &Node<'_>, to: &str) -> Option<String> {
        match node.text() {
            Text::Said(text) => return Some(text),
            Text::Variable => self.variable(node, to),
            Text::Not => self.left(node, "a single value is expected here: write it at its field"),
        }
        None
    }

    /// A value with `${...}`.
    pub(crate) fn variable(&mut self, node: &Node<'_>, to: &str) {
        self.fill_in(node, to, "it is a variable of the Collector's: write what that stands for");
    }

    /// The fields of a block. Where it says nothing that is `empty`'s; what is no block is
    /// accounted for.
    pub(crate) fn open<'a>(&mut self, node: &Node<'a>, empty: Fate) -> Fields<'a> {
        let fields: Vec<_> = node.entries().collect();
        if fields.is_empty() {
            match node.is_empty() {
                true => self.put(node, empty),
                false => self.left(node, "a block of fields is expected here"),
            }
        }
        Fields(fields)
    }

    /// The items of a list, or the one text that stands for it. Where there are none that is
    /// `empty`; what is no list is accounted for.
    pub(crate) fn items<'a>(&mut self, node: &Node<'a>, empty: &str) -> Vec<Node<'a>> {
        if node.text() != Text::Not {
            return vec![node.clone()];
        }
        let items: Vec<_> = node.items().collect();
        match (items.is_empty(), node.is_empty()) {
            (true, true) => self.not_needed(node, empty),
            (true, false) => self.left(node, "a list is expected here"),
            (false, _) => {}
        }
        items
    }

    /// The fields that nobody took.
    pub(crate) fn rest(&mut self, fields: Fields<'_>, fate: impl Fn(&str) -> Fate) {
        for (name, node) in fields.0 {
            let fate = fate(&name);
            self.put(&node, fate);
        }
    }

    /// Every leaf that no entry stands for. None, if every block that was opened was closed.
    pub(crate) fn forgotten(&self, leaves: &[Path]) -> Vec<Path> {
        let known: HashSet<&Path> = self.entries.iter().filter_map(|it| it.at.as_ref()).collect();
        let covered = |leaf: &&Path| !leaf.and_above().any(|path| known.contains(&path));
        leaves.iter().filter(covered).cloned().collect()
    }
}

impl Entry {
    /// Whether it stands for a value.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        self.at.as_ref().is_some_and(|at| at.covers(path))
    }

    /// The pipeline's field, if it has one.
    #[must_use]
    pub fn to(&self) -> Option<&str> {
        match &self.fate {
            Fate::Carried { to, .. } | Fate::FillIn { to, .. } => Some(to),
            Fate::NotNeeded { .. } | Fate::Left { .. } => None,
        }
    }
}

/// Fields of a block that nobody has taken yet.
#[derive(Debug)]
pub(crate) struct Fields<'a>(Vec<(String, Node<'a>)>);

impl<'a> Fields<'a> {
    /// Takes a field, if it is there.
    pub(crate) fn take(&mut self, name: &str) -> Option<Node<'a>> {
        let place = self.0.iter().position(|(one, _)| one == name)?;
        Some(self.0.remove(place).1)
    }
}

/// What becomes of a field by a table of names; another has the last fate.
pub(crate) fn by_name<'a>(
    table: &'a [(&'a str, &'a str)],
    otherwise: &'a str,
) -> impl Fn(&str) -> Fate + 'a {
    move |name| match table.iter().find(|(one, _)| *one == name) {
        Some((_, why)) => Fate::not_needed(*why),
        None => Fate::left(otherwise),
    }
}
