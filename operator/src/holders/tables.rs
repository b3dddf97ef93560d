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

/// What the servers' records mean for a schema's object, where no other object holds its tables.
#[derive(Default)]
pub(crate) struct TablesClaim {
    /// The servers that need a record.
    pub(crate) due: Vec<ddl::DdlClient>,
    /// The servers where the object may use the tables, or where the user may not read records.
    pub(crate) free: Vec<ddl::DdlClient>,
    /// Why another server's records are unknown: another object may hold the tables there.
    pub(crate) unknown: Option<StepError>,
}

/// Checks on these servers in parallel whether a schema's object may hold its tables.
///
/// # Errors
/// Another object holds them on one of the servers.
pub(crate) async fn check_tables_claim(
    context: &Context,
    schema: &TelemetrySchema,
    declared: &ddl::Declared,
    servers: Vec<ddl::DdlClient>,
) -> Result<TablesClaim, StepError> {
    let Some(me) = context.holders.claimant_of(schema, schema.spec.ownership.is_shared()) else {
        return Ok(TablesClaim { free: servers, ..TablesClaim::default() });
    };
    let checks = servers.iter().map(|server| {
        let read = context.tables.read_holders(server, declared);
        async move {
            let endpoint = server.endpoint().clone();
            let late = ddl::ClientError::Timeout { endpoint, waited: ANSWER_MAX };
            tokio::time::timeout(ANSWER_MAX, read).await.unwrap_or(Err(late))
        }
    });
    let (mut claim, mut held_by_us) = (TablesClaim::default(), Vec::new());
    for (server, outcome) in servers.iter().zip(join_all(checks).await) {
        let held = match outcome {
            Ok(held) => held,
            Err(error) => {
                let failure = report_server_refusal(context, schema, error).await;
                match failure.reason {
                    Reason::ClickHouseNotAuthorized => claim.free.push(server.clone()),
                    _ => claim.unknown = claim.unknown.or(Some(failure)),
                }
                continue;
            }
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
            ClaimDecision::Holds => held_by_us.push(server.clone()),
            ClaimDecision::Due => claim.due.push(server.clone()),
        }
        claim.free.push(server.clone());
    }
    if !held_by_us.is_empty() {
        record_held(context, schema, declared, held_by_us);
    }
    Ok(claim)
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
            Ok(Err(error)) => drop(report_server_refusal(context, schema, error).await),
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

/// Reports a server that refuses a record, and returns why; servers that are down are reported
/// elsewhere.
async fn report_server_refusal(
    context: &Context,
    schema: &TelemetrySchema,
    error: ddl::ClientError,
) -> StepError {
    let failure = crate::clickhouse::clickhouse_failure(error);
    if !matches!(failure.reason, Reason::ClickHouseUnreachable | Reason::ClickHouseKeeperLost) {
        report_unrecorded(context, schema, &failure.cause()).await;
    }
    failure
}
