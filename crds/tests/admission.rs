//! The table of accepted and refused specs in `crds/testdata`, against the schemas and rules.
//!
//! Here without an API server (kube-cel runs the rules); the cluster tests put the same files
//! before a real one. A file holds one object, or two: an object and a change of it. The first
//! line of a refused file says what the refusal must contain.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::support;

fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    files
}

fn documents(text: &str) -> Vec<Value> {
    serde_norway::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

fn judge(schemas: &BTreeMap<String, support::Schema>, documents: &[Value]) -> Vec<String> {
    let newest = documents.last().unwrap();
    let schema = &schemas[newest["kind"].as_str().unwrap()];
    if let [old, _] = documents {
        let before = support::refusals(schema, old, None);
        assert!(before.is_empty(), "the object before the change must be fine: {before:?}");
        return support::refusals(schema, newest, Some(old));
    }
    support::refusals(schema, newest, None)
}

/// Reads an object as the operator does, and writes it back.
fn read_as_typed(object: &Value) -> Result<Value, serde_json::Error> {
    macro_rules! read_by_kind {
        ($($kind:ident),+) => {
            match object["kind"].as_str().unwrap() {
                $(stringify!($kind) => {
                    serde_json::from_value::<millrace_crds::v1alpha1::$kind>(object.clone())
                        .and_then(serde_json::to_value)
                })+
                other => panic!("unknown kind {other}"),
            }
        };
    }
    millrace_crds::with_kinds!(read_by_kind)
}

/// Scenario: each spec that should work. Guarantee: schema and rules pass it, the operator can
/// read it, and what the operator would write back (a child's spec) passes too.
#[test]
fn every_accepted_spec_passes_and_reads_back() {
    let schemas = support::schemas();
    for (path, text) in files("accepted") {
        let documents = documents(&text);
        let refused = judge(&schemas, &documents);
        assert!(refused.is_empty(), "{}: {refused:?}", path.display());
        for document in &documents {
            let written = read_as_typed(document)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let refused = judge(&schemas, &[written]);
            assert!(refused.is_empty(), "{} written back: {refused:?}", path.display());
        }
    }
}

/// Scenario: the samples that people begin from. Guarantee: schema and rules pass each of our
/// objects in them, and the operator can read it.
#[test]
fn every_sample_passes_and_reads_back() {
    let schemas = support::schemas();
    let mut passed = 0;
    for (path, text) in files("../../manifests/samples") {
        let mut documents = documents(&text);
        documents.retain(|document| document["apiVersion"] == "millrace.dev/v1alpha1");
        for document in documents {
            let refused = judge(&schemas, std::slice::from_ref(&document));
            assert!(refused.is_empty(), "{}: {refused:?}", path.display());
            read_as_typed(&document).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            passed += 1;
        }
    }
    assert!(passed >= 3, "{passed} objects");
}

/// Scenario: each spec that can't work. Guarantee: it is refused, with the words that say what to
/// write instead.
#[test]
fn every_refused_spec_is_told_what_to_write() {
    let schemas = support::schemas();
    let mut wrong = Vec::new();
    for (path, text) in files("refused") {
        let says = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("# refused: "))
            .unwrap_or_else(|| panic!("{}: no `# refused:` line", path.display()));
        let refused = judge(&schemas, &documents(&text)).join("; ");
        if !refused.contains(says) {
            wrong.push(format!("{}: wanted `{says}`, got `{refused}`", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
