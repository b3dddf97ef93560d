//! A configuration as a tree of places: each value knows its path in the file, and its leaves.

use std::fmt;

use serde_norway::Value;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Step {
    /// A field.
    Key(String),
    /// A place in a list, from 0.
    Place(usize),
}

/// Where a value stands: `receivers.filelog/app.operators[1].type`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<Step>);

impl Path {
    /// A path of these fields.
    pub(crate) fn of(keys: &[&str]) -> Self {
        Self(keys.iter().map(|key| Step::Key((*key).to_owned())).collect())
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The path of a field.
    pub(crate) fn key(&self, key: &str) -> Self {
        self.with(Step::Key(key.to_owned()))
    }

    /// The path of an item.
    pub(crate) fn place(&self, place: usize) -> Self {
        self.with(Step::Place(place))
    }

    /// The path, and all above it.
    pub(crate) fn and_above(&self) -> impl Iterator<Item = Self> + '_ {
        (0..=self.0.len()).rev().filter_map(|end| self.0.get(..end).map(|steps| Self(steps.into())))
    }

    /// Whether it is `other`, or leads to it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Place(place) => write!(f, "[{place}]")?,
                // A name with a dot would look like two steps.
                Step::Key(key) if key.is_empty() || key.contains(['.', '[', ' ', '"']) => {
                    write!(f, "[{key:?}]")?;
                }
                Step::Key(key) if place == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

/// A value at its place.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) path: Path,
    pub(crate) value: &'a Value,
}

/// What stands where a text is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// A text, or what YAML takes for a number or a flag.
    Said(String),
    /// One with `${...}`, which the Collector replaces at its start.
    Variable,
    /// None.
    Not,
}

impl<'a> Node<'a> {
    /// The value of a scalar as text, as the Collector reads it.
    pub(crate) fn text(&self) -> Text {
        match untagged(self.value) {
            Value::String(text) => match has_variable(text) {
                true => Text::Variable,
                false => Text::Said(unescaped(text)),
            },
            Value::Number(number) => Text::Said(number.to_string()),
            Value::Bool(flag) => Text::Said(flag.to_string()),
            _ => Text::Not,
        }
    }

    /// The text, if there is one without a variable.
    pub(crate) fn said(&self) -> Option<String> {
        match self.text() {
            Text::Said(text) => Some(text),
            Text::Variable | Text::Not => None,
        }
    }

    /// Whether it is written and true.
    pub(crate) fn is_true(&self) -> bool {
        self.said().as_deref() == Some("true")
    }

    /// A field of it.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        self.entries().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// Its fields, in the file's order; none if it has none.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (String, Node<'a>)> + use<'a> {
        let path = self.path.clone();
        let fields = untagged(self.value).as_mapping().into_iter().flatten();
        fields.map(move |(name, value)| {
            let name = key_text(name);
            let path = path.key(&name);
            (name, Node { path, value })
        })
    }

    /// Its items; none if it is no list.
    pub(crate) fn items(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let path = self.path.clone();
        let items = untagged(self.value).as_sequence().into_iter().flatten();
        items.enumerate().map(move |(place, value)| Node { path: path.place(place), value })
    }

    /// Texts of a list, or the one text that stands for it.
    pub(crate) fn texts(&self) -> Vec<String> {
        match self.said() {
            Some(one) => vec![one],
            None => self.items().filter_map(|item| item.said()).collect(),
        }
    }

    /// Whether nothing is said: null, or a block or list without anything in it.
    pub(crate) fn is_empty(&self) -> bool {
        match untagged(self.value) {
            Value::Null => true,
            Value::Mapping(fields) => fields.is_empty(),
            Value::Sequence(items) => items.is_empty(),
            _ => false,
        }
    }

    /// Whether `${...}` stands anywhere in it.
    pub(crate) fn has_variable(&self) -> bool {
        let mut leaves = Vec::new();
        push_leaves(self.clone(), &mut leaves);
        leaves.iter().any(|leaf| leaf.text() == Text::Variable)
    }

    /// Its value with `$$` read as the Collector does.
    pub(crate) fn unescaped(&self) -> Value {
        fn copy(value: &Value) -> Value {
            match untagged(value) {
                Value::String(text) => Value::String(unescaped(text)),
                Value::Sequence(items) => items.iter().map(copy).collect(),
                Value::Mapping(fields) => {
                    let copied = fields.iter().map(|(name, value)| (name.clone(), copy(value)));
                    Value::Mapping(copied.collect())
                }
                plain => plain.clone(),
            }
        }
        copy(self.value)
    }

    /// The paths of its leaves: scalars, and blocks and lists without anything in them.
    pub(crate) fn leaves(&self) -> Vec<Path> {
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
    match untagged(node.value) {
        Value::Mapping(_) => node.entries().for_each(|(_, inner)| push_leaves(inner, leaves)),
        Value::Sequence(_) => node.items().for_each(|inner| push_leaves(inner, leaves)),
        _ => leaves.push(node),
    }
}

fn untagged(value: &Value) -> &Value {
    match value {
        Value::Tagged(tagged) => untagged(&tagged.value),
        plain => plain,
    }
}

/// A field's name, which YAML may take for a number or a flag.
fn key_text(name: &Value) -> String {
    match untagged(name) {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        other => serde_norway::to_string(other).unwrap_or_default().trim().to_owned(),
    }
}

/// Whether a text has `${` that isn't written `$${`.
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

/// The Collector reads `$$` as `$`.
fn unescaped(text: &str) -> String {
    text.replace("$$", "$")
}
