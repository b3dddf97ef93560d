//! Plans that a person approves by their hash: what the hash names, and what an approval is for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use millrace_ddl as ddl;
use millrace_operator::clickhouse::TableAccess;
use millrace_operator::controllers::schema::Schemas;
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;

const SCHEMA: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetryschemas/prod";

/// The tables of spans, whose attributes have no typed paths.
#[derive(Default)]
struct Live {
    /// The columns that have theirs by now.
    typed: BTreeSet<String>,
    /// Whether someone drops a column just before the next migration.
    loses_column: bool,
    /// Whether a column is missing.
    lacks_column: bool,
    /// The statements of the last migration that failed.
    begun: Vec<String>,
    /// After so many statements the next one fails.
    fails_after: Option<usize>,
}

#[derive(Default)]
struct Server(Mutex<Live>);

impl Live {
    fn observe(&self, declared: &ddl::Declared) -> ddl::Observed {
        let mut observed = ddl::exactly::observed_as_declared(declared);
        for table in observed.tables.values_mut() {
            for column in &mut table.columns {
                if column.ty.starts_with("JSON(") && !self.typed.contains(&column.name) {
                    column.ty = "JSON".to_owned();
                }
            }
            if self.lacks_column {
                table.columns.retain(|column| column.name != "SpanName");
            }
        }
        observed
    }

    fn migrate(
        &mut self,
        declared: &ddl::Declared,
        permit: &ddl::Permit,
    ) -> Result<ddl::MigrationReport, Box<ddl::MigrateError>> {
        self.lacks_column |= std::mem::take(&mut self.loses_column);
        let before = self.observe(declared);
        let ddl::MigrationPlan { steps, blocked } = ddl::plan_migration(declared, &before);
        let (due, refused): (Vec<_>, Vec<_>) =
            steps.into_iter().partition(|step| permit.allows(step));
        for (done, step) in due.iter().enumerate() {
            if self.fails_after == Some(done) {
                self.begun = due.iter().map(|step| step.statement.sql().to_owned()).collect();
                let endpoint = "http://ch:8123".parse().unwrap();
                return Err(Box::new(ddl::MigrateError::Apply(ddl::ApplyError {
                    object: step.object.clone(),
                    what: step.what.clone(),
                    done,
                    all: due.len(),
                    source: ddl::ClientError::Timeout { endpoint, waited: Duration::ZERO },
                })));
            }
            match step.class {
                ddl::StepClass::MetadataOnly => self.lacks_column = false,
                _ => {
                    let column = step.what.split(' ').nth(1).unwrap();
                    self.typed.insert(column.to_owned());
                }
            }
        }
        self.begun.clear();
        let after = self.observe(declared);
        Ok(ddl::MigrationReport {
            server: ddl::ServerFacts {
                version: "26.9".parse().unwrap(),
                host: "ch".to_owned(),
                keeper_sessions: None,
            },
            adopted: None,
            migrations: vec![1],
            applied: ddl::ApplyReport { done: due, refused },
            blocked,
            before: ddl::find_drift(declared, &before),
            drift: ddl::find_drift(declared, &after),
        })
    }
}

impl TableAccess for Server {
    fn observe_tables<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<ddl::Observed, ddl::ClientError>> {
        let observed = self.0.lock().unwrap().observe(declared);
        async { Ok(observed) }.boxed()
    }

    fn migrate_tables<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
        options: &'a ddl::MigrateOptions,
    ) -> BoxFuture<'a, Result<ddl::MigrationReport, ddl::MigrateError>> {
        let outcome = self.0.lock().unwrap().migrate(declared, &options.permit);
        let outcome = outcome.map_err(|error| *error);
        async { outcome }.boxed()
    }

    fn read_unfinished<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        _: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<Vec<String>, ddl::MigrateError>> {
        let begun = self.0.lock().unwrap().begun.clone();
        async { Ok(begun) }.boxed()
    }

    fn drop_all<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        _: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        async { Ok(()) }.boxed()
    }
}

/// A schema that declares typed paths in two columns, and its server.
fn typed_paths_world(changes: &str) -> (World, Arc<Server>) {
    let mut world = World::new();
    let server = Arc::new(Server::default());
    Arc::get_mut(&mut world.context).unwrap().tables = server.clone();
    let spec = json!({"clickhouse": {"endpoints": ["http://ch:8123"]}, "changes": changes,
        "signals": {"traces": {"attributes": "JSON", "layout": {"typedPaths": [
            {"from": "Resource", "path": "a.b"}, {"from": "Record", "path": "a.b"}]}}}});
    world.server.put(
        SCHEMA,
        json!({"apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetrySchema", "metadata": {},
            "spec": spec}),
    );
    (world, server)
}

fn approve(world: &World, plan: &Value) {
    world.server.edit(SCHEMA, |object| object["spec"]["approvedPlan"] = plan.clone());
}

async fn look(world: &World) -> Value {
    world.pass(60);
    let _ = world.reconcile::<Schemas>(SCHEMA).await;
    world.server.get(SCHEMA).unwrap()["status"]["planHash"].clone()
}

/// Scenario: an approved plan fails after its first statement, once or again at the next attempt;
/// the approval stays, or is withdrawn. Guarantee: while it stays, the plan continues although the
/// remaining statements have another hash; without it they wait.
#[tokio::test]
async fn an_approved_plan_continues_after_a_failure() {
    for (changes, is_withdrawn) in [("Automatic", false), ("Manual", false), ("Manual", true)] {
        let (world, server) = typed_paths_world(changes);
        let plan = look(&world).await;
        approve(&world, &plan);
        server.0.lock().unwrap().fails_after = Some(1);
        assert_eq!(look(&world).await, plan, "the status forgot the plan at the failure");
        assert_eq!(server.0.lock().unwrap().typed.len(), 1);
        if is_withdrawn {
            approve(&world, &Value::Null);
        } else {
            server.0.lock().unwrap().fails_after = Some(0);
            look(&world).await;
        }
        server.0.lock().unwrap().fails_after = None;
        let waiting = look(&world).await;
        let done = server.0.lock().unwrap().typed.len();
        assert_eq!(done, if is_withdrawn { 1 } else { 2 }, "{changes}");
        assert_eq!(waiting.is_null(), !is_withdrawn, "{waiting}");
        let applied = world.condition(SCHEMA, "Applied").unwrap().0;
        assert_eq!(applied == "True", !is_withdrawn, "{changes}: {applied}");
    }
}

/// Scenario: a plan adds a column, which runs at once, and rewrites others, which waits; the hash in
/// the status is approved. Guarantee: it names what waits, and approves it.
#[tokio::test]
async fn a_hash_names_what_waits_after_what_has_run() {
    let (world, server) = typed_paths_world("Automatic");
    server.0.lock().unwrap().lacks_column = true;
    let waiting = look(&world).await;
    assert!(!server.0.lock().unwrap().lacks_column);
    approve(&world, &waiting);
    assert_eq!(look(&world).await, Value::Null);
    assert_eq!(server.0.lock().unwrap().typed.len(), 2);
}

/// Scenario: every change waits for approval; a plan is approved; before it runs, someone drops a
/// column. Guarantee: only what was approved runs; the column waits under another hash.
#[tokio::test]
async fn an_approval_is_for_the_statements_that_were_shown() {
    let (world, server) = typed_paths_world("Manual");
    let plan = look(&world).await;
    approve(&world, &plan);
    server.0.lock().unwrap().loses_column = true;
    let waiting = look(&world).await;
    let live = server.0.lock().unwrap();
    assert_eq!((live.typed.len(), live.lacks_column), (2, true));
    assert!(waiting.is_string() && waiting != plan, "{waiting}");
}
