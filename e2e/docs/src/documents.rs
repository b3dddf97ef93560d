//! YAML of pages, and what it may be: objects, parts of them, the collector's settings, a chart's
//! values. Parts are completed with the least that is needed beside them.
//!
//! It decides by names of fields alone; whether a candidate is right is for those who take it.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Of all kinds here.
pub const API_VERSION: &str = "millrace.dev/v1alpha1";

/// What a document may be meant as.
#[derive(Debug, Clone, PartialEq)]
pub enum Candidate {
    /// An object of ours.
    Object(Value),
    /// The collector's settings.
    Settings(Value),
    /// Values of the chart `millrace`.
    Values(Value),
}

/// What is known of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Meant {
    /// One of these must be right.
    OneOf(Vec<Candidate>),
    /// The configuration of an OpenTelemetry Collector.
    Collector(Value),
    /// It is of a program outside, or judged elsewhere: why.
    Elsewhere(&'static str),
}

/// Documents that no candidate fits, told by a field that they have.
const ELSEWHERE: [(&str, &str); 3] = [
    ("datasources", "Grafana's"),
    ("metadata", "a part of an object that isn't ours"),
    ("requests", "a workload of keeper-bench, which reads it in a test of its own"),
];

/// Fields by which a part of a spec is told.
const SPEC_FIELDS: [&str; 7] =
    ["signals", "edges", "gateway", "podTemplate", "buffer", "processing", "kafka"];

/// Why a block can't be judged.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is no YAML.
    #[error("it is no YAML: {0}")]
    Yaml(#[from] serde_norway::Error),
    /// Nothing is known of it.
    #[error(
        "no rule knows a document with {0}: complete it, or add a rule to e2e/docs/src/documents.rs"
    )]
    Unknown(String),
}

/// The documents of a block, each with what it may be.
///
/// # Errors
/// When it is no YAML, or no rule knows a document.
pub fn read(text: &str) -> Result<Vec<Meant>, DocumentError> {
    let mut all = Vec::new();
    for document in serde_norway::Deserializer::from_str(text) {
        all.push(meant(&Value::deserialize(document)?)?);
    }
    Ok(all)
}

fn meant(document: &Value) -> Result<Meant, DocumentError> {
    // The OpenTelemetry operator's object holds a Collector's configuration.
    if document["kind"] == "OpenTelemetryCollector" && document["spec"]["config"].is_object() {
        return Ok(Meant::Collector(document["spec"]["config"].clone()));
    }
    if let Some(version) = document["apiVersion"].as_str() {
        let candidate = || vec![Candidate::Object(document.clone())];
        return Ok(match version == API_VERSION {
            true => Meant::OneOf(candidate()),
            false => Meant::Elsewhere("another's object, or another's file"),
        });
    }
    // The entries of `jobs`, cut out of a longer document.
    if document.is_array() {
        return meant(&json!({"jobs": document}));
    }
    let has = |name: &str| document.get(name).is_some();
    if has("service") {
        return Ok(Meant::Collector(document.clone()));
    }
    let candidates = if has("spec") {
        parts(document)
    } else if has("receivers") || has("exporters") {
        let mut candidates = vec![settings(document)];
        if !has("exporters") {
            candidates.extend(parts(&json!({"spec": document})));
        }
        candidates
    } else if has("jobs") {
        return meant(&json!({"receivers": {"prometheus": document}}));
    } else if ["monitoring", "telemetry", "console"].into_iter().any(has) {
        vec![Candidate::Values(document.clone())]
    } else if has("authentication") {
        let mut kafka = document.clone();
        kafka["tls"] = json!({});
        return meant(&json!({"kafka": kafka}));
    } else if SPEC_FIELDS.into_iter().any(has) {
        parts(&json!({"spec": document}))
    } else {
        let known = ELSEWHERE.iter().find(|(field, _)| has(field));
        let names = || {
            let names = document.as_object().into_iter().flat_map(Map::keys);
            names.map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        return match known {
            Some(&(_, why)) => Ok(Meant::Elsewhere(why)),
            None => Err(DocumentError::Unknown(names())),
        };
    };
    Ok(Meant::OneOf(candidates))
}

/// A part as each kind could have it.
fn parts(part: &Value) -> Vec<Candidate> {
    let kafka = json!({"bootstrapServers": ["kafka.kafka:9092"]});
    let clickhouse = json!({"endpoints": ["http://clickhouse.db:8123"]});
    let signals = json!({"traces": {}, "logs": {}, "metrics": {}});
    let whole = json!({"kafka": kafka, "clickhouse": clickhouse, "signals": signals});
    let edge = json!({"kafka": kafka, "signals": signals});
    let node = json!({"kafka": kafka, "signals": signals, "mode": "DaemonSet"});
    let tables = json!({"clickhouse": clickhouse, "signals": signals});
    let kinds = [
        ("TelemetryPipeline", &whole),
        ("EdgePool", &edge),
        ("EdgePool", &node),
        ("GatewayPool", &whole),
        ("TelemetrySchema", &tables),
    ];
    let object = |(kind, spec): (&str, &Value)| {
        let mut object = json!({
            "apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "example"}, "spec": spec,
        });
        merge(&mut object, part);
        Candidate::Object(object)
    };
    kinds.into_iter().map(object).collect()
}

/// Settings with an exporter, if they name none.
fn settings(part: &Value) -> Candidate {
    let mut settings = json!({});
    if part.get("exporters").is_none() {
        settings["exporters"] =
            json!({"kafka": {"connection": {"bootstrapServers": ["kafka.kafka:9092"]}}});
    }
    if part.get("receivers").is_none() {
        settings["receivers"] = json!({"otlp": {}});
    }
    merge(&mut settings, part);
    Candidate::Settings(settings)
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Candidate, Meant, read};

    /// Scenario: a whole object, another's, a part of a spec, settings, a Collector's document,
    /// something unheard of, and no YAML. Guarantee: each is taken for what it is.
    #[test]
    fn documents_are_told_by_their_fields() {
        let all = read(
            "apiVersion: millrace.dev/v1alpha1\nkind: EdgePool\n---\n\
             apiVersion: v1\nkind: Pod\n---\nservice: {}\nreceivers: {}\n",
        )
        .unwrap();
        let [Meant::OneOf(ours), Meant::Elsewhere(_), Meant::Collector(_)] = all.as_slice() else {
            panic!("{all:?}");
        };
        assert_eq!(ours.len(), 1);
        let either = |text: &str| match read(text).unwrap().pop() {
            Some(Meant::OneOf(candidates)) => candidates,
            other => panic!("{other:?}"),
        };
        for candidate in either("buffer: {maxBytes: 1Gi}") {
            let Candidate::Object(object) = candidate else { panic!("{candidate:?}") };
            assert_eq!(object["spec"]["buffer"]["maxBytes"], "1Gi");
            assert!(object["spec"]["signals"].is_object());
        }
        let both = either("receivers: {otlp: {}}");
        let [Candidate::Settings(settings), Candidate::Object(_), ..] = both.as_slice() else {
            panic!("{both:?}");
        };
        assert!(settings["exporters"]["kafka"].is_object());
        assert!(read("sparkle: 1").is_err());
        assert!(read("a: [").is_err());
    }
}
