//! What the API server itself says to a spec: the table in `crds/testdata`, against the installed
//! CRDs. A file holds one document, or a step by step change whose last document is what is judged.

use std::fs;
use std::path::{Path, PathBuf};

use millrace_e2e::binaries;
use millrace_e2e::cluster::{Cluster, Spoken};
use millrace_stack::Stack;

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = binaries::root().join("crds/testdata").join(folder);
    let mut files: Vec<PathBuf> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    assert!(files.len() >= 10, "{} holds too few files", folder.display());
    files
}

/// Applies all documents of a file in turn to a namespace; the last one is only asked about.
fn judge(cluster: &Cluster, namespace: &str, file: &Path) -> Spoken {
    let text = fs::read_to_string(file).unwrap().replace("namespace: default", "");
    let mut documents: Vec<&str> = text.split("\n---\n").collect();
    let last = documents.pop().unwrap();
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
    for file in files("refused") {
        let namespace = cluster.namespace("refused").unwrap();
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
    for file in files("accepted") {
        let namespace = cluster.namespace("accepted").unwrap();
        let spoken = judge(&cluster, &namespace.name, &file);
        assert!(spoken.ok, "{}: {}", file.display(), spoken.err);
    }
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
