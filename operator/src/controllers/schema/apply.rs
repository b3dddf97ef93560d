//! Runs on each server what only adds, and observes again.

use futures::future::join_all;
use kube::Resource;
use millrace_crds::v1alpha1::TelemetrySchema;
use millrace_crds::{EventReason, Reason};
use millrace_ddl as ddl;
use millrace_reports::PlannedStep;

use super::coordination::{self, Looked};
use super::observe::{self, Observed, Server};
use super::plan::{Left, Plan, Standing, judge, permit, reason_of};
use super::validate;
use crate::clickhouse::migrations::Place;
use crate::clickhouse::{failed, stopped};
use crate::cluster::is_paused;
use crate::context::Context;
use crate::error::{Invalid, StepError};
use crate::holders;
use crate::report::events::Notice;

/// The tables after the plan has run.
pub(super) struct Applied {
    /// Revision of the declaration.
    pub(super) revision: String,
    /// Database of the tables.
    pub(super) database: String,
    /// What remains on the servers that could be reached.
    pub(super) standing: Standing,
    /// The first server that could not be brought there.
    pub(super) failure: Option<StepError>,
    /// Steps were due and not done, because the object is paused.
    pub(super) withheld: bool,
    /// How Keeper or ZooKeeper is; `None` where no table needs it.
    pub(super) looked: Option<Looked>,
}

/// Runs the plans, server by server; nothing while the object is paused or coordination is lost.
pub(super) async fn apply(
    context: &Context,
    schema: &TelemetrySchema,
    observed: Observed,
    plan: Plan,
    looked: Option<Looked>,
) -> Applied {
    let Observed { declared, servers, coordination: _ } = observed;
    let Plan { servers: plans, outdated } = plan;
    let (paused, contract) = (is_paused(schema), outdated.is_none());
    let may = May { paused, contract, lost: coordination::holds(looked.as_ref()) };
    let (mut left, mut failure) = (Left { outdated, ..Left::default() }, None::<StepError>);
    let mut withheld = false;
    for (server, plan) in servers.into_iter().zip(plans) {
        match one(context, schema, &declared, server, plan, &may).await {
            Ok(one) => {
                let One { left: this, withheld: held } = one;
                let Left { drift, refused, blocked, plans, outdated: _ } = this;
                left.drift.extend(drift);
                left.refused.extend(refused);
                left.blocked.extend(blocked);
                left.plans.extend(plans);
                withheld |= held;
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if !failure.as_ref().is_some_and(may_go_on) {
        context.migrations.ended(&Place::of(schema, &schema.spec.clickhouse));
    }
    let uid = schema.metadata.uid.as_deref().unwrap_or_default();
    context.shown.planned(uid, || left.refused.iter().map(shown).collect());
    Applied {
        revision: declared.revision(),
        database: declared.database.as_str().to_owned(),
        standing: judge(&left),
        failure,
        withheld,
        looked,
    }
}

/// A step that waits, with its statement.
fn shown(step: &ddl::Step) -> PlannedStep {
    PlannedStep {
        object: step.object.clone(),
        what: step.what.clone(),
        class: step.class.to_string(),
        statement: step.statement.sql().to_owned(),
    }
}

/// Whether statements may still be running after this failure: the answer was lost, or another run
/// has them.
fn may_go_on(failure: &StepError) -> bool {
    matches!(failure.reason, Reason::ClickHouseUnreachable | Reason::MigrationBusy)
}

/// What forbids running, whatever the plan.
struct May {
    /// The object is paused: nothing runs.
    paused: bool,
    /// No pool runs an older collector: what takes away may run.
    contract: bool,
    /// Coordination is lost: nothing runs.
    lost: Option<Invalid>,
}

/// What one server came to.
struct One {
    left: Left,
    withheld: bool,
}

async fn one(
    context: &Context,
    schema: &TelemetrySchema,
    declared: &ddl::Declared,
    server: Server,
    plan: Option<ddl::Plan>,
    may: &May,
) -> Result<One, StepError> {
    let Server { client, tables } = server;
    let tables = tables?;
    let plan = plan.unwrap_or_default();
    let plans = vec![plan.hash()];
    let May { paused, contract, lost } = may;
    let permit = permit(schema, &plan);
    let permit = permit.map(|permit| if *contract { permit } else { permit.without_contract() });
    let is_allowed = |step: &ddl::Step| permit.is_some_and(|permit| permit.allows(step));
    let due = plan.steps.iter().any(is_allowed);
    let Some(permit) = permit.filter(|_| due && !paused) else {
        let drift = ddl::diff(declared, &tables);
        let withheld = due && *paused;
        let refused = plan.steps.into_iter().filter(|step| !is_allowed(step)).collect();
        let left = Left { drift, refused, blocked: plan.blocked, plans, outdated: None };
        return Ok(One { left, withheld });
    };
    if let Some(lost) = lost {
        return Err(lost.clone().into());
    }
    let name = schema.metadata.name.as_deref().unwrap_or_default();
    let namespace = schema.metadata.namespace.as_deref().unwrap_or_default();
    let mut options = ddl::MigrateOptions::new(format!("telemetryschema {namespace}/{name}"));
    options.tool = concat!("millrace-operator ", env!("CARGO_PKG_VERSION")).to_owned();
    options.permit = permit;
    // The next reconcile retries: a busy server must not block a worker.
    options.retries = 0;
    let place = Place::of(schema, &schema.spec.clickhouse);
    context.migrations.begins(place, context.clock.now());
    let done = context.tables.migrate(&client, declared, &options).await.map_err(stopped)?;
    let ddl::Migrated { adopted, migrations, applied, blocked, before, drift, server: _ } = done;
    if !applied.done.is_empty() {
        let notice = notice(&client, &before, &applied, adopted, &migrations);
        context.events.publish(&schema.object_ref(&()), notice).await;
    }
    let left = Left { drift, refused: applied.refused, blocked, plans, outdated: None };
    Ok(One { left, withheld: false })
}

/// One event for what ran on a server: normal for new tables, a warning for a table that had lost
/// something.
fn notice(
    client: &ddl::Client,
    before: &[ddl::Drift],
    applied: &ddl::Applied,
    adopted: Option<ddl::Origin>,
    migrations: &[u32],
) -> Notice {
    let endpoint = client.endpoint();
    let damaged = before.iter().find(|drift| {
        drift.severity == ddl::Severity::Breaking && reason_of(drift) != Reason::TableMissing
    });
    let mut done: Vec<String> =
        applied.done.iter().map(|step| format!("{}: {}", step.object, step.what)).collect();
    done.dedup();
    let numbers: Vec<String> = migrations.iter().map(u32::to_string).collect();
    let taken_over = adopted
        .map_or(String::new(), |origin| format!("tables made by {origin} were taken over; "));
    let done = format!("{taken_over}migration {}: {}", numbers.join(", "), done.join("; "));
    match damaged {
        None => {
            Notice::normal(EventReason::TablesChanged, "Apply", format!("on {endpoint}: {done}"))
        }
        Some(drift) => {
            let note = format!("on {endpoint}: {drift}; put right by: {done}");
            Notice::warning(reason_of(drift), "Apply", note)
        }
    }
}

/// Drops the tables with all their rows, on every server, unless another holds them; the database
/// is kept.
///
/// # Errors
/// When a Secret is missing, or ClickHouse or the API server refuse or can't be reached.
pub(super) async fn delete(context: &Context, schema: &TelemetrySchema) -> Result<(), StepError> {
    let declared = validate::validate(schema)?;
    let client = observe::connection(context, schema).await?;
    let servers = client.each();
    let looked = holders::look_at_tables(context, schema, &declared, servers.clone()).await;
    if let Some(why) = holders::keeps(context, schema.spec.shared, looked)? {
        let notice = Notice::kept(super::REMAINS, &why);
        context.events.publish(&schema.object_ref(&()), notice).await;
        return Ok(());
    }
    // In parallel: a hanging server must not keep the others' tables.
    let drops = servers.iter().map(|server| context.tables.drop_all(server, &declared));
    join_all(drops).await.into_iter().collect::<Result<(), _>>().map_err(failed)?;
    let note = format!("tables of {} and their rows deleted", declared.database.as_str());
    let notice = Notice::normal(EventReason::TablesDeleted, "Delete", note);
    context.events.publish(&schema.object_ref(&()), notice).await;
    Ok(())
}
