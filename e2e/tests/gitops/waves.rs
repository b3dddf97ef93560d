//! A pipeline and what needs it: waves, differences, and what Argo CD repairs.

use std::time::Duration;

use anyhow::{Result, ensure};
use millrace_e2e::cluster::condition_of;
use millrace_e2e::wait;
use serde_json::json;

use crate::gitops::pipeline::{LATER, NAME, Synced};
use crate::gitops::world::World;

/// From a number in a pool's `/scale` to pods, and from an edit to its repair.
const LIMIT: Duration = Duration::from_secs(180);

/// A pool of its own in the repository, without a number of pods.
const ALONE: &str = "alone";

/// Scenario: a commit with a pipeline, and with a ConfigMap in a later wave. Guarantee: the
/// ConfigMap is made once the pipeline is Ready, and not before; then nothing differs.
#[test]
fn a_later_wave_waits_until_the_pipeline_is_ready() {
    let world = World::open().unwrap();
    let (synced, revision) = Synced::commit(&world, "waves").unwrap();
    synced.application.settled(&revision).unwrap();
    let namespace = &synced.namespace.name;
    let pipeline = synced.object().unwrap();
    let ready = condition_of(&pipeline, "Ready");
    assert_eq!(ready["status"], "True", "{ready}");
    let later = world.cluster.get(namespace, "configmap", LATER).unwrap();
    let ready = ready["lastTransitionTime"].as_str().unwrap();
    let made = later["metadata"]["creationTimestamp"].as_str().unwrap();
    assert!(ready <= made, "ready at {ready}, the later wave's made at {made}");
    let (health, message) = synced.application.health_of("TelemetryPipeline", NAME).unwrap();
    assert_eq!(health, "Healthy", "{message}");
    synced.application.without_difference().unwrap();
    synced.delete().unwrap();
}

/// Scenario: a pipeline's gateways, and a pool in the repository that has no number of pods, are
/// scaled as an autoscaler does it. Guarantee: there are as many pods as asked for, Argo CD finds no
/// difference, without `ignoreDifferences`, and takes nothing back.
#[test]
fn other_numbers_of_pods_are_no_difference() {
    let world = World::open().unwrap();
    let (synced, _) = Synced::commit(&world, "scaled").unwrap();
    let namespace = &synced.namespace.name;
    let spec = &synced.spec;
    let pool = json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool", "metadata": {"name": ALONE},
        "spec": {"kafka": spec["kafka"], "signals": {"traces":
            {"topicName": spec["signals"]["traces"]["topicName"]}},
            "resources": {"requests": {"cpu": "50m"}}},
    });
    world.repository.write(&format!("{namespace}/pool.json"), &pool.to_string()).unwrap();
    let revision = world.repository.commit("a pool").unwrap();
    synced.application.refresh("normal").unwrap();
    synced.application.settled(&revision).unwrap();
    synced.application.without_difference().unwrap();

    for (kind, name, pods) in [("gatewaypool", NAME, "2"), ("edgepool", ALONE, "1")] {
        let scale = ["-n", namespace, "scale", kind, name, "--replicas", pods];
        world.cluster.kubectl(&scale).unwrap();
    }
    let has = |kind: &str, name: &str, pods: u64| -> Result<()> {
        let object = world.cluster.get(namespace, kind, name)?;
        ensure!(object["status"]["readyReplicas"] == pods, "{}", object["status"]);
        Ok(())
    };
    wait::until("the numbers asked for", LIMIT, || {
        has("statefulset", &format!("{NAME}-gateway"), 2)?;
        has("deployment", &format!("{ALONE}-edge"), 1)
    })
    .unwrap();
    synced.application.settled(&revision).unwrap();
    synced.application.without_difference().unwrap();
    has("statefulset", &format!("{NAME}-gateway"), 2).unwrap();
    has("deployment", &format!("{ALONE}-edge"), 1).unwrap();
    synced.delete().unwrap();
}

/// Scenario: the pipeline's spec is edited by hand. Guarantee: Argo CD writes back what the
/// repository has, and nothing differs after.
#[test]
fn an_edit_by_hand_is_taken_back() {
    let world = World::open().unwrap();
    let (synced, revision) = Synced::commit(&world, "edited").unwrap();
    synced.application.settled(&revision).unwrap();
    let patch = r#"{"spec":{"gateway":{"scaling":{"maxReplicas":3}}}}"#;
    let namespace = &synced.namespace.name;
    let edit =
        ["-n", namespace, "patch", "telemetrypipeline", NAME, "--type", "merge", "-p", patch];
    world.cluster.kubectl(&edit).unwrap();
    wait::until("the edit to be taken back", LIMIT, || {
        let live = synced.object()?;
        let most = &live["spec"]["gateway"]["scaling"]["maxReplicas"];
        ensure!(*most == 2, "maxReplicas is {most}");
        Ok(())
    })
    .unwrap();
    synced.application.settled(&revision).unwrap();
    synced.application.without_difference().unwrap();
    synced.delete().unwrap();
}
