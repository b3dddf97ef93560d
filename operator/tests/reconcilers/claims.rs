//! Two objects that name one topic, group or table: against an API server in memory.

use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::controllers::schema::Schemas;
use millrace_operator::controllers::topic::Topics;
use serde_json::{Value, json};

use crate::reconcilers::support::gateway_pool;
use crate::reconcilers::support::world::World;

/// A port nobody listens on: refused at once.
const NOBODY: &str = "127.0.0.1:1";

fn path(namespace: &str, plural: &str, name: &str) -> String {
    format!("/apis/millrace.dev/v1alpha1/namespaces/{namespace}/{plural}/{name}")
}

fn object(kind: &str, created: &str, spec: Value) -> Value {
    json!({"apiVersion": "millrace.dev/v1alpha1", "kind": kind,
        "metadata": {"creationTimestamp": created}, "spec": spec})
}

fn topic() -> Value {
    json!({"kafka": {"bootstrapServers": [NOBODY]}, "topicName": "otlp_traces"})
}

fn schema() -> Value {
    json!({"clickhouse": {"endpoints": [format!("http://{NOBODY}")]}, "signals": {"traces": {}}})
}

const OLDER: &str = "2026-01-01T00:00:00Z";
const YOUNGER: &str = "2026-01-02T00:00:00Z";

/// Why an object is not ready, and in what words.
fn told(world: &World, path: &str) -> (String, String) {
    let object = world.server.get(path).unwrap();
    let conditions = object["status"]["conditions"].as_array().unwrap().clone();
    let ready = conditions.iter().find(|it| it["type"] == "Ready").unwrap().clone();
    let text = |field: &str| ready[field].as_str().unwrap().to_owned();
    (text("reason"), text("message"))
}

/// Scenario: topics' objects in two namespaces name one topic of one Kafka; then both say that they
/// share it. Guarantee: Kafka is never asked for the younger one's, which says Stalled and names
/// the older one and its namespace; told once; sharing ends it.
#[tokio::test]
async fn the_younger_of_two_objects_of_one_topic_is_refused() {
    let world = World::new();
    let (first, second) =
        (path("a", "telemetrytopics", "prod"), path("b", "telemetrytopics", "aaa"));
    world.server.put(&first, object("TelemetryTopic", OLDER, topic()));
    world.server.put(&second, object("TelemetryTopic", YOUNGER, topic()));
    world.reconcile::<Topics>(&first).await.unwrap_err();
    assert_ne!(told(&world, &first).0, "HeldByAnother");
    world.server.take_event_reasons();
    for _ in 0..2 {
        world.reconcile::<Topics>(&second).await.unwrap_err();
    }
    let (reason, message) = told(&world, &second);
    assert_eq!(reason, "HeldByAnother");
    assert!(message.contains("otlp_traces on 127.0.0.1:1 is held by TelemetryTopic prod"));
    assert!(message.contains("in namespace a"), "{message}");
    assert_eq!(world.condition(&second, "Stalled").unwrap().0, "True");
    assert_eq!(world.server.take_event_reasons(), ["HeldByAnother"]);
    for each in [&first, &second] {
        world.server.edit(each, |object| object["spec"]["ownership"] = "Shared".into());
        world.reconcile::<Topics>(each).await.unwrap_err();
    }
    assert_ne!(told(&world, &second).0, "HeldByAnother");
}

/// Scenario: schemas in two namespaces, with defaults, on one server of several. Guarantee: the
/// younger one is refused and names the older one; one with another prefix, or of another signal,
/// is not.
#[tokio::test]
async fn the_younger_of_two_schemas_of_the_same_tables_is_refused() {
    let world = World::new();
    let at = |namespace: &str| path(namespace, "telemetryschemas", "prod");
    let mut several = schema();
    several["clickhouse"]["endpoints"] = json!(["http://127.0.0.1:2", format!("http://{NOBODY}")]);
    let mut apart = schema();
    apart["clickhouse"]["tablePrefix"] = "apart".into();
    let mut other = schema();
    other["signals"] = json!({"logs": {}});
    for (namespace, created, spec) in [
        ("a", OLDER, several),
        ("b", YOUNGER, schema()),
        ("c", YOUNGER, apart),
        ("d", YOUNGER, other),
    ] {
        world.server.put(&at(namespace), object("TelemetrySchema", created, spec));
        world.reconcile::<Schemas>(&at(namespace)).await.unwrap_err();
    }
    let (reason, message) = told(&world, &at("b"));
    assert_eq!(reason, "HeldByAnother");
    assert!(message.contains("the tables of traces in otel.otel_*"), "{message}");
    assert!(message.contains("TelemetrySchema prod in namespace a"), "{message}");
    for free in ["a", "c", "d"] {
        assert_ne!(told(&world, &at(free)).0, "HeldByAnother");
    }
}

/// Scenario: gateway pools a-b/c and a/b-c with default groups, and two that name the first one's.
/// Guarantee: the defaults differ; no workload is made for those that name another's, which say
/// whose it is; once that one is gone the next has it.
#[tokio::test]
async fn pools_of_one_consumer_group_do_not_read_each_others_partitions() {
    let world = World::new();
    let pools = [
        path("a-b", "gatewaypools", "c"),
        path("a", "gatewaypools", "b-c"),
        path("y", "gatewaypools", "y"),
        path("z", "gatewaypools", "z"),
    ];
    for (at, pool) in pools.iter().enumerate() {
        let more = if at >= 2 { json!({"consumerGroup": "millrace.a-b.c"}) } else { json!({}) };
        let spec = gateway_pool(more)["spec"].take();
        let created = format!("2026-01-0{}T00:00:00Z", at + 1);
        world.server.put(pool, object("GatewayPool", &created, spec));
        let outcome = world.reconcile::<GatewayPools>(pool).await;
        assert_eq!(outcome.is_ok(), at < 2, "{pool}");
    }
    let sets = |world: &World| -> usize {
        world.server.paths().iter().filter(|path| path.contains("/statefulsets/")).count()
    };
    assert_eq!(sets(&world), 2);
    for pool in &pools[2..] {
        let (reason, message) = told(&world, pool);
        assert_eq!(reason, "HeldByAnother");
        assert!(message.contains("consumer group millrace.a-b.c on kafka:9092"), "{message}");
        assert!(message.contains("GatewayPool c in namespace a-b"), "{message}");
        assert_eq!(world.condition(pool, "Stalled").unwrap().0, "True");
    }
    world.context.claims.remove_claims("GatewayPool/a-b/c");
    world.reconcile::<GatewayPools>(&pools[2]).await.unwrap();
    assert_eq!(sets(&world), 3);
}

/// Scenario: an object that was refused, or shares, is deleted with the policy Delete. Guarantee:
/// the topic and the tables, which are another's too, are not touched; the object goes and says so.
#[tokio::test]
async fn what_is_anothers_too_is_not_deleted() {
    let world = World::new();
    let own = |plural: &str, namespace: &str| path(namespace, plural, "prod");
    for (plural, kind, spec) in [
        ("telemetrytopics", "TelemetryTopic", topic()),
        ("telemetryschemas", "TelemetrySchema", schema()),
    ] {
        let mut doomed = object(kind, YOUNGER, spec.clone());
        doomed["spec"]["deletionPolicy"] = "Delete".into();
        doomed["metadata"]["finalizers"] = json!(["millrace.dev/external"]);
        doomed["metadata"]["deletionTimestamp"] = OLDER.into();
        world.server.put(&own(plural, "a"), object(kind, OLDER, spec));
        world.server.put(&own(plural, "b"), doomed);
        let reconcile = async |path: &str| match kind {
            "TelemetryTopic" => world.reconcile::<Topics>(path).await,
            _ => world.reconcile::<Schemas>(path).await,
        };
        let _ = reconcile(&own(plural, "a")).await;
        world.server.take_event_reasons();
        reconcile(&own(plural, "b")).await.unwrap();
        assert!(world.server.get(&own(plural, "b")).is_none());
        assert_eq!(world.server.take_event_reasons(), ["HeldByAnother"]);
    }
}
