//! Properties of every conversion, for real configurations and generated ones.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use millrace_convert::{Conversion, Fate};
use millrace_crds::v1alpha1::TelemetryPipeline;
use serde_json::Value;

#[path = "../../../../../crds/tests/support/mod.rs"]
mod schemas;

static SCHEMAS: LazyLock<BTreeMap<String, schemas::Schema>> = LazyLock::new(schemas::schemas);

/// Checks that the API server would accept the pipeline, as far as a test without one can check;
/// that its YAML is the pipeline; and that it has the fields that the list names.
pub(crate) fn sound(conversion: &Conversion) -> Result<(), String> {
    let tree: Value =
        serde_norway::from_str(&conversion.yaml).map_err(|error| error.to_string())?;
    if tree["apiVersion"] != "millrace.dev/v1alpha1" || tree["kind"] != "TelemetryPipeline" {
        return Err(format!("no TelemetryPipeline:\n{}", conversion.yaml));
    }
    let refused = schemas::refusals(&SCHEMAS["TelemetryPipeline"], &tree, None);
    if !refused.is_empty() {
        return Err(format!("refused: {refused:?}\n{}", conversion.yaml));
    }
    let read: TelemetryPipeline =
        serde_norway::from_str(&conversion.yaml).map_err(|error| error.to_string())?;
    if read != conversion.pipeline {
        return Err(format!("it reads back as another pipeline:\n{}", conversion.yaml));
    }
    for entry in &conversion.entries {
        if let Fate::Carried { to, .. } = &entry.fate
            && !has(&tree, to)
        {
            return Err(format!("{entry:?} names a field that isn't there:\n{}", conversion.yaml));
        }
    }
    Ok(())
}

/// Returns whether a path exists: names or indexes in brackets.
fn has(tree: &Value, path: &str) -> bool {
    let mut here = tree;
    for step in path.split('.') {
        let (name, place) = step.split_once('[').unwrap_or((step, ""));
        here = &here[name];
        let place = place.trim_end_matches(']');
        if place.is_empty() {
            continue;
        }
        let found = match place.parse::<usize>() {
            Ok(place) => here.get(place),
            Err(_) => here.as_array().and_then(|it| it.iter().find(|one| one["name"] == place)),
        };
        here = found.unwrap_or(&Value::Null);
    }
    !here.is_null()
}
