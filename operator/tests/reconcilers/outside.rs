//! What the reconcilers of topics and schemas do when the outside is away: conditions, retries,
//! finalizers. What they do with a real broker and engine is tested in `e2e`.

use std::sync::{Arc, Mutex};

use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL, GATEWAY_SET, gateway_pool};
use futures::future::{BoxFuture, FutureExt};
use kube::runtime::controller::Action;
use millrace_ddl as ddl;
use millrace_operator::clickhouse::TableAccess;
use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::controllers::schema::Schemas;
use millrace_operator::controllers::topic::Topics;
use millrace_operator::error::Category;
use millrace_operator::kafka::Sessions;
use millrace_operator::outbound::Outbound;
use millrace_operator::reconcile::controller;
use serde_json::{Value, json};
use tokio::sync::Notify;

const TOPIC: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetrytopics/prod-traces";
const SCHEMA: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetryschemas/prod";
const FINALIZER: &str = "millrace.dev/external";

/// A port nobody listens on: refused at once.
const NOBODY: &str = "http://127.0.0.1:1";

fn topic() -> Value {
    json!({
           "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryTopic", "metadata": {},
           "spec": {
               "kafka": {
                   "bootstrapServers": ["kafka:9093"],
                   "authentication": {"type": "Plain", "usernameSecret": {"name": "kafka-user", "key": "username"},
    "passwordSecret": {"name": "kafka-user", "key": "password"}},
               },
               "topicName": "otlp_traces",
           }
       })
}

fn schema(deletion_policy: &str) -> Value {
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetrySchema", "metadata": {},
        "spec": {
            "clickhouse": {"endpoints": [NOBODY]},
            "signals": {"traces": {}},
            "deletionPolicy": deletion_policy,
        }
    })
}

fn finalizers(world: &World, path: &str) -> Vec<String> {
    // An object that was let go is gone.
    let object = world.server.get(path).unwrap_or_default();
    serde_json::from_value(object["metadata"]["finalizers"].clone()).unwrap_or_default()
}

fn conditions(world: &World, path: &str, types: &[&str]) -> Vec<(String, String)> {
    let found = types.iter().map(|type_| world.condition(path, type_).unwrap());
    found.map(|(status, reason, _)| (status, reason)).collect()
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// Scenario: the Secret a topic's connection names is missing. Guarantee: conditions and an event
/// say so, the topic counts as unknown, it is tried again, and saying it again writes nothing.
#[tokio::test]
async fn a_topic_without_its_secret_says_which_one_is_missing() {
    let world = World::new();
    world.server.put(TOPIC, topic());
    world.reconcile::<Topics>(TOPIC).await.unwrap_err();
    let told = conditions(&world, TOPIC, &["SecretsFound", "TopicReady", "Stalled", "Ready"]);
    let missing = "SecretMissing";
    let wanted = [is("False", missing), is("Unknown", missing), is("True", missing)];
    assert_eq!(told[..3], wanted);
    assert_eq!(told[3], is("False", missing));
    assert!(world.server.take_event_reasons().contains(&missing.to_owned()));
    world.server.take_writes();
    world.pass(30);
    world.reconcile::<Topics>(TOPIC).await.unwrap_err();
    assert_eq!(world.server.take_writes(), []);
    assert_eq!(world.server.take_event_reasons(), Vec::<String>::new());
}

/// Scenario: ClickHouse is away. Guarantee: the tables count as unknown, neither as wrong nor as
/// equal to what is declared; it is tried again by itself; saying it again writes nothing.
#[tokio::test]
async fn a_schema_without_a_server_is_unknown_and_tried_again() {
    let world = World::new();
    world.server.put(SCHEMA, schema("Retain"));
    world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
    let away = "ClickHouseUnreachable";
    let told = conditions(&world, SCHEMA, &["SchemaReady", "Stalled", "Ready", "SecretsFound"]);
    assert_eq!(told[..3], [is("Unknown", away), is("False", away), is("False", away)]);
    assert_eq!(told[3], is("True", "Reconciled"));
    let told = conditions(&world, SCHEMA, &["Planned", "Drifted", "Blocked"]);
    assert_eq!(told, [is("Unknown", away), is("Unknown", away), is("Unknown", away)]);
    assert_eq!(world.server.get(SCHEMA).unwrap()["status"]["revision"], Value::Null);
    world.server.take_writes();
    world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
    assert_eq!(world.server.take_writes(), []);
}

/// Scenario: the deletion policy is changed to and fro. Guarantee: the finalizer is there exactly
/// while deletion was asked for, and another controller's stays.
#[tokio::test]
async fn the_finalizer_follows_the_deletion_policy() {
    let world = World::new();
    world.server.put(SCHEMA, schema("Retain"));
    world.server.edit(SCHEMA, |object| object["metadata"]["finalizers"] = json!(["other/one"]));
    let _ = world.reconcile::<Schemas>(SCHEMA).await;
    assert_eq!(finalizers(&world, SCHEMA), ["other/one"]);
    world.server.edit(SCHEMA, |object| object["spec"]["deletionPolicy"] = "Delete".into());
    let _ = world.reconcile::<Schemas>(SCHEMA).await;
    assert_eq!(finalizers(&world, SCHEMA), ["other/one", FINALIZER]);
    world.server.edit(SCHEMA, |object| object["spec"]["deletionPolicy"] = "Retain".into());
    let _ = world.reconcile::<Schemas>(SCHEMA).await;
    assert_eq!(finalizers(&world, SCHEMA), ["other/one"]);
}

/// An object being deleted, its finalizer on, since the world's clock.
fn deleted(world: &World, policy: &str) {
    world.server.put(SCHEMA, schema(policy));
    let since = world.context.clock.now().to_string();
    world.server.edit(SCHEMA, |object| {
        object["metadata"]["finalizers"] = json!([FINALIZER]);
        object["metadata"]["deletionTimestamp"] = since.into();
    });
}

/// Scenario: an object whose tables are to go with it, and ClickHouse stays away. Guarantee: it is
/// held while trying, let go after five minutes, and an event says what is left behind.
#[tokio::test]
async fn a_deletion_that_cannot_succeed_is_given_up_in_the_end() {
    let world = World::new();
    deleted(&world, "Delete");
    world.pass(299);
    world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
    assert_eq!(finalizers(&world, SCHEMA), [FINALIZER]);
    assert!(world.server.take_event_reasons().is_empty());
    world.pass(1);
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    assert_eq!(finalizers(&world, SCHEMA), Vec::<String>::new());
    assert_eq!(world.server.take_event_reasons(), ["DeletionFailed"]);
}

/// Scenario: an object being deleted whose policy is to retain by now. Guarantee: let go at once,
/// nobody outside is asked.
#[tokio::test]
async fn an_object_that_retains_is_let_go_at_once() {
    let world = World::new();
    deleted(&world, "Retain");
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    assert_eq!(finalizers(&world, SCHEMA), Vec::<String>::new());
    assert!(world.server.take_event_reasons().is_empty());
}

/// A server whose migrations begin, say so, and end as they are told.
#[derive(Default)]
struct Slow {
    begun: Notify,
    end: Notify,
    ends_with: Mutex<Option<ddl::MigrateError>>,
    migrated: Mutex<bool>,
}

impl TableAccess for Slow {
    fn observe_tables<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<ddl::Observed, ddl::ClientError>> {
        let migrated = *self.migrated.lock().unwrap();
        let exactly = migrated.then(|| ddl::exactly::observed_as_declared(declared));
        async move { Ok(exactly.unwrap_or_default()) }.boxed()
    }

    fn migrate_tables<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        _: &'a ddl::Declared,
        _: &'a ddl::MigrateOptions,
    ) -> BoxFuture<'a, Result<ddl::MigrationReport, ddl::MigrateError>> {
        async move {
            self.begun.notify_one();
            self.end.notified().await;
            Err(self.ends_with.lock().unwrap().take().unwrap())
        }
        .boxed()
    }

    fn drop_all<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        _: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        async { Ok(()) }.boxed()
    }
}

/// Looks at the pool once with a lag above its bound; gives the reason of what was decided.
async fn sized(world: &World) -> String {
    world.pass(10);
    world.reconcile::<GatewayPools>(GATEWAY_POOL).await.unwrap();
    world.finish_rollouts();
    let pool = world.server.get(GATEWAY_POOL).unwrap();
    pool["status"]["sizing"]["reason"].as_str().unwrap().to_owned()
}

/// Scenario: a pool far behind its bound while a migration of its tables runs; another run is found
/// at work; a statement is refused; all is done. Guarantee: the pool keeps its size while
/// statements may run, says why, and grows otherwise.
#[tokio::test]
async fn a_migration_under_way_holds_the_size_of_pools_that_write_to_its_tables() {
    let mut world = World::new();
    let server = Arc::new(Slow::default());
    Arc::get_mut(&mut world.context).unwrap().tables = server.clone();
    world.server.put(SCHEMA, schema("Retain"));
    let scaling = json!({"scaling": {"minReplicas": 2, "maxReplicas": 24}});
    world.server.put(GATEWAY_POOL, gateway_pool(scaling));
    world.set_lag(Some((5_000_000, false)));
    for _ in 0..12 {
        sized(&world).await;
    }
    let size = || world.server.get(GATEWAY_SET).unwrap()["spec"]["replicas"].clone();
    let before = size();
    let run = async |ends_with: ddl::MigrateError| {
        *server.ends_with.lock().unwrap() = Some(ends_with);
        let migration = world.reconcile::<Schemas>(SCHEMA);
        let meanwhile = async {
            server.begun.notified().await;
            for _ in 0..20 {
                assert_eq!(sized(&world).await, "HoldMigration");
            }
            server.end.notify_one();
        };
        let (ended, ()) = tokio::join!(migration, meanwhile);
        ended.unwrap_err();
    };
    let author = "somebody at a shell".to_owned();
    run(ddl::MigrateError::Busy { author, silent_seconds: 1, lease_seconds: 60 }).await;
    assert_eq!(sized(&world).await, "HoldMigration");
    assert_eq!(size(), before);
    run(ddl::MigrateError::Preflight(ddl::PreflightError::NoKeeper)).await;
    let mut reasons = Vec::new();
    for _ in 0..60 {
        reasons.push(sized(&world).await);
    }
    assert!(!reasons.contains(&"HoldMigration".to_owned()), "{reasons:?}");
    assert_ne!(size(), before);
    // A look that finds nothing to do ends what was cut off before.
    let place = millrace_operator::clickhouse::migrations::TableLocation::of_object(
        &serde_json::from_value::<millrace_crds::v1alpha1::TelemetrySchema>(
            world.server.get(SCHEMA).unwrap(),
        )
        .unwrap(),
        &serde_json::from_value(json!({"endpoints": [NOBODY]})).unwrap(),
    );
    let now = world.context.clock.now();
    world.context.migrations.record_start(place.clone(), now);
    *server.migrated.lock().unwrap() = true;
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    assert!(!world.context.migrations.is_migrating(&place, now));
}

/// Servers of which some never answer; tells whose tables were dropped.
#[derive(Default)]
struct Hanging {
    /// Those that answer, by their endpoint.
    answer: Vec<&'static str>,
    migrations_hang: bool,
    dropped: Mutex<Vec<String>>,
}

impl Hanging {
    async fn ask(&self, server: &ddl::DdlClient) {
        if !self.answer.contains(&server.endpoint().to_string().as_str()) {
            std::future::pending::<()>().await;
        }
    }
}

impl TableAccess for Hanging {
    fn observe_tables<'a>(
        &'a self,
        server: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<ddl::Observed, ddl::ClientError>> {
        async move {
            self.ask(server).await;
            let exactly = ddl::exactly::observed_as_declared(declared);
            Ok(if self.migrations_hang { ddl::Observed::default() } else { exactly })
        }
        .boxed()
    }

    fn migrate_tables<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        _: &'a ddl::Declared,
        _: &'a ddl::MigrateOptions,
    ) -> BoxFuture<'a, Result<ddl::MigrationReport, ddl::MigrateError>> {
        std::future::pending().boxed()
    }

    fn drop_all<'a>(
        &'a self,
        server: &'a ddl::DdlClient,
        _: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        async move {
            self.ask(server).await;
            self.dropped.lock().unwrap().push(server.endpoint().to_string());
            Ok(())
        }
        .boxed()
    }
}

const FIRST: &str = "http://10.0.0.1:8123";
const SECOND: &str = "http://10.0.0.2:8123";

/// A world with a ready schema on two servers.
async fn ready_on_two() -> World {
    let mut world = World::new();
    asks(&mut world, Hanging { answer: vec![FIRST, SECOND], ..Hanging::default() });
    let mut object = schema("Retain");
    object["spec"]["clickhouse"]["endpoints"] = json!([FIRST, SECOND]);
    world.server.put(SCHEMA, object);
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    assert!(world.is_ready(SCHEMA), "{:?}", world.condition(SCHEMA, "Ready"));
    world.server.take_event_reasons();
    world
}

fn asks(world: &mut World, tables: Hanging) -> Arc<Hanging> {
    let tables = Arc::new(tables);
    Arc::get_mut(&mut world.context).unwrap().tables = tables.clone();
    tables
}

/// Scenario: both servers of a ready schema take connections and never answer. Guarantee: within
/// ten seconds, one wait for both, the tables are unknown and the schema isn't ready.
#[tokio::test(start_paused = true)]
async fn servers_that_hang_are_told_within_one_wait() {
    let mut world = ready_on_two().await;
    asks(&mut world, Hanging::default());
    let begun = tokio::time::Instant::now();
    world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
    assert!(begun.elapsed().as_secs() <= 10, "{:?}", begun.elapsed());
    let away = "ClickHouseUnreachable";
    let told = conditions(&world, SCHEMA, &["SchemaReady", "Ready", "Stalled"]);
    assert_eq!(told, [is("Unknown", away), is("False", away), is("False", away)]);
}

/// Scenario: a reconcile of a schema that was ready hangs until its time is over, twice. Guarantee:
/// it isn't said to be ready any more but unknown, an event tells why, and what else was told
/// stays; the second time nothing is written.
#[tokio::test(start_paused = true)]
async fn a_reconcile_that_takes_too_long_leaves_ready_unknown() {
    let mut world = ready_on_two().await;
    let answer = vec![FIRST, SECOND];
    asks(&mut world, Hanging { answer, migrations_hang: true, ..Hanging::default() });
    let revision = world.server.get(SCHEMA).unwrap()["status"]["revision"].clone();
    world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
    let late = "ReconcileTimedOut";
    let told = conditions(&world, SCHEMA, &["Ready", "SecretsFound"]);
    assert_eq!(told, [is("Unknown", late), is("True", "Reconciled")]);
    assert_eq!(world.server.get(SCHEMA).unwrap()["status"]["revision"], revision);
    assert_eq!(world.server.take_event_reasons(), [late]);
    world.server.take_writes();
    world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
    assert_eq!(world.server.take_writes(), []);
    assert_eq!(world.server.take_event_reasons(), Vec::<String>::new());
}

/// Scenario: a schema is deleted with its tables; the first of its two servers hangs. Guarantee:
/// the other's tables go at the first attempt; the object is let go after five minutes.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_keeps_no_others_tables_nor_the_object() {
    let mut world = World::new();
    let tables = asks(&mut world, Hanging { answer: vec![SECOND], ..Hanging::default() });
    deleted(&world, "Delete");
    world.server.edit(SCHEMA, |object| {
        object["spec"]["clickhouse"]["endpoints"] = json!([FIRST, SECOND]);
    });
    world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
    assert_eq!(*tables.dropped.lock().unwrap(), [SECOND]);
    assert_eq!(finalizers(&world, SCHEMA), [FINALIZER]);
    world.pass(300);
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    assert_eq!(finalizers(&world, SCHEMA), Vec::<String>::new());
    assert_eq!(world.server.take_event_reasons(), ["DeletionFailed"]);
}

/// Scenario: an object that a newer release wrote, and this one can't read, is deleted. Guarantee:
/// it is looked at again when its time is over, and then let go, with an event that says what is
/// left behind.
#[tokio::test]
async fn an_object_that_does_not_parse_is_let_go_in_the_end() {
    let world = World::new();
    deleted(&world, "Delete");
    world.server.edit(SCHEMA, |object| object["spec"]["signals"] = "all of them".into());
    world.pass(299);
    let next = world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    assert_eq!(next, Action::requeue(std::time::Duration::from_secs(1)));
    assert_eq!(finalizers(&world, SCHEMA), [FINALIZER]);
    assert_eq!(world.server.take_event_reasons(), ["Unparsable"]);
    world.pass(1);
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    assert_eq!(world.server.get(SCHEMA), None);
    // The first one again is one more of its series.
    assert_eq!(world.server.take_event_reasons(), ["DeletionFailed"]);
}

/// Scenario: a namespace is deleted, and the operator's role in it went first; what is left are the
/// rights on topics and schemas that the chart gives everywhere. Guarantee: the object is let go
/// after five minutes.
#[tokio::test]
async fn an_object_is_let_go_without_the_role_of_its_namespace() {
    let world = World::new();
    deleted(&world, "Delete");
    world.server.edit(SCHEMA, |object| {
        object["spec"]["clickhouse"]["authentication"] = json!({"type": "Password",
 "usernameSecret": {"name": "clickhouse-user", "key": "username"},
 "passwordSecret": {"name": "clickhouse-user", "key": "password"}});
    });
    world.server.set_fault(Some(Box::new(|method, path| {
        let kind = path.contains("/telemetryschemas/") && !path.ends_with("/status");
        let allowed = kind && [http::Method::GET, http::Method::PATCH].contains(method);
        (!allowed).then_some(403)
    })));
    world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
    assert_eq!(finalizers(&world, SCHEMA), [FINALIZER]);
    world.pass(300);
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    assert_eq!(world.server.get(SCHEMA), None);
}

/// Scenario: a reconcile decides on what it saw of its object; meanwhile the status says something
/// newer. Guarantee: it is a conflict, tried again soon, and what is newer stays.
#[tokio::test]
async fn what_was_decided_on_an_older_status_is_not_written() {
    let world = World::new();
    world.server.put(SCHEMA, schema("Retain"));
    let old = serde_json::from_value(world.server.get(SCHEMA).unwrap()).unwrap();
    let newer = json!({"observedGeneration": 1, "revision": "newer"});
    world.server.edit(SCHEMA, |object| object["status"] = newer.clone());
    let late = controller::reconcile_object::<Schemas>(Arc::new(old), world.context.clone()).await;
    assert_eq!(late.unwrap_err().category, Category::Conflict);
    assert_eq!(world.server.get(SCHEMA).unwrap()["status"], newer);
}

/// Scenario: an object's first reconcile, which puts the finalizer on. Guarantee: its status is
/// written in the same one: our own write is no conflict.
#[tokio::test]
async fn a_finalizer_put_on_does_not_hold_up_the_status() {
    let world = World::new();
    world.server.put(SCHEMA, schema("Delete"));
    let failed = world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
    assert_eq!(failed.category, Category::External);
    assert_eq!(finalizers(&world, SCHEMA), [FINALIZER]);
    assert_eq!(
        conditions(&world, SCHEMA, &["SchemaReady"]),
        [is("Unknown", "ClickHouseUnreachable")]
    );
}

/// Scenario: a schema and a topic name hosts that the operator may not connect to: not on its list,
/// and link-local. Guarantee: nobody is asked; the condition says which host, and it is stalled.
#[tokio::test]
async fn hosts_that_are_not_allowed_are_told_and_not_connected_to() {
    let mut world = World::new();
    let outbound = Outbound::new(vec!["*.db.example".parse().unwrap()], None);
    let context = Arc::get_mut(&mut world.context).unwrap();
    context.brokers = Arc::new(Sessions::default().bounded_by(outbound.clone()));
    context.outbound = outbound;
    let refused = [is("False", "HostNotAllowed"), is("True", "HostNotAllowed")];
    for endpoint in ["http://clickhouse.other:8123", "http://169.254.169.254:80"] {
        let mut object = schema("Retain");
        object["spec"]["clickhouse"]["endpoints"] = json!([endpoint]);
        world.server.put(SCHEMA, object);
        world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
        assert_eq!(conditions(&world, SCHEMA, &["SchemaReady", "Stalled"]), refused);
    }
    let mut object = topic();
    object["spec"]["kafka"] = json!({"bootstrapServers": ["kafka:9092"]});
    world.server.put(TOPIC, object);
    world.reconcile::<Topics>(TOPIC).await.unwrap_err();
    assert_eq!(conditions(&world, TOPIC, &["TopicReady", "Stalled"]), refused);
}
