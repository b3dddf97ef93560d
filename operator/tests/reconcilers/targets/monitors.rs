//! Pools that follow monitors, against an API server in memory: what is found, what is gathered,
//! what is told, and that nothing is taken away while something isn't known.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use millrace_crds::v1alpha1::EdgePool;
use millrace_monitors::{DiscoveryResult, MonitorKind};
use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::discovery::{Watched, needed_watches};
use millrace_operator::error::StepError;
use millrace_operator::monitors::{self, MonitorMemory};
use millrace_operator::pool::discover;
use millrace_operator::sharing;
use serde_json::{Value, json};

use crate::reconcilers::pools::edge::{DEPLOYMENT, POOL, pool, world};
use crate::reconcilers::support::world::World;

const MONITOR: &str = "/apis/monitoring.coreos.com/v1/namespaces/telemetry/podmonitors/shop";
const GATHERED: &str = "/api/v1/namespaces/telemetry/secrets/prod-edge-monitors";
const USER: &str = "/api/v1/namespaces/telemetry/secrets/user";
const APP: &str = "/api/v1/namespaces/telemetry/pods/app-1";

fn following(kubernetes: &Value) -> Value {
    let mut wanted = pool();
    wanted["spec"]["signals"] = json!({"metrics": {}});
    wanted["spec"]["receivers"] = json!({"prometheus": {"kubernetes": kubernetes}});
    wanted
}

fn monitor(endpoints: &Value) -> Value {
    json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "metadata": {},
        "spec": {"selector": {"matchLabels": {"app": "shop"}}, "podMetricsEndpoints": endpoints}})
}

fn app(ip: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"app": "shop"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "app",
            "ports": [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]}]},
        "status": {"podIP": ip, "phase": "Running"}})
}

/// A pool that follows PodMonitors, one of which wants a password; its Secret; a pod.
fn followed() -> World {
    let world = world();
    world.server.put(POOL, following(&json!({"podMonitors": {}})));
    let key = |key: &str| json!({"name": "user", "key": key});
    let endpoint =
        json!({"port": "web", "basicAuth": {"username": key("u"), "password": key("p")}});
    world.server.put(MONITOR, monitor(&json!([endpoint])));
    let data = json!({"u": "dQ==", "p": "aHVudGVyMw==", "other": "aHVudGVyMw=="});
    world
        .server
        .put(USER, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": data}));
    world.server.put(APP, app("10.0.0.1"));
    world
}

fn pool_of(world: &World) -> EdgePool {
    serde_json::from_value(world.server.get(POOL).unwrap()).unwrap()
}

/// Watches what the pool needs, as the operator does before each round.
fn watch(world: &World) {
    let wants = discover::discovery_request(&pool_of(world)).unwrap();
    world.context.discovery.watch_needed(&needed_watches(&wants));
}

/// What is found, as soon as it is as expected. Time is paused: waiting costs none.
async fn found(
    world: &World,
    memory: &mut MonitorMemory,
    is_expected: impl Fn(&Result<Option<Arc<DiscoveryResult>>, StepError>) -> bool,
) -> Result<Option<Arc<DiscoveryResult>>, StepError> {
    let pool = pool_of(world);
    for _ in 0..1_000 {
        watch(world);
        let found = monitors::discover_pool_targets(&world.context, &pool, memory).await;
        if is_expected(&found) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it didn't come to what was expected");
}

async fn scraped(world: &World, memory: &mut MonitorMemory) -> Arc<DiscoveryResult> {
    found(world, memory, Result::is_ok).await.unwrap().unwrap()
}

/// Scenario: a monitor that names a password. Guarantee: its target is found; the pool's Secret,
/// which it owns, has the named keys alone; no other object has them; pods mount it as files.
#[tokio::test(start_paused = true)]
async fn monitors_are_followed_and_their_secrets_gathered() {
    let world = followed();
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let found = scraped(&world, &mut MonitorMemory::default()).await;
    assert_eq!(found.targets.len(), 1);
    assert_eq!(found.targets[0].address, "10.0.0.1:8080");
    assert_eq!(found.targets[0].labels["job"], "telemetry/shop");
    let job = &found.jobs["podMonitor/telemetry/shop/0"];
    let file = job.basic_auth.as_ref().unwrap().password_file.as_ref().unwrap().to_string();
    let gathered = world.server.get(GATHERED).unwrap();
    let key = file.strip_prefix("/etc/millrace/monitors/").unwrap();
    assert_eq!(gathered["data"][key], "aHVudGVyMw==");
    assert_eq!(gathered["data"].as_object().unwrap().len(), 2);
    assert_eq!(gathered["metadata"]["ownerReferences"][0]["kind"], "EdgePool");
    for (path, object) in world.server.snapshot() {
        let has =
            object.to_string().contains("aHVudGVyMw==") || object.to_string().contains("hunter3");
        assert_eq!(has, path == USER || path == GATHERED, "{path}");
    }
    let status = world.server.get(POOL).unwrap()["status"].to_string();
    let deployment = world.server.get(DEPLOYMENT).unwrap_or_else(|| panic!("{status}"));
    let template = deployment["spec"]["template"]["spec"].to_string();
    assert!(template.contains("\"secretName\":\"prod-edge-monitors\""), "{template}");
    assert!(template.contains("\"mountPath\":\"/etc/millrace/monitors\""), "{template}");
}

/// Scenario: nothing changes for minutes; then the password does. Guarantee: nothing is written and
/// the same value comes, until the new password is in the pool's Secret within a minute.
#[tokio::test(start_paused = true)]
async fn a_changed_secret_is_gathered_within_a_minute() {
    let (world, mut memory) = (followed(), MonitorMemory::default());
    let first = scraped(&world, &mut memory).await;
    world.server.take_writes();
    for _ in 0..5 {
        world.pass(60);
        let next = scraped(&world, &mut memory).await;
        assert!(Arc::ptr_eq(&first, &next));
    }
    assert_eq!(world.server.take_writes(), []);
    world.server.edit(USER, |secret| secret["data"]["p"] = json!("bmV3"));
    world.pass(60);
    let next = scraped(&world, &mut memory).await;
    assert!(Arc::ptr_eq(&first, &next));
    assert!(world.server.get(GATHERED).unwrap().to_string().contains("bmV3"));
}

/// Scenario: a monitor's Secret lacks a key, and another monitor has a field that can't be used; a
/// third one is good. Guarantee: the third is scraped; each of the others has one event, which names
/// the field, and none again.
#[tokio::test(start_paused = true)]
async fn a_broken_monitor_is_told_on_the_monitor_and_leaves_others() {
    let world = followed();
    world.server.edit(USER, |secret| {
        secret["data"].as_object_mut().unwrap().remove("p");
    });
    let other = |name: &str| MONITOR.replace("shop", name);
    world.server.put(&other("late"), monitor(&json!([{"port": "web", "interval": "0s"}])));
    world.server.put(&other("good"), monitor(&json!([{"port": "web"}])));
    let mut memory = MonitorMemory::default();
    let found = scraped(&world, &mut memory).await;
    assert_eq!(found.jobs.keys().collect::<Vec<_>>(), ["podMonitor/telemetry/good/0"]);
    assert_eq!((found.counts.applied, found.counts.broken), (1, 2));
    let events = world.server.take_events();
    assert_eq!(
        events,
        [
            "MonitorInvalid PodMonitor late: spec.podMetricsEndpoints[0].interval: `0s` can't be \
             used: write whole seconds, 1s to 1h (EdgePool telemetry/prod)",
            "MonitorInvalid PodMonitor shop: spec.podMetricsEndpoints[0].basicAuth.password: key p \
             of Secret telemetry/user: there is no such key (EdgePool telemetry/prod)",
        ]
    );
    world.pass(60);
    scraped(&world, &mut memory).await;
    assert_eq!(world.server.take_events(), [""; 0]);
}

/// Scenario: the cluster doesn't serve PodMonitors, and later it does. Guarantee: there is none, and
/// no fault; then there are some, without a restart.
#[tokio::test(start_paused = true)]
async fn definitions_may_come_later() {
    let (world, mut memory) = (followed(), MonitorMemory::default());
    world
        .server
        .set_fault(Some(Box::new(|_, path| path.contains("monitoring.coreos.com").then_some(404))));
    let first = scraped(&world, &mut memory).await;
    assert!(first.targets.is_empty() && first.faults.is_empty());
    world.server.set_fault(None);
    let later = found(&world, &mut memory, |found| {
        found.as_ref().is_ok_and(|it| it.as_ref().is_some_and(|it| !it.targets.is_empty()))
    });
    assert_eq!(later.await.unwrap().unwrap().targets.len(), 1);
}

/// Scenario: a watch of what was read complete is refused (403) when it is renewed, or its kind
/// isn't served (404) for longer than an API server takes to start; then requests are answered
/// again, and nothing in the cluster changes. Guarantee: what is known returns without a restart.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_for_a_while_recovers() {
    type Outcome = Result<Option<Arc<DiscoveryResult>>, StepError>;
    let is_refused: fn(&Outcome) -> bool = Result::is_err;
    let is_empty: fn(&Outcome) -> bool =
        |found| found.as_ref().is_ok_and(|it| it.as_ref().unwrap().targets.is_empty());
    let cases = [
        (403, "/pods", is_refused),
        (403, "/podmonitors", is_refused),
        (404, "/podmonitors", is_empty),
    ];
    for (status, plural, is_lost) in cases {
        let (world, mut memory) = (followed(), MonitorMemory::default());
        assert_eq!(scraped(&world, &mut memory).await.targets.len(), 1);
        let refuse = move |_: &_, path: &str| path.ends_with(plural).then_some(status);
        world.server.set_fault(Some(Box::new(refuse)));
        let _ = found(&world, &mut memory, is_lost).await;
        world.server.set_fault(None);
        let is_found = |found: &Outcome| {
            found.as_ref().is_ok_and(|it| it.as_ref().unwrap().targets.len() == 1)
        };
        found(&world, &mut memory, is_found).await.unwrap();
    }
}

/// Scenario: the operator may not list pods; a pool that looks into other namespaces, which it may
/// not; a Secret of the name that the pool's would have, of somebody else. Guarantee: nothing is
/// said of targets, and it is said why; the Secret stays as it is.
#[tokio::test(start_paused = true)]
async fn what_is_not_allowed_is_named() {
    let said = |world: World| async move {
        let mut memory = MonitorMemory::default();
        let is_told = |found: &Result<Option<Arc<DiscoveryResult>>, StepError>| {
            found.as_ref().is_err_and(|error| {
                let cause = error.cause();
                !cause.ends_with("are not read yet")
            })
        };
        found(&world, &mut memory, is_told).await.unwrap_err().cause()
    };
    let world = followed();
    world.server.set_fault(Some(Box::new(|_, path| path.ends_with("/pods").then_some(403))));
    let cause = said(world).await;
    assert!(cause.contains("Pods") && cause.contains("discovery.enabled"), "{cause}");

    let world = followed();
    world.server.put(POOL, following(&json!({"podMonitors": {"namespaceSelector": {}}})));
    let cause = said(world).await;
    assert!(cause.contains("podMonitors") && cause.contains("acrossNamespaces"), "{cause}");

    let world = followed();
    let theirs =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"a": "Yg=="}});
    world.server.put(GATHERED, theirs);
    let server = world.server.clone();
    let cause = said(world).await;
    assert!(cause.contains("prod-edge-monitors does not belong to this pool"), "{cause}");
    assert_eq!(server.get(GATHERED).unwrap()["data"], json!({"a": "Yg=="}));
}

/// Scenario: an operator that may not gather Secrets. Guarantee: monitors that name keys are left
/// out, with what to set; nothing is written.
#[tokio::test(start_paused = true)]
async fn without_the_right_no_secret_is_gathered() {
    let mut world = followed();
    Arc::get_mut(&mut world.context).unwrap().gathers_secrets = false;
    let found = scraped(&world, &mut MonitorMemory::default()).await;
    assert!(found.targets.is_empty());
    assert!(found.faults[0].to_string().contains("discovery.secrets"), "{:?}", found.faults);
    assert!(world.server.get(GATHERED).is_none());
}

/// Scenario: pools that stop asking. Guarantee: nothing is watched or kept any more.
#[tokio::test(start_paused = true)]
async fn nothing_is_watched_that_nobody_asks_for() {
    let world = followed();
    scraped(&world, &mut MonitorMemory::default()).await;
    let version = world.context.discovery.version();
    world.context.discovery.watch_needed(&BTreeSet::new());
    assert_ne!(world.context.discovery.version(), version);
    world.context.discovery.watch_needed(&BTreeSet::from([Watched::Monitors(MonitorKind::Probe)]));
    let refused = monitors::discover_pool_targets(
        &world.context,
        &pool_of(&world),
        &mut MonitorMemory::default(),
    )
    .await;
    assert!(refused.unwrap_err().cause().contains("are not read yet"));
}

/// Scenario: a new leader that may not list what a pool's targets are made of, and a pod of the
/// pool that is gone. Guarantee: the other pod gets its targets as documents have them; the status'
/// figures say that nothing new is known.
#[tokio::test(start_paused = true)]
async fn a_leader_that_knows_nothing_yet_hands_over_what_documents_have() {
    let world = followed();
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let labels = world.server.get(DEPLOYMENT).unwrap()["spec"]["selector"]["matchLabels"].clone();
    let path = |name: &str| format!("/api/v1/namespaces/telemetry/pods/{name}");
    let start = |name: &str, ip: &str| {
        let own = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels},
            "status": {"podIP": ip, "phase": "Running"}});
        world.server.put(&path(name), own);
        world.set_report(name, Some(millrace_operator::pods::ShareReport::default()));
    };
    start("prod-edge-1", "10.0.0.9");
    scraped(&world, &mut MonitorMemory::default()).await;
    let pool = pool_of(&world);
    let mut memory = sharing::SharingMemory::default();
    for _ in 0..3 {
        world.pass(5);
        sharing::run_round(&world.context, &pool, &mut memory).await.unwrap();
    }
    let share_of = |name: &str| {
        let uid = world.server.get(&path(name)).unwrap()["metadata"]["uid"].clone();
        let maps = world.server.select(|path| path.contains("/configmaps/"));
        let own =
            maps.iter().filter(|(_, map)| map["metadata"]["labels"][sharing::POD_LABEL] == uid);
        own.filter(|(_, map)| map.to_string().contains("10.0.0.1:8080")).count()
    };
    assert_eq!(share_of("prod-edge-1"), 1);

    start("prod-edge-2", "10.0.0.8");
    world.server.delete(&path("prod-edge-1"));
    world.set_report("prod-edge-1", None);
    world.context.discovery.watch_needed(&BTreeSet::new());
    let refused = |_: &_, path: &str| path.ends_with("/podmonitors").then_some(403);
    world.server.set_fault(Some(Box::new(refused)));
    watch(&world);
    let mut memory = sharing::SharingMemory::default();
    for _ in 0..12 {
        world.pass(5);
        sharing::run_round(&world.context, &pool, &mut memory).await.unwrap();
    }
    assert_eq!(share_of("prod-edge-2"), 1);
    let figures = world.context.scraping.get(pool.metadata.uid.as_deref().unwrap());
    assert_eq!((figures.targets, figures.assigned), (1, 1));
    assert!(figures.failure.is_some());
}

/// Scenario: rounds of sharing out, with a pod of the pool; the pool's spec names what the operator
/// can't find any more. Guarantee: what was found is shared out and counted; then it stays shared
/// out, and the status' figures say why nothing new comes.
#[tokio::test(start_paused = true)]
async fn what_is_found_is_shared_out_and_stays_while_nothing_is_known() {
    let world = followed();
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let labels = world.server.get(DEPLOYMENT).unwrap()["spec"]["selector"]["matchLabels"].clone();
    let own = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels},
        "status": {"podIP": "10.0.0.9", "phase": "Running"}});
    world.server.put("/api/v1/namespaces/telemetry/pods/prod-edge-1", own);
    let report = millrace_operator::pods::ShareReport::default();
    world.set_report("prod-edge-1", Some(report));
    scraped(&world, &mut MonitorMemory::default()).await;
    let mut memory = sharing::SharingMemory::default();
    for _ in 0..3 {
        world.pass(5);
        sharing::run_round(&world.context, &pool_of(&world), &mut memory).await.unwrap();
    }
    let shared = || {
        let maps = world.server.select(|path| path.contains("/configmaps/"));
        maps.iter().filter(|(_, map)| map.to_string().contains("10.0.0.1:8080")).count()
    };
    assert_eq!(shared(), 1);
    let uid = pool_of(&world).metadata.uid.unwrap();
    let figures = world.context.scraping.get(&uid);
    assert_eq!((figures.targets, figures.monitors, figures.invalid_monitors), (1, 1, 0));
    world.server.put(POOL, following(&json!({"podMonitors": {"namespaceSelector": {}}})));
    world.pass(5);
    sharing::run_round(&world.context, &pool_of(&world), &mut memory).await.unwrap();
    assert_eq!(shared(), 1);
    let (_, failure) = world.context.scraping.get(&uid).failure.unwrap();
    assert!(failure.contains("acrossNamespaces"), "{failure}");
}

/// Scenario: a new leader may not list what a pool's targets are made of, and there are no
/// documents. Guarantee: documents are listed once, not at each round.
#[tokio::test(start_paused = true)]
async fn a_lasting_failure_costs_no_lists_of_documents() {
    for (selector, lists) in [(json!({}), 1)] {
        let world = followed();
        world.server.put(POOL, following(&json!({"podMonitors": selector})));
        let read = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = read.clone();
        let refused = move |_: &_, path: &str| {
            let lists = usize::from(path.ends_with("/configmaps"));
            counted.fetch_add(lists, std::sync::atomic::Ordering::Relaxed);
            path.ends_with("/podmonitors").then_some(403)
        };
        world.server.set_fault(Some(Box::new(refused)));
        watch(&world);
        let mut memory = sharing::SharingMemory::default();
        for _ in 0..6 {
            world.pass(5);
            let outcome = sharing::run_round(&world.context, &pool_of(&world), &mut memory).await;
            assert!(outcome.is_err());
        }
        assert_eq!(read.load(std::sync::atomic::Ordering::Relaxed), lists, "{selector}");
    }
}
