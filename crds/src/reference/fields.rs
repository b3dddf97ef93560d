//! Tables of fields: of a kind's spec and status, and of the types that several fields share, which
//! have one page of their own, so that each is documented once.

use std::fmt::Write;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::markdown::{GENERATED, one_line};

/// The page of shared types.
pub(super) const TYPES_FILE: &str = "types.md";

/// The most places of use that a type's section lists.
const USES_MAX: usize = 6;

/// Shared types: a name, and one field that has the type. Every other field with the same schema
/// has it too, whatever its own description is.
const SHARED: [(&str, &str); 42] = [
    ("KafkaConnection", "TelemetryPipeline.spec.kafka"),
    ("KafkaAuthentication", "TelemetryPipeline.spec.kafka.authentication"),
    ("ClickHouseTarget", "TelemetryPipeline.spec.clickhouse"),
    ("ClickHouseAuthentication", "TelemetryPipeline.spec.clickhouse.authentication"),
    ("Coordination", "TelemetryPipeline.spec.clickhouse.coordination"),
    ("CaSource", "TelemetryPipeline.spec.kafka.tls.ca"),
    ("CertificateSecret", "TelemetryPipeline.spec.kafka.authentication.certificateSecret"),
    ("CredentialsRef", "TelemetryPipeline.spec.clickhouse.coordination.credentialsSecret"),
    ("SecretKeyRef", "TelemetryPipeline.spec.kafka.authentication.passwordSecret"),
    ("PipelineSignal", "TelemetryPipeline.spec.signals.logs"),
    ("TopicSettings", "TelemetryPipeline.spec.signals.logs.topic"),
    ("TableSettings", "TelemetrySchema.spec.signals.logs"),
    ("ProcessingStep", "TelemetryPipeline.spec.processing[]"),
    ("RedactAction", "TelemetryPipeline.spec.processing[].redact.action"),
    ("CollectorSettings", "TelemetryPipeline.spec.collector"),
    ("RolloutSettings", "TelemetryPipeline.spec.rollout"),
    ("CanarySettings", "TelemetryPipeline.spec.rollout.canary"),
    ("Receivers", "EdgePool.spec.receivers"),
    ("Multiline", "EdgePool.spec.receivers.containers.multiline"),
    ("Parse", "EdgePool.spec.receivers.containers.parse"),
    ("LabelSelector", "EdgePool.spec.receivers.containers.namespaceSelector"),
    ("PrometheusReceiver", "EdgePool.spec.receivers.prometheus"),
    ("ScrapeJob", "EdgePool.spec.receivers.prometheus.jobs[]"),
    ("ScrapeTls", "EdgePool.spec.receivers.prometheus.jobs[].tls"),
    ("ScrapeProxy", "EdgePool.spec.receivers.prometheus.jobs[].proxy"),
    ("RelabelRule", "EdgePool.spec.receivers.prometheus.jobs[].relabel[]"),
    ("KubernetesDiscovery", "EdgePool.spec.receivers.prometheus.kubernetes"),
    ("MonitorSelection", "EdgePool.spec.receivers.prometheus.kubernetes.podMonitors"),
    ("EdgeProducer", "EdgePool.spec.producer"),
    ("EdgeBuffer", "EdgePool.spec.buffer"),
    ("ServiceSettings", "EdgePool.spec.service"),
    ("GatewayBatch", "GatewayPool.spec.batch"),
    ("Scaling", "GatewayPool.spec.scaling"),
    ("Resources", "GatewayPool.spec.resources"),
    ("DisruptionBudgetSettings", "GatewayPool.spec.disruptionBudget"),
    ("PodTemplate", "GatewayPool.spec.podTemplate"),
    ("OwnTelemetry", "GatewayPool.spec.telemetry"),
    ("Condition", "GatewayPool.status.conditions[]"),
    ("LagStatus", "GatewayPool.status.lag"),
    ("TallyStatus", "GatewayPool.status.dataLost"),
    ("RolloutUnit", "GatewayPool.status.rollout.before"),
    ("RolloutFigures", "GatewayPool.status.rollout.report.before"),
];

/// One field of a table.
struct FieldRow<'a> {
    path: String,
    is_required: bool,
    schema: &'a Value,
    shared: Option<&'static str>,
}

/// The shared types, with the kinds that use them.
pub(super) struct SharedTypes {
    /// Names and schemas, in the order of the page.
    types: Vec<(&'static str, Value)>,
    /// Names of kinds, and the schemas of their objects.
    kinds: Vec<(String, Value)>,
}

impl SharedTypes {
    /// Finds the types in the definitions.
    pub(super) fn collect(
        definitions: &[CustomResourceDefinition],
    ) -> Result<Self, serde_json::Error> {
        let mut kinds = Vec::new();
        for crd in definitions {
            for version in &crd.spec.versions {
                let schema = serde_json::to_value(&version.schema)?["openAPIV3Schema"].take();
                kinds.push((crd.spec.names.kind.clone(), schema));
            }
        }
        let found = SHARED.into_iter().filter_map(|(name, path)| {
            let (kind, below) = path.split_once('.')?;
            let (_, root) = kinds.iter().find(|(of, _)| of == kind)?;
            Some((name, schema_at(root, below)?.clone()))
        });
        Ok(Self { types: found.collect(), kinds })
    }

    /// Returns the name of the shared type that a field, or a list's item, has.
    fn name_of(&self, schema: &Value) -> Option<&'static str> {
        let has = |(_, shared): &&(&str, Value)| is_same_type(shared, schema);
        self.types.iter().find(has).map(|(name, _)| *name)
    }

    /// Collects a schema's fields, parents before theirs; those of shared types are on their page.
    fn push_rows<'a>(&self, schema: &'a Value, path: &str, rows: &mut Vec<FieldRow<'a>>) {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let dot = if path.is_empty() { "" } else { "." };
            let here = format!("{path}{dot}{name}");
            let (inner, below) = match field["type"].as_str() {
                Some("array") => (&field["items"], format!("{here}[]")),
                _ => (field, here.clone()),
            };
            let shared = self.name_of(inner);
            let is_required = required.contains(&name.as_str());
            rows.push(FieldRow { path: here, is_required, schema: field, shared });
            if shared.is_none() {
                self.push_rows(inner, &below, rows);
            }
        }
    }

    /// Appends the table of a schema's fields.
    pub(super) fn push_table(&self, page: &mut String, schema: &Value, path: &str) {
        let mut rows = Vec::new();
        self.push_rows(schema, path, &mut rows);
        page.push_str("| Field | Type | Meaning |\n| --- | --- | --- |\n");
        for FieldRow { path, is_required, schema, shared } in rows {
            let needed = if is_required { ", required" } else { "" };
            let meaning = one_line(schema["description"].as_str().unwrap_or_default());
            let type_ = type_text(schema, shared);
            let _ = writeln!(page, "| `{path}` | {type_}{needed} | {meaning} |");
        }
    }

    /// Collects the messages of the rules on objects; those of single fields only repeat the
    /// field's meaning, and those of shared types are on their page.
    pub(super) fn rule_messages(
        &self,
        schema: &Value,
        path: &str,
        found: &mut Vec<(String, String)>,
    ) {
        if schema["type"] == "object" {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                if let Some(message) = rule["message"].as_str() {
                    found.push((path.to_owned(), message.to_owned()));
                }
            }
        }
        let mut below = |schema: &Value, path: String| {
            if self.name_of(schema).is_none() {
                self.rule_messages(schema, &path, found);
            }
        };
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let dot = if path.is_empty() { "" } else { "." };
            below(field, format!("{path}{dot}{name}"));
        }
        if let Some(items) = schema.get("items") {
            below(items, format!("{path}[]"));
        }
    }

    /// Returns the fields that have a type, by kind or other type.
    fn uses_of(&self, name: &str) -> Vec<String> {
        let mut uses = Vec::new();
        let kinds = self.kinds.iter().map(|(kind, schema)| (kind.as_str(), schema));
        for (owner, schema) in kinds.chain(self.types.iter().map(|(name, schema)| (*name, schema)))
        {
            let mut rows = Vec::new();
            self.push_rows(schema, owner, &mut rows);
            uses.extend(
                rows.into_iter().filter(|row| row.shared == Some(name)).map(|row| row.path),
            );
        }
        uses
    }

    /// Returns the page of shared types.
    pub(super) fn render_page(&self) -> String {
        let mut page = format!(
            "{GENERATED}# Shared types\n\nTypes that several fields of the kinds have. Paths are \
             relative to the field with the type.\n"
        );
        let mut sorted: Vec<_> = self.types.iter().collect();
        sorted.sort_by_key(|(name, _)| *name);
        for (name, schema) in sorted {
            let uses = self.uses_of(name);
            let mut listed: Vec<String> =
                uses.iter().take(USES_MAX).map(|path| format!("`{path}`")).collect();
            if let Some(more) = uses.len().checked_sub(USES_MAX).filter(|more| *more > 0) {
                listed.push(format!("and {more} more"));
            }
            let _ = write!(page, "\n## {name}\n\nUsed by {}.\n\n", listed.join(", "));
            self.push_table(&mut page, schema, "");
            let mut messages = Vec::new();
            self.rule_messages(schema, "", &mut messages);
            if !messages.is_empty() {
                page.push_str("\nRules between fields:\n\n");
            }
            for (path, message) in messages {
                let at = if path.is_empty() { String::new() } else { format!("`{path}`: ") };
                let _ = writeln!(page, "- {at}{}", one_line(&message));
            }
        }
        page
    }
}

/// Returns the schema of a field, by its path below an object.
fn schema_at<'a>(root: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(root, |schema, step| match step.strip_suffix("[]") {
        Some(list) => schema["properties"].get(list)?.get("items"),
        None => schema["properties"].get(step),
    })
}

/// Returns whether two schemas differ at most in their own description.
fn is_same_type(one: &Value, other: &Value) -> bool {
    let fields = |of: &Value| of["properties"].as_object().map(serde_json::Map::len);
    if fields(one).is_none() || fields(one) != fields(other) {
        return false;
    }
    let without_description = |of: &Value| {
        let mut of = of.clone();
        of.as_object_mut().map(|object| object.remove("description"));
        of
    };
    without_description(one) == without_description(other)
}

fn type_text(field: &Value, shared: Option<&str>) -> String {
    if let Some(values) = field["enum"].as_array() {
        let words: Vec<String> =
            values.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    match (field["type"].as_str(), shared) {
        (Some("array"), _) => format!("list of {}", type_text(&field["items"], shared)),
        (_, Some(name)) => format!("[{name}]({TYPES_FILE}#{})", name.to_lowercase()),
        (Some("object"), _) if field["additionalProperties"].is_object() => {
            "map of text".to_owned()
        }
        (Some("string"), _) if field["format"] == "date-time" => "time".to_owned(),
        (Some(plain), _) => plain.to_owned(),
        (None, _) if field["x-kubernetes-int-or-string"] == true => {
            "number or percentage".to_owned()
        }
        (None, _) => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests;
