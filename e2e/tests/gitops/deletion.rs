//! What stays when applications are deleted.

use std::time::Duration;

use anyhow::ensure;
use millrace_e2e::cluster::OPERATOR_NAMESPACE;
use millrace_e2e::wait;

use crate::gitops::application::Application;
use crate::gitops::pipeline::{NAME, Synced};
use crate::gitops::world::{CHARTS, ROOT, World};

/// For pods to drain and end.
const LIMIT: Duration = Duration::from_secs(180);

fn count(world: &World, namespace: &str, kind: &str) -> usize {
    world.cluster.list(namespace, kind, "").unwrap().len()
}

/// Scenario: the application of a pipeline is deleted. Guarantee: the pipeline, its pools and pods
/// are gone; its table stays.
#[test]
fn a_deleted_application_takes_its_pipeline_and_leaves_the_data() {
    let world = World::open().unwrap();
    let (synced, revision) = Synced::commit(&world, "deleted").unwrap();
    synced.application.settled(&revision).unwrap();
    let namespace = &synced.namespace.name;
    assert!(world.has_table(namespace).unwrap());
    synced.delete().unwrap();
    for kind in ["telemetrypipelines", "gatewaypools", "edgepools", "statefulsets", "pods"] {
        wait::until(&format!("no {kind}"), LIMIT, || {
            let left = count(&world, namespace, kind);
            ensure!(left == 0, "{left} of them");
            Ok(())
        })
        .unwrap();
    }
    assert!(world.has_table(namespace).unwrap(), "the table went with the pipeline");
}

/// Scenario: with a pipeline there, the applications of the charts are deleted with all that they
/// synced, the operator's first, then the definitions'; then all is synced again. Guarantee: the
/// operator goes; definitions, the pipeline and its pods stay, the same as before; it is healthy
/// under the new operator.
#[test]
fn deleted_charts_leave_definitions_and_pipelines() {
    let world = World::open().unwrap();
    let (synced, revision) = Synced::commit(&world, "charts").unwrap();
    synced.application.settled(&revision).unwrap();
    let namespace = &synced.namespace.name;
    let pods = || {
        let all = world.cluster.list(namespace, "pods", "").unwrap();
        all.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect::<Vec<_>>()
    };
    let uid = synced.object().unwrap()["metadata"]["uid"].clone();
    let before = pods();
    assert!(before.len() >= 2, "{before:?}");

    // The parent would make them again.
    Application::of(&world, ROOT).delete().unwrap();
    let finalizers = r#"{"metadata":{"finalizers":["resources-finalizer.argocd.argoproj.io"]}}"#;
    for name in CHARTS.into_iter().rev() {
        let chart = Application::of(&world, name);
        chart.patch(finalizers).unwrap();
        chart.delete().unwrap();
    }
    let operators = count(&world, OPERATOR_NAMESPACE, "deployments");
    assert_eq!(operators, 0);
    let definitions = world.cluster.kubectl(&["get", "crds", "-o", "name"]).unwrap();
    assert_eq!(definitions.matches(".millrace.dev").count(), 5, "{definitions}");
    assert_eq!(synced.object().unwrap()["metadata"]["uid"], uid);
    assert_eq!(pods(), before);

    World::open().unwrap();
    let object = (&**namespace, "telemetrypipeline", NAME);
    world.cluster.wait_for(object, ("Ready", "True", ""), LIMIT).unwrap();
    assert_eq!(pods(), before, "pods were replaced");
    synced.application.without_difference().unwrap();
    synced.delete().unwrap();
}
