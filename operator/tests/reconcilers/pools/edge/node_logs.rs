//! What an edge pool says of the logs of its nodes, against an API server in memory.

use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::pods::{NodeLogsSample, PodSample};
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;

const POOL: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/edgepools/prod";
const DAEMON_SET: &str = "/apis/apps/v1/namespaces/telemetry/daemonsets/prod-edge";
const MIB: u64 = 1 << 20;

/// A pool that reads containers' logs, whose pods run on the nodes `a` and `b` and have not been
/// asked.
async fn world() -> World {
    let world = World::new();
    world.server.put(
        POOL,
        json!({
            "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool", "metadata": {},
            "spec": {
                "kafka": {"bootstrapServers": ["kafka:9092"]},
                "signals": {"logs": {}},
                "mode": "DaemonSet",
                "receivers": {"containers": {}},
            }
        }),
    );
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    world.server.edit(DAEMON_SET, |set| {
        set["status"] = json!({"observedGeneration": set["metadata"]["generation"],
            "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "updatedNumberScheduled": 2,
            "numberReady": 2, "numberAvailable": 2, "numberMisscheduled": 0});
    });
    let labels = world.server.get(DAEMON_SET).unwrap()["spec"]["selector"]["matchLabels"].clone();
    for (number, node) in [(1, "a"), (2, "b")] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": "collector"}]},
            "status": {"podIP": format!("10.0.0.{number}"),
                "conditions": [{"type": "Ready", "status": "True",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        world.server.put(&format!("/api/v1/namespaces/telemetry/pods/prod-edge-{node}"), pod);
    }
    world
}

/// Sets what the pod of a node, begun at this second, says: MiB behind, and bytes lost.
fn tell(world: &World, node: &str, began: i64, behind_mib: u64, lost_bytes: u64) {
    let node_logs = NodeLogsSample {
        behind_bytes: Some(behind_mib * MIB + 5),
        behind_seconds: Some(behind_mib * 10),
        lost_bytes,
        ..NodeLogsSample::default()
    };
    let sample = PodSample {
        started_at: Some(began),
        node_logs,
        is_refused_pods: Some(false),
        ..PodSample::default()
    };
    world.set_pod(&format!("prod-edge-{node}"), Some(sample));
}

/// Looks again after so many seconds.
async fn look(world: &World, seconds: i64) {
    world.pass(seconds);
    world.reconcile::<EdgePools>(POOL).await.unwrap();
}

/// A world whose pods have answered.
async fn settled() -> World {
    let world = world().await;
    tell(&world, "a", 1, 0, 0);
    tell(&world, "b", 1, 0, 0);
    look(&world, 10).await;
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
    world.server.take_writes();
    world.server.take_event_reasons();
    world
}

fn status(world: &World) -> Value {
    world.server.get(POOL).unwrap()["status"].clone()
}

/// Status and reason of `LogsLost`.
fn lost(world: &World) -> Option<(String, String)> {
    world.condition(POOL, "LogsLost").map(|(status, reason, _)| (status, reason))
}

/// Message of a condition.
fn message(world: &World, type_: &str) -> String {
    let conditions = status(world)["conditions"].clone();
    let found = conditions.as_array().unwrap().iter().find(|it| it["type"] == type_).unwrap();
    found["message"].as_str().unwrap().to_owned()
}

fn is(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

/// Scenario: pods of two nodes answer, one falls behind, less than a MiB changes. Guarantee: the
/// status has the nodes, the bytes and the worst node; it is written when nodes change, else once a
/// minute while figures change, and not at all while they don't.
#[tokio::test]
async fn the_status_says_how_far_nodes_are() {
    let world = settled().await;
    let nodes = status(&world)["nodes"].clone();
    assert_eq!((&nodes["reading"], &nodes["unreachable"]), (&json!(2), &json!(0)));
    assert_eq!((&nodes["behindBytes"], &nodes["furthestBehind"]), (&json!(0), &Value::Null));
    for _ in 0..5 {
        look(&world, 30).await;
    }
    assert_eq!(world.server.take_writes(), [], "nothing changes");
    tell(&world, "a", 1, 3, 0);
    tell(&world, "b", 1, 7, 0);
    look(&world, 30).await;
    let nodes = status(&world)["nodes"].clone();
    assert_eq!(nodes["behindBytes"], 10 * MIB);
    assert_eq!(nodes["furthestBehind"], json!({"name": "b", "bytes": 7 * MIB, "seconds": 70}));
    world.server.take_writes();
    for behind_mib in 8..12 {
        tell(&world, "b", 1, behind_mib, 0);
        look(&world, 30).await;
    }
    assert_eq!(world.server.take_writes().len(), 2, "two minutes of change");
    world.set_pod("prod-edge-b", None);
    look(&world, 1).await;
    let nodes = status(&world)["nodes"].clone();
    assert_eq!((&nodes["reading"], &nodes["unreachable"]), (&json!(1), &json!(1)));
    assert_eq!(nodes["furthestBehind"]["name"], "a");
}

/// Scenario: a node loses lines, its pod starts anew, the operator too, more is lost within the
/// hour; then nothing for an hour; then again. Guarantee: the condition names node, bytes and time,
/// with one event for each of the two episodes, and counts what each process lost once; Ready does
/// not wait for it.
#[tokio::test]
async fn lost_logs_are_told_once_for_each_episode() {
    let mut world = settled().await;
    assert_eq!(lost(&world), is("False", "NoLogsLost"));
    tell(&world, "b", 1, 0, 400);
    look(&world, 30).await;
    assert_eq!(lost(&world), is("True", "LogsDeletedUnread"));
    assert_eq!(world.server.take_event_reasons(), ["LogsDeletedUnread"]);
    assert!(world.is_ready(POOL), "what is gone holds nothing up");
    let text = message(&world, "LogsLost");
    assert!(text.contains("400 bytes of log files") && text.contains("node b"), "{text}");
    assert!(text.contains("containerLogMaxSize") && text.starts_with("since 2026-"), "{text}");
    world.server.take_writes();
    tell(&world, "b", 2, 0, 0);
    look(&world, 100).await;
    world.restart("0.1.0");
    look(&world, 30).await;
    assert_eq!(world.server.take_writes(), [], "it is known");
    tell(&world, "a", 1, 0, 20);
    tell(&world, "b", 2, 0, 3);
    look(&world, 30).await;
    assert_eq!(status(&world)["logsLost"]["bytes"], 423);
    assert_eq!(status(&world)["logsLost"]["episodeBytes"], 423);
    look(&world, 3_599).await;
    assert_eq!(lost(&world), is("True", "LogsDeletedUnread"));
    world.server.take_event_reasons();
    look(&world, 1).await;
    assert_eq!(lost(&world), is("False", "NoLogsLost"));
    assert_eq!(status(&world)["logsLost"]["bytes"], 423);
    world.server.take_event_reasons();
    tell(&world, "b", 2, 0, 10);
    look(&world, 30).await;
    assert_eq!(status(&world)["logsLost"]["bytes"], 430);
    assert_eq!(status(&world)["logsLost"]["episodeBytes"], 7);
    assert_eq!(world.server.take_event_reasons(), ["LogsDeletedUnread"]);
    // Nobody looks for two hours.
    tell(&world, "b", 2, 0, 11);
    look(&world, 7_200).await;
    assert_eq!(status(&world)["logsLost"]["episodeBytes"], 1);
    assert_eq!(world.server.take_event_reasons(), ["LogsDeletedUnread"], "another episode");
}

/// Scenario: pods have not been asked, then answer, then none does for ten minutes, and lines were
/// lost before that. Guarantee: unknown, not false, whenever nobody could say that nothing was
/// lost; a loss within the hour stays.
#[tokio::test]
async fn without_an_answer_nothing_is_known_of_losses() {
    let world = world().await;
    look(&world, 1).await;
    assert_eq!(lost(&world), is("Unknown", "NotObserved"));
    assert_eq!(status(&world)["nodes"], Value::Null);
    tell(&world, "a", 1, 0, 9);
    look(&world, 30).await;
    world.set_pod("prod-edge-a", None);
    look(&world, 1_800).await;
    assert_eq!(lost(&world), is("True", "LogsDeletedUnread"));
    look(&world, 1_800).await;
    assert_eq!(lost(&world), is("Unknown", "PodsUnreachable"));
    tell(&world, "a", 1, 0, 9);
    look(&world, 30).await;
    assert_eq!(lost(&world), is("False", "NoLogsLost"));
    world.set_pod("prod-edge-a", None);
    look(&world, 599).await;
    assert_eq!(lost(&world), is("False", "NoLogsLost"));
    look(&world, 1).await;
    assert_eq!(lost(&world), is("Unknown", "PodsUnreachable"));
}

/// Scenario: the pool stops reading its nodes' logs. Guarantee: it says nothing of them any more.
#[tokio::test]
async fn a_pool_that_reads_no_nodes_logs_says_nothing_of_them() {
    let world = settled().await;
    tell(&world, "b", 1, 0, 400);
    look(&world, 30).await;
    world.server.edit(POOL, |pool| pool["spec"]["receivers"] = json!({}));
    look(&world, 30).await;
    assert_eq!(lost(&world), None);
    let status = status(&world);
    assert!(status["nodes"].is_null() && status["logsLost"].is_null(), "{status}");
}

/// Scenario: the API server refuses to tell the pods of a settled pool about pods; then nobody
/// answers; then the right is there. Guarantee: the pool isn't Ready until then.
#[tokio::test]
async fn a_pool_whose_pods_lack_a_right_is_not_ready() {
    let world = settled().await;
    let ready = || world.condition(POOL, "Ready").map(|(status, reason, _)| (status, reason));
    let refused = PodSample { is_refused_pods: Some(true), ..PodSample::default() };
    for answer in [Some(refused), None] {
        world.set_pod("prod-edge-a", answer.clone());
        world.set_pod("prod-edge-b", answer);
        look(&world, 30).await;
        assert_eq!(ready(), is("False", "WatchForbidden"));
    }
    tell(&world, "a", 1, 0, 0);
    look(&world, 30).await;
    assert_eq!(ready(), is("True", "Reconciled"));
}

/// Scenario: a pool that chooses namespaces by labels; the API server refuses one node's pod to
/// tell about namespaces, then nobody answers, then the right is there. Guarantee: the condition
/// names node, consequence, account, right and remedy, with one event; it stays while nobody
/// answers. A pool that asks nothing has no such condition.
#[tokio::test]
async fn a_right_that_pods_lack_is_told_with_its_remedy() {
    let world = settled().await;
    let allowed =
        || world.condition(POOL, "WatchesAllowed").map(|(status, reason, _)| (status, reason));
    assert_eq!(allowed(), is("True", "Reconciled"));
    world.server.edit(POOL, |pool| {
        pool["spec"]["receivers"]["containers"]["namespaceSelector"] =
            json!({"matchLabels": {"team": "shop"}});
    });
    let refused = PodSample { is_refused_namespaces: Some(true), ..PodSample::default() };
    world.set_pod("prod-edge-b", Some(refused));
    look(&world, 30).await;
    assert_eq!(allowed(), is("False", "WatchForbidden"));
    let message = message(&world, "WatchesAllowed");
    for words in [
        "refuses 1 of 2 reporting pods (prod-edge-b is one) access to namespaces, so logs of namespaces that aren't known go unread",
        "ServiceAccount telemetry/prod-edge",
        "list and watch namespaces in",
        "podAccess.grant",
    ] {
        assert!(message.contains(words), "{words}: {message}");
    }
    let events = world.server.take_event_reasons();
    assert_eq!(events.iter().filter(|it| *it == "WatchForbidden").count(), 1, "{events:?}");
    world.set_pod("prod-edge-a", None);
    world.set_pod("prod-edge-b", None);
    look(&world, 30).await;
    assert_eq!(allowed(), is("False", "WatchForbidden"), "nobody says otherwise");
    tell(&world, "b", 1, 0, 0);
    look(&world, 30).await;
    assert_eq!(allowed(), is("True", "Reconciled"));
    world.server.edit(POOL, |pool| {
        pool["spec"]["receivers"]["containers"] = json!({"podMetadata": "FilePath"});
    });
    look(&world, 30).await;
    assert_eq!(allowed(), None);
}

/// Scenario: pools that read no node logs and enrich clients' records, on nodes and as a
/// Deployment; pods of an older configuration answer, then pods that the API server refuses to watch
/// pods, then the right is granted; then the step is removed. Guarantee: nothing is stated before a
/// pod that watches answers; a missing right is stated with the pod, the consequence and the
/// remedy; the status has no figures of nodes.
#[tokio::test]
async fn a_pool_that_only_enriches_is_judged_by_the_right_it_needs() {
    for mode in ["DaemonSet", "Deployment"] {
        let world = world().await;
        world.server.edit(POOL, |pool| {
            let enrich = json!([{"name": "pods", "enrich": {"podMetadata": {}}}]);
            pool["spec"]["receivers"] = json!({});
            pool["spec"]["processing"] = enrich;
            pool["spec"]["mode"] = mode.into();
        });
        let allowed = || world.condition(POOL, "WatchesAllowed");
        let states: [(PodSample, Option<&str>); 3] = [
            (PodSample::default(), None),
            (PodSample { is_refused_pods: Some(true), ..PodSample::default() }, Some("False")),
            (PodSample { is_refused_pods: Some(false), ..PodSample::default() }, Some("True")),
        ];
        for (sample, expected) in states {
            world.set_pod("prod-edge-a", Some(sample));
            look(&world, 30).await;
            let stated = allowed();
            assert_eq!(stated.as_ref().map(|(status, ..)| status.as_str()), expected, "{mode}");
            if expected != Some("False") {
                continue;
            }
            let message = message(&world, "WatchesAllowed");
            for words in [
                "refuses 1 of 1 reporting pods (prod-edge-a is one) access to pods",
                "records of pods that aren't known get no metadata",
                "podAccess.grant",
            ] {
                assert!(message.contains(words), "{words}: {message}");
            }
        }
        let status = status(&world);
        assert!(status["nodes"].is_null() && lost(&world).is_none(), "{mode}: {status}");
        world.server.edit(POOL, |pool| pool["spec"]["processing"] = json!([]));
        look(&world, 30).await;
        assert_eq!(allowed(), None, "{mode}");
    }
}
