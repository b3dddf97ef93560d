//! The health script, and the conditions that it reads, in every state that was seen in a cluster
//! (manifests/argocd/resource_customizations): by Argo CD's own test, by Argo CD with our
//! ConfigMap, and by Flux' rules. None of it needs a cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use millrace_e2e::binaries;
use millrace_stack::paths::Paths;
use millrace_stack::progress::Silent;
use millrace_stack::{argocd, kstatus};

/// The group of our kinds, and the folder of its customizations.
const GROUP: &str = "millrace.dev";

fn manifests() -> PathBuf {
    binaries::root().join("manifests/argocd")
}

fn objects() -> Vec<PathBuf> {
    let folder = manifests().join("resource_customizations").join(GROUP).join("_/testdata");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    assert!(files.len() >= 9, "{files:?}");
    files
}

/// The health that a file is named after: `KIND_STATE[_WHICH].yaml`.
fn state_of(file: &Path) -> String {
    let name = file.file_stem().unwrap().to_string_lossy().into_owned();
    name.split('_').nth(1).expect("a file is called KIND_STATE.yaml").to_owned()
}

/// Scenario: our customizations in Argo CD's tree. Guarantee: its own test finds each object's health
/// and message to be those of our `health_test.yaml`, which has each object.
#[test]
fn argo_cds_own_test_passes_with_our_script() {
    let paths = Paths::from_env().unwrap();
    let ours = manifests().join("resource_customizations").join(GROUP);
    let said = argocd::own_health_tests(&paths, GROUP, &ours).unwrap();
    let passed = said.lines().filter(|line| line.contains("--- PASS") && line.contains("testdata"));
    assert_eq!(passed.count(), objects().len(), "{said}");
}

/// Scenario: each object, and our ConfigMap with its one block for all kinds. Guarantee: Argo CD says
/// the health that the file is named after.
#[test]
fn one_block_of_the_configmap_is_the_health_of_every_kind() {
    let paths = Paths::from_env().unwrap();
    for file in objects() {
        let said = by_configmap(&paths, &file).unwrap();
        let health = said.lines().find_map(|line| line.strip_prefix("STATUS: "));
        assert_eq!(health.map(str::to_lowercase), Some(state_of(&file)), "{}", file.display());
    }
}

fn by_configmap(paths: &Paths, object: &Path) -> Result<String> {
    let mut command: Command = argocd::cli(paths);
    command
        .args(["admin", "settings", "resource-overrides", "health"])
        .arg(object)
        .arg("--argocd-cm-path")
        .arg(manifests().join("health-configmap.yaml"));
    let output = command.output().context("argocd could not be started")?;
    let err = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {err}", object.display());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Scenario: each object, by Flux' rules and by the expressions of manifests/flux. Guarantee:
/// `Current` of the healthy, and of the suspended, which is as asked for; `Failed` of the degraded,
/// `InProgress` of the others. An object without a status is `Current` to the rules, which is why
/// there are expressions: to them it is not.
#[test]
fn flux_waits_by_our_conditions() {
    let program = kstatus::build(&Paths::from_env().unwrap(), &Silent).unwrap();
    let files = objects();
    let asked = binaries::root().join("manifests/flux/pipelines.yaml");
    let output = Command::new(program).arg(asked).args(&files).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.lines().count(), files.len(), "{}", String::from_utf8_lossy(&output.stderr));
    for (file, line) in files.iter().zip(said.lines()) {
        let expected = match (&*state_of(file), file.to_string_lossy().contains("_new")) {
            ("healthy" | "suspended", _) => "Current\tCurrent",
            ("degraded", _) => "Failed\tFailed",
            (_, true) => "Current\tUnknown",
            _ => "InProgress\tInProgress",
        };
        assert_eq!(line, expected, "{}", file.display());
    }
}
