//! Describes a pool's pods for a rollout. Pure.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use millrace_rollout::{FaultKind, Member, NODE_LOST_REMEDY, PodFigures, UnitFault};

use crate::cache::absent::AbsentPods;
use crate::pool::member::{self, member_of_pod};
use crate::pool::workload::pod_figures;

/// Returns the pods that are not being deleted.
pub(super) fn active_members(live: &StatefulSet, pods: &[Pod], now: Timestamp) -> Vec<Member> {
    let newest = live.status.as_ref().and_then(|status| status.update_revision.as_deref());
    let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    staying.map(|pod| member_of_pod(pod, newest, now)).collect()
}

/// Returns the names of pods that should exist, and whether they do. A pod being deleted counts as
/// existing, since its successor is created only afterwards.
pub(in super::super) fn desired_pods(live: &StatefulSet, pods: &[Pod]) -> Vec<(String, bool)> {
    let replicas = live.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let names = (0..replicas).map(|ordinal| format!("{}-{ordinal}", live.name_any()));
    let exists = |name: &String| pods.iter().any(|pod| pod.name_any() == *name);
    names.map(|name| (exists(&name), name)).map(|(exists, name)| (name, exists)).collect()
}

/// Returns the lowest ordinal that may have the newest template.
pub(super) fn partition_of(live: &StatefulSet) -> i32 {
    let strategy = live.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    rolling.and_then(|rolling| rolling.partition).unwrap_or(0)
}

/// Returns absent pods of the newest template that existed since the change began: others prove
/// nothing. Their time starts with the stage at the earliest.
pub(super) fn missing_members(
    live: &StatefulSet,
    absent: &AbsentPods,
    began: i64,
    now: Timestamp,
) -> Vec<Member> {
    let partition = partition_of(live);
    let is_new = |name: &str| {
        let ordinal = name.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse::<i32>().ok());
        ordinal.is_some_and(|ordinal| ordinal >= partition)
    };
    let lost = absent.by_name().iter().filter(|(name, pod)| is_new(name) && pod.is_lost);
    lost.map(|(name, pod)| member::missing_member(name, pod.since.max(began), now)).collect()
}

/// Returns why pods aren't created, if one has long been absent, whatever the reason.
pub(in super::super) fn creation_refused(absent: &AbsentPods, now: Timestamp) -> Option<String> {
    let mut members = absent
        .by_name()
        .iter()
        .map(|(name, pod)| member::missing_member(name, pod.since, now).find_fault());
    members.find_map(|fault| Some(fault?.text))
}

/// Returns a pod long past its deletion time: its successor is not created before it ends.
pub(super) fn overdue_deletion(pods: &[Pod], now: Timestamp) -> Option<UnitFault> {
    let mut ending = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some());
    let figures = ending.find_map(|pod| Some(pod_figures(pod, now)).filter(|it| it.node_lost))?;
    let PodFigures { name, message, .. } = figures;
    let text = format!("pod {name}: {message}; {NODE_LOST_REMEDY}");
    Some(UnitFault::new(FaultKind::PodsNotReady, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::member::REVISION_LABEL;
    use serde_json::json;

    /// Scenario: a pod of the newest revision ended with exit code 64 and its last log lines.
    /// Guarantee: it is distinguished from pods of the old revision, and the fault has the
    /// collector's text.
    #[test]
    fn a_refused_configuration_is_told_in_the_collectors_words() {
        let live: StatefulSet = serde_json::from_value(json!({
            "metadata": {}, "status": {"replicas": 2, "updateRevision": "new"}}))
        .unwrap();
        let pod = |revision: &str, message: Option<&str>| -> Pod {
            let ended = message.map(|message| {
                json!({"terminated": {"exitCode": 64,
                "reason": "Error", "message": message}})
            });
            serde_json::from_value(json!({
                "metadata": {"name": "p", "labels": {REVISION_LABEL: revision},
                    "creationTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"containerStatuses": [{"name": "collector", "ready": false,
                    "image": "x", "imageID": "", "restartCount": 1, "lastState": ended}]}}))
            .unwrap()
        };
        let now: Timestamp = "2026-01-01T00:00:50Z".parse().unwrap();
        let pods = [pod("old", None), pod("new", Some("f: no field x\nf: no field y\n\n"))];
        let members = active_members(&live, &pods, now);
        assert_eq!(members.iter().map(|it| it.updated).collect::<Vec<_>>(), [false, true]);
        assert_eq!(members[0].not_ready_seconds, 50);
        let fault = members[1].find_fault().unwrap();
        assert_eq!(fault.kind, FaultKind::ConfigurationRejected);
        assert!(fault.text.ends_with("f: no field x; f: no field y"), "{}", fault.text);
    }
}
