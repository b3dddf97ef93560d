//! A small twin of the API server's structural checks, for tests without a server: types,
//! required fields, limits, enums, with messages worded as the API server words them, and the CEL
//! rules through kube-cel.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{LazyLock, Mutex};

use serde_json::Value;

/// Which texts match which patterns. Compiling a pattern takes longer than all other checks of a
/// value, and the same texts come again.
static MATCHES: LazyLock<Mutex<HashMap<(String, String), bool>>> = LazyLock::new(Mutex::default);

/// A kind's schema, its rules compiled once.
pub(crate) struct Schema {
    pub(crate) structure: Value,
    rules: kube_cel::CompiledSchema,
}

/// The schema of each kind, as it is generated.
pub(crate) fn schemas() -> BTreeMap<String, Schema> {
    millrace_crds::all_definitions()
        .unwrap()
        .into_iter()
        .map(|crd| {
            let schema = crd.spec.versions[0].schema.clone().unwrap().open_api_v3_schema;
            let structure = serde_json::to_value(schema).unwrap();
            let rules = kube_cel::compile_schema(&structure);
            (crd.spec.names.kind, Schema { structure, rules })
        })
        .collect()
}

/// Everything the schema and its rules have against a value.
pub(crate) fn refusals(schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<String> {
    let Schema { structure, rules } = schema;
    // The API server drops a null where the schema does not ask for one.
    let value = &without_nulls(value);
    let mut found = Vec::new();
    structural(structure, value, "", &mut found);
    // The API server runs rules only on values that pass the schema.
    if found.is_empty()
        && let Err(errors) = kube_cel::Validator::new().validate_compiled(rules, value, old)
    {
        found.push(errors.to_string());
    }
    found
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => object
            .iter()
            .filter(|(_, inner)| !inner.is_null())
            .map(|(name, inner)| (name.clone(), without_nulls(inner)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        plain => plain.clone(),
    }
}

fn structural(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if schema["x-kubernetes-int-or-string"] == true {
        match value {
            Value::String(text) => matches_pattern(schema, text, path, found),
            Value::Number(number) => number_limits(schema, number, path, found),
            _ => found.push(format!("{path}: must be of type integer or string")),
        }
        return;
    }
    let wanted = schema["type"].as_str().unwrap_or("object");
    let fits = match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        other => panic!("a type this twin does not know: {other} at {path}"),
    };
    if !fits {
        found.push(format!("{path}: must be of type {wanted}"));
        return;
    }
    match value {
        Value::Object(object) => {
            for name in schema["required"].as_array().into_iter().flatten() {
                let name = name.as_str().unwrap();
                if !object.contains_key(name) {
                    found.push(format!("{path}.{name}: Required value"));
                }
            }
            for (name, inner) in object {
                let here = format!("{path}.{name}");
                if let Some(inner_schema) = schema["properties"].get(name) {
                    structural(inner_schema, inner, &here, found);
                } else if schema["additionalProperties"].is_object() {
                    structural(&schema["additionalProperties"], inner, &here, found);
                } else if schema["x-kubernetes-preserve-unknown-fields"] != true
                    && !(path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&&**name))
                {
                    found.push(format!("{here}: unknown field"));
                }
            }
        }
        Value::Array(items) => {
            let length = items.len() as u64;
            if schema["minItems"].as_u64().is_some_and(|min| length < min) {
                found.push(format!("{path}: should have at least {} items", schema["minItems"]));
            }
            if schema["maxItems"].as_u64().is_some_and(|max| length > max) {
                found.push(format!("{path}: must have at most {} items", schema["maxItems"]));
            }
            keys_differ(schema, items, path, found);
            for (index, item) in items.iter().enumerate() {
                structural(&schema["items"], item, &format!("{path}[{index}]"), found);
            }
        }
        Value::String(text) => text_limits(schema, text, path, found),
        Value::Number(number) => number_limits(schema, number, path, found),
        Value::Null | Value::Bool(_) => {}
    }
}

/// In the words of server-side apply.
fn keys_differ(schema: &Value, items: &[Value], path: &str, found: &mut Vec<String>) {
    for key in schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
        let key = key.as_str().unwrap();
        let mut seen = BTreeSet::new();
        for item in items {
            match item[key].as_str() {
                None => {
                    found.push(format!("{path}: an element that omits all key fields [{key:?}]"))
                }
                Some(value) if !seen.insert(value) => {
                    found.push(format!("{path}: duplicate entries for key [{key}={value:?}]"));
                }
                Some(_) => {}
            }
        }
    }
}

fn number_limits(schema: &Value, number: &serde_json::Number, path: &str, found: &mut Vec<String>) {
    let number = number.as_f64().unwrap();
    if schema["minimum"].as_f64().is_some_and(|min| number < min) {
        found.push(format!("{path}: should be greater than or equal to {}", schema["minimum"]));
    }
    if schema["maximum"].as_f64().is_some_and(|max| number > max) {
        found.push(format!("{path}: should be less than or equal to {}", schema["maximum"]));
    }
}

fn matches_pattern(schema: &Value, text: &str, path: &str, found: &mut Vec<String>) {
    let pattern = schema["pattern"].as_str().unwrap();
    let mut known = MATCHES.lock().unwrap();
    let matches = known.entry((pattern.to_owned(), text.to_owned())).or_insert_with(|| {
        let rule = serde_json::json!({
            "type": "string",
            "x-kubernetes-validations": [{"rule": format!("self.matches('{pattern}')")}],
        });
        let value = Value::String(text.to_owned());
        kube_cel::Validator::new().validate(&rule, &value, None).is_ok()
    });
    if !*matches {
        found.push(format!("{path}: should match '{pattern}'"));
    }
}

fn text_limits(schema: &Value, text: &str, path: &str, found: &mut Vec<String>) {
    if schema["maxLength"].as_u64().is_some_and(|max| text.len() as u64 > max) {
        found.push(format!("{path}: may not be more than {} bytes", schema["maxLength"]));
    }
    if schema["minLength"].as_u64().is_some_and(|min| (text.len() as u64) < min) {
        found.push(format!("{path}: should be at least {} chars long", schema["minLength"]));
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.iter().any(|allowed| allowed == text)
    {
        let listed: Vec<String> = values.iter().map(Value::to_string).collect();
        found.push(format!(
            "{path}: Unsupported value: {text:?}: supported values: {}",
            listed.join(", ")
        ));
    }
}
