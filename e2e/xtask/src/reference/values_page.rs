//! docs/reference/chart-values.md: every value of the charts with its default and what it takes, read
//! from values.schema.json and values.yaml.
//!
//! Shapes inside of lists and free-form objects are Kubernetes' own, and are not listed. That a schema
//! describes each value, `check/charts.rs` holds; that it knows each, Helm does.

use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::shell;

const CHARTS: [&str; 2] = ["millrace", "millrace-crds"];
const PAGE: &str = "docs/reference/chart-values.md";

/// Writes the page.
pub(crate) fn write() -> Result<()> {
    let path = shell::root().join(PAGE);
    fs::write(&path, page()?).with_context(|| format!("cannot write {}", path.display()))
}

fn page() -> Result<String> {
    let mut page = String::from(
        "<!-- Generated from the charts' values.schema.json and values.yaml by xtask; do not edit. -->\n\
         # Chart values\n\n\
         Every value of the charts, as their schemas describe and check it. Helm refuses a value that \
         is not here, or not as here. How to install: [installing](../installing.md).\n",
    );
    for chart in CHARTS {
        let folder = shell::root().join("charts").join(chart);
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let schema: Value = serde_json::from_str(&read("values.schema.json")?)
            .with_context(|| format!("{chart}: values.schema.json"))?;
        let defaults: Value = serde_norway::from_str(&read("values.yaml")?)
            .with_context(|| format!("{chart}: values.yaml"))?;
        write!(page, "\n## `{chart}`\n\n| value | takes | default | meaning |\n")?;
        page.push_str("| --- | --- | --- | --- |\n");
        let rows = rows(&schema, &defaults);
        ensure!(!rows.is_empty(), "no value found: {chart}");
        page.extend(rows);
    }
    Ok(page)
}

/// A row for each value that is no group of others; a group's meaning stands before its first.
fn rows(schema: &Value, defaults: &Value) -> Vec<String> {
    let mut rows = Vec::new();
    add(&mut rows, schema, Some(defaults), "");
    rows
}

fn add(rows: &mut Vec<String>, schema: &Value, defaults: Option<&Value>, place: &str) {
    for (name, value) in schema["properties"].as_object().into_iter().flatten() {
        let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        let default = defaults.and_then(|it| it.get(name));
        let meaning = value["description"].as_str().unwrap_or_default();
        let is_group = value["properties"].is_object();
        let (takes, shown) = match default {
            _ if is_group => ("group".to_owned(), String::new()),
            None => (takes(value), "not set".to_owned()),
            Some(default) => (takes(value), format!("`{default}`")),
        };
        let cells = [takes, shown, meaning.to_owned()].map(|cell| cell.replace('|', "\\|"));
        rows.push(format!("| `{place}` | {} |\n", cells.join(" | ")));
        if is_group {
            add(rows, value, default, &place);
        }
    }
}

/// What a schema takes: its type with bounds, or the values that it has to choose from.
fn takes(schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<String> = choices.iter().map(|it| format!("`{it}`")).collect();
        return choices.join(", ");
    }
    let of = |inner: &Value| {
        inner["type"].as_str().map(|name| format!(" of {name}s")).unwrap_or_default()
    };
    let kind = schema["type"].as_str().unwrap_or("anything");
    match kind {
        "integer" => match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
            (Some(least), Some(most)) => format!("integer, {least} to {most}"),
            (Some(least), None) => format!("integer, {least} or more"),
            (None, Some(most)) => format!("integer, {most} or less"),
            (None, None) => kind.to_owned(),
        },
        "array" => format!("list{}", of(&schema["items"])),
        "object" => format!("object{}", of(&schema["additionalProperties"])),
        _ => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE, page, rows};
    use crate::shell;
    use serde_json::json;

    /// Scenario: a group, a number with bounds, a choice, a list, a value without a default, a bar in
    /// a description. Guarantee: each has its row, with its place, and cells stay apart.
    #[test]
    fn each_value_has_its_row() {
        let schema = json!({"properties": {
            "image": {"description": "An image.", "properties": {
                "policy": {"description": "When.", "enum": ["Always", "Never"]},
            }},
            "names": {"description": "A|B.", "type": "array", "items": {"type": "string"}},
            "replicas": {"description": "Pods.", "type": "integer", "minimum": 1, "maximum": 5},
            "word": {"description": "A word.", "type": "string"},
        }});
        let defaults = json!({"image": {"policy": "Always"}, "names": [], "replicas": 2});
        let wanted = [
            "| `image` | group |  | An image. |\n",
            "| `image.policy` | `\"Always\"`, `\"Never\"` | `\"Always\"` | When. |\n",
            "| `names` | list of strings | `[]` | A\\|B. |\n",
            "| `replicas` | integer, 1 to 5 | `2` | Pods. |\n",
            "| `word` | string | not set | A word. |\n",
        ];
        assert_eq!(rows(&schema, &defaults), wanted);
    }

    /// The page is what the charts say.
    #[test]
    fn the_page_is_written_anew() {
        let written = std::fs::read_to_string(shell::root().join(PAGE)).unwrap();
        assert!(written == page().unwrap(), "{PAGE} differs: run `make codegen`");
    }
}
