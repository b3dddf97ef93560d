//! The workloads that come with the program, and those that are refused.

use super::*;
use crate::workload::{Plan, PlanError, Workload};

fn workload(yaml: &str) -> Workload {
    serde_norway::from_str(yaml).unwrap()
}

fn plan(yaml: &str) -> Result<Plan, PlanError> {
    Plan::new(workload(yaml))
}

/// Scenario: every workload that comes with the program. Guarantee: it can be run, and has the
/// name that it is listed by.
#[test]
fn each_ready_workload_can_be_run() {
    for name in NAMES {
        assert_eq!(plan(text(name).unwrap()).unwrap().terms.name, name);
    }
    assert_eq!(text("none"), None);
}

/// Scenario: workloads with one thing wrong each. Guarantee: that thing is named.
#[test]
fn what_cannot_be_run_is_refused_by_name() {
    let with = |rest: &str| {
        plan(&format!("name: x\nseconds: 1\nsetup: [{{name: a, tag: t}}]\nrequests:\n{rest}"))
    };
    let get = "  - get: {tag: t}\n";
    assert!(with(get).is_ok());
    let refused = [
        ("  - get: {tag: u}", PlanError::NoSet("u".to_owned())),
        ("  - get: {tag: t, weight: 0}", PlanError::NoRequests),
        ("  - check: {tag: t}", PlanError::LoneCheck),
        ("  - multi: {requests: []}", PlanError::EmptyMulti),
        ("  - multi: {requests: [{get: {tag: t}}, {set: {tag: t}}]}", PlanError::MixedMulti),
        ("  - multi: {requests: [{exists: {tag: t}}]}", PlanError::NotInMulti),
        ("  - multi: {requests: [{multi: {requests: []}}]}", PlanError::NotInMulti),
        ("  - multi: {requests: [{get: {tag: t, watch_probability: 1}}]}", PlanError::WatchInMulti),
        ("  - create: {tag: t, sequential: true, into: u}", PlanError::SequentialSet),
        ("  - create: {tag: t, remove_factor: 0.5}", PlanError::NothingToRemove),
        ("  - remove: {tag: t}", PlanError::Starves("t".to_owned())),
        (
            "  - get: {tag: t, watch_probability: 2}",
            PlanError::Range { field: "watch_probability", value: 2.0, least: 0.0, most: 1.0 },
        ),
    ];
    for (requests, error) in refused {
        assert_eq!(with(requests).err(), Some(error), "{requests}");
    }
    let head = |head: &str| plan(&format!("name: x\n{head}\nrequests: [{{get: {{tag: root}}}}]"));
    assert!(head("seconds: 1").is_ok(), "the root alone is a set");
    assert_eq!(head("seed: 1").err(), Some(PlanError::NoEnd));
    let root = |root: &str| head(&format!("seconds: 1\nroot: {root}")).err();
    for bad in ["/", "a", "/a/", "/a//b", "/a/.."] {
        assert_eq!(root(bad), Some(PlanError::Root(bad.to_owned())));
    }
    assert_eq!(root("/a/b"), None);
    let unknown = PlanError::UnknownError("none".to_owned());
    assert_eq!(head("seconds: 1\nignore: [none]").err(), Some(unknown));
    let misspelt = serde_norway::from_str::<Workload>("name: x\nsecond: 1\nrequests: []");
    assert!(misspelt.unwrap_err().to_string().contains("second"));
}
