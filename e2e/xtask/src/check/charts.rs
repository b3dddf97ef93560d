//! Each value of a chart is described in its schema, which editors and catalogues show. That the
//! schema knows every value, Helm itself checks at each rendering.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell;

const SCHEMAS: [&str; 2] =
    ["charts/millrace/values.schema.json", "charts/millrace-crds/values.schema.json"];

pub(super) fn broken_rules() -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for path in SCHEMAS {
        let text = std::fs::read_to_string(shell::root().join(path)).context(path)?;
        let schema: Value = serde_json::from_str(&text).context(path)?;
        undescribed(&schema, path, &mut broken);
    }
    Ok(broken)
}

fn undescribed(schema: &Value, place: &str, broken: &mut Vec<String>) {
    for (name, value) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}: {name}");
        if value["description"].as_str().is_none_or(|text| !text.ends_with('.')) {
            broken.push(format!("{place} has no description that ends with a full stop"));
        }
        undescribed(value, &place, broken);
    }
}

#[cfg(test)]
mod tests {
    use super::undescribed;
    use serde_json::json;

    /// Scenario: a value without a description inside one with. Guarantee: it is named with its
    /// place, and the other is not.
    #[test]
    fn a_value_without_description_is_named() {
        let schema = json!({"properties": {
            "image": {"description": "An image.", "properties": {"tag": {"type": "string"}}}
        }});
        let mut broken = Vec::new();
        undescribed(&schema, "chart", &mut broken);
        assert_eq!(broken, ["chart: image: tag has no description that ends with a full stop"]);
    }
}
