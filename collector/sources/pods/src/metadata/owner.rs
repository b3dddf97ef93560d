//! Determines a pod's owners from its controlling owner reference. Pure.
//!
//! A pod's metadata lacks the owners' owners. Two are derived from the names that Kubernetes'
//! controllers give: a ReplicaSet has the name of its Deployment and the pod's `pod-template-hash`,
//! a Job that of its CronJob and a minute.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The label with which a Deployment distinguishes its ReplicaSets' pods.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Minutes since 1970 at the beginning of 2020. A number of eight digits below it is no minute of a
/// CronJob's Job; a date (20261231) always is below.
const FIRST_MINUTE: u64 = 26_297_280;

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerReference {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) controller: bool,
}

/// Returns the attributes that name the owners; none for a pod without a controller.
pub(crate) fn owner_attributes(
    owners: &[OwnerReference],
    labels: &BTreeMap<String, String>,
) -> Vec<(&'static str, String)> {
    let Some(owner) = owners.iter().find(|owner| owner.controller) else { return Vec::new() };
    let (group, name) = (owner.api_version.split('/').next().unwrap_or_default(), &owner.name);
    match (group, owner.kind.as_str()) {
        ("apps", "ReplicaSet") => {
            let hash = labels.get(TEMPLATE_HASH);
            let deployment =
                hash.and_then(|hash| name.strip_suffix(hash.as_str())?.strip_suffix('-'));
            let deployment = deployment.map(|name| ("k8s.deployment.name", name.to_owned()));
            deployment.into_iter().chain([("k8s.replicaset.name", name.clone())]).collect()
        }
        ("apps", "StatefulSet") => vec![("k8s.statefulset.name", name.clone())],
        ("apps", "DaemonSet") => vec![("k8s.daemonset.name", name.clone())],
        ("batch", "Job") => {
            let cron_job = cron_job(name).map(|name| ("k8s.cronjob.name", name.to_owned()));
            cron_job.into_iter().chain([("k8s.job.name", name.clone())]).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the CronJob in a Job's name.
fn cron_job(job: &str) -> Option<&str> {
    let (name, minute) = job.rsplit_once('-')?;
    let is_number = minute.len() == 8 && minute.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && minute.parse::<u64>().ok()? >= FIRST_MINUTE).then_some(name)
}

#[cfg(test)]
mod tests;
