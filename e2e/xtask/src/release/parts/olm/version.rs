//! The ClusterServiceVersion: what a catalog shows of the release, and what its manager installs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::super::charts::Chart;
use super::super::images::Image;
use super::{NAMESPACE, PACKAGE, Parts, text};
use crate::release::plan::{self, Plan};
use crate::shell;

const HOMEPAGE: &str = "https://millrace.dev";
/// The operator finds its own namespace, which whoever installs the bundle chooses.
const NAMESPACE_ARGUMENT: &str = "--lease-namespace=";

/// The ClusterServiceVersion.
pub(super) fn of(
    plan: &Plan,
    helm: &Path,
    charts: &[Chart],
    images: &[Image],
    parts: &Parts,
) -> Result<Value> {
    let chart = charts.iter().find(|it| it.name == "millrace").context("no chart")?;
    let archive = chart.archive.to_string_lossy();
    let chart = shell::output(&helm.to_string_lossy(), &["show", "chart", &archive])?;
    let chart: Value = serde_norway::from_str(&chart).context("helm showed no YAML")?;
    let oldest = text(&chart, "/kubeVersion")?.trim_start_matches(">=").trim_end_matches("-0");
    let related = images.iter().map(|image| {
        let Image { repository, tag, index, .. } = image;
        json!({"name": image.file_name(),
               "image": format!("{}/{repository}:{tag}@{}", plan.registry, index.digest)})
    });
    Ok(json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{PACKAGE}.v{}", plan.version),
            "annotations": about(plan, &chart, parts)?,
            "labels": architectures(plan),
        },
        "spec": {
            "displayName": "Millrace",
            "version": plan.version,
            "maturity": "alpha",
            "minKubeVersion": oldest,
            "description": description(&read("README.md")?)?,
            "icon": [{"base64data": icon()?, "mediatype": "image/svg+xml"}],
            "keywords": chart["keywords"],
            "provider": {"name": "Millrace", "url": HOMEPAGE},
            "links": [{"name": "Millrace", "url": HOMEPAGE}],
            "installModes": [
                {"type": "AllNamespaces", "supported": true},
                {"type": "OwnNamespace", "supported": false},
                {"type": "SingleNamespace", "supported": false},
                {"type": "MultiNamespace", "supported": false},
            ],
            "customresourcedefinitions": {"owned": owned(parts)?},
            "relatedImages": related.collect::<Vec<Value>>(),
            "install": {"strategy": "deployment", "spec": strategy(parts)?},
        },
    }))
}

/// What a catalog shows and searches by.
fn about(plan: &Plan, chart: &Value, parts: &Parts) -> Result<Value> {
    let at = format!("--date=@{}", plan.epoch_seconds);
    let time = shell::output("date", &["--utc", &at, "+%Y-%m-%dT%H:%M:%SZ"])?;
    let examples = parts.definitions.iter().map(example).collect::<Result<Vec<Value>>>()?;
    let image = text(&parts.deployment, "/spec/template/spec/containers/0/image")?;
    Ok(json!({
        "alm-examples": serde_json::to_string_pretty(&examples).context("no JSON")?,
        // Metrics and alerts; the level above asks for tuning and found anomalies.
        "capabilities": "Deep Insights",
        "categories": "Monitoring,Logging & Tracing,Streaming & Messaging",
        "certified": "false",
        "containerImage": image,
        "createdAt": time.trim(),
        "description": chart["description"],
        "operatorframework.io/suggested-namespace": NAMESPACE,
        "repository": HOMEPAGE,
        "support": "Millrace",
    }))
}

fn architectures(plan: &Plan) -> BTreeMap<String, &'static str> {
    let each = plan.platforms.iter().map(|it| format!("arch.{}", it.architecture()));
    each.chain(["os.linux".to_owned()])
        .map(|it| (format!("operatorframework.io/{it}"), "supported"))
        .collect()
}

/// Deployment and rights.
fn strategy(parts: &Parts) -> Result<Value> {
    let mut deployment = parts.deployment.clone();
    let args = deployment.pointer_mut("/spec/template/spec/containers/0/args");
    let args = args.and_then(Value::as_array_mut).context("the operator has no arguments")?;
    args.retain(|it| !it.as_str().is_some_and(|it| it.starts_with(NAMESPACE_ARGUMENT)));
    let of = |rules: &[Value]| json!([{"serviceAccountName": parts.account, "rules": rules}]);
    Ok(json!({
        "clusterPermissions": of(&parts.cluster_rules),
        "permissions": of(&parts.rules),
        "deployments": [{
            "name": deployment["metadata"]["name"],
            "label": deployment["metadata"]["labels"],
            "spec": deployment["spec"],
        }],
    }))
}

/// The kinds, each as its own definition describes it.
fn owned(parts: &Parts) -> Result<Vec<Value>> {
    let each = parts.definitions.iter().map(|it| {
        let kind = text(it, "/spec/names/kind")?;
        let described = "/spec/versions/0/schema/openAPIV3Schema/description";
        Ok(json!({
            "name": text(it, "/metadata/name")?,
            "kind": kind,
            "version": text(it, "/spec/versions/0/name")?,
            "displayName": words(kind),
            "description": text(it, described)?,
        }))
    });
    each.collect()
}

/// The example that the kind's reference page begins with.
fn example(definition: &Value) -> Result<Value> {
    let kind = text(definition, "/spec/names/kind")?;
    let path = format!("crds/src/reference/{}.md", kind.to_lowercase());
    let page = read(&path)?;
    let fenced = page.split_once("```yaml\n").and_then(|(_, rest)| rest.split_once("```"));
    let (yaml, _) = fenced.with_context(|| format!("{path} has no example"))?;
    let example: Value = serde_norway::from_str(yaml).with_context(|| path.clone())?;
    if example["kind"] != kind {
        bail!("{path} begins with an example of another kind");
    }
    Ok(example)
}

/// What the front page says before its first section, with links that lead somewhere from elsewhere.
fn description(readme: &str) -> Result<String> {
    let (_, after) = readme.split_once("\n\n").context("README.md has no text")?;
    let (text, _) = after.split_once("\n## ").context("README.md has no section")?;
    Ok(text.replace("](docs/", &format!("]({HOMEPAGE}/docs/")))
}

fn icon() -> Result<String> {
    let path = shell::root().join("e2e/xtask/src/release/icon.svg");
    Ok(shell::output("base64", &["--wrap=0", &path.to_string_lossy()])?.trim().to_owned())
}

fn words(kind: &str) -> String {
    let spaced =
        kind.chars().flat_map(|it| it.is_uppercase().then_some(' ').into_iter().chain([it]));
    spaced.collect::<String>().trim().to_owned()
}

fn read(path: &str) -> Result<String> {
    String::from_utf8(plan::read(&shell::root().join(path))?).context("it is no text")
}

#[cfg(test)]
mod tests {
    use super::super::tests::parts;
    use super::{Value, description, example, json, owned, read, strategy};

    /// Scenario: rights of the operator's account, everywhere and here. Guarantee: both are the
    /// version's; and the argument that would fix the namespace is gone, no other.
    #[test]
    fn the_version_has_the_accounts_rights_and_any_namespace() {
        let strategy = strategy(&parts()).unwrap();
        let rules = |of: &str| strategy[of][0]["rules"].clone();
        assert_eq!(rules("clusterPermissions"), json!([{"verbs": ["everywhere"]}]));
        assert_eq!(rules("permissions"), json!([{"verbs": ["here"]}]));
        let pod = &strategy["deployments"][0]["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["args"], json!(["--log=info"]));
    }

    /// Scenario: the definitions, their pages and the front page as they are. Guarantee: each kind has
    /// a description and an example, and no link is relative.
    #[test]
    fn the_sources_have_what_a_catalog_shows() {
        let names = ["edgepools", "gatewaypools", "telemetrypipelines", "telemetryschemas"];
        for name in names.into_iter().chain(["telemetrytopics"]) {
            let yaml = read(&format!("charts/millrace-crds/files/{name}.yaml")).unwrap();
            let definition: Value = serde_norway::from_str(&yaml).unwrap();
            assert!(example(&definition).unwrap()["spec"].is_object());
            let mut parts = parts();
            parts.definitions.push(definition);
            let owned = owned(&parts).unwrap();
            assert!(owned[0]["displayName"].as_str().unwrap().contains(' '), "{name}");
        }
        let text = description(&read("README.md").unwrap()).unwrap();
        assert!(text.starts_with("Millrace is") && !text.contains("](docs/"));
    }
}
