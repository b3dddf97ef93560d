//! Tests of what `pool/preflight.rs` keeps to itself.

use super::*;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:03:00Z";

fn said(status: Value, made: &str) -> First {
    let pod = json!({
        "metadata": {"name": "p-try-1", "creationTimestamp": made}, "status": status});
    let pods = [serde_json::from_value(pod).unwrap()];
    outcome(&pods, "p-try-1", None, NOW.parse().unwrap())
}

fn ended(code: i32, words: &str) -> Value {
    json!([{"name": "collector", "ready": false, "image": "x", "imageID": "",
        "restartCount": 0, "state": {"terminated": {"exitCode": code, "message": words}}}])
}

fn kind(first: First) -> Option<FaultKind> {
    match first {
        First::Failed(fault) => Some(fault.kind),
        First::Waits | First::Done => None,
    }
}

/// Scenario: tries that end well, with the collector's refusal, with a crash; that were
/// evicted; whose image can't be pulled for a short and a long time; that find no node or are
/// not done after long; one that is not there, and one that could not be made. Guarantee: only
/// what says something about the change speaks against it; what says nothing ends the waiting.
#[test]
fn only_what_is_about_the_change_speaks_against_it() {
    let recent = "2026-01-01T00:02:50Z";
    let long_ago = "2026-01-01T00:00:00Z";
    assert_eq!(said(json!({"phase": "Succeeded"}), recent), First::Done);
    let refused = json!({"phase": "Failed", "containerStatuses": ended(64, "f: no field x")});
    let First::Failed(fault) = said(refused, recent) else { panic!("not refused") };
    assert_eq!(fault.kind, FaultKind::SettingsRefused);
    assert!(fault.text.contains("no field x"), "{}", fault.text);
    let crashed = json!({"phase": "Failed", "containerStatuses": ended(139, "")});
    assert_eq!(kind(said(crashed, recent)), Some(FaultKind::PodCrashing));
    let evicted = json!({"phase": "Failed", "reason": "Evicted"});
    assert_eq!(said(evicted, recent), First::Done);
    let pulling = json!({"phase": "Pending", "containerStatuses": [{"name": "collector",
        "ready": false, "image": "x", "imageID": "", "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff"}}}]});
    assert_eq!(said(pulling.clone(), recent), First::Waits);
    assert_eq!(kind(said(pulling, long_ago)), Some(FaultKind::ImagePullFailed));
    let pending = json!({"phase": "Pending"});
    assert_eq!(said(pending.clone(), recent), First::Waits);
    assert_eq!(said(pending, long_ago), First::Done);
    let no_node = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled",
        "status": "False", "reason": "Unschedulable", "message": "no node"}]});
    assert_eq!(said(no_node, long_ago), First::Done);
    let now: Timestamp = NOW.parse().unwrap();
    assert_eq!(outcome(&[], "p-try-1", None, now), First::Waits);
    assert_eq!(outcome(&[], "p-try-1", Some("p-try-1"), now), First::Done);
    assert_eq!(outcome(&[], "p-try-1", Some("p-try-0"), now), First::Waits);
}

/// Scenario: a container that was added to the pod goes on after `validate` has ended, well or
/// not; or it is what failed. Guarantee: how `validate` ended is what counts, at once.
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
    assert_eq!(said_by("Running", beside(well.clone(), goes_on.clone())), First::Done);
    let refused = json!({"terminated": {"exitCode": 64, "message": "f: no field x"}});
    let refused = said_by("Running", beside(refused, goes_on.clone()));
    assert_eq!(kind(refused), Some(FaultKind::SettingsRefused));
    let failed = json!({"terminated": {"exitCode": 64, "message": "proxy"}});
    assert_eq!(said_by("Failed", beside(well, failed)), First::Done);
    assert_eq!(said_by("Running", beside(goes_on.clone(), goes_on)), First::Waits);
}
