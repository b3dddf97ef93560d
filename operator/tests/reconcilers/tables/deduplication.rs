//! What a gateway pool says of tables that forget inserts too early, against an API server in
//! memory.

use millrace_observe::text::MetricsFormat;
use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::pods::PodSample;
use serde_json::json;

use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL as POOL, GATEWAY_SET as SET, gateway_pool};

const TABLE: &str = "otel.otel_logs";
const OTHER: &str = "otel.otel_traces";

/// A settled pool of two pods that answer.
async fn settled(settings: serde_json::Value) -> World {
    let world = World::new();
    let mut pool = gateway_pool(json!({"replicas": 2}));
    for (field, value) in settings.as_object().unwrap() {
        pool["spec"][field] = value.clone();
    }
    world.server.put(POOL, pool);
    for _ in 0..3 {
        world.reconcile::<GatewayPools>(POOL).await.unwrap();
        world.finish_rollouts();
    }
    world.run_pods(SET, json!({"memory": "1000", "cpu": "1"}));
    world
}

/// Inserts so far of each of the two pods into the table, and what it remembers; another table
/// remembers enough.
fn tell(world: &World, inserts: u64, remembers: u64, seconds: Option<u64>) {
    for pod in 0..2 {
        let table = |count: u64| [(TABLE.to_owned(), count), (OTHER.to_owned(), 1_000_000)];
        let sample = PodSample {
            table_inserts: [(TABLE.to_owned(), inserts), (OTHER.to_owned(), inserts)].into(),
            table_remembers_inserts: table(remembers).into(),
            table_remembers_seconds: seconds.map(|it| (TABLE.to_owned(), it)).into_iter().collect(),
            ..PodSample::default()
        };
        world.set_pod(&format!("prod-gateway-{pod}"), Some(sample));
    }
}

/// What the operator's own figures say of the pool.
fn figure(world: &World, pool: &str) -> Option<f64> {
    let text = world.context.metrics.render(MetricsFormat::Prometheus).unwrap();
    let series = format!(
        "millrace_operator_deduplication_short_ratio{{pool=\"{pool}\",\
         pool_namespace=\"telemetry\",table=\"{TABLE}\"}} "
    );
    let line = text.lines().find_map(|line| line.strip_prefix(&series).map(str::to_owned));
    line.map(|value| value.parse().unwrap())
}

/// Looks again after so many seconds.
async fn look(world: &World, seconds: i64) {
    world.pass(seconds);
    world.reconcile::<GatewayPools>(POOL).await.unwrap();
}

/// Status, reason and message of the condition.
fn says(world: &World) -> (String, String, String) {
    let pool = world.server.get(POOL).unwrap();
    let conditions = pool["status"]["conditions"].as_array().unwrap().clone();
    let found = conditions.iter().find(|it| it["type"] == "DeduplicationAtRisk").unwrap();
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    (text("status"), text("reason"), text("message"))
}

/// Scenario: two pods of 100 inserts a second each into a table that remembers 10,000: 50 s of
/// them. Then the window is widened; then inserts are few. Guarantee: the condition holds with the
/// number to set, told by one event and counted once, while Ready stays true; it ends with the
/// window; a quiet minute doesn't hide what came in the last ten.
#[tokio::test]
async fn a_table_that_forgets_inserts_too_early_is_told() {
    let world = settled(json!({})).await;
    tell(&world, 0, 10_000, None);
    look(&world, 10).await;
    assert_eq!(says(&world).0, "False", "one look makes no rate");
    world.server.take_event_reasons();
    tell(&world, 1_000, 10_000, None);
    look(&world, 10).await;
    let (status, reason, message) = says(&world);
    assert_eq!((&*status, &*reason), ("True", "DeduplicationWindowShort"), "{message}");
    assert!(message.contains(TABLE) && !message.contains(OTHER), "{message}");
    // 200 a second for 45 + 60 + 60 + 60 s are 45,000; twice that, up to a power of two.
    assert!(
        message.contains("non_replicated_deduplication_window to 131072 at least"),
        "{message}"
    );
    assert_eq!(world.server.take_event_reasons(), ["DeduplicationWindowShort"]);
    assert!(world.is_ready(POOL), "nothing is held up");
    world.server.take_writes();
    tell(&world, 1_001, 10_000, None);
    look(&world, 60).await;
    assert_eq!(says(&world).0, "True", "a quiet minute");
    assert_eq!(world.server.take_writes(), []);
    tell(&world, 1_002, 131_072, None);
    look(&world, 10).await;
    let (_, reason, message) = says(&world);
    assert_eq!(reason, "DeduplicationWindowSufficient");
    // 131,072 inserts at 200 a second last 655 s.
    assert!(message.contains("for over 512 s (otel.otel_logs the shortest)"), "{message}");
    assert!(message.contains("after 225 s at most"), "{message}");
    tell(&world, 1_003, 10_000, None);
    look(&world, 900).await;
    assert_eq!(says(&world).0, "False", "ten minutes without");
}

/// Scenario: a replicated table remembers inserts for a minute; a pool that delivers at least once
/// writes into one that forgets. Guarantee: the first is at risk by its time, with the setting's
/// name; the second is none, and says why.
#[tokio::test]
async fn the_time_counts_too_and_copies_may_be_allowed() {
    let world = settled(json!({})).await;
    for inserts in [0, 10] {
        tell(&world, inserts, 10_000, Some(60));
        look(&world, 10).await;
    }
    let (status, _, message) = says(&world);
    assert_eq!(status, "True");
    let advice = "replicated_deduplication_window_seconds to 450 at least";
    assert!(message.contains(advice), "{message}");
    let world = settled(json!({"delivery": "AtLeastOnce"})).await;
    for inserts in [0, 10_000] {
        tell(&world, inserts, 100, None);
        look(&world, 10).await;
    }
    let (status, reason, _) = says(&world);
    assert_eq!((&*status, &*reason), ("False", "DuplicatesAllowed"));
}

/// Scenario: two pools of 40 inserts a second each write one table that remembers 10,000, which is
/// enough for either; a third writes one of that name elsewhere; then one of the two writes less,
/// and more shards share the inserts. Guarantee: together they are at risk, as condition and as
/// figure, by what both insert and the table's own window; the third isn't; shards are counted one
/// by one; the figure goes when the risk does.
#[tokio::test]
async fn pools_that_write_one_table_count_together() {
    const MORE: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/gatewaypools/more";
    const ELSEWHERE: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/gatewaypools/far";
    let world = settled(json!({})).await;
    for (path, endpoint) in [(MORE, "http://clickhouse:8123"), (ELSEWHERE, "http://far:8123")] {
        let pool = json!({"replicas": 2, "clickhouse": {"endpoints": [endpoint]}});
        world.server.put(path, gateway_pool(pool));
        for _ in 0..3 {
            world.reconcile::<GatewayPools>(path).await.unwrap();
            world.finish_rollouts();
        }
        let name = path.rsplit('/').next().unwrap();
        world.run_pods(&SET.replace("prod", name), json!({"memory": "1000", "cpu": "1"}));
    }
    async fn looks(world: &World, inserts: u64) {
        tell(world, inserts, 10_000, None);
        for name in ["more", "far"] {
            for pod in 0..2 {
                let sample = PodSample {
                    table_inserts: [(TABLE.to_owned(), inserts)].into(),
                    table_remembers_inserts: [(TABLE.to_owned(), 10_000)].into(),
                    ..PodSample::default()
                };
                world.set_pod(&format!("{name}-gateway-{pod}"), Some(sample));
            }
        }
        world.pass(10);
        for path in [POOL, MORE, ELSEWHERE, POOL] {
            world.reconcile::<GatewayPools>(path).await.unwrap();
        }
    }
    for turn in 0..4 {
        looks(&world, turn * 200).await;
    }
    let (status, _, message) = says(&world);
    assert_eq!(status, "True", "{message}");
    assert!(message.contains("with other pools'"), "{message}");
    // 80 a second for 225 s are 18,000, of which it remembers 10,000.
    assert_eq!(figure(&world, "prod"), Some(1.8));
    assert_eq!(figure(&world, "more"), Some(1.8));
    assert_eq!(figure(&world, "far"), None);
    world.server.edit(POOL, |pool| {
        let endpoints = ["http://clickhouse:8123", "http://other:8123"];
        pool["spec"]["clickhouse"] = json!({"endpoints": endpoints, "shards": 2});
    });
    world.reconcile::<GatewayPools>(POOL).await.unwrap();
    assert_eq!(says(&world).0, "False");
    assert_eq!((figure(&world, "prod"), figure(&world, "more")), (None, Some(1.8)));
}
