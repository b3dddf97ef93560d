//! How a change of image or configuration reaches an edge pool: tried in a pod of its own first,
//! taken back when a new pod fails, against an API server in memory and a stand-in for the kubelet.

use std::sync::Arc;

use millrace_observe::text::MetricsFormat;
use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::error::Category;
use millrace_operator::reconcile::controller;
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;

const POOL: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/edgepools/prod";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/telemetry/deployments/prod-edge";
const TRY: &str = "/api/v1/namespaces/telemetry/pods/prod-edge-try-";

async fn settled() -> World {
    let world = World::new();
    let pool = json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool", "metadata": {},
        "spec": {
            "kafka": {"bootstrapServers": ["kafka:9092"]}, "signals": {"traces": {}},
            "collector": {"version": "1.0.0"}, "buffer": {"storageClassName": "fast"},
        }
    });
    world.server.put(POOL, pool);
    look(&world).await;
    world.finish_rollouts();
    look(&world).await;
    assert!(world.is_ready(POOL));
    forget(&world);
    world
}

async fn look(world: &World) {
    world.reconcile::<EdgePools>(POOL).await.unwrap();
}

fn forget(world: &World) {
    world.server.take_writes();
    world.server.take_event_reasons();
}

/// Looks at the pool this often, five seconds apart; the kubelet makes this of tries in between.
async fn play(world: &World, looks: usize, tried: impl Fn(&str) -> Value) {
    for _ in 0..looks {
        look(world).await;
        let now = world.context.clock.now().to_string();
        for (path, pod) in tries(world) {
            let status = tried(pod["spec"]["containers"][0]["image"].as_str().unwrap());
            world.server.edit(&path, |pod| {
                pod["status"] = status;
                let made = &mut pod["metadata"]["creationTimestamp"];
                if made.is_null() {
                    *made = now.clone().into();
                }
            });
        }
        world.pass(5);
    }
}

fn tries(world: &World) -> Vec<(String, Value)> {
    world.server.select(|path| path.starts_with(TRY))
}

fn ended_well(_: &str) -> Value {
    json!({"phase": "Succeeded"})
}

fn refused(_: &str) -> Value {
    json!({"phase": "Failed", "containerStatuses": [{"name": "collector", "ready": false,
        "image": "x", "imageID": "", "restartCount": 0, "state": {"terminated": {
            "exitCode": 64, "message": "collector.yaml: exporters.x: unknown field\n"}}}]})
}

fn pull_fails(_: &str) -> Value {
    json!({"phase": "Pending", "containerStatuses": [{"name": "collector", "ready": false,
        "image": "x", "imageID": "", "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff"}}}]})
}

fn template(world: &World) -> Value {
    world.server.get(DEPLOYMENT).unwrap()["spec"]["template"].clone()
}

/// The template that is kept to go back to.
fn baseline(world: &World) -> Value {
    let annotations = &world.server.get(DEPLOYMENT).unwrap()["metadata"]["annotations"];
    let text = annotations["millrace.dev/rollout-baseline"].as_str();
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

fn image(world: &World) -> Value {
    template(world)["spec"]["containers"][0]["image"].clone()
}

fn pending(world: &World) -> Value {
    world.server.get(POOL).unwrap()["status"]["pendingChange"].clone()
}

/// An edit by hand.
fn set_image(world: &World, image: &str) {
    world.server.edit(DEPLOYMENT, |live| {
        live["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
    });
}

fn wants(world: &World, version: &str) {
    world.server.edit(POOL, |pool| pool["spec"]["collector"]["version"] = version.into());
}

fn config_maps(world: &World) -> usize {
    world.server.paths().iter().filter(|path| path.contains("/configmaps/")).count()
}

/// The paths written since the last look at them, each with its method.
fn written(world: &World) -> Vec<String> {
    world.server.take_writes().into_iter().map(|it| format!("{} {}", it.method, it.path)).collect()
}

/// Scenario: another compression. Guarantee: the status tells of the try before its pod is made;
/// the pod runs `validate` with the pool's template, little memory and no buffer; it is gone before
/// the Deployment has the change, and the status tells of none after.
#[tokio::test]
async fn a_change_is_tried_before_any_pod_of_the_pool_has_it() {
    let world = settled().await;
    let before = template(&world);
    world.server.edit(POOL, |pool| pool["spec"]["compression"] = "Lz4".into());
    look(&world).await;
    assert_eq!(pending(&world)["stage"], "Validating");
    assert_eq!(tries(&world).len(), 0);
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "Waiting");
    assert_eq!(world.condition(POOL, "Progressing").unwrap().0, "True");

    forget(&world);
    look(&world).await;
    let [(path, pod)] = tries(&world).try_into().unwrap();
    assert_eq!(written(&world), [format!("POST {path}")]);
    let spec = &pod["spec"];
    assert_eq!(spec["containers"][0]["args"][0], "validate");
    assert_eq!(spec["restartPolicy"], "Never");
    assert_eq!(spec["containers"][0]["resources"]["limits"]["memory"], "128Mi");
    assert_eq!(spec["securityContext"], before["spec"]["securityContext"]);
    assert!(!pod.to_string().contains("\"buffer\""), "{pod}");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "EdgePool");
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["app.kubernetes.io/component"], "edge-preflight");
    assert_eq!(template(&world), before);

    look(&world).await;
    assert_eq!(written(&world), Vec::<String>::new(), "it is waited for");
    world.finish_tries();
    look(&world).await;
    let expected =
        [format!("DELETE {path}"), format!("PATCH {DEPLOYMENT}"), format!("PATCH {POOL}/status")];
    assert_eq!(written(&world), expected);
    assert_ne!(template(&world), before);
    assert_eq!(pending(&world)["stage"], "RollingOut");
    assert!(!world.is_ready(POOL));
    assert_eq!(baseline(&world), before);
    world.finish_rollouts();
    look(&world).await;
    assert!(world.is_ready(POOL));
    assert_eq!((pending(&world), baseline(&world)), (Value::Null, Value::Null));
    assert_eq!((config_maps(&world), tries(&world).len()), (1, 0));
    let told = world.server.take_event_reasons();
    for reason in ["RolloutStarted", "RolloutCompleted"] {
        assert!(told.iter().any(|it| it == reason), "{told:?}");
    }
    forget(&world);
    look(&world).await;
    assert_eq!(written(&world), Vec::<String>::new());
}

/// Scenario: a configuration that its image refuses, much later another number of pods and an edit
/// by hand, then the spec that ran. Guarantee: told in the collector's words and once; no pod is
/// changed, what pods need stays, nothing is tried again; the number goes out, the edit is put
/// back; the old spec is ready at once.
#[tokio::test]
async fn a_refused_configuration_leaves_the_pool_as_it_was() {
    let world = settled().await;
    let before = world.server.get(DEPLOYMENT).unwrap()["spec"].clone();
    world.server.edit(POOL, |pool| pool["spec"]["compression"] = "Lz4".into());
    play(&world, 5, refused).await;
    assert_eq!(pending(&world)["stage"], "Rejected");
    assert_eq!(pending(&world)["reason"], "ConfigurationRejected");
    let ready = world.server.get(POOL).unwrap()["status"]["conditions"].to_string();
    assert!(ready.contains("no pod was changed"), "{ready}");
    assert!(ready.contains("exporters.x: unknown field"), "{ready}");
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "ConfigurationRejected");
    assert_eq!(world.condition(POOL, "Stalled").unwrap().0, "True");
    let told = world.server.take_event_reasons();
    assert_eq!(
        told.iter().filter(|reason| *reason == "ConfigurationRejected").count(),
        1,
        "{told:?}"
    );

    world.server.take_writes();
    play(&world, 300, refused).await;
    assert_eq!(written(&world), Vec::<String>::new());
    assert_eq!(world.server.take_event_reasons(), Vec::<String>::new());
    assert_eq!(world.server.get(DEPLOYMENT).unwrap()["spec"], before);
    assert_eq!((config_maps(&world), tries(&world).len()), (2, 0));

    world.server.edit(POOL, |pool| pool["spec"]["replicas"] = 7.into());
    set_image(&world, "theirs:1");
    look(&world).await;
    assert_eq!(world.server.get(DEPLOYMENT).unwrap()["spec"]["replicas"], 7);
    assert_eq!(template(&world), before["template"]);
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "ConfigurationRejected");
    world.finish_rollouts();

    world.server.edit(POOL, |pool| pool["spec"]["compression"] = "Zstd".into());
    look(&world).await;
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
    assert_eq!(pending(&world), Value::Null);
    assert_eq!(config_maps(&world), 1);
}

/// Scenario: an image that can't be pulled for a quarter of an hour, then can. Guarantee: given up
/// within a minute with no pod changed, tried again, and rolled out then. Slow: the pool
/// is reconciled 375 times.
#[tokio::test]
async fn an_image_that_comes_late_is_tried_again_by_itself() {
    let world = settled().await;
    wants(&world, "2.0.0");
    play(&world, 15, pull_fails).await;
    assert_eq!(pending(&world)["reason"], "ImagePullFailed");
    assert_eq!((image(&world), tries(&world).len()), ("millrace/collector:1.0.0-system".into(), 0));
    play(&world, 180, pull_fails).await;
    assert_eq!(image(&world), "millrace/collector:1.0.0-system");
    play(&world, 180, ended_well).await;
    assert_eq!(image(&world), "millrace/collector:2.0.0-system");
    assert_eq!((&pending(&world)["stage"], tries(&world).len()), (&"RollingOut".into(), 0));
}

/// Scenario: a namespace where no more pods may be made; a pod that no node ever takes. Guarantee:
/// neither holds the change up for longer than three minutes.
#[tokio::test]
async fn what_a_try_can_not_tell_the_pools_first_pods_do() {
    let world = settled().await;
    let fault = |method: &http::Method, path: &str| {
        (method == http::Method::POST && path.contains("/pods")).then_some(403)
    };
    world.server.set_fault(Some(Box::new(fault)));
    wants(&world, "2.0.0");
    play(&world, 2, ended_well).await;
    assert_eq!(image(&world), "millrace/collector:2.0.0-system");
    world.server.set_fault(None);
    wants(&world, "3.0.0");
    play(&world, 4, |_| json!({"phase": "Pending"})).await;
    assert_eq!(image(&world), "millrace/collector:2.0.0-system");
    play(&world, 32, |_| json!({"phase": "Pending"})).await;
    assert_eq!(image(&world), "millrace/collector:3.0.0-system");
    assert_eq!((&pending(&world)["stage"], tries(&world).len()), (&"RollingOut".into(), 0));
}

/// Scenario: Pod Security refuses the pod that tries a change, and so would the pool's; a quarter
/// of an hour later it doesn't. Guarantee: no pod of the pool is touched, the status has the API
/// server's words, and the change is tried again then.
#[tokio::test]
async fn what_pod_security_refuses_a_try_reaches_no_pod() {
    let world = settled().await;
    let fault = |method: &http::Method, path: &str| {
        (method == http::Method::POST && path.contains("/pods")).then_some(403)
    };
    let words = "forbidden: violates PodSecurity \"restricted:latest\": hostPath volumes";
    world.server.set_fault_text(words);
    world.server.set_fault(Some(Box::new(fault)));
    wants(&world, "2.0.0");
    play(&world, 15, ended_well).await;
    assert_eq!(image(&world), "millrace/collector:1.0.0-system");
    assert_eq!((&pending(&world)["stage"], tries(&world).len()), (&"Rejected".into(), 0));
    assert_eq!(pending(&world)["reason"], "PodCreationFailed");
    assert!(pending(&world)["message"].as_str().unwrap().contains(words), "{}", pending(&world));
    world.server.set_fault(None);
    world.pass(900);
    play(&world, 15, ended_well).await;
    assert_eq!(image(&world), "millrace/collector:2.0.0-system");
}

/// Scenario: a change adds a container that Pod Security refuses; the pod that tries a change has
/// only the collector. Guarantee: the change is refused before any pod of the pool is touched.
#[tokio::test]
async fn what_pod_security_refuses_of_a_sidecar_reaches_no_pod() {
    let world = settled().await;
    world.server.refuse_privileged_pods();
    world.server.edit(POOL, |pool| {
        pool["spec"]["podTemplate"] = json!({"spec": {"containers": [
            {"name": "sidecar", "image": "s:1", "securityContext": {"privileged": true}}]}});
    });
    wants(&world, "2.0.0");
    play(&world, 15, ended_well).await;
    assert_eq!(image(&world), "millrace/collector:1.0.0-system");
    assert_eq!(pending(&world)["reason"], "PodCreationFailed", "{}", pending(&world));
    assert_eq!((&pending(&world)["stage"], tries(&world).len()), (&"Rejected".into(), 0));
}

/// Scenario: the image of the Deployment is changed by hand, then the number of pods by its pool.
/// Guarantee: one reconcile puts each right, without a try.
#[tokio::test]
async fn an_edit_by_hand_and_what_is_no_new_unit_need_no_try() {
    let world = settled().await;
    set_image(&world, "theirs:1");
    look(&world).await;
    assert_eq!(image(&world), "millrace/collector:1.0.0-system");
    world.server.edit(POOL, |pool| pool["spec"]["replicas"] = 7.into());
    look(&world).await;
    assert_eq!(world.server.get(DEPLOYMENT).unwrap()["spec"]["replicas"], 7);
    assert_eq!(pending(&world), Value::Null);
}

/// Scenario: a change that is taken back, or held by a pause, while it is tried. Guarantee: no pod
/// of the pool ever has it, and none that tries it is left.
#[tokio::test]
async fn a_change_taken_back_while_it_is_tried_leaves_nothing() {
    let world = settled().await;
    let before = template(&world);
    wants(&world, "2.0.0");
    play(&world, 2, |_| json!({"phase": "Pending"})).await;
    assert_eq!(tries(&world).len(), 1);
    let pause = |value: Value| {
        world.server.edit(POOL, |pool| {
            pool["spec"]["paused"] = value;
        });
    };
    pause(true.into());
    world.finish_tries();
    play(&world, 3, ended_well).await;
    assert_eq!(template(&world), before);
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "PausedBySpec");
    wants(&world, "1.0.0");
    pause(false.into());
    look(&world).await;
    assert!(world.is_ready(POOL));
    assert_eq!((template(&world), tries(&world).len()), (before, 0));
    assert_eq!(pending(&world), Value::Null);
}

/// Scenario: the API server fails at each single write of a change and its try, or the operator
/// dies there. Guarantee: it goes out all the same, and no try is left.
#[tokio::test]
async fn a_try_that_was_cut_off_anywhere_ends_as_if_it_had_not_been() {
    for cut in 0..10 {
        let mut world = settled().await;
        wants(&world, "2.0.0");
        let mut seen = 0;
        world.server.set_fault(Some(Box::new(move |method, path| {
            if method == http::Method::GET || path.contains("/events") {
                return None;
            }
            seen += 1;
            (seen == cut + 1).then_some(500)
        })));
        for _ in 0..6 {
            if world.reconcile::<EdgePools>(POOL).await.is_err() {
                world.restart("0.2.0");
            }
            world.finish_rollouts();
        }
        assert!(world.is_ready(POOL), "cut {cut}: {:?}", world.condition(POOL, "Ready"));
        assert_eq!(image(&world), "millrace/collector:2.0.0-system", "cut {cut}");
        assert_eq!((config_maps(&world), tries(&world).len()), (1, 0), "cut {cut}");
        assert_eq!(pending(&world), Value::Null);
    }
}

/// Puts a pod of the pool there, made from what the Deployment's template is now.
fn put_pod(world: &World, name: &str, ready: bool, container: Value) {
    let template = template(world);
    let now = world.context.clock.now().to_string();
    let mut status = json!({"name": "collector", "ready": ready, "image": "x", "imageID": "",
        "restartCount": 0});
    status.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    let is_ready = if ready { "True" } else { "False" };
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"labels": template["metadata"]["labels"], "creationTimestamp": now},
        "spec": template["spec"],
        "status": {"containerStatuses": [status], "conditions": [
            {"type": "Ready", "status": is_ready, "lastTransitionTime": now}]}});
    world.server.put(&format!("/api/v1/namespaces/telemetry/pods/prod-edge-{name}"), pod);
}

fn crashes() -> Value {
    json!({"restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error",
            "message": "failed to read the certificate\n"}}})
}

/// One of two pods has the change that the pool wants since now, and this is what it says.
async fn half_rolled_out(rollout: Value, old_ready: bool, ready: bool, says: Value) -> World {
    let world = settled().await;
    put_pod(&world, "old", old_ready, json!({}));
    world.server.edit(POOL, |pool| pool["spec"]["rollout"] = rollout);
    wants(&world, "2.0.0");
    play(&world, 3, ended_well).await;
    assert_eq!(image(&world), "millrace/collector:2.0.0-system");
    put_pod(&world, "new", ready, says);
    world.server.edit(DEPLOYMENT, |live| {
        live["status"] = json!({"observedGeneration": live["metadata"]["generation"],
            "replicas": 3, "updatedReplicas": 1, "readyReplicas": 2, "availableReplicas": 2});
    });
    forget(&world);
    world
}

/// Scenario: a change passes its try, and the first pod that gets it crashes. Guarantee: the status
/// tells so before the very template that ran is written again; the pool is not Ready and says why,
/// once; it stays so, by another operator too, until the spec changes, and then all of it goes.
#[tokio::test]
async fn a_change_whose_pods_fail_is_taken_back() {
    let mut world = half_rolled_out(json!({}), true, false, crashes()).await;
    let old = baseline(&world);
    look(&world).await;
    assert_eq!(written(&world), [format!("PATCH {POOL}/status")]);
    assert_eq!(pending(&world)["stage"], "RolledBack");
    assert_eq!(pending(&world)["reason"], "PodCrashing");
    let message = pending(&world)["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("restarted 2 times: failed to read the certificate"), "{message}");
    let counted = world.context.metrics.render(MetricsFormat::Prometheus).unwrap();
    let counted = counted.lines().find(|line| line.contains("stages_total{stage=\"RolledBack\"}"));
    assert!(counted.is_some_and(|line| line.ends_with(" 1")), "{counted:?}");
    world.restart("0.2.0");
    look(&world).await;
    assert_eq!(template(&world), old);
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "RolledBack");
    world.server.delete("/api/v1/namespaces/telemetry/pods/prod-edge-new");
    world.finish_rollouts();
    play(&world, 300, ended_well).await;
    assert_eq!(template(&world), old);
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "RolledBack");
    assert_eq!(world.condition(POOL, "Stalled").unwrap().0, "True");
    let told = world.server.take_event_reasons();
    assert_eq!(told.iter().filter(|reason| *reason == "RolledBack").count(), 1, "{told:?}");

    wants(&world, "3.0.0");
    play(&world, 3, ended_well).await;
    assert_eq!(baseline(&world), old);
    world.finish_rollouts();
    look(&world).await;
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
    assert_eq!(image(&world), "millrace/collector:3.0.0-system");
    assert_eq!((pending(&world), baseline(&world)), (Value::Null, Value::Null));
}

/// Scenario: new pods that aren't ready for three minutes, beside old ones that are, and beside old
/// ones that aren't either; one that finds no node; one that crashes in a pool that is not to go
/// back. Guarantee: only the first is taken back; the last says what is wrong.
#[tokio::test]
async fn only_what_speaks_against_a_change_takes_it_back() {
    let no_node = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
    let stays = json!({"autoRollback": false});
    for (rollout, old_ready, says, stage) in [
        (json!({}), true, json!({}), "RolledBack"),
        (json!({}), false, json!({}), "RollingOut"),
        (stays, true, crashes(), "RollingOut"),
    ] {
        let world = half_rolled_out(rollout, old_ready, false, says).await;
        world.pass(180);
        look(&world).await;
        assert_eq!(pending(&world)["stage"], stage);
        assert!(!world.is_ready(POOL));
    }
    let world = half_rolled_out(json!({}), true, false, no_node).await;
    let since = world.context.clock.now();
    world.server.edit("/api/v1/namespaces/telemetry/pods/prod-edge-new", |pod| {
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/1 nodes are available",
            "lastTransitionTime": since}]);
    });
    world.pass(180);
    look(&world).await;
    assert_eq!(pending(&world)["stage"], "RollingOut");
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "PodsNotReady");
    world.pass(120);
    look(&world).await;
    assert_eq!(pending(&world)["stage"], "RollingOut");
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "PodUnschedulable");
}

/// Scenario: each new pod has a proxy added before the collector, as its status has; the proxy was
/// started again often; then the collectors crash. Guarantee: the proxy is no fault of the change,
/// and new pods are known as such: they are what takes it back.
#[tokio::test]
async fn a_container_added_to_pods_is_not_taken_for_the_collector() {
    let world = half_rolled_out(json!({}), true, true, json!({})).await;
    let new = "/api/v1/namespaces/telemetry/pods/prod-edge-new";
    let add_proxy = |world: &World| {
        world.server.edit(new, |pod| {
            let proxy = json!({"name": "proxy", "image": "proxy:1"});
            pod["spec"]["containers"].as_array_mut().unwrap().insert(0, proxy);
            let status = json!({"name": "proxy", "ready": true, "image": "proxy:1", "imageID": "",
                "restartCount": 5, "lastState": {"terminated": {"exitCode": 64}}});
            pod["status"]["containerStatuses"].as_array_mut().unwrap().insert(0, status);
        });
    };
    add_proxy(&world);
    look(&world).await;
    assert_eq!(pending(&world)["stage"], "RollingOut");
    put_pod(&world, "new", false, crashes());
    add_proxy(&world);
    look(&world).await;
    assert_eq!(pending(&world)["stage"], "RolledBack");
    assert_eq!(pending(&world)["reason"], "PodCrashing");
}

const USER: &str = "/api/v1/namespaces/telemetry/secrets/kafka-user";

fn rotate(world: &World, password: &str) {
    let encoded = |text: &str| k8s_openapi::ByteString(text.into());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {},
        "data": {"username": encoded("ingest"), "password": encoded(password)}});
    world.server.put(USER, secret);
}

/// Scenario: a Secret is rotated after a change was taken back, after one was refused, while one is
/// tried, and while one is held before its try. Guarantee: the template that runs has it at once;
/// what was taken back isn't tried again; what no pod ever had is.
#[tokio::test]
async fn rotated_secrets_reach_pods_without_the_change() {
    for at in ["RolledBack", "Rejected", "Validating", "Held"] {
        let world = settled().await;
        rotate(&world, "first");
        let login = json!({"type": "ScramSha512",
                "usernameSecret": {"name": "kafka-user", "key": "username"},
                "passwordSecret": {"name": "kafka-user", "key": "password"}});
        world.server.edit(POOL, |pool| pool["spec"]["kafka"]["authentication"] = login);
        play(&world, 3, ended_well).await;
        world.finish_rollouts();
        look(&world).await;
        assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
        let before = template(&world);
        if at == "Held" {
            says(&world, "pause");
        }
        wants(&world, "2.0.0");
        match at {
            "RolledBack" => {
                play(&world, 3, ended_well).await;
                put_pod(&world, "new", false, crashes());
                play(&world, 2, ended_well).await;
                world.server.delete("/api/v1/namespaces/telemetry/pods/prod-edge-new");
            }
            "Rejected" => play(&world, 5, refused).await,
            _ => play(&world, 3, |_| json!({"phase": "Pending"})).await,
        }
        assert_eq!(template(&world), before, "{at}");
        rotate(&world, "second");
        play(&world, 2, |_| json!({"phase": "Pending"})).await;
        let digest = |template: &Value| {
            template["metadata"]["annotations"]["millrace.dev/secrets-digest"].clone()
        };
        assert_ne!(digest(&template(&world)), digest(&before), "{at}");
        assert_eq!(image(&world), "millrace/collector:1.0.0-system", "{at}");
        let stage = if at == "RolledBack" { "RolledBack" } else { "Validating" };
        assert_eq!(pending(&world)["stage"], stage, "{at}");
        forget(&world);
        play(&world, 3, |_| json!({"phase": "Pending"})).await;
        assert_eq!(written(&world), Vec::<String>::new(), "{at}");
    }
}

/// Scenario: one of ten new pods crashes; then another one does. Guarantee: a tenth is some node's own trouble, more than that is the change's.
#[tokio::test]
async fn a_node_with_troubles_of_its_own_takes_nothing_back() {
    let world = half_rolled_out(json!({}), true, false, crashes()).await;
    for number in 0..9 {
        put_pod(&world, &format!("new-{number}"), true, json!({}));
    }
    look(&world).await;
    assert_eq!(pending(&world)["stage"], "RollingOut");
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "PodCrashing");
    put_pod(&world, "new-9", false, crashes());
    look(&world).await;
    assert_eq!(pending(&world)["stage"], "RolledBack");
}

/// Scenario: the spec that ran is desired again in the middle of a rollout; another change is.
/// Guarantee: the first goes out at once, without a try; the other is tried, and what is gone back
/// to is still what all pods ran.
#[tokio::test]
async fn another_change_in_the_middle_starts_from_what_all_pods_ran() {
    let world = half_rolled_out(json!({}), true, true, json!({})).await;
    let old = baseline(&world);
    wants(&world, "1.0.0");
    look(&world).await;
    assert_eq!(template(&world), old);
    assert_eq!((pending(&world), baseline(&world)), (Value::Null, Value::Null));
    let told = world.server.take_event_reasons();
    assert!(!told.contains(&"RolloutCompleted".to_owned()), "{told:?}");
    let world = half_rolled_out(json!({}), true, true, json!({})).await;
    wants(&world, "3.0.0");
    play(&world, 3, ended_well).await;
    assert_eq!(image(&world), "millrace/collector:3.0.0-system");
    assert_eq!(baseline(&world), old);
}

/// What the user does to the rollout.
fn says(world: &World, word: &str) {
    world.server.edit(POOL, |pool| {
        pool["spec"]["rolloutAction"] = match word {
            "pause" => "Pause".into(),
            "abort" => "Abort".into(),
            _ => Value::Null,
        };
    });
}

fn replaces_no_pod(world: &World) -> bool {
    world.server.get(DEPLOYMENT).unwrap()["spec"]["paused"] == true
}

/// Scenario: another change is desired in the middle of a rollout, with a pause and without.
/// Guarantee: no further pod gets the earlier change while the other one is held or tried; then
/// pods get the other one.
#[tokio::test]
async fn a_change_that_is_desired_no_longer_reaches_no_further_pod() {
    for is_held in [false, true] {
        let world = half_rolled_out(json!({}), true, true, json!({})).await;
        assert!(!replaces_no_pod(&world));
        wants(&world, "3.0.0");
        if is_held {
            says(&world, "pause");
        }
        look(&world).await;
        assert!(replaces_no_pod(&world));
        assert_eq!(image(&world), "millrace/collector:2.0.0-system");
        forget(&world);
        play(&world, 3, |_| json!({"phase": "Pending"})).await;
        assert!(!written(&world).iter().any(|path| path.contains("/deployments/")));
        says(&world, "resume");
        play(&world, 3, ended_well).await;
        assert!(!replaces_no_pod(&world));
        assert_eq!(image(&world), "millrace/collector:3.0.0-system");
    }
}

/// Scenario: held before the try, which is asked for after; held in the middle, where a new pod
/// crashes meanwhile; then resumed. Guarantee: held, nothing is tried, replaced or taken back, and
/// the pool says so; resumed it goes on.
#[tokio::test]
async fn a_change_is_held_by_its_action_and_resumed() {
    let world = settled().await;
    let before = template(&world);
    says(&world, "pause");
    wants(&world, "2.0.0");
    play(&world, 20, ended_well).await;
    assert_eq!((template(&world), tries(&world).len()), (before, 0));
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "RolloutPaused");
    says(&world, "resume");
    play(&world, 3, ended_well).await;
    assert_eq!(image(&world), "millrace/collector:2.0.0-system");
    assert!(!replaces_no_pod(&world));

    says(&world, "pause");
    put_pod(&world, "new", false, crashes());
    play(&world, 5, ended_well).await;
    assert!(replaces_no_pod(&world));
    assert_eq!(pending(&world)["stage"], "RollingOut");
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "RolloutPaused");
    forget(&world);
    look(&world).await;
    assert_eq!(written(&world), Vec::<String>::new());
    put_pod(&world, "new", true, json!({}));
    says(&world, "resume");
    look(&world).await;
    assert!(!replaces_no_pod(&world));
    assert!(world.server.take_event_reasons().contains(&"RolloutResumed".to_owned()));
    world.finish_rollouts();
    look(&world).await;
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
}

/// Scenario: aborted while it is tried; aborted in the middle. Guarantee: pods run, or come to run,
/// what they ran before, it is not tried again once the word is gone, and the pool says why; another
/// change goes out then. Slow: the pool is reconciled over 600 times.
#[tokio::test]
async fn a_change_is_taken_back_by_its_action() {
    for looks in [2, 4] {
        let world = settled().await;
        let before = template(&world);
        wants(&world, "2.0.0");
        play(&world, looks, ended_well).await;
        says(&world, "abort");
        play(&world, 3, ended_well).await;
        assert_eq!((template(&world), tries(&world).len()), (before.clone(), 0), "{looks}");
        says(&world, "");
        world.finish_rollouts();
        play(&world, 300, ended_well).await;
        assert_eq!(template(&world), before);
        assert_eq!(world.condition(POOL, "Ready").unwrap().1, "RolloutAborted");
        wants(&world, "3.0.0");
        play(&world, 3, ended_well).await;
        assert_eq!(image(&world), "millrace/collector:3.0.0-system");
    }
}

/// Scenario: a DaemonSet's change is held in the middle, and resumed. Guarantee: its controller
/// replaces pods by hand only, then by itself again.
#[tokio::test]
async fn a_daemon_sets_change_is_held_too() {
    let world = settled().await;
    world.server.edit(POOL, |pool| pool["spec"]["mode"] = "DaemonSet".into());
    look(&world).await;
    let set = DEPLOYMENT.replace("deployments", "daemonsets");
    let strategy = || world.server.get(&set).unwrap()["spec"]["updateStrategy"].clone();
    let usual = strategy();
    wants(&world, "2.0.0");
    play(&world, 3, ended_well).await;
    says(&world, "pause");
    look(&world).await;
    assert_eq!(strategy(), json!({"type": "OnDelete"}));
    says(&world, "resume");
    look(&world).await;
    assert_eq!(strategy(), usual);
}

/// Scenario: a change is tried and taken out of the spec again; then a reconcile ends that had read
/// the pool while the try was told of, and finds no pod that tries. Guarantee: it leaves none
/// behind, for nobody looks for one any more; it is tried again soon, and then all is well.
#[tokio::test]
async fn a_reconcile_of_an_older_state_leaves_no_try_behind() {
    let world = settled().await;
    wants(&world, "2.0.0");
    look(&world).await;
    let old = serde_json::from_value(world.server.get(POOL).unwrap()).unwrap();
    look(&world).await;
    assert_eq!(tries(&world).len(), 1);
    wants(&world, "1.0.0");
    look(&world).await;
    assert_eq!((tries(&world).len(), pending(&world)), (0, Value::Null));
    let late =
        controller::reconcile_object::<EdgePools>(Arc::new(old), world.context.clone()).await;
    assert_eq!(late.unwrap_err().category, Category::Conflict);
    assert_eq!(tries(&world).len(), 0);
    look(&world).await;
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
}
