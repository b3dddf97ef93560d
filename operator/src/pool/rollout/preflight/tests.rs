//! Tests the private parts of `pool/rollout/preflight.rs`.

use super::*;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:03:00Z";

fn said(status: Value, made: &str) -> Precondition {
    let pod = json!({
        "metadata": {"name": "p-try-1", "creationTimestamp": made}, "status": status});
    let pods = [serde_json::from_value(pod).unwrap()];
    trial_outcome(&pods, "p-try-1", None, NOW.parse().unwrap())
}

fn ended(code: i32, words: &str) -> Value {
    json!([{"name": "collector", "ready": false, "image": "x", "imageID": "",
        "restartCount": 0, "state": {"terminated": {"exitCode": code, "message": words}}}])
}

fn kind(first: Precondition) -> Option<FaultKind> {
    match first {
        Precondition::Failed(fault) => Some(fault.kind),
        Precondition::Waits | Precondition::Done => None,
    }
}

/// Scenario: trial pods succeed, are refused by the collector, crash, are evicted, can't pull their
/// image for a short and a long time, find no node, or run too long; one is missing, and one could
/// not be created. Guarantee: only results about the change count against it; those that prove
/// nothing end the wait.
#[test]
fn only_what_is_about_the_change_speaks_against_it() {
    let recent = "2026-01-01T00:02:50Z";
    let long_ago = "2026-01-01T00:00:00Z";
    assert_eq!(said(json!({"phase": "Succeeded"}), recent), Precondition::Done);
    let refused = json!({"phase": "Failed", "containerStatuses": ended(64, "f: no field x")});
    let Precondition::Failed(fault) = said(refused, recent) else { panic!("not refused") };
    assert_eq!(fault.kind, FaultKind::ConfigurationRejected);
    assert!(fault.text.contains("no field x"), "{}", fault.text);
    let crashed = json!({"phase": "Failed", "containerStatuses": ended(139, "")});
    assert_eq!(kind(said(crashed, recent)), Some(FaultKind::PodCrashing));
    let evicted = json!({"phase": "Failed", "reason": "Evicted"});
    assert_eq!(said(evicted, recent), Precondition::Done);
    let pulling = json!({"phase": "Pending", "containerStatuses": [{"name": "collector",
        "ready": false, "image": "x", "imageID": "", "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff"}}}]});
    assert_eq!(said(pulling.clone(), recent), Precondition::Waits);
    assert_eq!(kind(said(pulling, long_ago)), Some(FaultKind::ImagePullFailed));
    let pending = json!({"phase": "Pending"});
    assert_eq!(said(pending.clone(), recent), Precondition::Waits);
    assert_eq!(said(pending, long_ago), Precondition::Done);
    let no_node = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled",
        "status": "False", "reason": "Unschedulable", "message": "no node"}]});
    assert_eq!(said(no_node, long_ago), Precondition::Done);
    let now: Timestamp = NOW.parse().unwrap();
    assert_eq!(trial_outcome(&[], "p-try-1", None, now), Precondition::Waits);
    let untried = |name: &str, cause: &str| {
        let untried = Untried { name: name.to_owned(), cause: cause.to_owned() };
        trial_outcome(&[], "p-try-1", Some(&untried), now)
    };
    assert_eq!(untried("p-try-1", "exceeded quota: pods"), Precondition::Done);
    assert_eq!(untried("p-try-0", "violates PodSecurity"), Precondition::Waits);
    let violation = "violates PodSecurity \"baseline:latest\": privileged";
    assert_eq!(kind(untried("p-try-1", violation)), Some(FaultKind::PodCreationFailed));
}

/// Scenario: another container continues after `validate` has ended, successfully or not, or only
/// that container failed. Guarantee: the exit of `validate` decides at once.
#[test]
fn a_try_ends_though_what_runs_beside_it_does_not() {
    let beside = |ended: Value, other: Value| {
        let status = |name: &str, state: &Value| {
            json!({"name": name, "ready": false, "image": "x", "imageID": "",
                "restartCount": 0, "state": state})
        };
        json!([status("istio-proxy", &other), status("collector", &ended)])
    };
    let recent = "2026-01-01T00:02:50Z";
    let (goes_on, well) = (json!({"running": {}}), json!({"terminated": {"exitCode": 0}}));
    let said_by = |phase: &str, statuses: Value| {
        said(json!({"phase": phase, "containerStatuses": statuses}), recent)
    };
    assert_eq!(said_by("Running", beside(well.clone(), goes_on.clone())), Precondition::Done);
    let refused = json!({"terminated": {"exitCode": 64, "message": "f: no field x"}});
    let refused = said_by("Running", beside(refused, goes_on.clone()));
    assert_eq!(kind(refused), Some(FaultKind::ConfigurationRejected));
    let failed = json!({"terminated": {"exitCode": 64, "message": "proxy"}});
    assert_eq!(said_by("Failed", beside(well, failed)), Precondition::Done);
    assert_eq!(said_by("Running", beside(goes_on.clone(), goes_on)), Precondition::Waits);
}
