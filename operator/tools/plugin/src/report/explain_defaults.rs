//! The effective spec: each field of a kind, with its value or its documented default. Pure.
//!
//! Defaults are read from the definitions' descriptions, which are generated from the types, so
//! that this report and the reference can't differ. A default that depends on other fields or on
//! the cluster is stated in words.

use millrace_crds::{EdgeName, all_definitions};
use serde::Serialize;
use serde_json::Value;

use super::plan::effective_spec;
use crate::error::Error;

/// One field of a spec.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveField {
    /// Its path in the spec; list items are named by their name or number.
    pub path: String,
    /// Its written value; `None` if the default applies.
    pub value: Option<Value>,
    /// Its documented default; `None` if it has none.
    pub default: Option<String>,
    /// Whether a signal has the value from `signals.defaults`.
    #[serde(skip_serializing_if = "is_false")]
    pub inherited: bool,
    /// Whether it only groups the fields that follow.
    #[serde(skip)]
    pub is_section: bool,
    /// Its name among its neighbors, and how many sections it is in.
    #[serde(skip)]
    pub label: (String, usize),
}

/// The effective spec of one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveSpec {
    /// The kind.
    pub kind: String,
    /// The object's namespace, if known.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The fields, in the order of the reference.
    pub fields: Vec<EffectiveField>,
}

/// Returns the effective spec of an object.
///
/// # Errors
/// When the object's kind is not one of Millrace's.
pub fn explain_defaults(object: &Value) -> Result<EffectiveSpec, Error> {
    let impossible = |error: serde_json::Error| Error::Impossible(error.to_string());
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let definitions = all_definitions().map_err(impossible)?;
    let found = definitions.iter().find(|it| it.spec.names.kind == kind);
    let version = found.and_then(|it| it.spec.versions.first());
    let Some(version) = version else {
        let kinds: Vec<&str> = definitions.iter().map(|it| &*it.spec.names.kind).collect();
        return Err(Error::Impossible(format!(
            "kind {kind:?} is not one of millrace.dev: write {}",
            kinds.join(", ")
        )));
    };
    let schema = serde_json::to_value(&version.schema).map_err(impossible)?;
    let schema = &schema["openAPIV3Schema"]["properties"]["spec"];
    let spec = match kind.as_str() {
        "TelemetryPipeline" => effective_spec(&object["spec"]),
        _ => object["spec"].clone(),
    };
    let mut fields = Vec::new();
    push_fields(schema, &spec, ("", 0), &mut fields);
    if object["spec"]["edges"].is_null() {
        let default_edge = EdgeName::default();
        let name = format!("edges[{default_edge}].name");
        for field in fields.iter_mut().filter(|it| it.path == name) {
            (field.value, field.default) = (None, Some(default_edge.to_string()));
        }
    }
    if kind == "TelemetryPipeline" {
        // Each signal has them.
        fields.retain(|it| !it.path.starts_with("signals.defaults"));
        fields.iter_mut().for_each(|it| set_source(&object["spec"], it));
    }
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    let (namespace, name) = (text("namespace"), text("name").unwrap_or_default());
    for default in fields.iter_mut().filter_map(|it| it.default.as_mut()) {
        name_objects(default, namespace.as_deref(), &name);
    }
    Ok(EffectiveSpec { kind, namespace, name, fields })
}

fn push_fields(
    schema: &Value,
    value: &Value,
    (path, depth): (&str, usize),
    fields: &mut Vec<EffectiveField>,
) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{name}");
        push_field(field, value.get(name), (&path, name, depth), fields);
    }
}

fn push_field(
    schema: &Value,
    value: Option<&Value>,
    (path, name, depth): (&str, &str, usize),
    fields: &mut Vec<EffectiveField>,
) {
    let default = default_text(schema["description"].as_str().unwrap_or_default());
    let has_fields = schema["properties"].is_object();
    let section = |path: &str, label: String| EffectiveField {
        path: path.to_owned(),
        value: None,
        default: None,
        inherited: false,
        is_section: true,
        label: (label, depth),
    };
    match value {
        Some(value) if has_fields => {
            fields.push(section(path, name.to_owned()));
            push_fields(schema, value, (path, depth + 1), fields);
        }
        None if has_fields && default.is_none() => {
            fields.push(section(path, name.to_owned()));
            push_fields(schema, &Value::Null, (path, depth + 1), fields);
        }
        Some(Value::Array(items)) if schema["items"]["properties"].is_object() => {
            for (number, item) in items.iter().enumerate() {
                let key = item["name"].as_str().map_or_else(|| number.to_string(), str::to_owned);
                let path = format!("{path}[{key}]");
                fields.push(section(&path, format!("{name}[{key}]")));
                push_fields(&schema["items"], item, (&path, depth + 1), fields);
            }
        }
        value => fields.push(EffectiveField {
            path: path.to_owned(),
            value: value.cloned(),
            default,
            inherited: false,
            is_section: false,
            label: (name.to_owned(), depth),
        }),
    }
}

/// Sets where a signal's value is from: one that the signal itself doesn't have is from
/// `signals.defaults`, or the default of all pipelines.
fn set_source(spec: &Value, field: &mut EffectiveField) {
    let path = field.path.split('[').next().unwrap_or_default();
    let is_written = |path: &str| spec.pointer(&format!("/{}", path.replace('.', "/"))).is_some();
    let mut parts = path.splitn(3, '.');
    let (Some("signals"), Some(_), Some(of_signal)) = (parts.next(), parts.next(), parts.next())
    else {
        return;
    };
    if is_written(path) {
        return;
    }
    if is_written(&format!("signals.defaults.{of_signal}")) {
        field.inherited = field.value.is_some();
    } else if let Some(text) = field.value.as_ref().and_then(Value::as_str) {
        (field.default, field.value) = (Some(text.to_owned()), None);
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Replaces the words for objects in a default that is a pattern, such as
/// `millrace.NAMESPACE.POOL`. A pipeline's gateway pool has its name.
fn name_objects(default: &mut String, namespace: Option<&str>, name: &str) {
    let Some(pattern) = default.strip_prefix('`').and_then(|it| it.strip_suffix('`')) else {
        return;
    };
    let namespace = namespace.unwrap_or("NAMESPACE");
    *default = pattern.replace("NAMESPACE", namespace).replace("POOL", name);
}

/// Returns the default that a description states.
fn default_text(description: &str) -> Option<String> {
    let (_, text) =
        description.rsplit_once("Default: ").or_else(|| description.rsplit_once("If omitted, "))?;
    Some(text.trim_end_matches('.').to_owned())
}
