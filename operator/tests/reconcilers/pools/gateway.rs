//! What the gateway pool's reconciler does against an API server in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::pods::PodSample;
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL as POOL, GATEWAY_SET as SET, gateway_pool};

const CAUGHT_UP: Option<(u64, bool)> = Some((0, true));
const BEHIND: Option<(u64, bool)> = Some((5_000_000, false));

fn pool() -> Value {
    gateway_pool(json!({
        "scaling": {"minReplicas": 2, "maxReplicas": 24},
        "delivery": "EffectivelyOnce",
        "groupProtocol": "Consumer",
        "nestedDepth": 3,
    }))
}

fn world() -> World {
    let world = World::new();
    world.server.put(POOL, pool());
    world
}

async fn settle(world: &World) {
    for _ in 0..3 {
        world.reconcile::<GatewayPools>(POOL).await.unwrap();
        world.finish_rollouts();
    }
    world.reconcile::<GatewayPools>(POOL).await.unwrap();
    world.server.take_writes();
    world.server.take_event_reasons();
}

fn replicas(world: &World) -> i64 {
    world.server.get(SET).unwrap()["spec"]["replicas"].as_i64().unwrap()
}

/// Lets ten-second looks pass, pods coming up in between; gives the sizes seen.
async fn play(world: &World, seconds: i64) -> Vec<i64> {
    let mut sizes = vec![replicas(world)];
    for _ in 0..seconds / 10 {
        world.pass(10);
        world.reconcile::<GatewayPools>(POOL).await.unwrap();
        world.finish_rollouts();
        sizes.push(replicas(world));
    }
    sizes.dedup();
    sizes
}

/// Scenario: a new pool. Guarantee: a StatefulSet whose pods keep their names in the group, a
/// configuration that the collector accepts, Ready once pods and lag are right.
#[tokio::test]
async fn a_new_pool_gets_a_stateful_set_with_fixed_members() {
    let world = world();
    settle(&world).await;
    let set = world.server.get(SET).unwrap();
    assert_eq!(set["spec"]["podManagementPolicy"], "Parallel");
    assert_eq!(set["spec"]["serviceName"], "prod-gateway");
    let pod = &set["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"], true);
    let drain = pool()["spec"]["drainSeconds"].as_i64().unwrap_or(60);
    assert!(pod["terminationGracePeriodSeconds"].as_i64().unwrap() > drain);
    world.collector_settings();
    let text = world.settings_text();
    assert!(text.contains("groupInstanceIdEnv: POD_NAME"), "{text}");
    assert!(!text.contains("AtLeastOnce"), "{text}");
    assert!(text.contains("groupProtocol: Consumer"), "{text}");
    assert!(text.contains("nestedDepth: 3"), "{text}");
    assert!(text.contains("groupId: millrace.telemetry.prod"), "{text}");
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
}

/// Scenario: a settled, caught-up pool is looked at every ten seconds for four minutes. Guarantee:
/// nothing is written.
#[tokio::test]
async fn a_converged_reconcile_writes_nothing() {
    let world = world();
    settle(&world).await;
    play(&world, 240).await;
    assert_eq!(world.server.take_writes(), []);
    assert_eq!(world.server.take_event_reasons(), Vec::<String>::new());
}

/// Scenario: lag goes above its bound, is caught up, becomes unknown. Guarantee: Ready follows the
/// lag at each look, and unknown is never taken for none.
#[tokio::test]
async fn readiness_follows_the_lag_at_each_look() {
    let world = world();
    settle(&world).await;
    for (lag, ready, reason) in [
        (BEHIND, false, "LagAboveBound"),
        (CAUGHT_UP, true, "Reconciled"),
        (None, false, "KafkaUnreachable"),
        (CAUGHT_UP, true, "Reconciled"),
    ] {
        world.pass(10);
        world.set_lag(lag);
        world.reconcile::<GatewayPools>(POOL).await.unwrap();
        assert_eq!(world.is_ready(POOL), ready, "{lag:?}");
        assert_eq!(world.condition(POOL, "Ready").unwrap().1, reason);
    }
}

/// Scenario: lag stays above its bound for an hour. Guarantee: the pool grows in steps to its
/// partitions, and the whole decision stands in the status. Slow: the pool is reconciled every ten
/// seconds of an hour.
#[tokio::test]
async fn lasting_lag_grows_the_pool_and_the_status_says_why() {
    let world = world();
    settle(&world).await;
    world.set_lag(BEHIND);
    assert_eq!(play(&world, 3600).await, [2, 3, 4, 6, 12]);
    let status = world.server.get(POOL).unwrap()["status"].clone();
    assert_eq!(status["sizing"]["reason"], "MaxReplicasReached");
    assert_eq!(status["sizing"]["replicas"], 12);
    assert_eq!(status["sizing"]["partitions"], 12);
    assert!(status["sizing"]["moreNeededSince"].is_string());
    assert_eq!(status["lag"]["messages"], 5_000_000);
    let sized = world.server.take_event_reasons();
    let sized = sized.iter().filter(|reason| *reason == "SizedLagAboveBound").count();
    assert_eq!(sized, 4);
}

/// What a pod says that has been up for so long, and is this busy.
fn sample(world: &World, cpu_share: f64, memory: u64, refused: u64) -> PodSample {
    let up = world.context.clock.now().as_second() - 1_790_000_000;
    let count = u64::try_from(up).unwrap();
    PodSample {
        cpu_seconds: up as f64 * cpu_share,
        resident_bytes: Some(memory),
        inserts: count * 100,
        insert_retries: [("slow_down".to_owned(), count * refused)].into(),
        ..PodSample::default()
    }
}

/// Like `play`, with the first pods telling of themselves at each look.
async fn play_telling(
    world: &World,
    seconds: i64,
    tell: impl Fn(&World) -> Option<PodSample>,
) -> Vec<i64> {
    let mut sizes = vec![replicas(world)];
    for _ in 0..seconds / 10 {
        world.run_pods(SET, json!({"memory": "1000", "cpu": "1"}));
        for ordinal in 0..12 {
            world.set_pod(&format!("prod-gateway-{ordinal}"), tell(world));
        }
        sizes.append(&mut play(world, 10).await);
    }
    sizes.dedup();
    sizes
}

fn sizing(world: &World) -> Value {
    world.server.get(POOL).unwrap()["status"]["sizing"].clone()
}

/// Scenario: lag above its bound for half an hour while ClickHouse refuses a third of the inserts,
/// then none. Guarantee: the pool does not grow against a busy sink, says so with the share, and
/// grows once the sink takes inserts.
#[tokio::test]
async fn a_busy_sink_holds_growth_until_it_takes_inserts_again() {
    let world = world();
    settle(&world).await;
    world.set_lag(BEHIND);
    let refused = |world: &World| Some(sample(world, 0.5, 300, 33));
    assert_eq!(play_telling(&world, 1800, refused).await, [2]);
    assert_eq!(sizing(&world)["reason"], "HoldSinkBusy");
    assert_eq!(sizing(&world)["signals"]["insertsRejectedPercent"], 33);
    let events = world.server.take_event_reasons();
    assert!(!events.iter().any(|reason| reason.starts_with("SizedLag")), "{events:?}");
    let taken = |world: &World| {
        let mut sample = sample(world, 0.5, 300, 0);
        sample.insert_retries = [("slow_down".to_owned(), 60_000)].into();
        Some(sample)
    };
    let sizes = play_telling(&world, 300, taken).await;
    assert!(sizes.len() > 1, "{sizes:?}");
}

/// Scenario: a pool that grew and has been idle for long, its pods first near their memory
/// limit, then silent, then fine. Guarantee: it does not shrink until they tell that there is room.
/// Slow: the pool is reconciled every ten seconds of almost two and a half hours.
#[tokio::test]
async fn full_or_silent_pods_hold_shrinking() {
    let world = world();
    settle(&world).await;
    world.set_lag(BEHIND);
    let full = |world: &World| Some(sample(world, 0.5, 900, 0));
    let sizes = play_telling(&world, 900, full).await;
    let large = *sizes.last().unwrap();
    assert!(large > 2, "{sizes:?}");
    world.set_lag(CAUGHT_UP);
    assert_eq!(play_telling(&world, 3600, full).await, [large]);
    assert_eq!(sizing(&world)["reason"], "HoldMemory");
    assert_eq!(sizing(&world)["signals"]["memoryPercent"], 90);
    assert_eq!(play_telling(&world, 600, |_| None).await, [large]);
    assert_eq!(sizing(&world)["reason"], "HoldSignalMissing");
    assert_eq!(sizing(&world)["signals"]["podsReporting"], 0);
    let fine = |world: &World| Some(sample(world, 0.1, 300, 0));
    let sizes = play_telling(&world, 3600, fine).await;
    assert!(*sizes.last().unwrap() < large, "{sizes:?}");
}

/// Scenario: a pool of more pods than a page lists, each of which tells of itself; the one that is
/// last by name is almost full. Guarantee: the figures for sizing are those of all pods, and memory
/// goes by that one.
#[tokio::test]
async fn all_pods_of_a_large_pool_tell_for_its_sizing() {
    let world = world();
    world.server.edit(POOL, |pool| {
        pool["spec"]["resources"] =
            json!({"requests": {"memory": "256Mi"}, "limits": {"memory": "512Mi"}});
        pool["spec"]["scaling"]["maxResources"] = json!({"memory": "2Gi"});
    });
    settle(&world).await;
    world.server.edit(SET, |set| set["spec"]["replicas"] = 150.into());
    world.run_pods(SET, json!({"memory": "512Mi"}));
    for _ in 0..40 {
        for ordinal in 0..150 {
            let used: u64 = if ordinal == 99 { 480 } else { 100 };
            let sample = sample(&world, 0.1, used << 20, 0);
            world.set_pod(&format!("prod-gateway-{ordinal}"), Some(sample));
        }
        play(&world, 10).await;
    }
    let told = sizing(&world)["signals"].clone();
    assert_eq!((&told["pods"], &told["podsReporting"]), (&150.into(), &150.into()));
    assert_eq!(sizing(&world)["memoryLimit"], "640Mi");
}

/// Scenario: pods that may grow and can't be asked, in a cluster that has no metrics API, then has
/// one. Guarantee: it is asked for every ten minutes only while there is none; then the pods' memory
/// is known by it, their number stands in the status, and their limit is raised in place by it.
#[tokio::test]
async fn pods_that_do_not_answer_are_known_by_the_metrics_api() {
    const METRICS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/telemetry/pods";
    let world = world();
    world.server.edit(POOL, |pool| {
        pool["spec"]["resources"] =
            json!({"requests": {"memory": "256Mi"}, "limits": {"memory": "512Mi"}});
        pool["spec"]["scaling"]["maxResources"] = json!({"memory": "2Gi"});
    });
    settle(&world).await;
    world.run_pods(SET, json!({"memory": "512Mi"}));
    let asked = Arc::new(AtomicU32::new(0));
    let counted = asked.clone();
    world.server.set_fault(Some(Box::new(move |_, path| {
        let metrics = path.starts_with(METRICS);
        metrics.then(|| counted.fetch_add(1, Ordering::Relaxed)).map(|_| 404)
    })));
    play(&world, 1190).await;
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_eq!(sizing(&world)["signals"]["podsMetered"], Value::Null);
    world.server.set_fault(None);
    for _ in 0..60 {
        let at = world.context.clock.now().to_string();
        for ordinal in 0..2 {
            let usage = json!({"cpu": "250m", "memory": "491520Ki"});
            let metrics = json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
                "metadata": {"labels": world.server.get(SET).unwrap()["spec"]["selector"]["matchLabels"]},
                "timestamp": at, "window": "15s",
                "containers": [{"name": "collector", "usage": usage}]});
            world.server.put(&format!("{METRICS}/prod-gateway-{ordinal}"), metrics);
        }
        play(&world, 10).await;
    }
    let told = sizing(&world)["signals"].clone();
    assert_eq!(
        (&told["pods"], &told["podsReporting"], &told["podsMetered"]),
        (&2.into(), &0.into(), &2.into())
    );
    assert_eq!(sizing(&world)["memoryLimit"], "640Mi");
    let message = sizing(&world)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("0 of 2 pods reported, 2 known by the metrics API"), "{message}");
}

/// Scenario: the pods of a settled pool tell of themselves for five minutes, with figures that move.
/// Guarantee: after the first minutes nothing is written for that.
#[tokio::test]
async fn pods_that_tell_of_themselves_cause_no_writes() {
    let world = world();
    settle(&world).await;
    let tell = |world: &World| Some(sample(world, 0.3, 300, 0));
    // The status says that they answer.
    play_telling(&world, 90, tell).await;
    world.server.take_writes();
    play_telling(&world, 200, tell).await;
    assert_eq!(world.server.take_writes(), []);
}

/// Scenario: a pool without load, whose pods answer only some time after it was decided on.
/// Guarantee: within two minutes the status says how many of them answer.
#[tokio::test]
async fn pods_that_begin_to_answer_are_counted_though_nothing_else_changes() {
    let world = world();
    settle(&world).await;
    world.run_pods(SET, json!({"memory": "1000", "cpu": "1"}));
    play(&world, 120).await;
    assert_eq!(sizing(&world)["signals"]["podsReporting"], 0);
    play_telling(&world, 120, |world| Some(sample(world, 0.0, 300, 0))).await;
    assert_eq!(sizing(&world)["signals"]["podsReporting"], 2);
}

/// Scenario: pods that may grow use nearly all of their memory; then the operator starts anew and the
/// pool is paused. Guarantee: the limit of the running pods is raised, not the template's; status and
/// an event say so; it is remembered; a paused pool's pods are left alone.
#[tokio::test]
async fn memory_grows_in_place_and_the_template_stays() {
    let pod = |ordinal: u32| format!("/api/v1/namespaces/telemetry/pods/prod-gateway-{ordinal}");
    let limit = |world: &World, ordinal: u32| {
        let pod = world.server.get(&pod(ordinal)).unwrap();
        pod["spec"]["containers"][0]["resources"].clone()
    };
    let world = world();
    world.server.edit(POOL, |pool| {
        pool["spec"]["resources"] =
            json!({"requests": {"memory": "256Mi"}, "limits": {"memory": "512Mi"}});
        pool["spec"]["scaling"]["maxResources"] = json!({"memory": "2Gi"});
    });
    settle(&world).await;
    world.run_pods(SET, json!({"memory": "512Mi"}));
    let look = async |used: u64| {
        for ordinal in 0..2 {
            let name = format!("prod-gateway-{ordinal}");
            world.set_pod(&name, Some(sample(&world, 0.1, used << 20, 0)));
        }
        play(&world, 10).await;
    };
    look(200).await;
    assert_eq!(sizing(&world)["memoryLimit"], "512Mi");
    world.server.take_event_reasons();
    look(480).await;
    let expected = json!({"requests": {"memory": "320Mi"}, "limits": {"memory": "640Mi"}});
    assert_eq!((limit(&world, 0), limit(&world, 1)), (expected.clone(), expected));
    assert_eq!(sizing(&world)["memoryLimit"], "640Mi");
    assert_eq!(world.server.take_event_reasons(), ["MemoryResized"]);
    let template = world.server.get(SET).unwrap()["spec"]["template"]["spec"].clone();
    assert_eq!(template["containers"][0]["resources"]["limits"]["memory"], "512Mi");
    look(480).await;
    assert_eq!(world.condition(POOL, "PodsResized").unwrap().0, "True");
    // Nothing more to do: nothing more is written.
    world.server.take_writes();
    look(480).await;
    assert_eq!(world.server.take_writes(), []);
    // A pod made anew starts as written and is raised again.
    world.run_pods(SET, json!({"memory": "512Mi"}));
    look(300).await;
    assert_eq!(limit(&world, 1)["limits"]["memory"], "640Mi");
    // Paused: not touched.
    world.run_pods(SET, json!({"memory": "512Mi"}));
    world.server.edit(POOL, |pool| pool["spec"]["paused"] = true.into());
    look(300).await;
    assert_eq!(limit(&world, 1)["limits"]["memory"], "512Mi");
}

/// Scenario: a HorizontalPodAutoscaler comes for the StatefulSet, sets a size, and goes while the
/// lag is above its bound. Guarantee: while it is there its size stays, the rule's own is told, and
/// the field is its own; afterwards the pool is sized by the rule again, from where it stands.
#[tokio::test]
async fn another_autoscaler_makes_the_rule_recommend_only() {
    const HPA: &str = "/apis/autoscaling/v2/namespaces/telemetry/horizontalpodautoscalers/ours";
    let world = world();
    settle(&world).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "prod-gateway"});
    world.server.put(
        HPA,
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {}, "spec": {"maxReplicas": 9, "scaleTargetRef": target}}),
    );
    world.set_lag(BEHIND);
    assert_eq!(play(&world, 60).await, [2]);
    assert_eq!(sizing(&world)["sizedBy"], "HorizontalPodAutoscaler ours");
    world.server.edit(SET, |set| {
        set["spec"]["replicas"] = json!(5);
        let fields = json!({"f:spec": {"f:replicas": {}}});
        set["metadata"]["managedFields"] = json!([{"manager": "kube-controller-manager",
            "operation": "Update", "subresource": "scale", "fieldsV1": fields}]);
    });
    world.server.take_event_reasons();
    assert_eq!(play(&world, 1800).await, [5]);
    let sizing_now = sizing(&world);
    assert_eq!((&sizing_now["replicas"], &sizing_now["proposedReplicas"]), (&json!(5), &json!(6)));
    assert!(sizing_now["message"].as_str().unwrap().starts_with("recommendation only"));
    let events = world.server.take_event_reasons();
    assert!(!events.iter().any(|reason| reason.starts_with("Sized")), "{events:?}");
    world.server.delete(HPA);
    world.server.edit(SET, |set| set["metadata"]["managedFields"] = json!([]));
    assert_eq!(play(&world, 600).await.first(), Some(&5));
    assert!(replicas(&world) > 5);
    assert!(sizing(&world)["sizedBy"].is_null());
}

/// Scenario: the broker is away for an hour, and the operator is restarted. Guarantee: the size is
/// held; the memory of earlier decisions is in the status, not in the process. Slow: the pool is
/// reconciled every ten seconds of over an hour.
#[tokio::test]
async fn an_unknown_lag_holds_the_size() {
    let world = world();
    settle(&world).await;
    world.set_lag(BEHIND);
    play(&world, 600).await;
    let before = replicas(&world);
    world.set_lag(None);
    assert_eq!(play(&world, 3600).await, [before]);
    let sizing = world.server.get(POOL).unwrap()["status"]["sizing"].clone();
    assert_eq!(sizing["reason"], "HoldSignalMissing");
}

/// Scenario: somebody scales the StatefulSet by hand, then the pool itself. Guarantee: the first is
/// put back, the second is obeyed.
#[tokio::test]
async fn the_pool_is_scaled_through_the_pool_only() {
    let world = world();
    settle(&world).await;
    world.server.edit(SET, |set| set["spec"]["replicas"] = 9.into());
    world.reconcile::<GatewayPools>(POOL).await.unwrap();
    world.finish_rollouts();
    world.pass(10);
    world.reconcile::<GatewayPools>(POOL).await.unwrap();
    assert_eq!(replicas(&world), 2, "the size decided on, not the one found");
    world.server.edit(POOL, |pool| pool["spec"]["replicas"] = 5.into());
    settle(&world).await;
    assert_eq!(replicas(&world), 5);
    let sizing = world.server.get(POOL).unwrap()["status"]["sizing"].clone();
    assert_eq!(sizing["reason"], "Fixed");
}

/// Scenario: two signals want attributes stored differently. Guarantee: told before anything is
/// made.
#[tokio::test]
async fn two_ways_of_attributes_in_one_pool_are_refused() {
    let world = World::new();
    let mut pool = pool();
    pool["spec"]["signals"] = json!({"traces": {}, "logs": {"attributes": "JSON"}});
    world.server.put(POOL, pool);
    world.reconcile::<GatewayPools>(POOL).await.unwrap_err();
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "SpecInvalid");
    assert!(world.server.get(SET).is_none());
}

/// Scenario: four servers in two shards. Guarantee: the collector is told of the shards, and takes
/// it.
#[tokio::test]
async fn a_pools_shards_reach_its_collectors() {
    let world = World::new();
    let mut pool = pool();
    let servers = ["a-1", "a-2", "b-1", "b-2"].map(|host| format!("http://{host}:8123"));
    pool["spec"]["clickhouse"] = json!({"endpoints": servers, "shards": 2});
    world.server.put(POOL, pool);
    world.reconcile::<GatewayPools>(POOL).await.unwrap();
    let millrace_config::CollectorMode::Gateway { clickhouse, .. } =
        world.collector_settings().mode
    else {
        panic!("no gateway")
    };
    assert_eq!((clickhouse.shards, clickhouse.endpoints.len()), (2, 4));
}

/// What the tables of a schema in the pool's namespace are found to be.
fn tables_are_at(world: &World, database: &str, revision: Option<&str>) {
    let path = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetryschemas/tables";
    world.server.put(
        path,
        json!({
            "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetrySchema", "metadata": {},
            "spec": {
                "clickhouse": {"endpoints": ["http://clickhouse:8123"], "database": database},
                "signals": {"traces": {}},
            },
            "status": {"revision": revision},
        }),
    );
}

/// The revision this release asks of such tables.
fn asked_revision() -> String {
    let name = || "otel".parse().unwrap();
    let traces = millrace_ddl::Signals { traces: true, ..millrace_ddl::Signals::default() };
    let attributes = millrace_ddl::AttributeStorage::Map;
    let options = millrace_ddl::TableOptions { attributes, ..Default::default() };
    millrace_ddl::Declared::uniform(name(), name(), traces, &options).revision()
}

/// Scenario: a settled pool gets another image while its tables are at an older revision, then at
/// none, then where they should be; other tables never matter. Guarantee: pods keep their image, and
/// the pool says what it waits for, until its own tables are there.
#[tokio::test]
async fn another_image_waits_for_the_tables() {
    let world = world();
    settle(&world).await;
    let image = |world: &World| {
        let set = world.server.get(SET).unwrap();
        set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
    };
    let before = image(&world);
    world.server.edit(POOL, |pool| pool["spec"]["collector"] = json!({"version": "9.9.9"}));
    for revision in [Some("000000000000"), None] {
        tables_are_at(&world, "otel", revision);
        world.reconcile::<GatewayPools>(POOL).await.unwrap();
        world.finish_rollouts();
        assert_eq!(image(&world), before, "{revision:?}");
        assert_eq!(world.condition(POOL, "Ready").unwrap().1, "Waiting");
        assert!(!world.is_ready(POOL));
    }
    tables_are_at(&world, "otel", Some(&asked_revision()));
    settle(&world).await;
    assert!(image(&world).contains("9.9.9"), "{}", image(&world));
    assert!(world.is_ready(POOL));
    tables_are_at(&world, "elsewhere", None);
    world.server.edit(POOL, |pool| pool["spec"]["collector"] = json!({"version": "9.9.10"}));
    settle(&world).await;
    assert!(image(&world).contains("9.9.10"), "{}", image(&world));
}

/// Scenario: tables are behind, the image stays. Guarantee: sizing goes on.
#[tokio::test]
async fn tables_that_are_behind_hold_no_size() {
    let world = world();
    settle(&world).await;
    tables_are_at(&world, "otel", Some("000000000000"));
    world.server.edit(POOL, |pool| pool["spec"]["replicas"] = 5.into());
    settle(&world).await;
    assert_eq!(replicas(&world), 5);
}

/// Scenario: a new image cannot be pulled, and going back is left to a person. Guarantee: Stalled
/// with the reason, and not Ready.
#[tokio::test]
async fn an_image_that_cannot_be_pulled_is_told() {
    let world = world();
    settle(&world).await;
    world.server.edit(POOL, |pool| pool["spec"]["rollout"] = json!({"autoRollback": false}));
    world.server.edit(POOL, |pool| pool["spec"]["collector"] = json!({"version": "9.9.9"}));
    for _ in 0..3 {
        world.reconcile::<GatewayPools>(POOL).await.unwrap();
        world.finish_tries();
    }
    let generation = world.server.get(SET).unwrap()["metadata"]["generation"].clone();
    world.server.edit(SET, |set| {
        set["status"]["observedGeneration"] = generation;
        set["status"]["updateRevision"] = "new".into();
        set["status"]["updatedReplicas"] = 1.into();
        set["status"]["availableReplicas"] = 1.into();
    });
    let labels = world.server.get(SET).unwrap()["spec"]["template"]["metadata"]["labels"].clone();
    world.server.put(
        "/api/v1/namespaces/telemetry/pods/prod-gateway-1",
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels}, "spec": null,
            "status": {"containerStatuses": [{"name": "collector", "ready": false, "image": "x",
                "imageID": "", "restartCount": 0,
                "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}),
    );
    world.reconcile::<GatewayPools>(POOL).await.unwrap();
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "ImagePullFailed");
    let (stalled, reason, _) = world.condition(POOL, "Stalled").unwrap();
    assert_eq!((stalled.as_str(), reason.as_str()), ("True", "ImagePullFailed"));
    assert!(world.server.take_event_reasons().contains(&"ImagePullFailed".to_owned()));
}

/// Scenario: a pool declares its batches and further settings. Guarantee: the collector gets both,
/// next to the operator's own; a setting that the operator owns makes the spec invalid, with the
/// field to use instead, and changes no pod.
#[tokio::test]
async fn batches_and_further_settings_reach_the_collector() {
    let world = world();
    world.server.edit(POOL, |pool| {
        pool["spec"]["batch"] = json!({"maxRows": 300_000, "maxBytes": "32Mi"});
        pool["spec"]["config"] = json!({
            "receivers": {"kafka": {"sessionTimeoutSeconds": 90}},
            "exporters": {"clickhouse": {"maxInsertsInFlight": 8}},
        });
    });
    settle(&world).await;
    world.collector_settings();
    let text = world.settings_text();
    for line in ["maxRows: 300000", "maxBytes: 32Mi", "sessionTimeoutSeconds: 90"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.contains("maxInsertsInFlight: 8"), "{text}");
    assert!(text.contains("groupId: millrace.telemetry.prod"), "{text}");
    let set = world.server.get(SET).unwrap();
    world.server.edit(POOL, |pool| {
        pool["spec"]["config"]["receivers"]["kafka"]["groupId"] = "other".into();
    });
    world.reconcile::<GatewayPools>(POOL).await.unwrap_err();
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "SpecInvalid");
    // Pods run on with the settings of before.
    assert_eq!(world.server.get(POOL).unwrap()["status"]["pods"], "2/2");
    let message = world.message(POOL, "Ready");
    let expected = "spec.config.receivers.kafka.groupId: can't be changed here: use consumerGroup";
    assert!(message.contains(expected), "{message}");
    assert_eq!(world.server.get(SET).unwrap(), set);
}
