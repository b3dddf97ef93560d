//! Merges a spec's `podTemplate` over the operator's own template. Pure.
//!
//! It merges as server-side apply does: objects by field, lists by their keys, other lists as one
//! value. A `podTemplate` may add anything that a pod can have and change what users decide. Fields
//! that would break the collector, or that an apply would drop, are refused by their path: a wrong
//! type, an unknown field, a field of the operator. A null counts as unset, as in any object of
//! Kubernetes. Limits: [`TEMPLATE_BYTES_MAX`]; fields are those of the Kubernetes that the operator
//! is built for; the API server judges values.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use k8s_openapi::api::core::v1::PodTemplateSpec;
use millrace_crds::v1alpha1::{ExtraMetadata, PodTemplate};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::volumes::OUR_VOLUMES;
use crate::error::Invalid;
use crate::ownership::compare::{self, is_atomic, merge_keys, with_field};
use crate::pods::CONTAINER;

/// The longest merged template, as JSON. A rollout stores one in an annotation, and an object's
/// annotations hold 256 KiB together: half remains for escapes and for others' annotations.
const TEMPLATE_BYTES_MAX: usize = 128 << 10;
/// The prefix of the operator's annotations.
const OUR_ANNOTATIONS: &str = "millrace.dev/";

/// The fields of a pod that users may not set, and what to do instead.
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
/// The fields of the collector's container that users may set.
const COLLECTOR_FIELDS: [&str; 6] =
    ["name", "env", "envFrom", "imagePullPolicy", "securityContext", "volumeMounts"];
/// The advice for other fields.
const COLLECTOR_ADVICE: [(&str, &str); 3] = [
    ("image", "write collector.imageRepository, version and allocator"),
    ("resources", "write resources of the pool"),
    ("lifecycle", "the collector drains when it is stopped: write drainSeconds"),
];
/// The fields that restrict collectors, in any container or pod.
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
    "the collector runs restricted: use a separate container for what needs more";

/// Returns a spec's settings for its pods, without nulls and empty lists; `None` if there are none.
#[must_use]
pub fn declared_template(template: &PodTemplate) -> Option<Value> {
    let mut written = json!({"metadata": template.metadata, "spec": template.spec});
    drop_nothings(&mut written);
    let has_content = |part: &str| written[part].as_object().is_some_and(|part| !part.is_empty());
    (has_content("metadata") || has_content("spec")).then_some(written)
}

/// Merges the spec's template over the operator's. `per_node` states that no two of its pods share
/// a node.
///
/// # Errors
/// When the spec's template is not part of a pod template, or sets what the operator must decide.
pub fn merge_template(
    built: PodTemplateSpec,
    template: &PodTemplate,
    per_node: bool,
) -> Result<PodTemplateSpec, Invalid> {
    let Some(theirs) = declared_template(template) else { return Ok(built) };
    let labels = built.metadata.as_ref().and_then(|it| it.labels.as_ref());
    check_metadata("podTemplate.metadata", &template.metadata, labels)?;
    let typed = parse_typed(&theirs)?;
    check_keys(&theirs, &mut String::new())?;
    if let Some(path) = compare::find_differences(&theirs, &to_json(&typed)?).first() {
        return Err(template_error(
            path,
            "Kubernetes has no such field in a pod: check its spelling",
        ));
    }
    let mut merged = to_json(&built)?;
    check_pod(&merged["spec"], &theirs["spec"], per_node)?;
    merge_value(&mut merged, &theirs, &mut String::new());
    let bytes = merged.to_string().len();
    if bytes > TEMPLATE_BYTES_MAX {
        let why =
            format!("the template has {bytes} bytes; at most {TEMPLATE_BYTES_MAX} are allowed");
        return Err(template_error("", &why));
    }
    serde_json::from_value(merged).map_err(|error| template_error("", &error.to_string()))
}

/// Checks labels and annotations that an object gets in addition to the operator's `labels`.
///
/// # Errors
/// When one is the operator's own.
pub fn check_metadata(
    field: &str,
    theirs: &ExtraMetadata,
    labels: Option<&BTreeMap<String, String>>,
) -> Result<(), Invalid> {
    let is_used = |key: &&String| labels.is_some_and(|ours| ours.contains_key(*key));
    let is_ours = |key: &&String| key.starts_with(OUR_ANNOTATIONS);
    let label = theirs.labels.keys().find(is_used).map(|key| ("labels", key));
    let annotation = theirs.annotations.keys().find(is_ours).map(|key| ("annotations", key));
    match label.or(annotation) {
        None => Ok(()),
        Some((map, key)) => {
            let why = "is the operator's own: choose another key";
            Err(Invalid::spec_invalid(format!("spec.{field}.{map}.{key}: {why}")))
        }
    }
}

fn template_error(path: &str, why: &str) -> Invalid {
    let dot = if path.is_empty() { "" } else { "." };
    Invalid::spec_invalid(format!("spec.podTemplate{dot}{path}: {why}"))
}

fn to_json(template: &PodTemplateSpec) -> Result<Value, Invalid> {
    serde_json::to_value(template).map_err(|error| template_error("", &error.to_string()))
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

/// Parses the template as Kubernetes' type.
fn parse_typed(theirs: &Value) -> Result<PodTemplateSpec, Invalid> {
    serde_json::from_value(theirs.clone()).map_err(|error| {
        // The message begins with the value, which may be a secret.
        let text = error.to_string();
        let expected =
            text.split_once("expected ").map_or("another type", |(_, expected)| expected);
        template_error(&find_misfit(theirs), &format!("has another type: write {expected}"))
    })
}

/// Returns the deepest field without which all other fields can be parsed.
fn find_misfit(theirs: &Value) -> String {
    let (mut pointer, mut path) = (String::new(), String::new());
    loop {
        let steps: Vec<(String, String)> = match theirs.pointer(&pointer) {
            Some(Value::Object(fields)) => {
                fields.keys().map(|key| (key.clone(), key.clone())).collect()
            }
            Some(Value::Array(items)) => (0usize..)
                .zip(items)
                .map(|(index, item)| (index.to_string(), item_label(item, &["name"], index)))
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

/// Returns an item's segment in a path: its key, or else its index.
fn item_label(item: &Value, keys: &[&str], index: usize) -> String {
    let key = keys.first().and_then(|key| item[*key].as_str());
    key.map_or_else(|| index.to_string(), ToOwned::to_owned)
}

/// Checks that items of merged lists have their keys, and that no two have the same.
fn check_keys(theirs: &Value, path: &mut String) -> Result<(), Invalid> {
    match theirs {
        Value::Object(fields) => fields
            .iter()
            .try_for_each(|(key, value)| with_field(path, key, |path| check_keys(value, path))),
        Value::Array(items) => {
            let keys = merge_keys(path).unwrap_or_default();
            items.iter().enumerate().try_for_each(|(index, item)| {
                with_field(path, &item_label(item, keys, index), |path| {
                    let is_missing = |key: &&&str| **key != "protocol" && item.get(**key).is_none();
                    if let Some(key) = keys.iter().find(is_missing) {
                        return Err(template_error(
                            path,
                            &format!("has no {key}, by which it is merged"),
                        ));
                    }
                    if !keys.is_empty() && items[..index].iter().any(|it| is_same(it, item, keys)) {
                        return Err(template_error(path, "is listed twice: remove one"));
                    }
                    check_keys(item, path)
                })
            })
        }
        _ => Ok(()),
    }
}

fn array_items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Refuses settings that would break the collector.
fn check_pod(ours: &Value, theirs: &Value, per_node: bool) -> Result<(), Invalid> {
    if let Some((field, why)) = POD_FIELDS.iter().find(|(field, _)| !theirs[field].is_null()) {
        return Err(template_error(&format!("spec.{field}"), why));
    }
    if theirs["hostNetwork"] == true && !per_node {
        let why = "two pods may run on one node, whose ports they can't share: write mode: \
                   DaemonSet in an edge pool";
        return Err(template_error("spec.hostNetwork", why));
    }
    let context = |spec: &Value| spec["securityContext"].clone();
    check_context("spec", &context(ours), &context(theirs))?;
    let name = |item: &Value| item["name"].as_str().unwrap_or_default().to_owned();
    if let Some(name) =
        array_items(&theirs["volumes"]).map(name).find(|it| OUR_VOLUMES.contains(&&**it))
    {
        return Err(template_error(
            &format!("spec.volumes.{name}"),
            "is the operator's: rename it",
        ));
    }
    let is_collector = |it: &&Value| it["name"] == CONTAINER;
    if array_items(&theirs["initContainers"]).any(|it| is_collector(&it)) {
        let path = format!("spec.initContainers.{CONTAINER}");
        return Err(template_error(&path, "is the collector's name: choose another"));
    }
    let collector = |pod: &'_ Value| array_items(&pod["containers"]).find(is_collector).cloned();
    let Some((mine, other)) = collector(ours).zip(collector(theirs)) else { return Ok(()) };
    check_collector(ours, &mine, &other)
}

/// Refuses settings of the collector's container that users may not change.
fn check_collector(pod: &Value, ours: &Value, theirs: &Value) -> Result<(), Invalid> {
    let at = format!("spec.containers.{CONTAINER}");
    let mut fields = theirs.as_object().into_iter().flat_map(Map::keys);
    if let Some(field) = fields.find(|field| !COLLECTOR_FIELDS.contains(&field.as_str())) {
        let advice = COLLECTOR_ADVICE.iter().find(|(it, _)| it == field);
        let why = advice.map_or("the operator decides it: remove it", |(_, advice)| advice);
        return Err(template_error(&format!("{at}.{field}"), why));
    }
    if let Some(name) =
        array_items(&theirs["env"]).find(|it| contains_item(&ours["env"], "name", it))
    {
        let name = name["name"].as_str().unwrap_or_default();
        return Err(template_error(&format!("{at}.env.{name}"), "the operator sets it: remove it"));
    }
    for mount in array_items(&theirs["volumeMounts"]) {
        let path = mount["mountPath"].as_str().unwrap_or_default();
        let mounted = array_items(&ours["volumeMounts"]).filter_map(|it| it["mountPath"].as_str());
        if mounted.into_iter().any(|ours| paths_overlap(ours, path)) {
            let why = "hides files of the collector: mount it elsewhere";
            return Err(template_error(&format!("{at}.volumeMounts.{path}"), why));
        }
    }
    let mut context = pod["securityContext"].clone();
    merge_value(&mut context, &ours["securityContext"], &mut String::new());
    check_context(&at, &context, &theirs["securityContext"])
}

fn contains_item(list: &Value, key: &str, item: &Value) -> bool {
    array_items(list).any(|other| other[key] == item[key])
}

/// Returns whether one of two directories contains the other.
fn paths_overlap(ours: &str, theirs: &str) -> bool {
    let (ours, theirs) = (Path::new(ours), Path::new(theirs));
    let leads_up = theirs.components().any(|step| step == Component::ParentDir);
    leads_up || ours.starts_with(theirs) || theirs.starts_with(ours)
}

/// Refuses settings that would give the collector more rights, or remove those that it needs.
fn check_context(at: &str, ours: &Value, theirs: &Value) -> Result<(), Invalid> {
    let refused =
        |field: &str, why| Err(template_error(&format!("{at}.securityContext.{field}"), why));
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

fn merge_value(ours: &mut Value, theirs: &Value, path: &mut String) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) if !is_atomic(path) => {
            for (key, value) in theirs {
                let slot = ours.entry(key.as_str()).or_insert(Value::Null);
                with_field(path, key, |path| merge_value(slot, value, path));
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if merge_keys(path).is_some() => {
            let keys = merge_keys(path).unwrap_or_default();
            for item in theirs {
                match ours.iter_mut().find(|it| is_same(it, item, keys)) {
                    Some(twin) => with_field(path, "item", |path| merge_value(twin, item, path)),
                    None => ours.push(item.clone()),
                }
            }
        }
        (ours, theirs) => *ours = theirs.clone(),
    }
}

#[cfg(test)]
mod tests;
