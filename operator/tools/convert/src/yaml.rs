//! Renders a pipeline as YAML: its own types serialized, without defaults, and with a comment where
//! a value has to be filled in.

use millrace_crds::v1alpha1::TelemetryPipeline;
use serde_norway::{Mapping, Value};

/// A value that has to be filled in: the field's path, and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placeholder {
    pub(crate) to: String,
    pub(crate) what: String,
}

/// Returns the pipeline as a tree without defaults. The fields in `required`, and their parents,
/// stay.
pub(crate) fn remove_defaults(
    pipeline: &TelemetryPipeline,
    required: &[&str],
) -> Result<Value, serde_norway::Error> {
    let mut tree = serde_norway::to_value(pipeline)?;
    let mut paths = Vec::new();
    push_paths(&tree, &mut Vec::new(), &mut String::new(), &mut paths);
    // Children before parents: a block that becomes empty is then removed completely.
    for (steps, path) in paths.into_iter().rev() {
        let leads = |required_path: &&str| {
            required_path.strip_prefix(&*path).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('.') || rest.starts_with('[')
            })
        };
        if required.iter().any(leads) {
            continue;
        }
        let mut without = tree.clone();
        if !remove(&mut without, &steps) {
            continue;
        }
        let same = serde_norway::from_value::<TelemetryPipeline>(without.clone());
        if same.is_ok_and(|same| same == *pipeline) {
            tree = without;
        }
    }
    Ok(tree)
}

/// A step within the tree of values.
#[derive(Clone, Debug)]
enum TreeStep {
    Key(Value),
    Index(usize),
}

/// Collects each field with its path: an item that has a name is identified by it.
fn push_paths(
    value: &Value,
    steps: &mut Vec<TreeStep>,
    path: &mut String,
    paths: &mut Vec<(Vec<TreeStep>, String)>,
) {
    let length = path.len();
    match value {
        Value::Mapping(fields) => {
            for (key, inner) in fields {
                push_key(path, key.as_str().unwrap_or_default());
                steps.push(TreeStep::Key(key.clone()));
                paths.push((steps.clone(), path.clone()));
                push_paths(inner, steps, path, paths);
                steps.pop();
                path.truncate(length);
            }
        }
        Value::Sequence(items) => {
            for (index, inner) in items.iter().enumerate() {
                path.push_str(&item_name(inner, index));
                steps.push(TreeStep::Index(index));
                push_paths(inner, steps, path, paths);
                steps.pop();
                path.truncate(length);
            }
        }
        _ => {}
    }
}

fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

fn item_name(item: &Value, index: usize) -> String {
    match item.get("name").and_then(Value::as_str) {
        Some(name) => format!("[{name}]"),
        None => format!("[{index}]"),
    }
}

fn remove(value: &mut Value, steps: &[TreeStep]) -> bool {
    match (value, steps) {
        (Value::Mapping(fields), [TreeStep::Key(key)]) => fields.shift_remove(key).is_some(),
        (Value::Mapping(fields), [TreeStep::Key(key), rest @ ..]) => {
            fields.get_mut(key).is_some_and(|inner| remove(inner, rest))
        }
        (Value::Sequence(items), [TreeStep::Index(index), rest @ ..]) => {
            items.get_mut(*index).is_some_and(|inner| remove(inner, rest))
        }
        _ => false,
    }
}

/// Returns whether the tree has a field at a path.
pub(crate) fn has_path(tree: &Value, path: &str) -> bool {
    let mut paths = Vec::new();
    push_paths(tree, &mut Vec::new(), &mut String::new(), &mut paths);
    paths.iter().any(|(_, one)| one == path)
}

/// Renders the tree as text. Each placeholder's comment precedes its field, or the block where that
/// field would be.
pub(crate) fn render_yaml(
    tree: &Value,
    holes: &[Placeholder],
) -> Result<String, serde_norway::Error> {
    let mut writer = YamlWriter { out: String::new(), holes: placeholder_paths(tree, holes) };
    match tree {
        Value::Mapping(fields) => writer.write_block(fields, "", 0)?,
        other => writer.out = serde_norway::to_string(other)?,
    }
    Ok(writer.out)
}

/// Returns each placeholder with the path of an existing field.
fn placeholder_paths(tree: &Value, holes: &[Placeholder]) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for Placeholder { to, what } in holes {
        let mut ancestor = to.as_str();
        while !ancestor.is_empty() && !has_path(tree, ancestor) {
            let end = ancestor.rfind(['.', '[']).unwrap_or_default();
            ancestor = ancestor.get(..end).unwrap_or_default();
        }
        let missing = to.strip_prefix(ancestor).unwrap_or_default().trim_start_matches('.');
        let comment = match missing {
            "" => format!("fill in: {what}"),
            field => format!("fill in {field}: {what}"),
        };
        let one = (ancestor.to_owned(), comment);
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

struct YamlWriter {
    out: String,
    holes: Vec<(String, String)>,
}

impl YamlWriter {
    fn write_block(
        &mut self,
        fields: &Mapping,
        path: &str,
        indent: usize,
    ) -> Result<(), serde_norway::Error> {
        for (key, value) in fields {
            let mut here = path.to_owned();
            push_key(&mut here, key.as_str().unwrap_or_default());
            self.write_comments(&here, indent);
            match value {
                Value::Mapping(inner) if !inner.is_empty() => {
                    self.write_key(key, indent)?;
                    self.write_block(inner, &here, indent + 2)?;
                }
                Value::Sequence(items) if items.iter().any(is_block) => {
                    self.write_key(key, indent)?;
                    self.write_list(items, &here, indent)?;
                }
                plain => {
                    let one = Mapping::from_iter([(key.clone(), plain.clone())]);
                    let text = serde_norway::to_string(&one)?;
                    self.write_indented(&text, indent);
                }
            }
        }
        Ok(())
    }

    /// Writes items with a dash before each.
    fn write_list(
        &mut self,
        items: &[Value],
        path: &str,
        indent: usize,
    ) -> Result<(), serde_norway::Error> {
        for (index, item) in items.iter().enumerate() {
            let here = format!("{path}{}", item_name(item, index));
            self.write_comments(&here, indent);
            let begin = self.out.len();
            match item {
                Value::Mapping(inner) if !inner.is_empty() => {
                    self.write_block(inner, &here, indent + 2)?
                }
                plain => {
                    let text = serde_norway::to_string(plain)?;
                    self.write_indented(&text, indent + 2);
                }
            }
            self.insert_dash(begin, indent);
        }
        Ok(())
    }

    /// Inserts the dash before an item's first field, after comments of that field.
    fn insert_dash(&mut self, begin: usize, indent: usize) {
        let item = self.out.split_off(begin);
        let mut has_dash = false;
        for line in item.split_inclusive('\n') {
            let is_comment = line.trim_start().starts_with("# ");
            match (has_dash, is_comment) {
                (false, false) => {
                    has_dash = true;
                    let rest = line.get(indent + 2..).unwrap_or_default();
                    self.out.push_str(&format!("{:indent$}- {rest}", ""));
                }
                _ => self.out.push_str(line),
            }
        }
    }

    fn write_key(&mut self, key: &Value, indent: usize) -> Result<(), serde_norway::Error> {
        let text = serde_norway::to_string(key)?;
        self.out.push_str(&format!("{:indent$}{}:\n", "", text.trim_end()));
        Ok(())
    }

    fn write_comments(&mut self, path: &str, indent: usize) {
        for (_, comment) in self.holes.iter().filter(|(hole_path, _)| hole_path == path) {
            for line in wrap_text(comment, indent) {
                self.out.push_str(&format!("{:indent$}# {line}\n", ""));
            }
        }
    }

    fn write_indented(&mut self, text: &str, indent: usize) {
        for line in text.lines() {
            match line.is_empty() {
                true => self.out.push('\n'),
                false => self.out.push_str(&format!("{:indent$}{line}\n", "")),
            }
        }
    }
}

fn is_block(value: &Value) -> bool {
    matches!(value, Value::Mapping(fields) if !fields.is_empty())
}

/// Wraps a comment's text at 100 columns.
fn wrap_text(text: &str, indent: usize) -> Vec<String> {
    const COLUMNS: usize = 100;
    let room = COLUMNS.saturating_sub(indent + 2);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut();
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
