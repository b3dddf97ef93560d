//! Flux syncs pipelines by manifests/flux: what it says of them in each state, and what is left
//! when they are deleted. The operator is the one that Argo CD installed.

use std::time::Duration;

use anyhow::ensure;
use millrace_e2e::cluster::condition_of;
use millrace_e2e::wait;
use serde_json::Value;

use crate::gitops::kustomization::Kustomized;
use crate::gitops::pipeline::NAME;
use crate::gitops::world::World;
use crate::gitops::world::load::Flow;

/// The sample's own time for health.
const PATIENT: &str = "5m";
/// For pods to come and to end.
const LIMIT: Duration = Duration::from_secs(180);

/// Scenario: a commit with a pipeline; once all is well its gateways are scaled as an autoscaler
/// does it, and Flux reconciles again; then the Kustomization is deleted. Guarantee: it says that
/// it waits, and is Ready once the pipeline is, not before; it takes no pod away and writes no
/// spec; the pipeline and its pods go, the table stays.
#[test]
fn flux_is_ready_when_the_pipeline_is() {
    let world = World::open().unwrap();
    let (kustomized, revision) = Kustomized::commit(&world, "flux", PATIENT).unwrap();
    kustomized.waits(&revision).unwrap();
    kustomized.settled(&revision).unwrap();
    let (pipeline, live) = (kustomized.object().unwrap(), kustomized.live().unwrap());
    let since = |object| condition_of(object, "Ready")["lastTransitionTime"].to_string();
    assert_eq!(condition_of(&pipeline, "Ready")["status"], "True");
    // Times of one form, in seconds: they compare as text.
    assert!(since(&pipeline) <= since(&live), "{} {}", since(&pipeline), since(&live));

    let namespace = &*kustomized.namespace.name;
    world
        .cluster
        .kubectl(&["-n", namespace, "scale", "gatewaypool", NAME, "--replicas=2"])
        .unwrap();
    let two = || {
        let gateways = world.cluster.get(namespace, "statefulset", &format!("{NAME}-gateway"))?;
        ensure!(gateways["status"]["readyReplicas"] == 2, "{}", gateways["status"]);
        Ok(())
    };
    wait::until("two gateways", LIMIT, two).unwrap();
    kustomized.reconcile("once").unwrap();
    kustomized.settled(&revision).unwrap();
    two().unwrap();
    let generation = |object: &Value| object["metadata"]["generation"].clone();
    assert_eq!(generation(&kustomized.object().unwrap()), generation(&pipeline));

    assert!(world.has_table(namespace).unwrap());
    kustomized.delete().unwrap();
    for kind in ["telemetrypipelines", "gatewaypools", "edgepools", "pods"] {
        wait::until(&format!("no {kind}"), LIMIT, || {
            let left = world.cluster.list(namespace, kind, "")?.len();
            ensure!(left == 0, "{left} of them");
            Ok(())
        })
        .unwrap();
    }
    assert!(world.has_table(namespace).unwrap(), "the table went with the pipeline");
}

/// Scenario: under load, a commit with a version that has no image, then one that takes it back.
/// Guarantee: Flux waits, then fails with the pipeline's name before its time for health is over, with
/// the old pods at work; then it is Ready again; each span that was acknowledged is stored once.
#[test]
fn flux_fails_on_a_change_whose_pods_fail() {
    let world = World::open().unwrap();
    let (mut kustomized, revision) = Kustomized::commit(&world, "flux-bad", PATIENT).unwrap();
    kustomized.settled(&revision).unwrap();
    let flow = Flow::start(&world, &kustomized.namespace.name, 73).unwrap();
    let good = kustomized.pipeline.clone();

    let version = |it: &mut Value| it["spec"]["collector"]["version"] = "9.9.9".into();
    let revision = kustomized.change("no such image", version).unwrap();
    kustomized.waits(&revision).unwrap();
    let state = kustomized.until("failed", &revision, |it| it.ready == "False").unwrap();
    assert_eq!(state.reason, "HealthCheckFailed", "{state:?}");
    let what = format!("TelemetryPipeline/{}/{NAME} status: 'Failed'", kustomized.namespace.name);
    assert!(state.message.contains(&what), "{state:?}");
    let pipeline = kustomized.object().unwrap();
    assert_eq!(condition_of(&pipeline, "Stalled")["status"], "True", "{pipeline}");
    assert!(pipeline["status"]["gateway"]["ready"].as_u64() >= Some(1), "{pipeline}");

    let revision = kustomized.change("taken back", |it| *it = good).unwrap();
    kustomized.settled(&revision).unwrap();
    flow.all_stored().unwrap();
    kustomized.delete().unwrap();
}

/// Scenario: a commit with a spec that the definition refuses, then one that takes it back.
/// Guarantee: Flux fails with the API server's words and the pipeline stays as it is; then it is
/// Ready again.
#[test]
fn flux_fails_on_a_refused_spec_and_changes_nothing() {
    let world = World::open().unwrap();
    let (mut kustomized, revision) = Kustomized::commit(&world, "flux-no", PATIENT).unwrap();
    kustomized.settled(&revision).unwrap();
    let good = kustomized.pipeline.clone();
    let generation = kustomized.object().unwrap()["metadata"]["generation"].clone();

    let word = |it: &mut Value| it["spec"]["collector"]["allocator"] = "tcmalloc".into();
    let revision = kustomized.change("a bad word", word).unwrap();
    let state = kustomized.until("failed", &revision, |it| it.ready == "False").unwrap();
    assert_eq!(state.reason, "ReconciliationFailed", "{state:?}");
    assert!(state.message.to_lowercase().contains("supported values"), "{state:?}");
    assert_eq!(kustomized.object().unwrap()["metadata"]["generation"], generation);

    let revision = kustomized.change("taken back", |it| *it = good).unwrap();
    kustomized.settled(&revision).unwrap();
    kustomized.delete().unwrap();
}

/// Scenario: with a short time for health, a commit pauses the pipeline by its annotation, the next
/// changes its spec, the last takes both back. Guarantee: paused as it is, it is Ready; with a
/// change that isn't made Flux waits, then fails for want of time; then it is Ready again.
#[test]
fn flux_waits_for_a_change_of_a_paused_pipeline_until_its_time_is_over() {
    let world = World::open().unwrap();
    let (mut kustomized, revision) = Kustomized::commit(&world, "flux-paused", "1m").unwrap();
    kustomized.settled(&revision).unwrap();
    let good = kustomized.pipeline.clone();

    let pause = |it: &mut Value| {
        it["spec"]["paused"] = true.into();
    };
    let revision = kustomized.change("pause", pause).unwrap();
    kustomized.settled(&revision).unwrap();

    let more = |it: &mut Value| it["spec"]["gateway"]["scaling"]["maxReplicas"] = 3.into();
    let revision = kustomized.change("more gateways", more).unwrap();
    kustomized.waits(&revision).unwrap();
    let state = kustomized.until("failed", &revision, |it| it.ready == "False").unwrap();
    assert_eq!(state.reason, "HealthCheckFailed", "{state:?}");
    let namespace = &kustomized.namespace.name;
    let what = format!("TelemetryPipeline/{namespace}/{NAME} status: 'InProgress'");
    assert!(state.message.contains("timeout") && state.message.contains(&what), "{state:?}");

    let revision = kustomized.change("taken back", |it| *it = good).unwrap();
    kustomized.settled(&revision).unwrap();
    kustomized.delete().unwrap();
}
