//! Argo CD's health checks: the ConfigMap against the script and the kinds. Neither Argo CD nor Lua
//! runs here.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every kind that is defined, from `spec.names.kind`.
fn kinds() -> Vec<String> {
    let files = fs::read_dir(root().join("crds/yaml")).unwrap();
    let texts = files.map(|file| read(&file.unwrap().path()));
    texts
        .map(|text| {
            let mut names = text.lines().filter_map(|line| line.strip_prefix("    kind: "));
            names.next().unwrap().to_owned()
        })
        .collect()
}

/// Scenario: every kind there is. Guarantee: the ConfigMap has the script for it, letter by letter,
/// and nothing else.
#[test]
fn every_kind_has_the_health_check_as_it_is() {
    let folder = root().join("manifests/argocd");
    let script = read(&folder.join("health.lua"));
    let script: String = script.lines().map(|line| format!("    {line}\n")).collect();
    let config = read(&folder.join("health-configmap.yaml"));
    let (_, mut left) = config.split_once("\ndata:\n").unwrap();
    let kinds = kinds();
    assert_eq!(kinds.len(), 5, "{kinds:?}");
    let mut seen = Vec::new();
    while !left.is_empty() {
        let (key, rest) = left.split_once(": |\n").unwrap();
        let kind = key.strip_prefix("  resource.customizations.health.millrace.dev_").unwrap();
        left = rest.strip_prefix(script.as_str()).unwrap_or_else(|| panic!("{kind} has another"));
        seen.push(kind.to_owned());
    }
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(seen), sorted(kinds));
}
