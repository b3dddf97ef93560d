//! The charts, as Argo CD syncs them.

use anyhow::Context;
use millrace_e2e::cluster::OPERATOR_NAMESPACE;

use crate::gitops::application::Application;
use crate::gitops::world::{CHARTS, ROOT, World};

/// Scenario: one application syncs those of the two charts, in two waves. Guarantee: the operator's
/// is made once the definitions' is healthy; the operator runs; neither has a difference, also when
/// it is rendered anew.
#[test]
fn the_charts_are_synced_in_order_and_leave_no_difference() {
    let world = World::open().unwrap();
    let [definitions, operator] = CHARTS.map(|name| Application::of(&world, name));
    let made = operator.object().unwrap()["metadata"]["creationTimestamp"].clone();
    let definitions_status = definitions.object().unwrap()["status"].clone();
    let healthy = definitions_status["health"]["lastTransitionTime"].clone();
    let text = |time: &serde_json::Value| time.as_str().map(str::to_owned);
    let (made, healthy) = (text(&made).unwrap(), text(&healthy).context("not healthy").unwrap());
    // Times of one form, in seconds: they compare as text.
    assert!(healthy <= made, "definitions healthy at {healthy}, the operator's made at {made}");

    for name in [ROOT, CHARTS[0], CHARTS[1]] {
        Application::of(&world, name).without_difference().unwrap();
    }
    let deployment = world.cluster.get(OPERATOR_NAMESPACE, "deployment", "millrace-operator");
    assert_eq!(deployment.unwrap()["status"]["readyReplicas"], 1);
}
