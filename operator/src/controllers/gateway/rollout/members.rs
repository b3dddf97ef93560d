//! A pool's pods as a rollout sees them. Pure.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use millrace_rollout::{Fault, FaultKind, Member, NODE_LOST_REMEDY, PodFigures};

use crate::pool::member::member;
use crate::pool::workload::pod_figures;

/// The pods, without those on their way out.
pub(super) fn members(live: &StatefulSet, pods: &[Pod], now: Timestamp) -> Vec<Member> {
    let newest = live.status.as_ref().and_then(|status| status.update_revision.as_deref());
    let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    staying.map(|pod| member(pod, newest, now)).collect()
}

/// A pod long past its deletion time: its successor is not made before it ends.
pub(super) fn stays(pods: &[Pod], now: Timestamp) -> Option<Fault> {
    let mut ending = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some());
    let figures = ending.find_map(|pod| Some(pod_figures(pod, now)).filter(|it| it.node_lost))?;
    let PodFigures { name, message, .. } = figures;
    let text = format!("pod {name}: {message}; {NODE_LOST_REMEDY}");
    Some(Fault::new(FaultKind::PodsNotReady, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::member::REVISION_LABEL;
    use serde_json::json;

    /// Scenario: a pod of the newest revision that ended with exit code 64 and its last log lines.
    /// Guarantee: told apart from pods of the old one, and the fault holds the collector's words.
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
        let members = members(&live, &pods, now);
        assert_eq!(members.iter().map(|it| it.updated).collect::<Vec<_>>(), [false, true]);
        assert_eq!(members[0].not_ready_seconds, 50);
        let fault = members[1].fault().unwrap();
        assert_eq!(fault.kind, FaultKind::SettingsRefused);
        assert!(fault.text.ends_with("f: no field x; f: no field y"), "{}", fault.text);
    }
}
