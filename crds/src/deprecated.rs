//! Warnings of fields that have a better name: policies that the API server evaluates at each
//! write, generated from the definitions. A field is deprecated by its comment: `Deprecated: write
//! spec.other.`
//!
//! Must not refuse anything: an object with such a field works as before, for as long as
//! docs/upgrading.md says. Limit: reading an object gives no warning.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// First word of such a field's comment.
const MARK: &str = "Deprecated: ";

/// Names of fields that are reserved words in CEL, which escapes them with underscores. Ours have
/// no underscores, so nothing else needs that.
const WORDS_OF_CEL: [&str; 20] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "while",
];

/// Where a field is: names from the object on, and what of a list or map is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    /// Each of a list.
    Item,
    /// Each value of a map.
    Value,
}

/// A ValidatingAdmissionPolicy that warns of a kind's deprecated fields, and its binding; nothing
/// if there are none. Kubernetes has them from 1.30 on.
///
/// # Errors
/// When a definition isn't JSON, which is a fault of this crate's types.
pub fn deprecation_policy(
    crd: &CustomResourceDefinition,
) -> Result<Option<[Value; 2]>, serde_json::Error> {
    let (plural, group) = (&crd.spec.names.plural, &crd.spec.group);
    let mut validations: Vec<Value> = Vec::new();
    let mut versions: Vec<&str> = Vec::new();
    for version in &crd.spec.versions {
        versions.push(&version.name);
        let schema = serde_json::to_value(&version.schema)?;
        let mut path = Vec::new();
        walk_schema(
            &schema["openAPIV3Schema"]["properties"]["spec"],
            &mut path,
            &mut |path, text| {
                let steps = [&[Step::Field("spec".to_owned())], path].concat();
                let rule = json!({
                    "expression": format!("!({})", presence_expression("object", &steps, 0)),
                    "message": format!("{} is deprecated: {text}", steps_text(&steps)),
                });
                if !validations.contains(&rule) {
                    validations.push(rule);
                }
            },
        );
    }
    if validations.is_empty() {
        return Ok(None);
    }
    let name = format!("deprecated.{plural}.{group}");
    let kind = |kind: &str, spec: Value| {
        let api = "admissionregistration.k8s.io/v1";
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec})
    };
    let matched = json!({"resourceRules": [{
        "apiGroups": [group],
        "apiVersions": versions,
        "operations": ["CREATE", "UPDATE"],
        "resources": [plural],
    }]});
    let policy = json!({
        // A failed evaluation blocks nothing.
        "failurePolicy": "Ignore",
        "matchConstraints": matched,
        "validations": validations,
    });
    let binding = json!({"policyName": name, "validationActions": ["Warn"]});
    Ok(Some([
        kind("ValidatingAdmissionPolicy", policy),
        kind("ValidatingAdmissionPolicyBinding", binding),
    ]))
}

/// Calls `found` with each deprecated field below a schema, and with what to write instead.
fn walk_schema(schema: &Value, path: &mut Vec<Step>, found: &mut impl FnMut(&[Step], &str)) {
    let mut inner = |step: Step, schema: &Value| {
        path.push(step);
        let description = schema["description"].as_str().unwrap_or_default();
        match description.strip_prefix(MARK) {
            // Its first sentence: what it means and its default follow.
            Some(text) => found(path, text.split(". ").next().unwrap_or(text)),
            None => walk_schema(schema, path, found),
        }
        path.pop();
    };
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        inner(Step::Field(name.clone()), field);
    }
    for (key, step) in [("items", Step::Item), ("additionalProperties", Step::Value)] {
        if schema[key].is_object() {
            inner(step, &schema[key]);
        }
    }
}

/// CEL's words for: the object that `root` names has what `steps` lead to.
fn presence_expression(root: &str, steps: &[Step], depth: usize) -> String {
    let Some((first, rest)) = steps.split_first() else { return "true".to_owned() };
    let one = format!("it{depth}");
    match first {
        Step::Field(name) => {
            let here = format!("{root}.{}", escape_name(name));
            match rest.is_empty() {
                true => format!("has({here})"),
                false => format!("has({here}) && {}", presence_expression(&here, rest, depth)),
            }
        }
        Step::Item => {
            format!("{root}.exists({one}, {})", presence_expression(&one, rest, depth + 1))
        }
        Step::Value => {
            let value = format!("{root}[{one}]");
            format!("{root}.exists({one}, {})", presence_expression(&value, rest, depth + 1))
        }
    }
}

fn escape_name(name: &str) -> String {
    match WORDS_OF_CEL.contains(&name) {
        true => format!("__{name}__"),
        false => name.to_owned(),
    }
}

/// The path for people.
fn steps_text(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => text.push_str(&format!(".{name}")),
            Step::Item => text.push_str("[]"),
            Step::Value => text.push_str(".*"),
        }
    }
    text
}

#[cfg(test)]
mod tests;
