//! The account: what happened to each value of the file. An entry covers the value at its path and
//! all below it; whoever opens a block accounts for each of its fields.

use std::collections::HashSet;

use serde::{Serialize, Serializer};

use crate::tree::{Node, TextValue, ValuePath};

/// What happened to a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "fate", rename_all = "camelCase")]
pub enum Fate {
    /// The pipeline has the same value.
    Carried {
        /// The pipeline's field.
        to: String,
        /// How the field differs from it, if it does.
        #[serde(skip_serializing_if = "Option::is_none")]
        but: Option<String>,
    },
    /// The pipeline has a field for it whose value the user must write.
    FillIn {
        /// The pipeline's field.
        to: String,
        /// What to write or create.
        what: String,
    },
    /// Millrace does it anyway, or has no use for it.
    NotNeeded {
        /// The reason.
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

    pub(crate) fn unsupported(instead: impl Into<String>) -> Self {
        Self::Left { instead: instead.into() }
    }
}

/// A value of the file, and what happened to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountEntry {
    /// Its path in the file; `None` where the pipeline needs a value that the file lacks.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub at: Option<ValuePath>,
    /// What happened to it.
    #[serde(flatten)]
    pub fate: Fate,
}

fn as_text<S: Serializer>(path: &Option<ValuePath>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.collect_str(path),
        None => serializer.serialize_none(),
    }
}

/// All entries so far.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) entries: Vec<AccountEntry>,
}

impl Account {
    pub(crate) fn add_entry(&mut self, node: &Node<'_>, fate: Fate) {
        self.entries.push(AccountEntry { at: Some(node.path.clone()), fate });
    }

    pub(crate) fn carried(&mut self, node: &Node<'_>, to: impl Into<String>) {
        self.add_entry(node, Fate::carried(to));
    }

    pub(crate) fn differs(
        &mut self,
        node: &Node<'_>,
        to: impl Into<String>,
        but: impl Into<String>,
    ) {
        self.add_entry(node, Fate::Carried { to: to.into(), but: Some(but.into()) });
    }

    pub(crate) fn fill_in(
        &mut self,
        node: &Node<'_>,
        to: impl Into<String>,
        what: impl Into<String>,
    ) {
        self.add_entry(node, Fate::FillIn { to: to.into(), what: what.into() });
    }

    /// Adds an entry for a value that the pipeline needs and the file lacks.
    pub(crate) fn missing(&mut self, to: impl Into<String>, what: impl Into<String>) {
        self.entries.push(AccountEntry {
            at: None,
            fate: Fate::FillIn { to: to.into(), what: what.into() },
        });
    }

    pub(crate) fn not_needed(&mut self, node: &Node<'_>, why: impl Into<String>) {
        self.add_entry(node, Fate::not_needed(why));
    }

    pub(crate) fn unsupported(&mut self, node: &Node<'_>, instead: impl Into<String>) {
        self.add_entry(node, Fate::unsupported(instead));
    }

    /// Returns the text of a value. Otherwise it adds an entry: a variable is to be filled in at
    /// `to`.
    pub(crate) fn require_text(&mut self, node: &Node<'_>, to: &str) -> Option<String> {
        match node.scalar_text() {
            TextValue::Plain(text) => return Some(text),
            TextValue::Variable => self.fill_in_variable(node, to),
            TextValue::Not => {
                self.unsupported(node, "a single value is expected here: write it in its field")
            }
        }
        None
    }

    /// Adds an entry for a value with `${...}`.
    pub(crate) fn fill_in_variable(&mut self, node: &Node<'_>, to: &str) {
        self.fill_in(node, to, "it is a variable of the Collector's: write its value");
    }

    /// Returns the fields of a block. An empty block gets the fate `empty`; a value that is not a
    /// block gets its own entry.
    pub(crate) fn open_block<'a>(&mut self, node: &Node<'a>, empty: Fate) -> Fields<'a> {
        let fields: Vec<_> = node.entries().collect();
        if fields.is_empty() {
            match node.is_empty() {
                true => self.add_entry(node, empty),
                false => self.unsupported(node, "a block of fields is expected here"),
            }
        }
        Fields(fields)
    }

    /// Returns the items of a list, or the single text in its place. An empty list gets the reason
    /// `empty`; a value that is not a list gets its own entry.
    pub(crate) fn list_items<'a>(&mut self, node: &Node<'a>, empty: &str) -> Vec<Node<'a>> {
        if node.scalar_text() != TextValue::Not {
            return vec![node.clone()];
        }
        let items: Vec<_> = node.items().collect();
        match (items.is_empty(), node.is_empty()) {
            (true, true) => self.not_needed(node, empty),
            (true, false) => self.unsupported(node, "a list is expected here"),
            (false, _) => {}
        }
        items
    }

    /// Adds entries for the remaining fields.
    pub(crate) fn account_remaining(&mut self, fields: Fields<'_>, fate: impl Fn(&str) -> Fate) {
        for (name, node) in fields.0 {
            let fate = fate(&name);
            self.add_entry(&node, fate);
        }
    }

    /// Returns every leaf that no entry covers; none if every opened block was closed.
    pub(crate) fn uncovered_leaves(&self, leaves: &[ValuePath]) -> Vec<ValuePath> {
        let known: HashSet<&ValuePath> =
            self.entries.iter().filter_map(|it| it.at.as_ref()).collect();
        let covered = |leaf: &&ValuePath| !leaf.and_above().any(|path| known.contains(&path));
        leaves.iter().filter(covered).cloned().collect()
    }
}

impl AccountEntry {
    /// Returns whether the entry covers a value.
    #[must_use]
    pub fn covers(&self, path: &ValuePath) -> bool {
        self.at.as_ref().is_some_and(|at| at.covers(path))
    }

    /// Returns the pipeline's field, if it has one.
    #[must_use]
    pub fn target_field(&self) -> Option<&str> {
        match &self.fate {
            Fate::Carried { to, .. } | Fate::FillIn { to, .. } => Some(to),
            Fate::NotNeeded { .. } | Fate::Left { .. } => None,
        }
    }
}

/// The fields of a block that have no entry yet.
#[derive(Debug)]
pub(crate) struct Fields<'a>(Vec<(String, Node<'a>)>);

impl<'a> Fields<'a> {
    /// Removes and returns a field, if it exists.
    pub(crate) fn take_field(&mut self, name: &str) -> Option<Node<'a>> {
        let index = self.0.iter().position(|(one, _)| one == name)?;
        Some(self.0.remove(index).1)
    }
}

/// Returns the fate of a field by a table of names; an unknown name is unsupported with
/// `otherwise`.
pub(crate) fn by_name<'a>(
    table: &'a [(&'a str, &'a str)],
    otherwise: &'a str,
) -> impl Fn(&str) -> Fate + 'a {
    move |name| match table.iter().find(|(one, _)| *one == name) {
        Some((_, why)) => Fate::not_needed(*why),
        None => Fate::unsupported(otherwise),
    }
}
