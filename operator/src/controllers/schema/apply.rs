//! Runs the additive steps of a plan on each server, and observes again.

use futures::future::join_all;
use kube::Resource;
use millrace_crds::v1alpha1::TelemetrySchema;
use millrace_crds::{EventReason, Reason};
use millrace_ddl as ddl;
use millrace_reports::PlannedStep;

use super::coordination::{self, CoordinationCheck};
use super::observe::{self, OBSERVE_MAX, Observed, ServerTables};
use super::plan::{
    RemainingSteps, TablesComparison, consent_field, continues_migration, permit_for, reason_of,
    summarize_remaining,
};
use super::validate;
use crate::clickhouse::migrations::TableLocation;
use crate::clickhouse::{clickhouse_failure, migration_failure};
use crate::cluster::is_paused;
use crate::context::Context;
use crate::error::{Invalid, StepError};
use crate::holders::{self, TablesClaim};
use crate::report::events::Notice;

/// What remains when tables are not deleted.
pub(super) const REMAINS: &str = "the tables and their rows remain in ClickHouse";

/// The tables after the plan has run.
pub(super) struct Applied {
    pub(super) revision: String,
    pub(super) database: String,
    /// The remaining differences on the servers that could be reached.
    pub(super) differences: TablesComparison,
    /// The failure of the first server whose plan could not be completed.
    pub(super) failure: Option<StepError>,
    /// Whether steps were due but not run, because the object is paused.
    pub(super) withheld: bool,
    /// The state of Keeper or ZooKeeper; `None` if no table needs it.
    pub(super) coordination: Option<CoordinationCheck>,
}

/// Runs the plans, server by server; runs none while the object is paused or coordination is lost.
/// A pool that may still run an older collector (`outdated`) delays contract steps.
pub(super) async fn apply_plans(
    context: &Context,
    schema: &TelemetrySchema,
    observed: Observed,
    plans: Vec<Option<ddl::MigrationPlan>>,
    outdated: Option<String>,
) -> Applied {
    let Observed { declared, servers, coordination } = observed;
    let coordination =
        coordination.map(|it| coordination::check_coordination(context, schema, &it));
    let (paused, contract) = (is_paused(schema), outdated.is_none());
    let lost = coordination::hold_reason(coordination.as_ref());
    let may = Restrictions { paused, contract, lost };
    let (mut left, mut failure) =
        (RemainingSteps { outdated, ..RemainingSteps::default() }, None::<StepError>);
    let mut withheld = false;
    for (server, plan) in servers.into_iter().zip(plans) {
        match apply_to_server(context, schema, &declared, server, plan, &may).await {
            Ok(one) => {
                let ServerOutcome { remaining: this, withheld: held } = one;
                let RemainingSteps { drift, refused, blocked, plans, outdated: _ } = this;
                left.drift.extend(drift);
                left.refused.extend(refused);
                left.blocked.extend(blocked);
                left.plans.extend(plans);
                withheld |= held;
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if !failure.as_ref().is_some_and(may_still_run) {
        context.migrations.record_end(&TableLocation::of_object(schema, &schema.spec.clickhouse));
    }
    let uid = schema.metadata.uid.as_deref().unwrap_or_default();
    context.console_history.record_plan(uid, || left.refused.iter().map(to_planned_step).collect());
    Applied {
        revision: declared.revision(),
        database: declared.database.as_str().to_owned(),
        differences: summarize_remaining(&left, consent_field(schema)),
        failure,
        withheld,
        coordination,
    }
}

/// Returns a waiting step with its statement.
fn to_planned_step(step: &ddl::PlanStep) -> PlannedStep {
    PlannedStep {
        object: step.object.clone(),
        what: step.what.clone(),
        class: step.class.to_string(),
        statement: step.statement.sql().to_owned(),
    }
}

/// Returns whether statements may still be running after this failure: the answer was lost, or
/// another run has them.
fn may_still_run(failure: &StepError) -> bool {
    matches!(failure.reason, Reason::ClickHouseUnreachable | Reason::MigrationLocked)
}

/// The restrictions on running any plan.
struct Restrictions {
    /// The object is paused: nothing runs.
    paused: bool,
    /// No pool runs an older collector: contract steps may run.
    contract: bool,
    /// Coordination is lost: nothing runs.
    lost: Option<Invalid>,
}

struct ServerOutcome {
    remaining: RemainingSteps,
    withheld: bool,
}

async fn apply_to_server(
    context: &Context,
    schema: &TelemetrySchema,
    declared: &ddl::Declared,
    server: ServerTables,
    plan: Option<ddl::MigrationPlan>,
    may: &Restrictions,
) -> Result<ServerOutcome, StepError> {
    let ServerTables { client, tables } = server;
    let tables = tables?;
    let plan = plan.unwrap_or_default();
    let Restrictions { paused, contract, lost } = may;
    let permit = find_permit(context, schema, declared, (&client, &plan)).await;
    let permit = if *contract { permit } else { permit.without_contract() };
    let is_due = plan.steps.iter().any(|step| permit.allows(step));
    if !is_due || *paused {
        let drift = ddl::find_drift(declared, &tables);
        let (withheld, plans) = (is_due && *paused, vec![plan.hash()]);
        let refused = plan.steps.into_iter().filter(|step| !permit.allows(step)).collect();
        let left = RemainingSteps { drift, refused, blocked: plan.blocked, plans, outdated: None };
        return Ok(ServerOutcome { remaining: left, withheld });
    }
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
    let location = TableLocation::of_object(schema, &schema.spec.clickhouse);
    context.migrations.record_start(location, context.clock.now());
    let done = context
        .tables
        .migrate_tables(&client, declared, &options)
        .await
        .map_err(migration_failure)?;
    let ddl::MigrationReport { adopted, migrations, applied, blocked, before, drift, server: _ } =
        done;
    if !applied.done.is_empty() {
        let notice = change_notice(&client, &before, &applied, adopted, &migrations);
        context.events.publish(&schema.object_ref(&()), notice).await;
    }
    // The waiting plan is the one that the next reconcile finds: without the steps that have run.
    let waiting = ddl::MigrationPlan { steps: applied.refused, blocked };
    let plans = vec![waiting.hash()];
    let ddl::MigrationPlan { steps: refused, blocked } = waiting;
    let left = RemainingSteps { drift, refused, blocked, plans, outdated: None };
    Ok(ServerOutcome { remaining: left, withheld: false })
}

/// Returns what may run of a server's plan, if no collector delays it: what policy and approval
/// permit, or what a migration that was approved has not finished.
async fn find_permit(
    context: &Context,
    schema: &TelemetrySchema,
    declared: &ddl::Declared,
    (client, plan): (&ddl::DdlClient, &ddl::MigrationPlan),
) -> ddl::Permit {
    let permit = permit_for(schema, plan);
    let waits = |step: &ddl::PlanStep| {
        let is_unagreed = matches!(step.loss, ddl::Loss::Unagreed(_));
        !is_unagreed && !permit.allows(step)
    };
    if schema.spec.approval.approved_plan.is_none() || !plan.steps.iter().any(waits) {
        return permit;
    }
    let read = context.tables.read_unfinished(client, declared);
    // Without an answer the plan waits: the next reconcile reads again.
    match tokio::time::timeout(OBSERVE_MAX, read).await {
        Ok(Ok(begun)) if continues_migration(plan, &begun) => permit.with_approved(plan),
        _ => permit,
    }
}

/// Returns one event for the steps run on a server: normal for new tables, a warning for a table
/// that had lost something.
fn change_notice(
    client: &ddl::DdlClient,
    before: &[ddl::Drift],
    applied: &ddl::ApplyReport,
    adopted: Option<ddl::TableOrigin>,
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
    let adoption =
        adopted.map_or(String::new(), |origin| format!("tables of {origin} were adopted; "));
    let done = format!("{adoption}migration {}: {}", numbers.join(", "), done.join("; "));
    match damaged {
        None => {
            Notice::normal(EventReason::TablesChanged, "Apply", format!("on {endpoint}: {done}"))
        }
        Some(drift) => {
            let note = format!("on {endpoint}: {drift}; repaired by: {done}");
            Notice::warning(reason_of(drift), "Apply", note)
        }
    }
}

/// Drops the tables with all their rows, on every server, unless another object holds them; the
/// database remains. Nothing is dropped where the holder is unknown.
///
/// # Errors
/// When a Secret is missing, or ClickHouse or the API server refuse or can't be reached.
pub(super) async fn delete_tables(
    context: &Context,
    schema: &TelemetrySchema,
) -> Result<(), StepError> {
    let declared = validate::validate_schema(schema)?;
    let client = observe::build_client(context, schema).await?;
    let servers = client.per_endpoint();
    let (claim, checked) =
        match holders::check_tables_claim(context, schema, &declared, servers).await {
            Ok(claim) => (claim, Ok(())),
            Err(error) => (TablesClaim::default(), Err(error)),
        };
    if let Some(why) =
        holders::reason_to_retain(context, schema.spec.ownership.is_shared(), checked)?
    {
        let notice = Notice::deletion_skipped(REMAINS, &why);
        context.events.publish(&schema.object_ref(&()), notice).await;
        return Ok(());
    }
    let TablesClaim { due: _, free, unknown } = claim;
    // Drops on one server of a cluster, or of a database that replicates itself, reach the others.
    let waits = unknown.is_some() && ddl::needs_coordination(&declared);
    let servers = if waits { Vec::new() } else { free };
    // The drops run in parallel: a hanging server must not delay the others'.
    let drops = servers.iter().map(|server| context.tables.drop_all(server, &declared));
    join_all(drops).await.into_iter().collect::<Result<(), _>>().map_err(clickhouse_failure)?;
    unknown.map_or(Ok(()), Err)?;
    let note = format!("tables of {} and their rows deleted", declared.database.as_str());
    let notice = Notice::normal(EventReason::TablesDeleted, "Delete", note);
    context.events.publish(&schema.object_ref(&()), notice).await;
    Ok(())
}
