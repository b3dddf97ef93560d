//! The bundle that Operator Lifecycle Manager (OLM) installs and OperatorHub lists: what the charts of
//! the release render, in that manager's form. Rights, pods and definitions have one source, the charts.
//!
//! Limits: it looks after all namespaces, as the chart does without `watchNamespaces`; and it leaves
//! out what OLM doesn't install everywhere: the NetworkPolicy, the PodDisruptionBudget, monitors and
//! dashboards.

mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use millrace_stack::image::{BuiltImage, ImageName, Layer, write_files};
use serde::Deserialize;
use serde_json::{Value, json};

use super::charts::Chart;
use super::images::Image;
use crate::release::plan::{self, Plan};
use crate::{say, shell};

/// What charts are rendered for: a Helm that is built as a module takes itself for Kubernetes 1.20.
pub(crate) const KUBERNETES: &str = "1.34.0";
/// Where the operator is rendered for.
pub(crate) const NAMESPACE: &str = "millrace-system";
const PACKAGE: &str = "millrace";
/// Versions before 1.0 are candidates.
const CHANNEL: &str = "candidate";
/// What of the chart's objects is left out. OLM v1 refuses bundles with a NetworkPolicy.
const LEFT_OUT: &str = "networkPolicy.enabled=false,podDisruptionBudget.enabled=false,monitoring.podMonitor=false,\
                        monitoring.rules=false,monitoring.dashboards=false";
const HELM_LABELS: [&str; 2] = ["helm.sh/chart", "app.kubernetes.io/managed-by"];

/// The bundle as an image.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) repository: String,
    pub(crate) tag: String,
    pub(crate) image: BuiltImage,
}

/// What the charts render, as OLM knows it.
#[derive(Debug)]
struct Parts {
    deployment: Value,
    account: String,
    /// Rules that the operator's account has everywhere, and in its own namespace.
    cluster_rules: Vec<Value>,
    rules: Vec<Value>,
    definitions: Vec<Value>,
    others: Vec<Value>,
}

/// Makes the files, in `olm`, and the image of them.
pub(crate) fn make(plan: &Plan, helm: &Path, charts: &[Chart], images: &[Image]) -> Result<Bundle> {
    let parts = sorted(rendered(plan, helm, charts)?)?;
    let mut files = BTreeMap::new();
    let csv = version::of(plan, helm, charts, images, &parts)?;
    files.insert(format!("manifests/{PACKAGE}.clusterserviceversion.yaml"), csv);
    for object in parts.definitions.iter().chain(&parts.others) {
        let kind = text(object, "/kind")?.to_lowercase();
        let name = format!("manifests/{}.{kind}.yaml", text(object, "/metadata/name")?);
        if files.insert(name.clone(), object.clone()).is_some() {
            bail!("the charts render two objects for {name}");
        }
    }
    let labels = annotations();
    files.insert("metadata/annotations.yaml".to_owned(), json!({"annotations": labels}));

    let mut layer = Layer::new();
    for (name, value) in &files {
        // YAML holds JSON, whose texts no reader takes for dates or truth values.
        let yaml = plan::pretty(value)?;
        let path = plan.below("olm")?.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(&path)).context("no folder for OLM")?;
        plan::write(&path, yaml.as_bytes())?;
        layer.file(name, 0o644, yaml.as_bytes());
    }
    let repository = "millrace/olm-bundle".to_owned();
    let name = ImageName::new(&format!("{repository}:{}", plan.version))?;
    let archive = plan.below("images")?.join(format!("olm-bundle-{}.tar", plan.version));
    let image = write_files(&archive, &name, layer, &labels)?;
    say::step(&format!("bundle for OLM: {} objects, {}", files.len() - 1, image.digest));
    Ok(Bundle { repository, tag: plan.version.to_owned(), image })
}

/// Every object of both charts.
fn rendered(plan: &Plan, helm: &Path, charts: &[Chart]) -> Result<Vec<Value>> {
    let helm = helm.to_string_lossy();
    let mut objects = Vec::new();
    for chart in charts {
        let registry = &plan.registry;
        let set = match chart.name {
            "millrace" => format!(
                "{LEFT_OUT},image.repository={registry}/millrace/operator,\
                 collector.imageRepository={registry}/millrace/collector"
            ),
            _ => "keep=false".to_owned(),
        };
        let archive = chart.archive.to_string_lossy();
        let args = ["template", "--no-hooks", "--kube-version", KUBERNETES, "--set", &set];
        let of = ["--namespace", NAMESPACE, chart.name, &archive];
        let text = shell::output(&helm, &[&args[..], &of].concat())?;
        for document in serde_norway::Deserializer::from_str(&text) {
            let object = Value::deserialize(document).context("helm rendered no YAML")?;
            if !object.is_null() {
                objects.push(without_helm(object));
            }
        }
    }
    Ok(objects)
}

/// Without the labels that say that Helm manages it.
fn without_helm(mut object: Value) -> Value {
    for place in ["/metadata/labels", "/spec/template/metadata/labels"] {
        let labels = object.pointer_mut(place).and_then(Value::as_object_mut);
        if let Some(labels) = labels {
            HELM_LABELS.iter().for_each(|label| drop(labels.remove(*label)));
        }
    }
    object
}

/// The operator's Deployment, its rights, and the rest. What can't be said in a bundle is an error.
fn sorted(objects: Vec<Value>) -> Result<Parts> {
    let mut deployments = objects.iter().filter(|it| it["kind"] == "Deployment");
    let (Some(deployment), None) = (deployments.next(), deployments.next()) else {
        bail!("the chart renders one Deployment, or the bundle can't be made of it");
    };
    let deployment = deployment.clone();
    let account = text(&deployment, "/spec/template/spec/serviceAccountName")?.to_owned();
    let bound: BTreeSet<(String, String)> = objects
        .iter()
        .filter(|it| is_of(it, &account))
        .map(|it| {
            Ok((text(it, "/roleRef/kind")?.to_owned(), text(it, "/roleRef/name")?.to_owned()))
        })
        .collect::<Result<_>>()?;
    let (mut cluster_rules, mut rules) = (Vec::new(), Vec::new());
    let (mut definitions, mut others) = (Vec::new(), Vec::new());
    for mut object in objects {
        let kind = text(&object, "/kind")?.to_owned();
        let name = text(&object, "/metadata/name")?.to_owned();
        let namespace = object["metadata"]["namespace"].as_str();
        if namespace.is_some_and(|it| it != NAMESPACE) {
            bail!("{kind} {name} is in a namespace of its own: a bundle has no place for it");
        }
        let of_role = |object: &Value| object["rules"].as_array().cloned().unwrap_or_default();
        match kind.as_str() {
            "Deployment" => {}
            // OLM makes the account and binds it.
            "ServiceAccount" if name == account => {}
            "ClusterRoleBinding" | "RoleBinding" if is_of(&object, &account) => {}
            "ClusterRole" if bound.contains(&(kind.clone(), name.clone())) => {
                cluster_rules.extend(of_role(&object));
            }
            "Role" if bound.contains(&(kind.clone(), name.clone())) => {
                rules.extend(of_role(&object));
            }
            "CustomResourceDefinition" => definitions.push(object),
            // Of deprecated fields; OLM knows no such kinds.
            "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => {}
            _ => {
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("namespace");
                }
                others.push(object);
            }
        }
    }
    Ok(Parts { deployment, account, cluster_rules, rules, definitions, others })
}

/// Whether an object binds a role to the account.
fn is_of(object: &Value, account: &str) -> bool {
    let subjects = object["subjects"].as_array().into_iter().flatten();
    subjects.into_iter().any(|it| it["kind"] == "ServiceAccount" && it["name"] == account)
}

/// Labels of the image, and the same as annotations in it.
fn annotations() -> BTreeMap<String, String> {
    let of = |name: &str, value: &str| {
        (format!("operators.operatorframework.io.bundle.{name}.v1"), value.to_owned())
    };
    BTreeMap::from([
        of("mediatype", "registry+v1"),
        of("manifests", "manifests/"),
        of("metadata", "metadata/"),
        of("package", PACKAGE),
        of("channels", CHANNEL),
        of("channel.default", CHANNEL),
    ])
}

fn text<'a>(value: &'a Value, pointer: &str) -> Result<&'a str> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.with_context(|| format!("no text at {pointer} of {}", value["metadata"]["name"]))
}

#[cfg(test)]
mod tests {
    use super::{Parts, Value, json, sorted};

    fn binding(kind: &str, role: &str, account: &str) -> Value {
        json!({"kind": format!("{kind}Binding"), "metadata": {"name": role},
               "roleRef": {"kind": kind, "name": role},
               "subjects": [{"kind": "ServiceAccount", "name": account}]})
    }

    fn role(kind: &str, name: &str) -> Value {
        json!({"kind": kind, "metadata": {"name": name}, "rules": [{"verbs": [name]}]})
    }

    fn objects() -> Vec<Value> {
        let container = json!({"image": "i", "args": ["--lease-namespace=x", "--log=info"]});
        let pod = json!({"serviceAccountName": "op", "containers": [container]});
        vec![
            json!({"kind": "Deployment", "metadata": {"name": "op"},
                   "spec": {"template": {"spec": pod}}}),
            json!({"kind": "ServiceAccount", "metadata": {"name": "op"}}),
            role("ClusterRole", "everywhere"),
            binding("ClusterRole", "everywhere", "op"),
            role("Role", "here"),
            binding("Role", "here", "op"),
            role("ClusterRole", "of-others"),
            binding("ClusterRole", "of-others", "someone"),
        ]
    }

    pub(super) fn parts() -> Parts {
        sorted(objects()).unwrap()
    }

    /// Scenario: roles of the operator's account, and one of another's. Guarantee: its rules are
    /// apart by their reach, its roles and bindings gone; the other's are objects.
    #[test]
    fn the_accounts_roles_become_rules() {
        let parts = parts();
        assert_eq!(parts.cluster_rules, [json!({"verbs": ["everywhere"]})]);
        assert_eq!(parts.rules, [json!({"verbs": ["here"]})]);
        let others: Vec<_> = parts.others.iter().map(|it| &it["metadata"]["name"]).collect();
        assert_eq!(others, ["of-others", "of-others"]);
    }

    /// Scenario: a Role in another namespace. Guarantee: it is refused, not left out.
    #[test]
    fn rights_that_a_bundle_has_no_place_for_are_refused() {
        let mut all = objects();
        all[4]["metadata"]["namespace"] = "elsewhere".into();
        assert!(sorted(all).is_err());
    }
}
