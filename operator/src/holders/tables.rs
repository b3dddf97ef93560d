//! Records of tables, in the journal of each ClickHouse server.

use std::time::Duration;

use futures::future::join_all;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::TelemetrySchema;
use millrace_ddl as ddl;

use super::others::{is_passed_over, report_unrecorded};
use crate::cache::holders::HeldResource;
use crate::cache::holders::record::{ClaimDecision, HolderSlot, claim_refusal, decide_claim};
use crate::cache::key_of;
use crate::context::Context;
use crate::error::StepError;

/// Longest time for one query or one row, as for an observation of a server.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Checks on these servers in parallel whether a schema's object may hold its tables, and returns
/// the servers that need a record. A server that doesn't answer is ignored here and fails at its
/// next use.
///
/// # Errors
/// Another object holds them on one of the servers.
pub(crate) async fn check_tables_claim(
    context: &Context,
    schema: &TelemetrySchema,
    declared: &ddl::Declared,
    servers: Vec<ddl::DdlClient>,
) -> Result<Vec<ddl::DdlClient>, StepError> {
    let Some(me) = context.holders.claimant_of(schema, schema.spec.ownership.is_shared()) else {
        return Ok(Vec::new());
    };
    let looks = servers.iter().map(|server| {
        let read = context.tables.read_holders(server, declared);
        async { tokio::time::timeout(ANSWER_MAX, read).await.ok() }
    });
    let (mut due, mut all) = (Vec::new(), Vec::new());
    for (server, outcome) in servers.iter().zip(join_all(looks).await) {
        let held = match outcome {
            Some(Ok(held)) => held,
            Some(Err(error)) => {
                report_server_refusal(context, schema, error).await;
                continue;
            }
            None => continue,
        };
        let mut slots: Vec<HolderSlot> =
            held.iter().map(|held| HolderSlot::read(&held.holder, held.age)).collect();
        slots.resize(schema.spec.signals.iter().count().max(slots.len()), HolderSlot::FREE);
        match decide_claim(&slots, &me, |who| is_passed_over(context, schema, who)) {
            ClaimDecision::Refused(who) => {
                let target = &schema.spec.clickhouse;
                let (database, prefix) = (target.database(), target.table_prefix());
                let what = format!("{database}.{prefix}_* on {}", server.endpoint());
                return Err(claim_refusal(&what, &who, "another database or tablePrefix").into());
            }
            ClaimDecision::Holds => all.push(server.clone()),
            ClaimDecision::Due => due.push(server.clone()),
        }
    }
    if !all.is_empty() {
        record_held(context, schema, declared, all);
    }
    Ok(due)
}

/// Writes the record that a schema's object holds its tables on these servers, and checks again.
///
/// # Errors
/// Another object was faster.
pub(crate) async fn write_tables_claim(
    context: &Context,
    schema: &TelemetrySchema,
    declared: &ddl::Declared,
    due: Vec<ddl::DdlClient>,
) -> Result<(), StepError> {
    let Some(me) = context.holders.claimant_of(schema, schema.spec.ownership.is_shared()) else {
        return Ok(());
    };
    let text = me.holder.to_text();
    let mut written = Vec::new();
    for server in due {
        let row = context.tables.record_holder(&server, declared, &text);
        match tokio::time::timeout(ANSWER_MAX, row).await {
            Ok(Ok(())) => written.push(server),
            // Without a database there is nothing to hold.
            Ok(Err(ddl::ClientError::UnknownDatabase { .. })) | Err(_) => {}
            Ok(Err(error)) => report_server_refusal(context, schema, error).await,
        }
    }
    if written.is_empty() {
        return Ok(());
    }
    record_held(context, schema, declared, written.clone());
    check_tables_claim(context, schema, declared, written).await.map(|_| ())
}

fn record_held(
    context: &Context,
    schema: &TelemetrySchema,
    declared: &ddl::Declared,
    servers: Vec<ddl::DdlClient>,
) {
    let held = HeldResource::Tables { servers, declared: Box::new(declared.clone()) };
    context.holders.record_held(&key_of(schema), held);
}

/// Reports a server that refuses to store a record; servers that are down are reported elsewhere.
async fn report_server_refusal(
    context: &Context,
    schema: &TelemetrySchema,
    error: ddl::ClientError,
) {
    let failure = crate::clickhouse::clickhouse_failure(error);
    if !matches!(failure.reason, Reason::ClickHouseUnreachable | Reason::ClickHouseKeeperLost) {
        report_unrecorded(context, schema, &failure.cause()).await;
    }
}
