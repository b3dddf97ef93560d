//! A configuration as a tree: each value knows its path in the file, and its leaves.

use std::fmt;

use serde_norway::Value;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PathStep {
    /// A field.
    Key(String),
    /// An index in a list, from 0.
    Index(usize),
}

/// The path of a value: `receivers.filelog/app.operators[1].type`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValuePath(Vec<PathStep>);

impl ValuePath {
    /// Creates a path of these fields.
    pub(crate) fn from_keys(keys: &[&str]) -> Self {
        Self(keys.iter().map(|key| PathStep::Key((*key).to_owned())).collect())
    }

    fn with_step(&self, step: PathStep) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// Returns the path of a field.
    pub(crate) fn with_key(&self, with_key: &str) -> Self {
        self.with_step(PathStep::Key(with_key.to_owned()))
    }

    /// Returns the path of an item.
    pub(crate) fn with_index(&self, with_index: usize) -> Self {
        self.with_step(PathStep::Index(with_index))
    }

    /// Returns the path, and all above it.
    pub(crate) fn and_above(&self) -> impl Iterator<Item = Self> + '_ {
        (0..=self.0.len()).rev().filter_map(|end| self.0.get(..end).map(|steps| Self(steps.into())))
    }

    /// Returns whether it is `other`, or a parent of it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

impl fmt::Display for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Index(index) => write!(f, "[{index}]")?,
                // A name with a dot would appear as two steps.
                PathStep::Key(key) if key.is_empty() || key.contains(['.', '[', ' ', '"']) => {
                    write!(f, "[{key:?}]")?;
                }
                PathStep::Key(key) if index == 0 => f.write_str(key)?,
                PathStep::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

/// A value with its path.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) path: ValuePath,
    pub(crate) value: &'a Value,
}

/// A value where a text is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextValue {
    /// A text, or a number or boolean of YAML.
    Plain(String),
    /// A text with `${...}`, which the Collector replaces at its start.
    Variable,
    /// Not a scalar.
    Not,
}

impl<'a> Node<'a> {
    /// Returns the value of a scalar as text, as the Collector reads it.
    pub(crate) fn scalar_text(&self) -> TextValue {
        match without_tag(self.value) {
            Value::String(text) => match has_variable(text) {
                true => TextValue::Variable,
                false => TextValue::Plain(unescape_text(text)),
            },
            Value::Number(number) => TextValue::Plain(number.to_string()),
            Value::Bool(flag) => TextValue::Plain(flag.to_string()),
            _ => TextValue::Not,
        }
    }

    /// Returns the text, if it has no variable.
    pub(crate) fn plain_text(&self) -> Option<String> {
        match self.scalar_text() {
            TextValue::Plain(text) => Some(text),
            TextValue::Variable | TextValue::Not => None,
        }
    }

    /// Returns whether it is present and true.
    pub(crate) fn is_true(&self) -> bool {
        self.plain_text().as_deref() == Some("true")
    }

    /// Returns one of its fields.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        self.entries().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// Returns its fields, in the file's order; none if it has none.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (String, Node<'a>)> + use<'a> {
        let path = self.path.clone();
        let fields = without_tag(self.value).as_mapping().into_iter().flatten();
        fields.map(move |(name, value)| {
            let name = key_text(name);
            let path = path.with_key(&name);
            (name, Node { path, value })
        })
    }

    /// Returns its items; none if it is not a list.
    pub(crate) fn items(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let path = self.path.clone();
        let items = without_tag(self.value).as_sequence().into_iter().flatten();
        items.enumerate().map(move |(index, value)| Node { path: path.with_index(index), value })
    }

    /// Returns the texts of a list, or the single text in its place.
    pub(crate) fn list_texts(&self) -> Vec<String> {
        match self.plain_text() {
            Some(one) => vec![one],
            None => self.items().filter_map(|item| item.plain_text()).collect(),
        }
    }

    /// Returns whether it is empty: null, or an empty block or list.
    pub(crate) fn is_empty(&self) -> bool {
        match without_tag(self.value) {
            Value::Null => true,
            Value::Mapping(fields) => fields.is_empty(),
            Value::Sequence(items) => items.is_empty(),
            _ => false,
        }
    }

    /// Returns whether it contains `${...}` anywhere.
    pub(crate) fn has_variable(&self) -> bool {
        let mut leaves = Vec::new();
        push_leaves(self.clone(), &mut leaves);
        leaves.iter().any(|leaf| leaf.scalar_text() == TextValue::Variable)
    }

    /// Returns its value with `$$` unescaped as the Collector does.
    pub(crate) fn unescape_value(&self) -> Value {
        fn copy_unescaped(value: &Value) -> Value {
            match without_tag(value) {
                Value::String(text) => Value::String(unescape_text(text)),
                Value::Sequence(items) => items.iter().map(copy_unescaped).collect(),
                Value::Mapping(fields) => {
                    let copied =
                        fields.iter().map(|(name, value)| (name.clone(), copy_unescaped(value)));
                    Value::Mapping(copied.collect())
                }
                plain => plain.clone(),
            }
        }
        copy_unescaped(self.value)
    }

    /// Returns the paths of its leaves: scalars, and empty blocks and lists.
    pub(crate) fn leaf_paths(&self) -> Vec<ValuePath> {
        let mut leaves = Vec::new();
        push_leaves(self.clone(), &mut leaves);
        leaves.into_iter().map(|leaf| leaf.path).collect()
    }
}

fn push_leaves<'a>(node: Node<'a>, leaves: &mut Vec<Node<'a>>) {
    if node.is_empty() {
        leaves.push(node);
        return;
    }
    match without_tag(node.value) {
        Value::Mapping(_) => node.entries().for_each(|(_, inner)| push_leaves(inner, leaves)),
        Value::Sequence(_) => node.items().for_each(|inner| push_leaves(inner, leaves)),
        _ => leaves.push(node),
    }
}

fn without_tag(value: &Value) -> &Value {
    match value {
        Value::Tagged(tagged) => without_tag(&tagged.value),
        plain => plain,
    }
}

/// Returns a field's name, which YAML may parse as a number or a boolean.
fn key_text(name: &Value) -> String {
    match without_tag(name) {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        other => serde_norway::to_string(other).unwrap_or_default().trim().to_owned(),
    }
}

/// Returns whether a text has `${` that isn't escaped as `$${`.
fn has_variable(text: &str) -> bool {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        // An even number of dollars before it are escaped ones.
        let dollars = before.len() - before.trim_end_matches('$').len();
        if dollars % 2 == 0 {
            return true;
        }
        rest = after;
    }
    false
}

/// Replaces `$$` by `$`, as the Collector does.
fn unescape_text(text: &str) -> String {
    text.replace("$$", "$")
}
