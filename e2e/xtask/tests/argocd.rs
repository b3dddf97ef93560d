//! Argo CD's health checks: the ConfigMap against the script, which is in one place only. Argo CD
//! itself runs both in `make argocd`.

use std::fs;
use std::path::Path;

/// The block of the ConfigMap that has the script, and how deep the script stands in it.
const BLOCK: &str = "\n  resource.customizations: |\n    millrace.dev/*:\n      health.lua: |\n";
const INDENT: &str = "        ";

/// Scenario: the ConfigMap as it is committed. Guarantee: its one block for every kind is the script,
/// letter by letter, and the next key follows it.
#[test]
fn the_configmap_has_the_health_script_as_it_is() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/argocd");
    let read = |path: &Path| {
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let script = read(&folder.join("resource_customizations/millrace.dev/_/health.lua"));
    let script: String = script.lines().map(|line| format!("{INDENT}{line}\n")).collect();
    let config = read(&folder.join("health-configmap.yaml"));
    let (_, block) = config.split_once(BLOCK).unwrap();
    let rest = block.strip_prefix(&script).expect("the ConfigMap has another script");
    assert!(rest.starts_with("  resource.customizations.health."), "{rest}");
}
