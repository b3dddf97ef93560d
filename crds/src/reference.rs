//! Everything generated from the types: definitions for the API server and the chart, policies that
//! warn of deprecated fields, and the reference pages: one for each kind, and one each for shared
//! types, conditions and reasons, and events.
//!
//! Pure: gives paths (from the repository's root) and contents; `crdgen` writes them and a test
//! compares them with what is committed.

mod fields;
mod markdown;

use std::fmt::Write;

use fields::{SharedTypes, TYPES_FILE};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use markdown::{GENERATED, one_line};

use crate::{
    ConditionClass, ConditionType, EventReason, Kind, Reason, all_definitions, deprecation_policy,
    render_yaml,
};

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
pub fn generated_files() -> Result<Vec<(String, String)>, GenerateError> {
    let mut files = Vec::new();
    let definitions = all_definitions()?;
    let shared = SharedTypes::collect(&definitions)?;
    for (kind, crd) in Kind::ALL.iter().zip(&definitions) {
        let text = render_yaml(crd)?;
        let plural = &crd.spec.names.plural;
        files.push((format!("{CHART_FILES}/{plural}.yaml"), text.clone()));
        files.push((format!("crds/yaml/{plural}.yaml"), text));
        files.push((
            format!("docs/reference/{}.md", crd.spec.names.kind.to_lowercase()),
            kind_page(*kind, crd, &shared)?,
        ));
        for (object, what) in deprecation_policy(crd)?.iter().flatten().zip(["policy", "binding"]) {
            let path = format!("{CHART_FILES}/deprecated-{plural}-{what}.yaml");
            files.push((path, render_yaml(object)?));
        }
    }
    files.push((format!("docs/reference/{TYPES_FILE}"), shared.render_page()));
    files.push(("docs/reference/conditions.md".to_owned(), conditions_page()));
    files.push(("docs/reference/events.md".to_owned(), events_page()));
    files.push(("docs/reference/README.md".to_owned(), index_page(&definitions)));
    Ok(files)
}

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
    let _ = writeln!(page, "- [Shared types]({TYPES_FILE})");
    page.push_str("- [Conditions and reasons](conditions.md)\n- [Events](events.md)\n\n");
    page.push_str("`kubectl get millrace` lists them all.\n");
    page
}

fn conditions_page() -> String {
    let mut page = format!(
        "{GENERATED}# Conditions and reasons\n\nEach condition has `observedGeneration`: if it is \
         older than the object's `metadata.generation`, the condition is out of date. Types and \
         reasons are stable; messages are for people and may change.\n\n## Types\n\n| Type | Kinds \
         | Problem if | True when |\n| --- | --- | --- | --- |\n"
    );
    for type_ in ConditionType::ALL {
        let kinds = match type_.kinds().len() == Kind::ALL.len() {
            true => "all".to_owned(),
            false => type_.kinds().iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", "),
        };
        let problem = problem_value(type_.class());
        let meaning = one_line(type_.meaning());
        let _ = writeln!(page, "| `{type_}` | {kinds} | {problem} | {meaning} |");
    }
    page.push_str(
        "\n## Reasons\n\nA reason without advice is no problem, passes automatically, or its \
         message names another object whose condition has the cause. `kubectl millrace status` \
         gives the same advice.\n",
    );
    for reason in Reason::ALL {
        let _ = write!(page, "\n### `{reason}`\n\n{}\n", one_line(reason.meaning()));
        if let Some(remedy) = reason.remedy() {
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

/// The value with which a condition is a problem, and of what severity.
const fn problem_value(class: ConditionClass) -> &'static str {
    match class {
        ConditionClass::Expected => "False",
        ConditionClass::Neutral => "-",
        ConditionClass::Fault => "True",
        ConditionClass::Loss => "True (loss)",
        ConditionClass::Advice => "True (advice)",
    }
}

fn events_page() -> String {
    let mut page = format!(
        "{GENERATED}# Events\n\nOne event per change or decision, not per reconcile. The same text \
         about the same object within six minutes becomes a series. `kubectl events --for \
         telemetrypipeline/NAME` shows an object's events.\n\n- A changed condition has an event \
         with its reason: [conditions and reasons](conditions.md). Rollouts' events are among \
         them.\n- A changed number of gateways has an event `Sized` and the sizing's reason, such \
         as `SizedLagAboveBound`: [sizing](../autoscaling.md).\n- All other reasons:\n\n| Reason | \
         Reports |\n| --- | --- |\n"
    );
    for reason in EventReason::ALL {
        let _ = writeln!(page, "| `{reason}` | {} |", one_line(reason.meaning()));
    }
    page
}

fn kind_page(
    kind: Kind,
    crd: &CustomResourceDefinition,
    shared: &SharedTypes,
) -> Result<String, serde_json::Error> {
    let names = &crd.spec.names;
    let mut page = format!("{GENERATED}# {}\n\n", names.kind);
    page.push_str(kind.introduction());
    let short = names.short_names.iter().flatten().next().map_or("", String::as_str);
    let _ = write!(page, "\nShort name `{short}`; listed by `kubectl get millrace` too.\n");
    for version in &crd.spec.versions {
        let schema = serde_json::to_value(&version.schema)?;
        for part in ["spec", "status"] {
            let at = format!("/openAPIV3Schema/properties/{part}");
            let Some(part_schema) = schema.pointer(&at) else {
                continue;
            };
            let title = if part == "spec" { "Desired state" } else { "Observed state" };
            let _ = write!(page, "\n## {part}: {title}\n\n");
            shared.push_table(&mut page, part_schema, part);
        }
        page.push_str("\n## Rules between fields\n\n");
        let mut messages = Vec::new();
        if let Some(root) = schema.get("openAPIV3Schema") {
            shared.rule_messages(root, "", &mut messages);
        }
        for (path, message) in messages {
            let path = if path.is_empty() { "metadata.name" } else { &path };
            let _ = writeln!(page, "- `{path}`: {}", one_line(&message));
        }
    }
    Ok(page)
}
