//! The definitions as the API server gets them: derived schemas, finished.
//!
//! Finishing takes out what only makes trouble there: `nullable` (a null would pass and mean
//! nothing), schema defaults (defaults are the types' own, so that an upgrade of the CRD never
//! rewrites stored objects; their values go into the descriptions instead), unsigned number
//! formats, and empty lists (dropped by the API server, which shows as a difference for ever).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::conditions::ConditionType;
use crate::kinds::Kind;

/// The definitions of all kinds, finished, in the order of the reference.
pub fn all_definitions() -> Result<Vec<CustomResourceDefinition>, serde_json::Error> {
    Kind::ALL.iter().map(|kind| finish_definition(*kind)).collect()
}

/// One generated object as the YAML that is committed.
pub fn render_yaml(object: &impl Serialize) -> Result<String, serde_norway::Error> {
    let body = serde_norway::to_string(object)?;
    Ok(format!("# Generated from the types in crds/src by `crdgen`; do not edit.\n{body}"))
}

fn finish_definition(kind: Kind) -> Result<CustomResourceDefinition, serde_json::Error> {
    let mut value = serde_json::to_value(kind.derived_definition())?;
    if let Some(versions) = value.pointer_mut("/spec/versions").and_then(Value::as_array_mut) {
        for version in versions {
            if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
                finish_schema(schema);
                describe_conditions(schema, kind);
                limit_name(schema, kind.name_length());
            }
        }
    }
    drop_empty_lists(&mut value);
    serde_json::from_value(value)
}

/// Finishes one schema and everything below it.
fn finish_schema(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    object.remove("nullable");
    object.remove("title");
    if let Some(Value::String(description)) = object.get_mut("description") {
        *description = unwrap_lines(description);
    }
    if object.get("format").and_then(Value::as_str).is_some_and(|f| f.starts_with("uint")) {
        object.remove("format");
    }
    if let Some(default) = object.remove("default") {
        describe_default(object, &default);
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(finish_schema);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            finish_schema(inner);
        }
    }
}

/// One line per paragraph: `kubectl explain` wraps.
fn unwrap_lines(description: &str) -> String {
    let paragraphs: Vec<String> = description
        .split("\n\n")
        .map(|paragraph| paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" "))
        .collect();
    paragraphs.join("\n\n")
}

/// Adds a plain default to the description; defaults of complete objects are described at their
/// fields.
fn describe_default(object: &mut Map<String, Value>, default: &Value) {
    let text = match default {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return,
    };
    if let Some(Value::String(description)) = object.get_mut("description") {
        description.push_str(&format!(" Default: {text}."));
    }
}

/// Names the types of conditions that objects of a kind have.
fn describe_conditions(schema: &mut Value, kind: Kind) {
    let at = "/properties/status/properties/conditions/description";
    if let Some(Value::String(description)) = schema.pointer_mut(at) {
        let types = ConditionType::ALL.iter().filter(|type_| type_.kinds().contains(&kind));
        let types: Vec<&str> = types.map(|type_| type_.as_str()).collect();
        *description = format!("Conditions: {}.", types.join(", "));
    }
}

/// Names become parts of other names and of labels, so they are shorter than Kubernetes allows.
fn limit_name(schema: &mut Value, name_length: usize) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    object.insert(
        "x-kubernetes-validations".to_owned(),
        json!([{
            "rule": format!(
                "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') \
                 && size(self.metadata.name) <= {name_length}"
            ),
            "message": format!(
                "write a name of lower-case letters, digits and '-', starting with a letter, of at \
                 most {name_length} characters"
            ),
        }]),
    );
}

fn drop_empty_lists(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, inner| !matches!(inner, Value::Array(list) if list.is_empty()));
            object.values_mut().for_each(drop_empty_lists);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_empty_lists),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
