//! Runs on each server what only adds, and looks again.

use kube::Resource;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::TelemetrySchema;
use millrace_ddl as ddl;

use super::observe::{self, Observed, Server, failed};
use super::plan::{PERMIT, Plan, Standing, judge, reason_of};
use super::validate;
use crate::context::Context;
use crate::error::StepError;
use crate::events::Notice;

/// The tables after the plan has run.
pub(super) struct Applied {
    /// Revision of the declaration.
    pub(super) revision: String,
    /// Database of the tables.
    pub(super) database: String,
    /// What is left on the servers that could be reached.
    pub(super) standing: Standing,
    /// The first server that could not be brought there.
    pub(super) failure: Option<StepError>,
    /// Steps were due and were left undone, because the object is paused.
    pub(super) withheld: bool,
}

/// Runs the plans, server by server; nothing while `paused`.
pub(super) async fn apply(
    context: &Context,
    schema: &TelemetrySchema,
    observed: Observed,
    plan: Plan,
    paused: bool,
) -> Applied {
    let Observed { declared, servers } = observed;
    let (mut drift, mut refused, mut failure) = (Vec::new(), Vec::new(), None);
    let mut withheld = false;
    for (server, plan) in servers.into_iter().zip(plan.servers) {
        match one(context, schema, &declared, server, plan, paused).await {
            Ok(one) => {
                drift.extend(one.drift);
                refused.extend(one.refused);
                withheld |= one.withheld;
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Applied {
        revision: declared.revision(),
        database: declared.database.as_str().to_owned(),
        standing: judge(&drift, &refused),
        failure,
        withheld,
    }
}

/// What one server came to.
struct One {
    drift: Vec<ddl::Drift>,
    refused: Vec<ddl::Step>,
    withheld: bool,
}

async fn one(
    context: &Context,
    schema: &TelemetrySchema,
    declared: &ddl::Declared,
    server: Server,
    plan: Option<ddl::Plan>,
    paused: bool,
) -> Result<One, StepError> {
    let Server { client, tables } = server;
    let tables = tables?;
    let drift = ddl::diff(declared, &tables);
    let plan = plan.unwrap_or_default();
    let due = plan.steps.iter().any(|step| PERMIT.allows(step.class));
    if !due || paused {
        let refused = plan.steps.into_iter().filter(|step| !PERMIT.allows(step.class)).collect();
        return Ok(One { drift, refused, withheld: due });
    }
    let applied = ddl::apply(&client, &plan, PERMIT).await.map_err(|error| {
        let place = format!("{}: cannot {}", error.object, error.what);
        tracing::warn!(place, "a statement failed");
        failed(error.into())
    })?;
    let notice = notice(&client, &drift, &applied);
    context.events.publish(&schema.object_ref(&()), notice).await;
    let drift = ddl::verify(&client, declared).await.map_err(failed)?;
    Ok(One { drift, refused: applied.refused, withheld: false })
}

/// One event for what ran on a server: tables made are as it should be, a table that had lost
/// something is worth a look.
fn notice(client: &ddl::Client, before: &[ddl::Drift], applied: &ddl::Applied) -> Notice {
    let endpoint = client.endpoint();
    let damaged = before.iter().find(|drift| {
        drift.severity == ddl::Severity::Breaking && reason_of(drift) != Reason::TableMissing
    });
    let mut done: Vec<String> =
        applied.done.iter().map(|step| format!("{}: {}", step.object, step.what)).collect();
    done.dedup();
    let done = done.join("; ");
    match damaged {
        None => Notice::normal("TablesChanged", "Apply", format!("on {endpoint}: {done}")),
        Some(drift) => {
            let note = format!("on {endpoint}: {drift}; put right by: {done}");
            Notice::warning(reason_of(drift).as_str(), "Apply", note)
        }
    }
}

/// Drops the tables with all their rows, on every server; the database is kept.
///
/// # Errors
/// When a Secret is missing, or ClickHouse or the API server refuse or are away.
pub(super) async fn delete(context: &Context, schema: &TelemetrySchema) -> Result<(), StepError> {
    let declared = validate::validate(schema)?;
    let client = observe::connection(context, schema).await?;
    for server in client.each() {
        for statement in ddl::render::drop_all(&declared) {
            match server.execute(&statement).await {
                Ok(()) => {}
                // Without the database there are no tables either.
                Err(error) if error.category() == ddl::Category::UnknownDatabase => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
    let note = format!("tables of {} and their rows deleted", declared.database.as_str());
    let notice = Notice::normal("TablesDeleted", "Delete", note);
    context.events.publish(&schema.object_ref(&()), notice).await;
    Ok(())
}
