//! YAML and JSON of pages, put to the schemas and rules of our kinds, to the reader of the
//! collector's settings, to a chart's schema, and to the converter. Without an API server: the
//! cluster's tests put the same objects to a real one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use millrace_config::Config;
use millrace_convert::{ConvertOptions, convert_config};
use millrace_docs::documents::{Candidate, Meant, read};
use millrace_docs::pages::{self, Page};
use serde_json::Value;

use crate::schemas;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What takes documents.
struct Takers {
    kinds: BTreeMap<String, schemas::Schema>,
    values: Value,
}

/// How many documents were judged as what.
#[derive(Debug, Default)]
struct Judged {
    ours: usize,
    collectors: usize,
    elsewhere: usize,
    json: usize,
}

impl Takers {
    fn new() -> Self {
        let values = root().join("charts/millrace/values.schema.json");
        let values = serde_json::from_slice(&std::fs::read(values).unwrap()).unwrap();
        Self { kinds: schemas::schemas(), values }
    }

    fn refused(&self, candidate: &Candidate) -> Vec<String> {
        match candidate {
            Candidate::Object(object) => match self.kinds.get(object["kind"].as_str().unwrap()) {
                Some(schema) => schemas::refusals(schema, object, None),
                None => vec![format!("no kind {}", object["kind"])],
            },
            Candidate::Settings(settings) => {
                let text = serde_norway::to_string(settings).unwrap();
                let refused = Config::load(&text).err();
                refused.iter().flat_map(|it| it.problems()).map(ToString::to_string).collect()
            }
            Candidate::Values(values) => {
                let mut found = Vec::new();
                unknown_values(&self.values, values, "", &mut found);
                found
            }
        }
    }

    /// What is wrong with the documents of a page.
    fn judge(&self, page: &Page, judged: &mut Judged) -> Vec<String> {
        let mut wrong = Vec::new();
        for block in page.blocks() {
            let place = &block.place;
            match block.language.as_str() {
                "yaml" | "yml" => match read(&block.text) {
                    Ok(all) => {
                        let said = all.iter().filter_map(|meant| self.meant(meant, judged));
                        wrong.extend(said.map(|said| format!("{place}: {said}")));
                    }
                    Err(error) => wrong.push(format!("{place}: {error}")),
                },
                "json" => {
                    judged.json += 1;
                    let lines = || block.text.lines().all(is_json);
                    if !is_json(&block.text) && !lines() {
                        wrong.push(format!("{place}: it is no JSON"));
                    }
                }
                _ => {}
            }
        }
        wrong
    }

    fn meant(&self, meant: &Meant, judged: &mut Judged) -> Option<String> {
        match meant {
            Meant::OneOf(candidates) => {
                judged.ours += 1;
                let refused: Vec<_> = candidates.iter().map(|it| self.refused(it)).collect();
                let said = || {
                    let named = candidates.iter().zip(&refused).map(|(candidate, refused)| {
                        let name = match candidate {
                            Candidate::Object(object) => object["kind"].as_str().unwrap(),
                            Candidate::Settings(_) => "settings",
                            Candidate::Values(_) => "values",
                        };
                        format!("\n  as {name}: {}", refused.join("; "))
                    });
                    format!("nothing takes it:{}", named.collect::<String>())
                };
                (!refused.iter().any(Vec::is_empty)).then(said)
            }
            Meant::Collector(configuration) => {
                judged.collectors += 1;
                let text = serde_norway::to_string(configuration).unwrap();
                convert_config(&text, &ConvertOptions::default())
                    .err()
                    .map(|error| error.to_string())
            }
            Meant::Elsewhere(_) => {
                judged.elsewhere += 1;
                None
            }
        }
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

/// Values that a chart's schema doesn't have.
fn unknown_values(schema: &Value, values: &Value, place: &str, found: &mut Vec<String>) {
    for (name, value) in values.as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        match schema["properties"].get(name) {
            Some(inner) => unknown_values(inner, value, &place, found),
            None if schema["additionalProperties"].is_object() => {}
            None => found.push(format!("the chart has no value {place}")),
        }
    }
}

/// Scenario: every YAML and JSON block of the pages; parts of a spec are completed. Guarantee:
/// those of ours are taken by what they are for: a kind's schema and rules, the reader of settings,
/// the chart; a Collector's configuration is one that the converter reads; all others can be read.
#[test]
fn every_document_of_the_pages_is_taken() {
    let takers = Takers::new();
    let mut judged = Judged::default();
    let pages = pages::all(&root()).unwrap();
    let wrong: Vec<_> = pages.iter().flat_map(|page| takers.judge(page, &mut judged)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let Judged { ours, collectors, elsewhere, json } = judged;
    assert!(ours >= 30 && collectors >= 1 && json >= 3, "{judged:?}");
    assert!(elsewhere * 3 < ours, "most are judged elsewhere: {judged:?}");
}

/// Scenario: documents with one fault each: a field that isn't there in an object, in a part and in
/// settings, a rule of a kind broken, a number out of its range, a value that the chart hasn't, a
/// Collector without pipelines, no YAML, no JSON, one that no rule knows. Guarantee: each is told.
#[test]
fn each_wrong_document_is_told() {
    let takers = Takers::new();
    let yaml = |text: &str| format!("```yaml\n{text}\n```\n");
    let whole =
        "apiVersion: millrace.dev/v1alpha1\nkind: TelemetryTopic\nmetadata: {name: a}\nspec: ";
    for text in [
        yaml(&format!("{whole}{{kafka: {{bootstrapServers: [a:1]}}, topicName: a, sparkle: 1}}")),
        yaml(&format!(
            "{whole}{{kafka: {{bootstrapServers: [a:1]}}, topicName: a, retention: soon}}"
        )),
        yaml("spec: {edges: [{name: a, sparkle: 1}]}"),
        yaml("spec: {edges: [{name: a, mode: DaemonSet, replicas: 2}]}"),
        yaml("receivers: {containers: {sparkle: 1}}"),
        yaml(
            "receivers: {otlp: {}}\nexporters: {clickhouse: {endpoints: ['http://a:1'], nestedDepth: 31}}",
        ),
        yaml("monitoring: {sparkle: true}"),
        yaml("service: {pipelines: 1}"),
        yaml("a: ["),
        yaml("sparkle: 1"),
        "```json\n{\"a\": }\n```\n".to_owned(),
    ] {
        let page = Page { path: "a.md".to_owned(), text: text.clone() };
        let wrong = takers.judge(&page, &mut Judged::default());
        assert_eq!(wrong.len(), 1, "{text}: {wrong:?}");
        assert!(wrong[0].starts_with("a.md:1: "), "{wrong:?}");
    }
}
