//! What the API server itself says to a spec: the table in `crds/testdata`, against the installed
//! CRDs. A file holds one document, or a step by step change whose last document is what is judged.

mod pod_admission;
mod refusals;

use std::fs;
use std::path::{Path, PathBuf};

use millrace_docs::documents::{API_VERSION, Candidate, Meant, read};
use millrace_docs::pages;
use millrace_e2e::binaries;
use millrace_e2e::cluster::{Cluster, Spoken};
use millrace_stack::Stack;
use serde_json::Value;

fn files(folder: &str) -> Vec<PathBuf> {
    let files = ending(&format!("crds/testdata/{folder}"), ".yaml");
    assert!(files.len() >= 10, "{folder} holds too few files");
    files
}

/// Files of a folder whose names end so.
fn ending(folder: &str, end: &str) -> Vec<PathBuf> {
    let folder = binaries::root().join(folder);
    let mut files: Vec<PathBuf> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(end));
    files.sort();
    files
}

/// What the API server says to an object, whatever namespace it names.
fn asked(cluster: &Cluster, namespace: &str, mut object: Value) -> Spoken {
    object["metadata"]["namespace"] = namespace.into();
    let args = ["apply", "--server-side", "--dry-run=server", "-f", "-"];
    cluster.call(&args, &object.to_string()).unwrap()
}

/// Applies all documents of a file in turn; the last one is a dry run. Documents that are stored
/// have a namespace of their own; `shared` stays empty.
fn judge(cluster: &Cluster, shared: &str, file: &Path) -> Spoken {
    let text = fs::read_to_string(file).unwrap().replace("namespace: default", "");
    let mut documents: Vec<&str> = text.split("\n---\n").collect();
    let last = documents.pop().unwrap();
    let own = (!documents.is_empty()).then(|| cluster.namespace("stored").unwrap());
    let namespace = own.as_ref().map_or(shared, |own| &own.name);
    for document in documents {
        cluster.apply(namespace, document).unwrap();
    }
    let args = ["-n", namespace, "apply", "--server-side", "--dry-run=server", "-f", "-"];
    cluster.call(&args, last).unwrap()
}

/// Scenario: specs that can't work. Guarantee: the API server refuses each, and its message says
/// what the file's first line expects: what to write instead.
#[test]
fn specs_that_cannot_work_are_refused_with_advice() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let namespace = cluster.namespace("refused").unwrap();
    for file in files("refused") {
        let text = fs::read_to_string(&file).unwrap();
        let head = text.lines().next().unwrap();
        let wanted =
            head.strip_prefix("# refused: ").expect("the first line says what is expected");
        let spoken = judge(&cluster, &namespace.name, &file);
        assert!(!spoken.ok, "{} was accepted", file.display());
        assert!(spoken.err.contains(wanted), "{}: {}", file.display(), spoken.err);
    }
}

/// Scenario: specs that work, the three-line ones among them. Guarantee: each is accepted.
#[test]
fn specs_that_can_work_are_accepted() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let namespace = cluster.namespace("accepted").unwrap();
    for file in files("accepted") {
        let spoken = judge(&cluster, &namespace.name, &file);
        assert!(spoken.ok, "{}: {}", file.display(), spoken.err);
    }
}

/// Scenario: what `kubectl millrace convert` makes of Collectors' configurations, as
/// `operator/tools/convert/tests` keeps it, and the samples. Guarantee: each of our objects is accepted
/// as it stands.
#[test]
fn converted_pipelines_and_samples_are_accepted() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let namespace = cluster.namespace("converted").unwrap();
    let converted = ending("operator/tools/convert/tests/testdata", ".pipeline.yaml");
    assert!(converted.len() >= 5, "{converted:?}");
    let samples = ending("manifests/samples", ".yaml");
    assert!(samples.len() >= 3, "{samples:?}");
    for file in converted.iter().chain(&samples) {
        let text = fs::read_to_string(file).unwrap();
        for meant in read(&text).unwrap() {
            let Meant::OneOf(candidates) = meant else { continue };
            let [Candidate::Object(object)] = candidates.as_slice() else { panic!("{file:?}") };
            let spoken = asked(&cluster, &namespace.name, object.clone());
            assert!(spoken.ok, "{}: {}", file.display(), spoken.err);
        }
    }
}

/// Scenario: every object of ours in README and docs, and every part of one, completed. Guarantee:
/// the API server accepts it; a part in one of the kinds that have a place for it.
#[test]
fn what_the_pages_show_is_accepted() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let namespace = cluster.namespace("pages").unwrap();
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages::all(&binaries::root()).unwrap() {
        for block in page.blocks().iter().filter(|block| block.language == "yaml") {
            for meant in read(&block.text).unwrap() {
                let Meant::OneOf(candidates) = meant else { continue };
                // Settings and a chart's values are judged where their readers are.
                let others = candidates.iter().any(|it| !matches!(it, Candidate::Object(_)));
                let objects = candidates.into_iter().filter_map(|it| match it {
                    Candidate::Object(object) if !others => Some(object),
                    _ => None,
                });
                let objects: Vec<Value> = objects.collect();
                if objects.is_empty() {
                    continue;
                }
                count += 1;
                let mut said = Vec::new();
                let accepted = objects.into_iter().any(|object| {
                    assert_eq!(object["apiVersion"], API_VERSION);
                    let spoken = asked(&cluster, &namespace.name, object);
                    said.push(spoken.err);
                    spoken.ok
                });
                if !accepted {
                    wrong.push(format!("{}: {}", block.place, said.concat()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 15, "{count} objects");
}

/// Scenario: `kubectl explain` of every kind, recursively. Guarantee: no field is undocumented.
#[test]
fn every_field_is_explained() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    for kind in
        ["telemetrypipelines", "edgepools", "gatewaypools", "telemetrytopics", "telemetryschemas"]
    {
        let path = format!("{kind}.spec");
        let text = cluster.kubectl(&["explain", &path]).unwrap();
        assert!(!text.contains("<no description>"), "{kind}: {text}");
        assert!(text.contains("FIELDS:"), "{kind}: {text}");
    }
}
