//! Changes of a pipeline by commits: refused, bad, taken back, paused.

use serde_json::json;

use crate::gitops::pipeline::{NAME, Synced};
use crate::gitops::world::World;
use crate::gitops::world::load::Flow;

/// Scenario: a commit with a spec that the definition refuses. Guarantee: Argo CD says the API
/// server's words and syncs nothing, the pipeline stays as it is and healthy, and a revert is synced.
#[test]
fn a_refused_spec_fails_the_sync_and_changes_nothing() {
    let world = World::open().unwrap();
    let (mut synced, revision) = Synced::commit(&world, "refused").unwrap();
    synced.application.settled(&revision).unwrap();
    let generation = synced.object().unwrap()["metadata"]["generation"].clone();

    synced
        .change("a bad word", |spec| spec["collector"] = json!({"allocator": "tcmalloc"}))
        .unwrap();
    let state = synced.application.until("the refusal", |it| it.trouble.contains("tcmalloc"));
    let state = state.unwrap();
    assert_eq!((&*state.sync, &*state.health), ("Unknown", "Healthy"), "{state:?}");
    assert!(state.trouble.contains("supported values"), "{state:?}");
    assert_eq!(synced.object().unwrap()["metadata"]["generation"], generation);

    let revision = synced.revert().unwrap();
    synced.application.settled(&revision).unwrap();
    synced.delete().unwrap();
}

/// Scenario: under load, a commit with a version that has no image. Guarantee: the application is
/// Progressing, then Degraded with the reason, and its sync is not a success; a revert makes it
/// healthy; each span that was acknowledged is stored once.
#[test]
fn a_change_whose_pods_fail_is_degraded_until_it_is_taken_back() {
    let world = World::open().unwrap();
    let (mut synced, revision) = Synced::commit(&world, "bad").unwrap();
    synced.application.settled(&revision).unwrap();
    let flow = Flow::start(&world, &synced.namespace.name, 71).unwrap();

    synced.change("no such image", |spec| spec["collector"] = json!({"version": "9.9.9"})).unwrap();
    synced.application.until("Progressing", |it| it.health == "Progressing").unwrap();
    let state = synced.application.until("Degraded", |it| it.health == "Degraded").unwrap();
    assert_ne!(state.phase, "Succeeded", "{state:?}");
    let (_, message) = synced.application.health_of("TelemetryPipeline", NAME).unwrap();
    assert!(message.contains("9.9.9"), "{message}");

    let revision = synced.revert().unwrap();
    synced.application.settled(&revision).unwrap();
    synced.application.without_difference().unwrap();
    flow.all_stored().unwrap();
    synced.delete().unwrap();
}

/// Scenario: under load, automated sync is switched off, and Argo CD rolls back to the first of two
/// commits. Guarantee: the pipeline has the first spec again and is healthy, and the application says
/// that the repository has another; each span that was acknowledged is stored once.
#[test]
fn a_rollback_returns_to_an_earlier_commit() {
    let world = World::open().unwrap();
    let (mut synced, revision) = Synced::commit(&world, "rollback").unwrap();
    synced.application.settled(&revision).unwrap();
    let flow = Flow::start(&world, &synced.namespace.name, 72).unwrap();
    let change = |spec: &mut serde_json::Value| {
        spec["gateway"]["scaling"]["maxReplicas"] = 3.into();
    };
    let revision = synced.change("more gateways", change).unwrap();
    synced.application.settled(&revision).unwrap();

    synced.application.patch(r#"{"spec":{"syncPolicy":{"automated":null}}}"#).unwrap();
    let history = synced.application.object().unwrap()["status"]["history"].clone();
    let first = history[0]["id"].to_string();
    synced.application.cli(&["app", "rollback", &synced.application.name, &first]).unwrap();
    let state = synced.application.until("rolled back", |it| {
        (&*it.sync, &*it.health, &*it.phase) == ("OutOfSync", "Healthy", "Succeeded")
    });
    state.unwrap();
    assert_eq!(synced.object().unwrap()["spec"]["gateway"]["scaling"]["maxReplicas"], 2);
    flow.all_stored().unwrap();
    synced.delete().unwrap();
}

/// Scenario: a commit pauses the pipeline by its annotation; the sync that waits for it is ended, and
/// a commit takes it back. Guarantee: it is Suspended, then healthy.
#[test]
fn a_paused_pipeline_is_suspended() {
    let world = World::open().unwrap();
    let (synced, revision) = Synced::commit(&world, "paused").unwrap();
    synced.application.settled(&revision).unwrap();
    let path = format!("{}/pipeline.json", synced.namespace.name);
    let text = std::fs::read_to_string(world.repository.path(&path)).unwrap();
    let mut pipeline: serde_json::Value = serde_json::from_str(&text).unwrap();
    pipeline["spec"]["paused"] = true.into();
    world.repository.write(&path, &pipeline.to_string()).unwrap();
    world.repository.commit("pause").unwrap();
    synced.application.refresh("normal").unwrap();
    synced.application.until("Suspended", |it| it.health == "Suspended").unwrap();

    // The sync waits for the pipeline, since a later wave is to come, and no commit ends that.
    synced.application.cli(&["app", "terminate-op", &synced.application.name]).unwrap();
    let revision = synced.revert().unwrap();
    synced.application.settled(&revision).unwrap();
    synced.delete().unwrap();
}
