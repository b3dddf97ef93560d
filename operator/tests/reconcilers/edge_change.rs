//! How a change of image or configuration reaches an edge pool: tried in a pod of its own first,
//! against an API server in memory and a stand-in for the kubelet.

use millrace_operator::edge::EdgePools;
use serde_json::{Value, json};

use crate::support::world::World;

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

fn image(world: &World) -> Value {
    template(world)["spec"]["containers"][0]["image"].clone()
}

fn pending(world: &World) -> Value {
    world.server.get(POOL).unwrap()["status"]["pendingChange"].clone()
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
    assert_eq!(pending(&world)["stage"], "Trying");
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
    assert_eq!(pending(&world), Value::Null);
    world.finish_rollouts();
    look(&world).await;
    assert!(world.is_ready(POOL));
    assert_eq!((config_maps(&world), tries(&world).len()), (1, 0));
}

/// Scenario: a configuration that its image refuses, much later another number of pods, then the
/// spec that ran. Guarantee: told in the collector's words and once; the Deployment is not written,
/// what its pods need stays, nothing is tried again; the old spec is ready at once.
#[tokio::test]
async fn a_refused_configuration_leaves_the_pool_as_it_was() {
    let world = settled().await;
    let before = world.server.get(DEPLOYMENT).unwrap();
    world.server.edit(POOL, |pool| pool["spec"]["compression"] = "Lz4".into());
    play(&world, 4, refused).await;
    assert_eq!(pending(&world)["stage"], "Refused");
    assert_eq!(pending(&world)["reason"], "SettingsRefused");
    let ready = world.server.get(POOL).unwrap()["status"]["conditions"].to_string();
    assert!(ready.contains("no pod was changed"), "{ready}");
    assert!(ready.contains("exporters.x: unknown field"), "{ready}");
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "SettingsRefused");
    assert_eq!(world.condition(POOL, "Stalled").unwrap().0, "True");
    let told = world.server.take_event_reasons();
    assert_eq!(told.iter().filter(|reason| *reason == "SettingsRefused").count(), 1, "{told:?}");

    world.server.take_writes();
    play(&world, 300, refused).await;
    assert_eq!(written(&world), Vec::<String>::new());
    assert_eq!(world.server.take_event_reasons(), Vec::<String>::new());
    assert_eq!(world.server.get(DEPLOYMENT).unwrap(), before);
    assert_eq!((config_maps(&world), tries(&world).len()), (2, 0));

    world.server.edit(POOL, |pool| pool["spec"]["compression"] = "Zstd".into());
    look(&world).await;
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
    assert_eq!(pending(&world), Value::Null);
    assert_eq!(config_maps(&world), 1);
}

/// Scenario: an image that can't be pulled for a quarter of an hour, then can. Guarantee: given up
/// within a minute with no pod changed, tried again by itself, and rolled out then.
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
    assert_eq!((pending(&world), tries(&world).len()), (Value::Null, 0));
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
    assert_eq!((pending(&world), tries(&world).len()), (Value::Null, 0));
}

/// Scenario: the image of the Deployment is changed by hand, then the number of pods by its pool.
/// Guarantee: one reconcile puts each right, without a try.
#[tokio::test]
async fn an_edit_by_hand_and_what_is_no_new_unit_need_no_try() {
    let world = settled().await;
    world.server.edit(DEPLOYMENT, |live| {
        live["spec"]["template"]["spec"]["containers"][0]["image"] = "theirs:1".into();
    });
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
            pool["metadata"]["annotations"] = json!({"millrace.dev/paused": value});
        });
    };
    pause("true".into());
    world.finish_tries();
    play(&world, 3, ended_well).await;
    assert_eq!(template(&world), before);
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "PausedByAnnotation");
    wants(&world, "1.0.0");
    pause("false".into());
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
