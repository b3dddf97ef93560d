//! How soon a gateway pool at rest reads its Secrets again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millrace_operator::controllers::gateway::GatewayPools;
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL as POOL, GATEWAY_SET as SET, gateway_pool};

const SECRET: &str = "/api/v1/namespaces/telemetry/secrets/clickhouse-user";

fn put_password(world: &World, password: &str) {
    let encode = |text: &str| serde_json::to_value(k8s_openapi::ByteString(text.into())).unwrap();
    let data = json!({"username": encode("otel"), "password": encode(password)});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": data});
    world.server.put(SECRET, secret);
}

/// Reconciles every ten seconds.
async fn play(world: &World, seconds: i64) {
    for _ in 0..seconds / 10 {
        world.pass(10);
        world.reconcile::<GatewayPools>(POOL).await.unwrap();
        world.finish_rollouts();
    }
}

/// A settled pool whose Secret was read within the last ten seconds.
async fn settled_pool() -> World {
    let world = World::new();
    put_password(&world, "first");
    let key = |key: &str| json!({"name": "clickhouse-user", "key": key});
    let login = json!({"type": "Password", "usernameSecret": key("username"),
        "passwordSecret": key("password")});
    let clickhouse = json!({"endpoints": ["http://clickhouse:8123"], "authentication": login});
    world.server.put(POOL, gateway_pool(json!({"clickhouse": clickhouse, "replicas": 1})));
    play(&world, 60).await;
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
    world
}

fn counted_reads(world: &World) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    world.server.set_fault(Some(Box::new(move |method, path| {
        let is_read = *method == http::Method::GET && path == SECRET;
        counted.fetch_add(usize::from(is_read), Ordering::SeqCst);
        None
    })));
    count
}

fn digest(world: &World) -> Value {
    let set = world.server.get(SET).unwrap();
    set["spec"]["template"]["metadata"]["annotations"]["millrace.dev/secrets-digest"].clone()
}

/// Scenario: half an hour of a pool that stores everything in time. Guarantee: its Secret is read
/// every 150 to 300 s, and not every 30 s.
#[tokio::test]
async fn a_pool_that_keeps_up_rarely_reads_its_secrets() {
    let world = settled_pool().await;
    let reads = counted_reads(&world);
    play(&world, 1_800).await;
    let reads = reads.load(Ordering::SeqCst);
    assert!((5..=12).contains(&reads), "{reads} reads in 1,800 s");
}

/// Scenario: a password changes and ClickHouse refuses the old one, so that records wait longer
/// than the lag's bound. Guarantee: within 30 s of that the pods' template has the new digest.
#[tokio::test]
async fn a_pool_that_falls_behind_reads_its_secrets_within_30_s() {
    let world = settled_pool().await;
    let before = digest(&world);
    put_password(&world, "second");
    world.set_lag(Some((5_000, false)));
    play(&world, 10).await;
    assert_eq!(world.condition(POOL, "LagWithinBound").unwrap().0, "False");
    play(&world, 30).await;
    assert_ne!(digest(&world), before);
}
