//! A spec's `podTemplate`, merged over the operator's own template. Pure.
//!
//! It merges as server-side apply does: objects by field, lists by their keys, other lists as a
//! whole. It may add whatever a pod can have, and change what is a user's to decide. What would
//! break the collector, or an apply would drop, is refused by its path: a wrong type, an unknown
//! field, a field of the operator. A null says nothing, as in any object of Kubernetes. Limits:
//! [`TEMPLATE_BYTES_MAX`]; fields are those of the Kubernetes that the operator is built for; the
//! API server judges values.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use k8s_openapi::api::core::v1::PodTemplateSpec;
use millrace_crds::v1alpha1::{ExtraMetadata, PodTemplate};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::template::OUR_VOLUMES;
use crate::error::Invalid;
use crate::ownership::compare::{self, is_atomic, merge_keys, within};
use crate::pods::CONTAINER;

/// The longest merged template, as JSON. A rollout keeps one in an annotation, and an object's
/// annotations take 256 KiB together: half is left for escapes and for others' annotations.
const TEMPLATE_BYTES_MAX: usize = 128 << 10;
/// Annotations below it are the operator's.
const OUR_ANNOTATIONS: &str = "millrace.dev/";

/// Fields of a pod that are not a user's, and what to do instead.
const POD_FIELDS: [(&str, &str); 11] = [
    ("activeDeadlineSeconds", "pods run until they are replaced"),
    ("ephemeralContainers", "a template can't have any"),
    ("hostname", "the workload names its pods"),
    ("nodeName", "write nodeSelector or affinity"),
    ("os", "collectors run on Linux"),
    ("resources", "write resources of the pool"),
    ("restartPolicy", "containers of a pool are always restarted"),
    ("serviceAccount", "write serviceAccountName"),
    ("setHostnameAsFQDN", "the workload names its pods"),
    ("subdomain", "the workload names its pods"),
    ("terminationGracePeriodSeconds", "write drainSeconds"),
];
/// Fields of the collector's container that are a user's.
const COLLECTOR_FIELDS: [&str; 6] =
    ["name", "env", "envFrom", "imagePullPolicy", "securityContext", "volumeMounts"];
/// What to write for others.
const COLLECTOR_ADVICE: [(&str, &str); 3] = [
    ("image", "write collector.imageRepository, version and allocator"),
    ("resources", "write resources of the pool"),
    ("lifecycle", "the collector drains when it is told to stop: write drainSeconds"),
];
/// What keeps collectors restricted, whichever container or pod says it.
const RESTRICTED: [&str; 7] = [
    "allowPrivilegeEscalation",
    "capabilities",
    "privileged",
    "procMount",
    "readOnlyRootFilesystem",
    "runAsNonRoot",
    "windowsOptions",
];
const RESTRICTED_ADVICE: &str =
    "the collector runs restricted: what needs more belongs into a container of its own";

/// What a spec writes of its pods, without nulls and empty lists; `None` if it is nothing.
#[must_use]
pub fn written(template: &PodTemplate) -> Option<Value> {
    let mut written = json!({"metadata": template.metadata, "spec": template.spec});
    drop_nothings(&mut written);
    let says = |part: &str| written[part].as_object().is_some_and(|part| !part.is_empty());
    (says("metadata") || says("spec")).then_some(written)
}

/// The operator's template with the spec's over it; `per_node` if no two of its pods share a node.
///
/// # Errors
/// When the spec's is no part of a pod template, or holds what the operator must decide.
pub fn merged(
    built: PodTemplateSpec,
    template: &PodTemplate,
    per_node: bool,
) -> Result<PodTemplateSpec, Invalid> {
    let Some(theirs) = written(template) else { return Ok(built) };
    let labels = built.metadata.as_ref().and_then(|it| it.labels.as_ref());
    check_metadata("podTemplate.metadata", &template.metadata, labels)?;
    let typed = read(&theirs)?;
    check_keys(&theirs, &mut String::new())?;
    if let Some(path) = compare::differences(&theirs, &json(&typed)?).first() {
        return Err(refused(path, "Kubernetes has no such field in a pod: check its spelling"));
    }
    let mut whole = json(&built)?;
    check_pod(&whole["spec"], &theirs["spec"], per_node)?;
    merge(&mut whole, &theirs, &mut String::new());
    let bytes = whole.to_string().len();
    if bytes > TEMPLATE_BYTES_MAX {
        let why = format!("makes a template of {bytes} bytes: at most {TEMPLATE_BYTES_MAX} may be");
        return Err(refused("", &why));
    }
    serde_json::from_value(whole).map_err(|error| refused("", &error.to_string()))
}

/// Checks labels and annotations that go to an object beside the operator's `labels`.
///
/// # Errors
/// When one is the operator's own.
pub fn check_metadata(
    field: &str,
    theirs: &ExtraMetadata,
    labels: Option<&BTreeMap<String, String>>,
) -> Result<(), Invalid> {
    let is_taken = |key: &&String| labels.is_some_and(|ours| ours.contains_key(*key));
    let is_ours = |key: &&String| key.starts_with(OUR_ANNOTATIONS);
    let label = theirs.labels.keys().find(is_taken).map(|key| ("labels", key));
    let annotation = theirs.annotations.keys().find(is_ours).map(|key| ("annotations", key));
    match label.or(annotation) {
        None => Ok(()),
        Some((map, key)) => {
            let why = "is the operator's own: choose another key";
            Err(Invalid::spec(format!("spec.{field}.{map}.{key}: {why}")))
        }
    }
}

fn refused(path: &str, why: &str) -> Invalid {
    let dot = if path.is_empty() { "" } else { "." };
    Invalid::spec(format!("spec.podTemplate{dot}{path}: {why}"))
}

fn json(template: &PodTemplateSpec) -> Result<Value, Invalid> {
    serde_json::to_value(template).map_err(|error| refused("", &error.to_string()))
}

fn drop_nothings(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !compare::is_nothing(field));
            fields.values_mut().for_each(drop_nothings);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nothings),
        _ => {}
    }
}

/// Reads it as Kubernetes' type.
fn read(theirs: &Value) -> Result<PodTemplateSpec, Invalid> {
    serde_json::from_value(theirs.clone()).map_err(|error| {
        // The message begins with the value, which may be one to be kept secret.
        let text = error.to_string();
        let wanted = text.split_once("expected ").map_or("another type", |(_, wanted)| wanted);
        refused(&misfit(theirs), &format!("has another type: write {wanted}"))
    })
}

/// The deepest field without which all the rest can be read.
fn misfit(theirs: &Value) -> String {
    let (mut pointer, mut path) = (String::new(), String::new());
    loop {
        let steps: Vec<(String, String)> = match theirs.pointer(&pointer) {
            Some(Value::Object(fields)) => {
                fields.keys().map(|key| (key.clone(), key.clone())).collect()
            }
            Some(Value::Array(items)) => (0usize..)
                .zip(items)
                .map(|(index, item)| (index.to_string(), label(item, &["name"], index)))
                .collect(),
            _ => return path,
        };
        let heals = |(step, _): &(String, String)| {
            let mut rest = theirs.clone();
            match rest.pointer_mut(&pointer) {
                Some(Value::Object(fields)) => drop(fields.remove(step)),
                Some(Value::Array(items)) => drop(step.parse().map(|index| items.remove(index))),
                _ => {}
            }
            PodTemplateSpec::deserialize(&rest).is_ok()
        };
        let Some((step, name)) = steps.into_iter().find(heals) else { return path };
        pointer = format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"));
        path = if path.is_empty() { name } else { format!("{path}.{name}") };
    }
}

/// An item's place in a path: its key, or else its number.
fn label(item: &Value, keys: &[&str], index: usize) -> String {
    let key = keys.first().and_then(|key| item[*key].as_str());
    key.map_or_else(|| index.to_string(), ToOwned::to_owned)
}

/// Items of lists that are merged must have their keys, and no two the same.
fn check_keys(theirs: &Value, path: &mut String) -> Result<(), Invalid> {
    match theirs {
        Value::Object(fields) => fields
            .iter()
            .try_for_each(|(key, value)| within(path, key, |path| check_keys(value, path))),
        Value::Array(items) => {
            let keys = merge_keys(path).unwrap_or_default();
            items.iter().enumerate().try_for_each(|(index, item)| {
                within(path, &label(item, keys, index), |path| {
                    let is_missing = |key: &&&str| **key != "protocol" && item.get(**key).is_none();
                    if let Some(key) = keys.iter().find(is_missing) {
                        return Err(refused(path, &format!("has no {key}, by which it is merged")));
                    }
                    if !keys.is_empty() && items[..index].iter().any(|it| is_same(it, item, keys)) {
                        return Err(refused(path, "is there twice: leave one"));
                    }
                    check_keys(item, path)
                })
            })
        }
        _ => Ok(()),
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Refuses what would break the collector.
fn check_pod(ours: &Value, theirs: &Value, per_node: bool) -> Result<(), Invalid> {
    if let Some((field, why)) = POD_FIELDS.iter().find(|(field, _)| !theirs[field].is_null()) {
        return Err(refused(&format!("spec.{field}"), why));
    }
    if theirs["hostNetwork"] == true && !per_node {
        let why = "two pods may come to one node, whose ports they can't share: write mode: \
                   DaemonSet in an edge pool";
        return Err(refused("spec.hostNetwork", why));
    }
    let context = |whole: &Value| whole["securityContext"].clone();
    check_context("spec", &context(ours), &context(theirs))?;
    let name = |item: &Value| item["name"].as_str().unwrap_or_default().to_owned();
    if let Some(name) = items(&theirs["volumes"]).map(name).find(|it| OUR_VOLUMES.contains(&&**it))
    {
        return Err(refused(&format!("spec.volumes.{name}"), "is the operator's: rename it"));
    }
    let is_collector = |it: &&Value| it["name"] == CONTAINER;
    if items(&theirs["initContainers"]).any(|it| is_collector(&it)) {
        let path = format!("spec.initContainers.{CONTAINER}");
        return Err(refused(&path, "is the collector's name: choose another"));
    }
    let collector = |pod: &'_ Value| items(&pod["containers"]).find(is_collector).cloned();
    let Some((mine, other)) = collector(ours).zip(collector(theirs)) else { return Ok(()) };
    check_collector(ours, &mine, &other)
}

/// Refuses what is not a user's of the collector's container.
fn check_collector(pod: &Value, ours: &Value, theirs: &Value) -> Result<(), Invalid> {
    let at = format!("spec.containers.{CONTAINER}");
    let mut fields = theirs.as_object().into_iter().flat_map(Map::keys);
    if let Some(field) = fields.find(|field| !COLLECTOR_FIELDS.contains(&field.as_str())) {
        let advice = COLLECTOR_ADVICE.iter().find(|(it, _)| it == field);
        let why = advice.map_or("the operator decides it: remove it", |(_, advice)| advice);
        return Err(refused(&format!("{at}.{field}"), why));
    }
    if let Some(name) = items(&theirs["env"]).find(|it| has(&ours["env"], "name", it)) {
        let name = name["name"].as_str().unwrap_or_default();
        return Err(refused(&format!("{at}.env.{name}"), "the operator sets it: remove it"));
    }
    for mount in items(&theirs["volumeMounts"]) {
        let path = mount["mountPath"].as_str().unwrap_or_default();
        let mounted = items(&ours["volumeMounts"]).filter_map(|it| it["mountPath"].as_str());
        if mounted.into_iter().any(|ours| overlap(ours, path)) {
            let why = "hides files of the collector: mount it elsewhere";
            return Err(refused(&format!("{at}.volumeMounts.{path}"), why));
        }
    }
    let mut context = pod["securityContext"].clone();
    merge(&mut context, &ours["securityContext"], &mut String::new());
    check_context(&at, &context, &theirs["securityContext"])
}

fn has(list: &Value, key: &str, item: &Value) -> bool {
    items(list).any(|other| other[key] == item[key])
}

/// Whether one of two directories is in the other.
fn overlap(ours: &str, theirs: &str) -> bool {
    let (ours, theirs) = (Path::new(ours), Path::new(theirs));
    let leads_up = theirs.components().any(|step| step == Component::ParentDir);
    leads_up || ours.starts_with(theirs) || theirs.starts_with(ours)
}

/// Refuses what would give the collector more rights, or take those it needs.
fn check_context(at: &str, ours: &Value, theirs: &Value) -> Result<(), Invalid> {
    let refused = |field: &str, why| Err(refused(&format!("{at}.securityContext.{field}"), why));
    let differs = |field: &&&str| !theirs[**field].is_null() && theirs[**field] != ours[**field];
    if let Some(field) = RESTRICTED.iter().find(differs) {
        return refused(field, RESTRICTED_ADVICE);
    }
    for profile in ["seccompProfile", "appArmorProfile"] {
        if theirs[profile]["type"] == "Unconfined" {
            return refused(profile, RESTRICTED_ADVICE);
        }
    }
    // Only a pool that reads on its nodes runs as root.
    if ours["runAsNonRoot"] == false && differs(&&"runAsUser") {
        return refused("runAsUser", "files and kernels of nodes are read as root: remove it");
    }
    Ok(())
}

fn is_same(one: &Value, other: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| compare::same_key(one, other, key))
}

fn merge(ours: &mut Value, theirs: &Value, path: &mut String) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) if !is_atomic(path) => {
            for (key, value) in theirs {
                let place = ours.entry(key.as_str()).or_insert(Value::Null);
                within(path, key, |path| merge(place, value, path));
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if merge_keys(path).is_some() => {
            let keys = merge_keys(path).unwrap_or_default();
            for item in theirs {
                match ours.iter_mut().find(|it| is_same(it, item, keys)) {
                    Some(twin) => within(path, "item", |path| merge(twin, item, path)),
                    None => ours.push(item.clone()),
                }
            }
        }
        (ours, theirs) => *ours = theirs.clone(),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/pool/merge.rs"]
mod tests;
