//! Everything generated from the types: definitions for the API server and the chart, policies that
//! warn of deprecated fields, and the reference pages, one for each kind, one for conditions and
//! reasons, one for events.
//!
//! Pure: gives paths (from the repository's root) and contents; `crdgen` writes them and a test
//! compares them with what is committed.

use std::fmt::Write;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::{ConditionType, EventReason, Reason, all, deprecation_policy, remedy, yaml};

/// Why a file could not be generated. Both are faults of this crate's types.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// A definition could not be turned into a value.
    #[error("a definition could not be turned into a value")]
    Value(#[from] serde_json::Error),
    /// A definition could not be written as YAML.
    #[error("a definition could not be written as YAML")]
    Yaml(#[from] serde_norway::Error),
}

/// What the chart of the definitions installs.
pub const CHART_FILES: &str = "charts/millrace-crds/files";

/// All generated files: path from the repository's root, and contents.
pub fn files() -> Result<Vec<(String, String)>, GenerateError> {
    let mut files = Vec::new();
    let definitions = all()?;
    for crd in &definitions {
        let text = yaml(crd)?;
        let plural = &crd.spec.names.plural;
        files.push((format!("{CHART_FILES}/{plural}.yaml"), text.clone()));
        files.push((format!("crds/yaml/{plural}.yaml"), text));
        files.push((
            format!("docs/reference/{}.md", crd.spec.names.kind.to_lowercase()),
            kind_page(crd)?,
        ));
        for (object, what) in deprecation_policy(crd)?.iter().flatten().zip(["policy", "binding"]) {
            let path = format!("{CHART_FILES}/deprecated-{plural}-{what}.yaml");
            files.push((path, yaml(object)?));
        }
    }
    files.push(("docs/reference/conditions.md".to_owned(), conditions_page()));
    files.push(("docs/reference/events.md".to_owned(), events_page()));
    files.push(("docs/reference/README.md".to_owned(), index_page(&definitions)));
    Ok(files)
}

const GENERATED: &str = "<!-- Generated from crds/src by crdgen; do not edit. -->\n";

fn index_page(definitions: &[CustomResourceDefinition]) -> String {
    let mut page = format!("{GENERATED}# Reference\n\nThe kinds of `millrace.dev/v1alpha1`:\n\n");
    for crd in definitions {
        let kind = &crd.spec.names.kind;
        let short = crd.spec.names.short_names.iter().flatten().next();
        let _ = writeln!(
            page,
            "- [{kind}]({}.md) (`{}`)",
            kind.to_lowercase(),
            short.map_or("", String::as_str)
        );
    }
    page.push_str("- [Conditions and reasons](conditions.md)\n- [Events](events.md)\n\n");
    page.push_str("`kubectl get millrace` lists them all.\n");
    page
}

fn conditions_page() -> String {
    let mut page = format!(
        "{GENERATED}# Conditions and reasons\n\nEvery condition carries `observedGeneration`: one \
         that is older than the object's `metadata.generation` says nothing about the newest \
         spec. Types and reasons are stable words; messages are for people and may change.\n\n\
         ## Types\n\n| Type | True when |\n| --- | --- |\n"
    );
    for type_ in ConditionType::ALL {
        let _ = writeln!(page, "| `{type_}` | {} |", one_line(type_.meaning()));
    }
    page.push_str(
        "\n## Reasons\n\nWhere nothing is said of what to do, nothing is wrong, or it passes, or the \
         message names another object whose condition has the cause. `kubectl millrace status` \
         gives the same advice.\n",
    );
    for reason in Reason::ALL {
        let _ = write!(page, "\n### `{reason}`\n\n{}\n", one_line(reason.meaning()));
        if let Some(remedy) = remedy(*reason) {
            let _ = write!(
                page,
                "\n**What to do**: {} ([more]({})).\n",
                one_line(remedy.text),
                remedy.section.replacen("docs/", "../", 1)
            );
        }
    }
    page
}

fn events_page() -> String {
    let mut page = format!(
        "{GENERATED}# Events\n\nOne event for each change or decision, never one for each round of \
         the operator. The same text about the same object within six minutes becomes a series. \
         `kubectl events --for telemetrypipeline/NAME` shows those of an object.\n\n\
         - A condition that changes has an event with its reason: [conditions and \
         reasons](conditions.md). Rollouts' events are among them.\n\
         - A changed number of gateways has an event `Sized` and the sizing's reason, such as \
         `SizedLagAboveBound`: [sizing](../autoscaling.md).\n\
         - All others are here.\n\n| Reason | Reports |\n| --- | --- |\n"
    );
    for reason in EventReason::ALL {
        let _ = writeln!(page, "| `{reason}` | {} |", one_line(reason.meaning()));
    }
    page
}

fn kind_page(crd: &CustomResourceDefinition) -> Result<String, serde_json::Error> {
    let names = &crd.spec.names;
    let mut page = format!("{GENERATED}# {}\n\n", names.kind);
    page.push_str(introduction(&names.kind));
    let short = names.short_names.iter().flatten().next().map_or("", String::as_str);
    let _ = write!(page, "\nShort name `{short}`; listed by `kubectl get millrace` too.\n");
    for version in &crd.spec.versions {
        let schema = serde_json::to_value(&version.schema)?;
        for part in ["spec", "status"] {
            let at = format!("/openAPIV3Schema/properties/{part}");
            let Some(part_schema) = schema.pointer(&at) else {
                continue;
            };
            let title = if part == "spec" { "What you write" } else { "What is observed" };
            let _ = write!(
                page,
                "\n## {part}: {title}\n\n| Field | Type | Meaning |\n| --- | --- | --- |\n"
            );
            rows(&mut page, part_schema, part);
        }
        page.push_str("\n## Rules between fields\n\n");
        let mut messages = Vec::new();
        if let Some(root) = schema.get("openAPIV3Schema") {
            rule_messages(root, "", &mut messages);
        }
        for (path, message) in messages {
            let _ = writeln!(page, "- `{path}`: {}", one_line(&message));
        }
    }
    Ok(page)
}

/// One row for each field, parents before their fields.
fn rows(page: &mut String, schema: &Value, path: &str) {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let here = format!("{path}.{name}");
        let needed = if required.contains(&name.as_str()) { ", required" } else { "" };
        let meaning = field["description"].as_str().unwrap_or_default();
        let _ =
            writeln!(page, "| `{here}` | {}{needed} | {} |", type_words(field), one_line(meaning));
        match field["type"].as_str() {
            Some("array") => rows(page, &field["items"], &format!("{here}[]")),
            _ => rows(page, field, &here),
        }
    }
}

fn type_words(field: &Value) -> String {
    if let Some(values) = field["enum"].as_array() {
        let words: Vec<String> =
            values.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    match field["type"].as_str() {
        Some("array") => format!("list of {}", type_words(&field["items"])),
        Some("object") if field["additionalProperties"].is_object() => "map of text".to_owned(),
        Some("string") if field["format"] == "date-time" => "time".to_owned(),
        Some(plain) => plain.to_owned(),
        None => "any".to_owned(),
    }
}

/// Messages of the rules on objects; those of single fields only repeat the field's meaning.
fn rule_messages(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
    if schema["type"] == "object" {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            if let Some(message) = rule["message"].as_str() {
                let shown = if path.is_empty() { "metadata.name" } else { path };
                found.push((shown.to_owned(), message.to_owned()));
            }
        }
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let dot = if path.is_empty() { "" } else { "." };
        rule_messages(field, &format!("{path}{dot}{name}"), found);
    }
    if let Some(items) = schema.get("items") {
        rule_messages(items, &format!("{path}[]"), found);
    }
}

/// Table cells have no lines and no bars; outside code, what looks like a tag would not be shown.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let parts = line.split('`').enumerate().map(|(number, part)| match number % 2 {
        0 => part.replace('<', "&lt;"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
}

/// The introduction of a kind's page: its purpose and the smallest example.
fn introduction(kind: &str) -> &'static str {
    match kind {
        "TelemetryPipeline" => include_str!("reference/telemetrypipeline.md"),
        "EdgePool" => include_str!("reference/edgepool.md"),
        "GatewayPool" => include_str!("reference/gatewaypool.md"),
        "TelemetryTopic" => include_str!("reference/telemetrytopic.md"),
        "TelemetrySchema" => include_str!("reference/telemetryschema.md"),
        _ => "",
    }
}
