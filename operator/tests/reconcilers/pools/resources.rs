//! What the gateway pool's reconciler does about the memory and processor time of its pods.

use std::cell::Cell;

use millrace_observe::text::MetricsFormat;
use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::pods::PodSample;
use serde_json::{Value, json};

use crate::reconcilers::support::apiserver::Write;
use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL as POOL, GATEWAY_SET as SET, gateway_pool};

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
            let sample = PodSample {
                cpu_seconds: self.cpu_seconds.get(),
                resident_bytes: Some(memory_mib << 20),
                ..PodSample::default()
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
        json!({"maxResources": {"cpu": "2"}}),
        json!({
            "requests": {"memory": "512Mi", "cpu": "500m"},
            "limits": {"memory": "512Mi", "cpu": "1"},
        }),
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
    let metrics = pods.world.context.metrics.render(MetricsFormat::Prometheus).unwrap();
    let count = r#"millrace_operator_resource_decisions_total{reason="CpuAtLimit"} 2"#;
    assert!(metrics.contains(count), "{metrics}");
    assert_eq!(pods.template()["limits"]["cpu"], "1");
    assert!(pods.world.settings_text().contains("workers: 2"));
}

/// Scenario: pods without a limit of processor time use three times what is requested, for a
/// quarter of an hour. Guarantee: what is requested follows, in place, and no limit is set.
#[tokio::test]
async fn what_is_requested_follows_use_where_no_limit_is_set() {
    let resources = json!({"requests": {"cpu": "500m"}});
    let pods = Pods::settled(json!({"maxResources": {"cpu": "4"}}), resources).await;
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
    let resources = json!({"requests": {"memory": "256Mi"}, "limits": {"memory": "512Mi"}});
    Pods::settled(json!({"maxResources": {"memory": "2Gi"}}), resources).await
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

impl Pods {
    fn resized(&self) -> (String, String) {
        let (status, reason, _) = self.world.condition(POOL, "PodsResized").unwrap();
        (status, reason)
    }

    /// Ten seconds each, with memory near the limit; nothing that replaces a pod is written.
    async fn replaces_no_pod(&self, looks: u32) {
        self.world.server.take_writes();
        for _ in 0..looks {
            self.look(480, 0.1).await;
        }
        let writes = self.world.server.take_writes();
        let replaces = |it: &&Write| it.path == SET || it.method == "DELETE";
        assert_eq!(writes.iter().find(replaces), None);
        assert_eq!(self.template_memory(), memory("512Mi", "256Mi"));
    }
}

fn said(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// Scenario: pods come near their memory limit where the API server refuses to resize them: no
/// right or a quota (403), a server that knows no resize (404, 405), a pod that can't take it
/// (422); after an hour it no longer does. In another world the spec then gets more memory.
/// Guarantee: no pod is replaced; the condition has the server's message, and the pool stays Ready;
/// the change of the spec rolls; once resizing works the pods get what was decided. Slow: four
/// pools are reconciled every ten seconds of an hour.
#[tokio::test]
async fn a_refused_resize_is_reported_and_replaces_no_pod() {
    for (code, ends) in [(403, true), (404, false), (405, false), (422, true)] {
        let pods = growing().await;
        refuse_resizes(&pods.world, code);
        pods.look(200, 0.1).await;
        assert_eq!(pods.resized(), said("True", "Reconciled"));
        pods.look(480, 0.1).await;
        assert_eq!(pods.resized(), said("False", "ResizeRejected"), "{code}");
        let events = pods.world.server.take_event_reasons();
        assert!(events.contains(&"ResizeRejected".to_owned()), "{events:?}");
        pods.replaces_no_pod(360).await;
        assert_eq!(pods.sizing()["memoryLimit"], "640Mi", "no more than one step is decided");
        assert_eq!(pods.resized(), said("False", "ResizeRejected"), "{code}");
        let status = pods.world.server.get(POOL).unwrap()["status"].to_string();
        assert!(status.contains("made to fail"), "{status}");
        assert!(pods.world.is_ready(POOL));
        if ends {
            pods.world.server.set_fault(None);
            pods.replaces_no_pod(65).await;
            assert_eq!(pods.given(0)["limits"]["memory"], "640Mi");
            assert_eq!(pods.resized(), said("True", "Reconciled"));
            continue;
        }
        pods.world.server.edit(POOL, |pool| {
            pool["spec"]["resources"] =
                json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}});
        });
        pods.look(480, 0.1).await;
        assert_eq!(pods.template_memory(), memory("1Gi", "1Gi"));
        pods.made_anew();
        pods.look(480, 0.1).await;
        assert_eq!(pods.resized(), said("True", "Reconciled"));
    }
}

/// Scenario: a pod's spec has what was decided, and its node says that it can't be done, that it is
/// put off, or nothing yet; then that it is done. Guarantee: the condition says so from the pod's
/// status, not from its spec, and no pod is replaced.
#[tokio::test]
async fn pods_are_resized_once_their_nodes_say_so() {
    for (reason, limit, expected) in [
        (Some("Infeasible"), "512Mi", said("False", "ResizeRejected")),
        (Some("Deferred"), "512Mi", said("False", "ResizePending")),
        (None, "512Mi", said("False", "ResizePending")),
        (None, "640Mi", said("True", "Reconciled")),
    ] {
        let pods = growing().await;
        pods.look(200, 0.1).await;
        pods.look(480, 0.1).await;
        assert_eq!(pods.given(0)["limits"]["memory"], "640Mi");
        pods.world.server.edit(&pod_path(1), |pod| {
            let pending = reason.map(|reason| {
                json!({"type": "PodResizePending", "status": "True",
                    "reason": reason, "message": "node has no room"})
            });
            pod["status"]["conditions"] = pending.into_iter().collect();
            let resources = json!({"limits": {"memory": limit}, "requests": {"memory": "320Mi"}});
            pod["status"]["containerStatuses"] = json!([{"name": "collector", "image": "x",
                "imageID": "", "ready": true, "restartCount": 0, "resources": resources}]);
        });
        pods.replaces_no_pod(40).await;
        assert_eq!(pods.resized(), expected, "{reason:?}");
        let status = pods.world.server.get(POOL).unwrap()["status"].to_string();
        assert_eq!(status.contains("no room"), reason.is_some(), "{status}");
    }
}

/// Scenario: the first pod's node puts a resize off, and the second's can't do it; the API server
/// fails at a resize; the pool is paused before one. Guarantee: the condition reports the refusal,
/// and why a pod waits, which is not its node in the last two cases.
#[tokio::test]
async fn the_condition_has_the_cause_that_matters() {
    let pods = growing().await;
    pods.look(200, 0.1).await;
    pods.look(480, 0.1).await;
    for (ordinal, reason) in [(0, "Deferred"), (1, "Infeasible")] {
        pods.world.server.edit(&pod_path(ordinal), |pod| {
            pod["status"]["conditions"] = json!([{"type": "PodResizePending", "status": "True",
                "reason": reason, "message": "node has no room"}]);
        });
    }
    pods.look(480, 0.1).await;
    assert_eq!(pods.resized(), said("False", "ResizeRejected"));

    let pods = growing().await;
    refuse_resizes(&pods.world, 500);
    pods.look(200, 0.1).await;
    pods.look(480, 0.1).await;
    assert_eq!(pods.resized(), said("False", "ResizePending"));
    let text = pods.world.message(POOL, "PodsResized");
    assert!(text.contains("made to fail") && !text.contains("node"), "{text}");
    pods.world.server.edit(POOL, |pool| pool["spec"]["paused"] = true.into());
    pods.look(480, 0.1).await;
    let text = pods.world.message(POOL, "PodsResized");
    assert!(text.ends_with("the pool is paused"), "{text}");
}

/// Scenario: a quota refuses one of two pods more memory, and another image is asked for.
/// Guarantee: the template's memory stays, since new pods with more would be refused too.
#[tokio::test]
async fn a_change_of_image_takes_nothing_along_that_was_refused() {
    let pods = growing().await;
    let refused =
        |_: &http::Method, path: &str| path.ends_with("prod-gateway-1/resize").then_some(403);
    pods.world.server.set_fault(Some(Box::new(refused)));
    pods.look(200, 0.1).await;
    pods.look(480, 0.1).await;
    assert_eq!(pods.given(0)["limits"]["memory"], "640Mi");
    assert_eq!(pods.resized(), said("False", "ResizeRejected"));
    let version = json!({"version": "2.0.0"});
    pods.world.server.edit(POOL, |pool| pool["spec"]["collector"] = version);
    for _ in 0..12 {
        pods.look(480, 0.1).await;
    }
    assert_eq!(pods.template_memory(), memory("512Mi", "256Mi"));
    let set = pods.world.server.get(SET).unwrap().to_string();
    assert!(set.contains("2.0.0"), "{set}");
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
    assert_eq!(pods.resized(), said("True", "Reconciled"));
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

/// Scenario: memory has grown in place; another image takes it along and is aborted, and the spec
/// returns to the first image. Guarantee: the pods' template stays as the rollback restored it, so
/// that no pod restarts.
#[tokio::test]
async fn a_revert_after_a_rollback_replaces_no_pod() {
    let pods = growing().await;
    pods.look(200, 0.1).await;
    for _ in 0..30 {
        pods.look(480, 0.1).await;
    }
    let stage = || pods.world.server.get(POOL).unwrap()["status"]["rollout"]["stage"].clone();
    let edit = |field: &str, value: Value| {
        pods.world.server.edit(POOL, |pool| pool["spec"][field] = value);
    };
    edit("collector", json!({"version": "2.0.0"}));
    while stage() != "Promoting" {
        pods.look(480, 0.1).await;
    }
    assert_eq!(pods.template_memory(), memory("640Mi", "320Mi"));
    edit("rolloutAction", json!("Abort"));
    while stage() != "RolledBack" && stage() != "Aborted" {
        pods.look(480, 0.1).await;
    }
    let template = || pods.world.server.get(SET).unwrap()["spec"]["template"].clone();
    let restored = template();
    assert_eq!(pods.template_memory(), memory("512Mi", "256Mi"));
    edit("rolloutAction", Value::Null);
    edit("collector", json!({}));
    for _ in 0..6 {
        pods.look(480, 0.1).await;
        assert_eq!(template(), restored, "{}", stage());
    }
    assert_eq!(stage(), "Stable");
}
