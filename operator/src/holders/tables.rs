//! Records of tables, in the journal of each ClickHouse server.

use std::time::Duration;

use futures::future::join_all;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::TelemetrySchema;
use millrace_ddl as ddl;

use super::{is_passed_over, tell_unrecorded};
use crate::cache::holders::Held;
use crate::cache::holders::record::{Slot, Verdict, judge, refusal};
use crate::cache::key_of;
use crate::context::Context;
use crate::error::StepError;

/// Longest time for one query or one row, as for an observation of a server.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Checks on these servers in parallel whether a schema's object may hold its tables; returns those
/// that need a record. A server that doesn't answer is ignored here and fails at its next use.
///
/// # Errors
/// Another holds them on one of the servers.
pub(crate) async fn look_at_tables(
    context: &Context,
    schema: &TelemetrySchema,
    declared: &ddl::Declared,
    servers: Vec<ddl::Client>,
) -> Result<Vec<ddl::Client>, StepError> {
    let Some(me) = context.holders.claimant(schema, schema.spec.shared) else {
        return Ok(Vec::new());
    };
    let looks = servers.iter().map(|server| {
        let look = context.tables.holders(server, declared);
        async { tokio::time::timeout(ANSWER_MAX, look).await.ok() }
    });
    let (mut due, mut all) = (Vec::new(), Vec::new());
    for (server, told) in servers.iter().zip(join_all(looks).await) {
        let held = match told {
            Some(Ok(held)) => held,
            Some(Err(error)) => {
                unrecorded(context, schema, error).await;
                continue;
            }
            None => continue,
        };
        let mut slots: Vec<Slot> =
            held.iter().map(|held| Slot::read(&held.holder, held.age)).collect();
        slots.resize(schema.spec.signals.iter().count().max(slots.len()), Slot::FREE);
        match judge(&slots, &me, |who| is_passed_over(context, schema, who)) {
            Verdict::Refused(who) => {
                let place = &schema.spec.clickhouse;
                let (database, prefix) = (place.database(), place.table_prefix());
                let what = format!("{database}.{prefix}_* on {}", server.endpoint());
                return Err(refusal(&what, &who, "another database or tablePrefix").into());
            }
            Verdict::Holds => all.push(server.clone()),
            Verdict::Due => due.push(server.clone()),
        }
    }
    if !all.is_empty() {
        note(context, schema, declared, all);
    }
    Ok(due)
}

/// Writes the record that a schema's object holds its tables on these servers, and checks again.
///
/// # Errors
/// Another was faster.
pub(crate) async fn write_of_tables(
    context: &Context,
    schema: &TelemetrySchema,
    declared: &ddl::Declared,
    due: Vec<ddl::Client>,
) -> Result<(), StepError> {
    let Some(me) = context.holders.claimant(schema, schema.spec.shared) else { return Ok(()) };
    let text = me.holder.text();
    let mut written = Vec::new();
    for server in due {
        let row = context.tables.hold(&server, declared, &text);
        match tokio::time::timeout(ANSWER_MAX, row).await {
            Ok(Ok(())) => written.push(server),
            // Without a database there is nothing to hold.
            Ok(Err(ddl::ClientError::UnknownDatabase { .. })) | Err(_) => {}
            Ok(Err(error)) => unrecorded(context, schema, error).await,
        }
    }
    if written.is_empty() {
        return Ok(());
    }
    note(context, schema, declared, written.clone());
    look_at_tables(context, schema, declared, written).await.map(|_| ())
}

fn note(
    context: &Context,
    schema: &TelemetrySchema,
    declared: &ddl::Declared,
    servers: Vec<ddl::Client>,
) {
    let held = Held::Tables { servers, declared: Box::new(declared.clone()) };
    context.holders.note(&key_of(schema), held);
}

/// Reports a server that refuses to keep a record; servers that are down are reported elsewhere.
async fn unrecorded(context: &Context, schema: &TelemetrySchema, error: ddl::ClientError) {
    let failure = crate::clickhouse::failed(error);
    if !matches!(failure.reason, Reason::ClickHouseUnreachable | Reason::ClickHouseKeeperLost) {
        tell_unrecorded(context, schema, &failure.cause()).await;
    }
}
