//! Later versions of the API, as docs/internals/versions.md plans them, on a real API server:
//! definitions with v1beta1 beside v1alpha1, then stored, then alone, installed by the chart; and
//! fields that warn. Our kinds are copied into another group for it, so the operator has no part in
//! it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use millrace_docs::runs::{self, Way};
use millrace_e2e::cluster::{Cluster, Namespace, helm};
use millrace_e2e::page::Shell;
use millrace_e2e::{binaries, wait};
use millrace_stack::Stack;
use serde_json::{Value, json};

/// The group of the copies, and the chart's release.
const GROUP: &str = "later.example.org";
const RELEASE: &str = "later";
/// The page that plans it, and this file, as rules of pages name it.
const PAGE: &str = "docs/internals/versions.md";
const THIS: &str = "e2e/tests/cluster_alone/versions.rs";
/// From a definition's change to an API server that serves it.
const SERVED: Duration = Duration::from_secs(60);
/// For the page's commands.
const TYPED: Duration = Duration::from_secs(60);
const OLD: &str = "v1alpha1";
const NEW: &str = "v1beta1";
/// An object of each kind: the definitions' order, and files of `crds/testdata/accepted`.
const OBJECTS: [(&str, &str); 5] = [
    ("telemetrypipelines", "pipeline-three-lines"),
    ("edgepools", "edge-three-lines"),
    ("gatewaypools", "gateway-three-lines"),
    ("telemetrytopics", "topic-one-line"),
    ("telemetryschemas", "schema-laid-out"),
];

/// The releases of the page's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Release {
    Now,
    Both,
    Moved,
    Last,
}

impl Release {
    /// What it serves; the last of them is what it stores, unless both are only served.
    fn versions(self) -> Vec<Value> {
        let of = |name: &str, storage: bool| json!({"name": name, "storage": storage});
        match self {
            Self::Now => vec![of(OLD, true)],
            Self::Both => vec![of(OLD, true), of(NEW, false)],
            Self::Moved => vec![of(OLD, false), of(NEW, true)],
            Self::Last => vec![of(NEW, true)],
        }
    }
}

/// The chart of the definitions with other files in it, installed; removed with this.
struct Copies<'s> {
    stack: &'s Stack,
    folder: tempfile::TempDir,
}

impl<'s> Copies<'s> {
    fn new(stack: &'s Stack) -> Result<Self> {
        let folder = tempfile::tempdir().context("no folder for a chart")?;
        let chart = binaries::root().join("charts/millrace-crds");
        let copied = Command::new("cp").arg("-r").arg(chart).arg(folder.path()).status()?;
        ensure!(copied.success(), "the chart could not be copied");
        Ok(Self { stack, folder })
    }

    fn chart(&self) -> PathBuf {
        self.folder.path().join("millrace-crds")
    }

    /// Installs these files in place of the chart's own; the error is Helm's.
    fn install(&self, files: &[(String, Value)]) -> Result<()> {
        let folder = self.chart().join("files");
        fs::remove_dir_all(&folder)?;
        fs::create_dir(&folder)?;
        for (name, object) in files {
            // YAML holds JSON.
            fs::write(folder.join(format!("{name}.yaml")), object.to_string())?;
        }
        let chart = self.chart().to_string_lossy().into_owned();
        let values = ["--set", "keep=false,aggregate=false"];
        helm(self.stack, &[&["upgrade", "--install", RELEASE, &chart][..], &values].concat())
    }

    /// Installs a release's definitions.
    fn release(&self, release: Release) -> Result<()> {
        let definitions = millrace_crds::all_definitions()?;
        let files = definitions.iter().map(|crd| {
            let value = copy(serde_json::to_value(crd)?, release);
            Ok((crd.spec.names.plural.clone(), value))
        });
        self.install(&files.collect::<Result<Vec<_>>>()?)
    }
}

impl Drop for Copies<'_> {
    fn drop(&mut self) {
        let _ = helm(self.stack, &["uninstall", RELEASE]);
    }
}

/// A definition in the other group. Without short names and categories: kubectl must not take a copy
/// for ours.
fn copy(mut crd: Value, release: Release) -> Value {
    let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
    let plural = crd["spec"]["names"]["plural"].as_str().unwrap().to_owned();
    crd["metadata"]["name"] = format!("{plural}.{GROUP}").into();
    crd["spec"]["group"] = GROUP.into();
    let names = crd["spec"]["names"].as_object_mut().unwrap();
    names.retain(|key, _| !["shortNames", "categories"].contains(&key.as_str()));
    let written = crd["spec"]["versions"][0].clone();
    let versions = release.versions().into_iter().map(|of| {
        let mut version = written.clone();
        version["name"] = of["name"].clone();
        version["storage"] = of["storage"].clone();
        if release == Release::Moved && of["name"] == OLD {
            version["deprecated"] = true.into();
            version["deprecationWarning"] = advice(&kind).into();
        }
        version
    });
    crd["spec"]["versions"] = versions.collect();
    crd
}

fn advice(kind: &str) -> String {
    format!("{GROUP}/{OLD} {kind} is deprecated: write {GROUP}/{NEW}")
}

/// An object of a kind, written in a version.
fn document(file: &str, version: &str) -> String {
    let path = binaries::root().join(format!("crds/testdata/accepted/{file}.yaml"));
    let text = fs::read_to_string(path).unwrap();
    let first = text.split("\n---\n").next().unwrap();
    let own = format!("{}/{}", millrace_crds::GROUP, millrace_crds::VERSION);
    first.replace(&own, &format!("{GROUP}/{version}")).replace(", namespace: default", "")
}

/// The spec of each object as a version shows it; the error is the API server's.
fn specs(cluster: &Cluster, namespace: &Namespace<'_>, version: &str) -> Result<Vec<Value>> {
    let specs = OBJECTS.map(|(plural, _)| {
        let mut found =
            cluster.list(&namespace.name, &format!("{plural}.{version}.{GROUP}"), "")?;
        ensure!(found.len() == 1, "{} objects of {plural}", found.len());
        Ok(found[0]["spec"].take())
    });
    specs.into_iter().collect()
}

/// The same, once the API server serves it.
fn served(cluster: &Cluster, namespace: &Namespace<'_>, version: &str) -> Vec<Value> {
    wait::until(&format!("{version} to be served"), SERVED, || specs(cluster, namespace, version))
        .unwrap()
}

/// The versions on record as stored, which are the same for all five.
fn stored(cluster: &Cluster) -> Result<Vec<Value>> {
    let records = OBJECTS.map(|(plural, _)| {
        let crd =
            cluster.get("default", "customresourcedefinition", &format!("{plural}.{GROUP}"))?;
        Ok(crd["status"]["storedVersions"].clone())
    });
    let records = records.into_iter().collect::<Result<Vec<_>>>()?;
    ensure!(records.iter().all(|it| *it == records[0]), "{records:?}");
    Ok(records[0].as_array().cloned().unwrap_or_default())
}

/// Types the commands of the page, with the copies' group in place of ours.
fn type_page(stack: &Stack) -> Result<()> {
    let mut shell = Shell::new()?;
    shell.program("kubectl", &stack.tool("kubectl").context("the stack has no kubectl")?)?;
    shell.set("KUBECONFIG", &stack.kubeconfig().to_string_lossy());
    shell.stands_for(".millrace.dev", &format!(".{GROUP}"));
    let listed = OBJECTS.map(|(plural, _)| plural).join(",");
    shell.stands_for(&listed, &OBJECTS.map(|(plural, _)| format!("{plural}.{GROUP}")).join(","));
    let scripts = runs::scripts(&binaries::root(), Way::Own(THIS))?;
    let script = scripts.iter().find(|it| it.page == PAGE).context("nothing to type")?;
    shell.run(script, TYPED, |_| {})
}

/// Scenario: an object of each kind under the definitions of each release of the page's table: both
/// versions; v1beta1 stored; back by one; then the page's commands; v1beta1 alone. Guarantee: either
/// version shows and takes what the other wrote; whoever uses v1alpha1 is warned once v1beta1 is
/// stored; the API server refuses the last release before the commands, an object that was not
/// written anew can't be read under it, and after the commands each object is what it was.
#[test]
fn objects_move_from_one_stored_version_to_the_next() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let namespace = cluster.namespace("versions").unwrap();
    let copies = Copies::new(&stack).unwrap();
    let apply = |file: &str, version: &str| {
        let args = ["-n", &namespace.name, "apply", "--server-side", "-f", "-"];
        cluster.call(&args, &document(file, version)).unwrap()
    };

    copies.release(Release::Now).unwrap();
    for (plural, file) in OBJECTS {
        wait::until(&format!("{plural} to be served"), SERVED, || {
            let said = apply(file, OLD);
            ensure!(said.ok, "{}", said.err);
            Ok(())
        })
        .unwrap();
    }
    let written = served(&cluster, &namespace, OLD);

    copies.release(Release::Both).unwrap();
    assert_eq!(served(&cluster, &namespace, NEW), written, "the new version shows what is stored");
    assert_eq!(stored(&cluster).unwrap(), [OLD]);
    copies.release(Release::Now).expect("the first step can be taken back");
    copies.release(Release::Both).unwrap();
    served(&cluster, &namespace, NEW);

    copies.release(Release::Moved).unwrap();
    wait::until("a warning of the old version", SERVED, || {
        let said = apply(OBJECTS[0].1, OLD);
        ensure!(said.ok && said.err.contains(&advice("TelemetryPipeline")), "{}", said.err);
        Ok(())
    })
    .unwrap();
    let said = apply(OBJECTS[1].1, NEW);
    assert!(said.ok && !said.err.contains("Warning"), "{}", said.err);
    assert_eq!(stored(&cluster).unwrap(), [OLD, NEW]);
    let refused = format!("{:#}", copies.release(Release::Last).unwrap_err());
    assert!(refused.contains("storedVersions"), "{refused}");

    lost_without_the_first_command(&cluster, &copies, &namespace).unwrap();

    type_page(&stack).unwrap();
    assert_eq!(stored(&cluster).unwrap(), [NEW]);
    copies.release(Release::Last).unwrap();
    assert_eq!(served(&cluster, &namespace, NEW), written, "each object is what it was");
    let gone = specs(&cluster, &namespace, OLD);
    assert!(gone.is_err(), "{gone:?}");
}

/// The record patched, an object of a kind not written anew: it can't be read under the last release,
/// and is there again under the one before.
fn lost_without_the_first_command(
    cluster: &Cluster,
    copies: &Copies<'_>,
    namespace: &Namespace<'_>,
) -> Result<()> {
    for (plural, _) in OBJECTS {
        let patch = json!({"status": {"storedVersions": [NEW]}}).to_string();
        let name = format!("{plural}.{GROUP}");
        let args = ["patch", "crd", &name, "--subresource=status", "--type=merge", "-p", &patch];
        cluster.kubectl(&args)?;
    }
    copies.release(Release::Last)?;
    let kind = format!("telemetrytopics.{NEW}.{GROUP}");
    wait::until("an object of the old version to be refused", SERVED, || {
        let args = ["-n", &namespace.name, "get", &kind, "one-line", "--request-timeout=10s"];
        let said = cluster.call(&args, "")?;
        ensure!(!said.ok && said.err.contains("invalid group/version"), "{}{}", said.out, said.err);
        Ok(())
    })?;
    copies.release(Release::Moved)?;
    served(cluster, namespace, NEW);
    Ok(())
}

/// Scenario: definitions with a deprecated field in the spec and one in a list, and the policies that
/// are generated of them, installed by the chart. Guarantee: who writes one is told its path and what
/// to write instead, and the object is taken; who writes none is told nothing.
#[test]
fn a_deprecated_field_warns_and_works() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let namespace = cluster.namespace("deprecated").unwrap();
    let copies = Copies::new(&stack).unwrap();
    copies.install(&with_deprecated_fields().unwrap()).unwrap();

    let plain = document(OBJECTS[0].1, OLD);
    let fields =
        "  deletionPolicy: Retain\n  edges: [{name: a}, {name: b, acknowledge: AfterKafka}]\n";
    let ask = |document: &str| {
        let args = ["-n", &namespace.name, "apply", "--dry-run=server", "-f", "-"];
        cluster.call(&args, document).unwrap()
    };
    wait::until("a warning", SERVED, || {
        let said = ask(&format!("{}\n{fields}", plain.trim_end()));
        for path in ["spec.deletionPolicy", "spec.edges[].acknowledge"] {
            let wanted = format!("{path} is deprecated: write spec.better");
            ensure!(said.ok && said.err.contains(&wanted), "{}{}", said.out, said.err);
        }
        Ok(())
    })
    .unwrap();
    let said = ask(&plain);
    assert!(said.ok && !said.err.contains("Warning"), "{}", said.err);
}

/// The pipeline's definition with two fields marked, and its policy.
fn with_deprecated_fields() -> Result<Vec<(String, Value)>> {
    let crd = millrace_crds::all_definitions()?.remove(0);
    let mut value = copy(serde_json::to_value(crd)?, Release::Now);
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    for field in ["deletionPolicy", "edges/items/properties/acknowledge"] {
        let found = value.pointer_mut(&format!("{spec}/{field}/description"));
        let Some(Value::String(text)) = found else { bail!("there is no spec.{field}") };
        text.insert_str(0, "Deprecated: write spec.better. ");
    }
    let marked = serde_json::from_value(value.clone())?;
    let policy = millrace_crds::deprecation_policy(&marked)?.context("nothing is deprecated")?;
    let mut files = vec![("pipelines".to_owned(), value)];
    files.extend(["policy", "binding"].map(str::to_owned).into_iter().zip(policy));
    Ok(files)
}
