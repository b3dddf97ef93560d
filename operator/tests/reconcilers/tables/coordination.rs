//! Keeper or ZooKeeper of replicated tables: what a schema says of it, what waits for it, and what
//! reaches the pipeline.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt};
use millrace_coordination::observation::{
    CoordinationView, KeeperServer, KeeperSession, ProbeError, ServerReport, ServerRole, ViewError,
};
use millrace_ddl as ddl;
use millrace_observe::text::MetricsFormat;
use millrace_operator::clickhouse::TableAccess;
use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::controllers::schema::Schemas;
use millrace_operator::coordination::{Coordinators, ProbeRequest};
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL, GATEWAY_SET, gateway_pool};

const SCHEMA: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetryschemas/prod";

/// ClickHouse and Keeper as they are told to be.
struct Outside {
    sight: Mutex<Result<CoordinationView, ViewError>>,
    servers: Mutex<Vec<KeeperServer>>,
    /// Whether the tables are there.
    are_there: Mutex<bool>,
    migrations: AtomicUsize,
}

fn sees(is_expired: bool) -> CoordinationView {
    let session = KeeperSession {
        name: "default".into(),
        server: "zk-0:2181".into(),
        is_expired,
        age_seconds: 60,
    };
    CoordinationView { sessions: vec![session], ..CoordinationView::default() }
}

fn says(name: &str, said: Result<ServerRole, ProbeError>) -> KeeperServer {
    let report = |role| ServerReport { role, synced_followers: Some(2), ..ServerReport::default() };
    let said = said.map(|role| match role {
        ServerRole::Leader => report(role),
        _ => ServerReport { role, ..ServerReport::default() },
    });
    KeeperServer { address: format!("{name}:2181"), report: said }
}

fn ensemble(said: [Result<ServerRole, ProbeError>; 3]) -> Vec<KeeperServer> {
    let names = ["zk-0", "zk-1", "zk-2"];
    names.into_iter().zip(said).map(|(name, said)| says(name, said)).collect()
}

fn healthy() -> Vec<KeeperServer> {
    ensemble([Ok(ServerRole::Leader), Ok(ServerRole::Follower), Ok(ServerRole::Follower)])
}

impl Outside {
    fn new() -> Self {
        Self {
            sight: Mutex::new(Ok(sees(false))),
            servers: Mutex::new(healthy()),
            are_there: Mutex::new(true),
            migrations: AtomicUsize::new(0),
        }
    }

    fn set(&self, servers: Vec<KeeperServer>, sight: Result<CoordinationView, ViewError>) {
        *self.servers.lock().unwrap() = servers;
        *self.sight.lock().unwrap() = sight;
    }
}

impl Coordinators for Outside {
    fn probe_servers<'a>(&'a self, ask: &'a ProbeRequest) -> BoxFuture<'a, Vec<KeeperServer>> {
        let mut servers = self.servers.lock().unwrap().clone();
        servers.truncate(ask.servers.len());
        async move { servers }.boxed()
    }
}

impl TableAccess for Outside {
    fn observe_tables<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<ddl::Observed, ddl::ClientError>> {
        let there =
            self.are_there.lock().unwrap().then(|| ddl::exactly::observed_as_declared(declared));
        async move { Ok(there.unwrap_or_default()) }.boxed()
    }

    fn migrate_tables<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        _: &'a ddl::Declared,
        _: &'a ddl::MigrateOptions,
    ) -> BoxFuture<'a, Result<ddl::MigrationReport, ddl::MigrateError>> {
        self.migrations.fetch_add(1, Ordering::SeqCst);
        async { Err(ddl::MigrateError::Preflight(ddl::PreflightError::NoKeeper)) }.boxed()
    }

    fn drop_all<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        _: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        async { Ok(()) }.boxed()
    }

    fn observe_coordination<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        _: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<CoordinationView, ViewError>> {
        let sight = self.sight.lock().unwrap().clone();
        async { sight }.boxed()
    }
}

fn schema(engine: &str) -> Value {
    let servers = ["zk-0:2181", "zk-1:2181", "zk-2:2181"];
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetrySchema", "metadata": {},
        "spec": {
            "clickhouse": {"endpoints": ["http://ch:8123"], "coordination": {"servers": servers}},
            "signals": {"traces": {"engine": engine}},
        }
    })
}

fn world(engine: &str) -> (World, Arc<Outside>) {
    let mut world = World::new();
    let outside = Arc::new(Outside::new());
    let context = Arc::get_mut(&mut world.context).unwrap();
    context.tables = outside.clone();
    context.coordination = outside.clone();
    world.server.put(SCHEMA, schema(engine));
    (world, outside)
}

fn told(world: &World) -> Option<(String, String)> {
    let (status, reason, _) = world.condition(SCHEMA, "CoordinationHealthy")?;
    Some((status, reason))
}

fn away() -> Result<ServerRole, ProbeError> {
    Err(ProbeError::Unreachable("connection refused".into()))
}

fn metric(world: &World, state: &str) -> bool {
    let text = world.context.metrics.render(MetricsFormat::Prometheus).unwrap();
    text.contains(&format!(
        "millrace_operator_coordination_unhealthy{{schema=\"prod\",\
         schema_namespace=\"telemetry\",state=\"{state}\"}} 1"
    ))
}

/// Scenario: an ensemble goes from healthy over one server down, a lost quorum, an expired session
/// and a missing right back to healthy. Guarantee: the condition, its event and the metric say each;
/// Ready waits for none of it; the status has the summary.
#[tokio::test]
async fn a_schema_says_how_its_coordination_is() {
    let (world, outside) = world("ReplicatedMergeTree");
    let grant = "GRANT SELECT ON system.zookeeper_connection TO `default`".to_owned();
    let refused = || Err(ViewError::NotAllowed { grant: grant.clone() });
    let lost = || ensemble([Err(ProbeError::NotServing), away(), away()]);
    let one_down = || ensemble([Ok(ServerRole::Leader), Ok(ServerRole::Follower), away()]);
    for (servers, sight, status, reason, state) in [
        (healthy(), Ok(sees(false)), "True", "CoordinationHealthy", None),
        (one_down(), Ok(sees(false)), "False", "CoordinationServerDown", Some("degraded")),
        (lost(), Ok(sees(false)), "False", "CoordinationQuorumLost", Some("lost")),
        (healthy(), Ok(sees(true)), "False", "ClickHouseKeeperLost", Some("lost")),
        (healthy(), refused(), "True", "CoordinationHealthy", None),
        (ensemble([away(), away(), away()]), refused(), "Unknown", "CoordinationUnreachable", None),
        (healthy(), Ok(sees(false)), "True", "CoordinationHealthy", None),
    ] {
        outside.set(servers, sight);
        world.server.take_event_reasons();
        world.reconcile::<Schemas>(SCHEMA).await.unwrap();
        assert_eq!(told(&world), Some((status.to_owned(), reason.to_owned())));
        assert!(world.is_ready(SCHEMA), "{:?}", world.condition(SCHEMA, "Ready"));
        assert_eq!(
            (metric(&world, "lost"), metric(&world, "degraded")),
            (state == Some("lost"), state == Some("degraded"))
        );
        let events = world.server.take_event_reasons();
        assert!(status != "False" || events.iter().any(|it| it == reason), "{events:?}");
    }
    let summary = world.server.get(SCHEMA).unwrap()["status"]["coordination"].clone();
    assert_eq!(summary["servers"], "3/3", "{summary}");
    assert_eq!((&summary["leader"], &summary["sessions"]), (&json!("zk-0:2181"), &json!("1/1")));
    world.server.take_writes();
    world.pass(60);
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    let writes = world.server.take_writes();
    assert!(writes.is_empty(), "a converged reconcile writes nothing: {writes:?}");
}

/// Scenario: plain tables. Guarantee: nobody is asked, and the condition is absent.
#[tokio::test]
async fn plain_tables_need_no_coordination() {
    let (world, outside) = world("MergeTree");
    outside.set(ensemble([away(), away(), away()]), Err(ViewError::NoKeeper));
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    assert_eq!(told(&world), None);
    assert_eq!(world.server.get(SCHEMA).unwrap()["status"]["coordination"], Value::Null);
}

/// Scenario: tables are missing while the quorum is lost; while nothing can be seen; while one
/// server is down. Guarantee: no statement runs in the first case, and the schema says why; it is
/// tried in the others.
#[tokio::test]
async fn statements_wait_only_while_coordination_is_known_to_be_lost() {
    let (world, outside) = world("ReplicatedMergeTree");
    *outside.are_there.lock().unwrap() = false;
    let runs = async |servers, sight| {
        outside.set(servers, sight);
        world.reconcile::<Schemas>(SCHEMA).await.unwrap_err();
        outside.migrations.swap(0, Ordering::SeqCst)
    };
    let lost = ensemble([Err(ProbeError::NotServing), away(), away()]);
    assert_eq!(runs(lost, Ok(sees(false))).await, 0);
    let (status, reason, _) = world.condition(SCHEMA, "SchemaReady").unwrap();
    assert_eq!((&*status, &*reason), ("False", "CoordinationQuorumLost"));
    let blind = Err(ViewError::Unreachable("no answer".into()));
    assert_eq!(runs(ensemble([away(), away(), away()]), blind).await, 1);
    let one_down = ensemble([Ok(ServerRole::Leader), Ok(ServerRole::Follower), away()]);
    assert_eq!(runs(one_down, Ok(sees(false))).await, 1);
}

fn image(world: &World) -> Value {
    let set = world.server.get(GATEWAY_SET).unwrap();
    set["spec"]["template"]["spec"]["containers"][0]["image"].clone()
}

/// Scenario: a settled pool gets another image while the coordination of its tables is lost, then
/// merely not seen. Guarantee: its pods stay and the pool says for what they wait; then they change.
#[tokio::test]
async fn a_rollout_waits_while_inserts_stop() {
    let (world, outside) = world("ReplicatedMergeTree");
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    world.server.put(GATEWAY_POOL, gateway_pool(json!({})));
    let settle = async || {
        for _ in 0..6 {
            world.pass(10);
            world.reconcile::<GatewayPools>(GATEWAY_POOL).await.unwrap();
            world.finish_rollouts();
            world.finish_tries();
        }
    };
    settle().await;
    let before = image(&world);
    outside.set(ensemble([Err(ProbeError::NotServing), away(), away()]), Ok(sees(false)));
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    world.server.edit(GATEWAY_POOL, |pool| {
        pool["spec"]["collector"] = json!({"version": "9.9.9"});
    });
    settle().await;
    assert_eq!(image(&world), before);
    let pool = world.server.get(GATEWAY_POOL).unwrap();
    let rollout = &pool["status"]["rollout"];
    assert_eq!(rollout["stage"], "Waiting", "{rollout}");
    let message = rollout["message"].as_str().unwrap();
    assert!(message.contains("TelemetrySchema prod has coordination again"), "{message}");
    assert!(message.contains("CoordinationQuorumLost"), "{message}");
    let blind = Err(ViewError::Unreachable("no answer".into()));
    outside.set(ensemble([away(), away(), away()]), blind);
    world.reconcile::<Schemas>(SCHEMA).await.unwrap();
    settle().await;
    assert_ne!(image(&world), before);
}
