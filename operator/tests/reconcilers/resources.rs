//! What the gateway pool's reconciler does about the memory and processor time of its pods.

use std::cell::Cell;

use millrace_observe::text::Format;
use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::pods::Sample;
use serde_json::{Value, json};

use crate::support::world::World;
use crate::support::{GATEWAY_POOL as POOL, GATEWAY_SET as SET, gateway_pool};

const BEHIND: Option<(u64, bool)> = Some((5_000_000, false));

/// A world with one settled pool of two pods that tell of themselves.
struct Pods {
    world: World,
    /// Processor time that each has used so far, in seconds.
    cpu_seconds: Cell<f64>,
}

fn pod_path(ordinal: u32) -> String {
    format!("/api/v1/namespaces/telemetry/pods/prod-gateway-{ordinal}")
}

impl Pods {
    async fn settled(scaling: Value, resources: Value) -> Self {
        let world = World::new();
        let mut bounds = json!({"minReplicas": 2, "maxReplicas": 24});
        bounds.as_object_mut().unwrap().extend(scaling.as_object().unwrap().clone());
        world.server.put(POOL, gateway_pool(json!({"scaling": bounds, "resources": resources})));
        for _ in 0..4 {
            world.reconcile::<GatewayPools>(POOL).await.unwrap();
            world.finish_rollouts();
        }
        let pods = Self { world, cpu_seconds: Cell::new(0.0) };
        pods.made_anew();
        pods.world.server.take_event_reasons();
        pods
    }

    /// One look ten seconds later, each pod having used so much.
    async fn look(&self, memory_mib: u64, cores: f64) {
        self.world.pass(10);
        self.cpu_seconds.set(self.cpu_seconds.get() + 10.0 * cores);
        for ordinal in 0..2 {
            let sample = Sample {
                cpu_seconds: self.cpu_seconds.get(),
                resident_bytes: Some(memory_mib << 20),
                ..Sample::default()
            };
            self.world.set_pod(&format!("prod-gateway-{ordinal}"), Some(sample));
        }
        self.world.reconcile::<GatewayPools>(POOL).await.unwrap();
        self.world.finish_rollouts();
    }

    fn given(&self, ordinal: u32) -> Value {
        let pod = self.world.server.get(&pod_path(ordinal)).unwrap();
        pod["spec"]["containers"][0]["resources"].clone()
    }

    fn template(&self) -> Value {
        let set = self.world.server.get(SET).unwrap();
        set["spec"]["template"]["spec"]["containers"][0]["resources"].clone()
    }

    fn sizing(&self) -> Value {
        self.world.server.get(POOL).unwrap()["status"]["sizing"].clone()
    }

    fn replicas(&self) -> Value {
        self.world.server.get(SET).unwrap()["spec"]["replicas"].clone()
    }
}

fn limit_cores(given: &Value) -> f64 {
    let text = given["limits"]["cpu"].as_str().unwrap();
    let millicores = text.strip_suffix('m').map(|it| it.parse::<f64>().unwrap() / 1e3);
    millicores.unwrap_or_else(|| text.parse().unwrap())
}

/// Scenario: pods use all of their processor time, first with no message waiting, then with many.
/// Guarantee: only then does their limit grow, in place, step by step to the range's end and before
/// there are more pods; what is requested keeps its share and memory stays as it is; status, events
/// and count say so; the template stays; there are threads for what pods may grow to.
#[tokio::test]
async fn processor_time_grows_in_place_before_there_are_more_pods() {
    let pods = Pods::settled(
        json!({"cpuMax": "2"}),
        json!({"memory": {"min": "512Mi", "max": "512Mi"}, "cpu": {"min": "500m", "max": "1"}}),
    )
    .await;
    for _ in 0..6 {
        pods.look(200, 1.0).await;
    }
    assert_eq!(pods.sizing()["cpuLimit"], "1");
    assert_eq!(pods.sizing()["cpuRequest"], "500m");
    assert_eq!(pods.sizing()["memoryLimit"], Value::Null, "memory is not to move");
    pods.world.set_lag(BEHIND);
    pods.world.server.take_event_reasons();
    let mut limits = Vec::new();
    for _ in 0..4 {
        pods.look(200, limit_cores(&pods.given(0))).await;
        limits.push(limit_cores(&pods.given(0)));
    }
    limits.dedup();
    assert_eq!(limits, [1.0, 1.5, 2.0]);
    assert_eq!(pods.replicas(), 2);
    for ordinal in 0..2 {
        assert_eq!(pods.given(ordinal)["requests"], json!({"memory": "512Mi", "cpu": "1"}));
        assert_eq!(pods.given(ordinal)["limits"], json!({"memory": "512Mi", "cpu": "2"}));
    }
    let sizing = pods.sizing();
    assert!(sizing["signals"]["cpuMillicores"].as_i64().unwrap() >= 1_000, "{sizing}");
    assert_eq!((&sizing["cpuLimit"], &sizing["cpuRequest"]), (&json!("2"), &json!("1")));
    assert_eq!(sizing["resourcesReason"], "CpuAtLimit");
    let events = pods.world.server.take_event_reasons();
    assert_eq!(events.iter().filter(|reason| *reason == "CpuResized").count(), 2, "{events:?}");
    let metrics = pods.world.context.metrics.render(Format::Prometheus).unwrap();
    let count = r#"millrace_operator_resource_decisions_total{reason="CpuAtLimit"} 2"#;
    assert!(metrics.contains(count), "{metrics}");
    assert_eq!(pods.template()["limits"]["cpu"], "1");
    assert!(pods.world.settings_text().contains("workers: 2"));
}

/// Scenario: pods without a limit of processor time use three times what is requested, for a
/// quarter of an hour. Guarantee: what is requested follows, in place, and no limit is set.
#[tokio::test]
async fn what_is_requested_follows_use_where_no_limit_is_set() {
    let pods = Pods::settled(json!({"cpuMax": "4"}), json!({"cpu": {"min": "500m"}})).await;
    for _ in 0..90 {
        pods.look(200, 1.5).await;
    }
    assert_eq!(pods.given(1)["requests"], json!({"memory": "256Mi", "cpu": "1800m"}));
    assert_eq!(pods.given(1)["limits"], json!({"memory": "1Gi"}));
    assert_eq!(pods.sizing()["cpuRequest"], "1800m");
    assert_eq!(pods.sizing()["resourcesReason"], "CpuAboveRequest");
}

/// Answers every resize of a pod with this code.
fn refuse_resizes(world: &World, code: u16) {
    let refused = move |_: &http::Method, path: &str| path.ends_with("/resize").then_some(code);
    world.server.set_fault(Some(Box::new(refused)));
}

/// Pods whose memory may grow from 512 MiB to 2 GiB, half of it requested.
async fn growing() -> Pods {
    Pods::settled(json!({"memoryMax": "2Gi"}), json!({"memory": {"min": "256Mi", "max": "512Mi"}}))
        .await
}

fn memory(limit: &str, request: &str) -> (Value, Value) {
    (json!(limit), json!(request))
}

impl Pods {
    fn template_memory(&self) -> (Value, Value) {
        let it = self.template();
        (it["limits"]["memory"].clone(), it["requests"]["memory"].clone())
    }

    /// Pods as the StatefulSet's controller would make them of its template.
    fn made_anew(&self) {
        let given = self.template();
        self.world.run_pods(SET, given["limits"].clone());
        for ordinal in 0..2 {
            self.world.server.edit(&pod_path(ordinal), |pod| {
                pod["spec"]["containers"][0]["resources"] = given.clone();
            });
        }
    }
}

/// Scenario: pods of a cluster that knows no resize (a server before 1.33), or whose operator may
/// not do it, come near their memory limit; later again, within minutes and after a quarter of an
/// hour; the operator starts anew in between. Guarantee: the template gets half as much again at
/// least, once in a quarter of an hour; status and events say which way and why; nothing is lost or
/// written again by the restart.
#[tokio::test]
async fn memory_grows_by_replacing_pods_where_it_can_not_in_place() {
    for code in [403, 404, 405] {
        let mut pods = growing().await;
        refuse_resizes(&pods.world, code);
        pods.look(200, 0.1).await;
        assert_eq!(pods.template_memory(), memory("512Mi", "256Mi"));
        pods.world.server.take_event_reasons();
        pods.look(480, 0.1).await;
        assert_eq!(pods.template_memory(), memory("512Mi", "256Mi"), "in place is tried first");
        pods.look(480, 0.1).await;
        assert_eq!(pods.template_memory(), memory("768Mi", "384Mi"));
        let sizing = pods.sizing();
        assert_eq!(sizing["memoryLimit"], "768Mi");
        let resize = &sizing["resize"];
        assert_eq!((&resize["way"], &resize["reason"]), (&json!("Rolling"), &json!("Refused")));
        assert!(resize["message"].as_str().unwrap().contains("768Mi"), "{resize}");
        let events = pods.world.server.take_event_reasons();
        assert!(events.contains(&"ResizeRolling".to_owned()), "{events:?}");
        pods.made_anew();
        pods.look(400, 0.1).await;
        pods.world.server.take_writes();
        pods.world.restart("0.1.0");
        for _ in 0..12 {
            pods.look(400, 0.1).await;
        }
        let writes = pods.world.server.take_writes();
        assert!(!writes.iter().any(|it| it.path == SET), "{writes:?}");
        // Near the limit again, too soon.
        for _ in 0..60 {
            pods.look(740, 0.1).await;
        }
        assert_eq!(pods.template_memory(), memory("768Mi", "384Mi"));
        for _ in 0..30 {
            pods.look(740, 0.1).await;
        }
        assert_eq!(pods.template_memory(), memory("1152Mi", "576Mi"));
    }
}

/// Scenario: a node says that a pod's resize can't be done, and another that it is put off, for one
/// minute and for more than five. Guarantee: the first and the last go into the template; what is
/// put off for a minute is waited for and told.
#[tokio::test]
async fn a_resize_that_no_node_does_goes_into_the_template() {
    for (reason, minutes, rolls) in
        [("Infeasible", 0, true), ("Deferred", 1, false), ("Deferred", 6, true)]
    {
        let pods = growing().await;
        pods.look(200, 0.1).await;
        pods.look(480, 0.1).await;
        assert_eq!(pods.given(0)["limits"]["memory"], "640Mi");
        let since = pods.world.context.clock.now() - jiff::SignedDuration::from_mins(minutes);
        pods.world.server.edit(&pod_path(1), |pod| {
            pod["status"]["conditions"] = json!([{"type": "PodResizePending", "status": "True",
                "reason": reason, "message": "node has no room", "lastTransitionTime": since}]);
            // The kubelet has not set it.
            pod["status"]["containerStatuses"] = json!([{"name": "collector", "image": "x",
                "imageID": "", "ready": true, "restartCount": 0,
                "resources": {"limits": {"memory": "512Mi"}}}]);
        });
        pods.look(400, 0.1).await;
        let expected = if rolls { memory("768Mi", "384Mi") } else { memory("512Mi", "256Mi") };
        assert_eq!(pods.template_memory(), expected, "{reason} for {minutes} minutes");
        let resize = pods.sizing()["resize"].clone();
        let told = if rolls { ("Rolling", reason) } else { ("InPlace", "Pending") };
        assert_eq!((&resize["way"], &resize["reason"]), (&json!(told.0), &json!(told.1)));
        assert!(resize["message"].as_str().unwrap().contains("no room"), "{resize}");
    }
}

/// Scenario: pods that can't be resized come near their limit while the lag is unknown, and while
/// the user holds rollouts. Guarantee: no pod is replaced before that is over, and the status says
/// that it will be.
#[tokio::test]
async fn no_pod_is_replaced_for_memory_while_something_speaks_against_it() {
    let pods = growing().await;
    refuse_resizes(&pods.world, 404);
    pods.look(200, 0.1).await;
    pods.world.set_lag(None);
    for _ in 0..6 {
        pods.look(480, 0.1).await;
    }
    assert_eq!(pods.template_memory(), memory("512Mi", "256Mi"));
    assert_eq!(pods.sizing()["resize"]["way"], "Rolling");
    pods.world.set_lag(Some((0, true)));
    let hold = json!({"millrace.dev/rollout": "pause"});
    pods.world.server.edit(POOL, |pool| pool["metadata"]["annotations"] = hold);
    for _ in 0..6 {
        pods.look(480, 0.1).await;
    }
    assert_eq!(pods.template_memory(), memory("512Mi", "256Mi"));
    pods.world.server.edit(POOL, |pool| pool["metadata"]["annotations"] = json!({}));
    pods.look(480, 0.1).await;
    assert_eq!(pods.template_memory(), memory("768Mi", "384Mi"));
}

/// Scenario: the first pod that was to get more finds no node. Guarantee: the template goes back to
/// what pods had, a warning says so, and nothing is tried for an hour; then it is. A pod that finds
/// no node once all have it is another matter.
#[tokio::test]
async fn more_memory_that_finds_no_node_is_taken_back() {
    let pods = growing().await;
    refuse_resizes(&pods.world, 404);
    pods.look(200, 0.1).await;
    pods.look(480, 0.1).await;
    pods.look(480, 0.1).await;
    assert_eq!(pods.template_memory(), memory("768Mi", "384Mi"));
    pods.world.server.take_event_reasons();
    let finds_no_node = || {
        pods.world.server.edit(&pod_path(1), |pod| {
            pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "0/3 nodes"}]);
        });
    };
    finds_no_node();
    pods.world.server.edit(SET, |set| set["status"]["updateRevision"] = "next".into());
    pods.look(480, 0.1).await;
    assert_eq!(pods.template_memory(), memory("512Mi", "256Mi"));
    assert_eq!(pods.sizing()["resize"]["reason"], "NoNode");
    assert_eq!(pods.sizing()["memoryLimit"], "512Mi");
    assert!(pods.world.server.take_event_reasons().contains(&"ResizeTakenBack".to_owned()));
    pods.made_anew();
    for _ in 0..350 {
        pods.look(480, 0.1).await;
    }
    assert_eq!(pods.template_memory(), memory("512Mi", "256Mi"));
    for _ in 0..20 {
        pods.look(480, 0.1).await;
    }
    assert_eq!(pods.template_memory(), memory("768Mi", "384Mi"));
    finds_no_node();
    for _ in 0..6 {
        pods.look(480, 0.1).await;
    }
    assert_eq!(pods.template_memory(), memory("768Mi", "384Mi"));
}

/// Scenario: memory has grown in place; then another image is asked for, and later the first one
/// again without more growth. Guarantee: the template stays while nothing else changes, and the new
/// pods begin with what was decided.
#[tokio::test]
async fn a_change_of_image_takes_the_decided_memory_along() {
    let pods = growing().await;
    pods.look(200, 0.1).await;
    for _ in 0..30 {
        pods.look(480, 0.1).await;
    }
    assert_eq!(pods.template_memory(), memory("512Mi", "256Mi"));
    assert_eq!(pods.sizing()["resize"]["way"], "InPlace");
    assert_eq!(pods.sizing()["resize"]["reason"], "Resized");
    let image = |version: &str| {
        let version = json!({"version": version});
        pods.world.server.edit(POOL, |pool| pool["spec"]["collector"] = version);
    };
    image("2.0.0");
    for _ in 0..12 {
        pods.look(480, 0.1).await;
    }
    assert_eq!(pods.template_memory(), memory("640Mi", "320Mi"));
    let set = pods.world.server.get(SET).unwrap();
    let image = set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap();
    assert!(image.contains("2.0.0"), "{image}");
    pods.world.server.take_writes();
    for _ in 0..12 {
        pods.look(480, 0.1).await;
    }
    let writes = pods.world.server.take_writes();
    assert!(!writes.iter().any(|it| it.path == SET), "{writes:?}");
}
