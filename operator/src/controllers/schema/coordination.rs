//! Reports Keeper or ZooKeeper of replicated tables: what is queried, what it means for conditions
//! and status, and whether statements wait. `millrace_coordination` judges; this module has the
//! texts. Only [`probe_request`] reads Secrets.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use millrace_coordination::assessment::{
    self, CoordinationFigures, CoordinationState, CoordinationVerdict, DegradationLimits,
};
use millrace_coordination::observation::{Counters, Observation, TableLoad};
use millrace_crds::v1alpha1::{
    Coordination, CoordinationLimits, CoordinationStatus, CoordinationTable, CoordinationTls,
    Engine, TelemetrySchema, TelemetrySchemaSpec, TelemetrySchemaStatus,
};
use millrace_crds::{ConditionStatus, ConditionType, Reason, find_condition, truncate_text};

use super::options::invalid_field;
use crate::context::Context;
use crate::coordination::ProbeRequest;
use crate::error::{Invalid, StepError};
use crate::outbound::credentials::Secrets;
use crate::report::conditions::{Conditions, status_time};
use crate::telemetry::metrics::ObjectGauge;

/// The age at which the status' figures are rewritten while nothing else changes: each new one is a
/// write.
const REFRESH: SignedDuration = SignedDuration::from_secs(600);

/// The number of tables in the status: a schema with all signals has seven.
const TABLES_MAX: usize = 16;

/// Counters of each ClickHouse server at the last observation, by endpoint.
type Counted = BTreeMap<String, Counters>;

/// A judged observation.
#[derive(Clone, Debug)]
pub(super) struct CoordinationCheck {
    pub(super) verdict: CoordinationVerdict,
    figures: CoordinationFigures,
    /// The growth of the ClickHouse servers' counters since the previous observation.
    since: Option<Counters>,
    /// Each table's recent requests, from all ClickHouse servers.
    tables: Vec<TableLoad>,
}

/// Returns the servers to query; none if the spec names none.
///
/// # Errors
/// When a Secret is missing, or the API server refuses or can't be reached.
pub(super) async fn probe_request(
    context: &Context,
    schema: &TelemetrySchema,
) -> Result<ProbeRequest, StepError> {
    let Some(settings) = &schema.spec.clickhouse.coordination else {
        return Ok(ProbeRequest::default());
    };
    let Coordination { servers, tls, credentials_secret, limits } = settings;
    let servers = servers.iter().map(|server| server.as_str().parse());
    let servers = servers.collect::<Result<Vec<_>, _>>();
    let servers =
        servers.map_err(|error| invalid_field("clickhouse.coordination.servers", error))?;
    let secrets = Secrets::in_namespace(&context.client, &schema.namespace().unwrap_or_default());
    let login = match credentials_secret {
        Some(reference) => Some(secrets.read_login(reference).await?),
        None => None,
    };
    let authority = match tls {
        Some(CoordinationTls { ca: Some(ca) }) => {
            Some(secrets.read_authority(ca).await?.into_bytes())
        }
        Some(CoordinationTls { ca: None }) | None => None,
    };
    let disk = limits.as_ref().is_some_and(|limits| limits.disk_size.is_some());
    Ok(ProbeRequest { servers, encrypted: tls.is_some(), authority, login, disk })
}

fn configured_limits(schema: &TelemetrySchema) -> DegradationLimits {
    let settings = schema.spec.clickhouse.coordination.as_ref();
    let Some(limits) = settings.and_then(|it| it.limits.as_ref()) else {
        return DegradationLimits::default();
    };
    let CoordinationLimits {
        outstanding_requests,
        latency_milliseconds,
        znodes,
        data_size,
        disk_size,
    } = limits;
    DegradationLimits {
        outstanding_requests: outstanding_requests
            .map_or(DegradationLimits::OUTSTANDING_REQUESTS, u64::from),
        latency_milliseconds: latency_milliseconds.map(u64::from),
        znodes: znodes.map(u64::from),
        data_bytes: data_size.as_ref().map(|it| it.bytes()),
        disk_bytes: disk_size.as_ref().map(|it| it.bytes()),
    }
}

/// Judges an observation, and stores its counters for the next one.
pub(super) fn check_coordination(
    context: &Context,
    schema: &TelemetrySchema,
    observation: &Observation,
) -> CoordinationCheck {
    let uid = schema.metadata.uid.as_deref().unwrap_or_default();
    let before: Counted = context.coordination_counts.get(uid);
    let counted = observation.engines.iter().filter_map(|engine| {
        let counters = engine.view.as_ref().ok()?.counters?;
        Some((engine.endpoint.clone(), counters))
    });
    let counted: Counted = counted.collect();
    let check = build_check(observation, &configured_limits(schema), &before, &counted);
    // The next answer of a silent server is compared with its last one.
    let counters = before.into_iter().chain(counted).collect();
    context.coordination_counts.insert(uid, counters, context.clock.now());
    check
}

fn build_check(
    observation: &Observation,
    limits: &DegradationLimits,
    before: &Counted,
    counted: &Counted,
) -> CoordinationCheck {
    let since = |(endpoint, now): (&String, &Counters)| {
        let before = before.get(endpoint).copied();
        now.delta_since(before.unwrap_or_default())
    };
    let since = counted.iter().map(since).reduce(Counters::merged_with);
    // Sessions that broke before this process first observed them don't count.
    let broken = counted.iter().filter_map(|(endpoint, now)| {
        let before = before.get(endpoint)?;
        Some(now.delta_since(*before).broken)
    });
    let verdict = assessment::assess_coordination(observation, limits, broken.sum());
    let sights = observation.engines.iter().filter_map(|engine| engine.view.as_ref().ok());
    let tables = TableLoad::sum_by_table(sights.flat_map(|sight| &sight.tables));
    CoordinationCheck { verdict, figures: assessment::collect_figures(observation), since, tables }
}

const fn health_reason(verdict: &CoordinationVerdict) -> Reason {
    let is_lost = matches!(verdict.state, CoordinationState::Lost);
    match verdict.reason {
        assessment::CoordinationReason::Works => Reason::CoordinationHealthy,
        assessment::CoordinationReason::QuorumLost => Reason::CoordinationQuorumLost,
        assessment::CoordinationReason::ServerDown => Reason::CoordinationServerDown,
        assessment::CoordinationReason::SessionLost if is_lost => Reason::ClickHouseKeeperLost,
        assessment::CoordinationReason::ReplicaReadOnly if is_lost => Reason::ReplicaReadOnly,
        assessment::CoordinationReason::KeeperMissing if is_lost => Reason::ClickHouseKeeperMissing,
        assessment::CoordinationReason::SessionLost
        | assessment::CoordinationReason::ReplicaReadOnly
        | assessment::CoordinationReason::KeeperMissing => Reason::CoordinationSessionsLost,
        assessment::CoordinationReason::Unsteady => Reason::CoordinationUnstable,
        assessment::CoordinationReason::OverLimit => Reason::CoordinationOverLimit,
        assessment::CoordinationReason::NotAllowed => Reason::ClickHouseNotAuthorized,
        assessment::CoordinationReason::Unreachable => Reason::CoordinationUnreachable,
    }
}

/// Returns why statements wait; `None` if they don't.
pub(super) fn hold_reason(check: Option<&CoordinationCheck>) -> Option<Invalid> {
    let verdict = &check?.verdict;
    (verdict.state == CoordinationState::Lost).then(|| Invalid {
        reason: health_reason(verdict),
        message: format!("statements wait for coordination: {}", verdict.message),
    })
}

/// Returns why inserts of a schema's tables stop, according to its newest status; `None` if they
/// don't, or it isn't known.
pub(super) fn stop_reason(schema: &TelemetrySchema) -> Option<String> {
    use Reason::{
        ClickHouseKeeperLost, ClickHouseKeeperMissing, CoordinationQuorumLost, ReplicaReadOnly,
    };
    let conditions = &schema.status.as_ref()?.conditions;
    let condition = find_condition(conditions, ConditionType::CoordinationHealthy)?;
    let is_current = Some(condition.observed_generation) == schema.metadata.generation;
    let is_lost = condition.status == ConditionStatus::False
        && matches!(
            Reason::parse(&condition.reason)?,
            ClickHouseKeeperLost
                | ClickHouseKeeperMissing
                | CoordinationQuorumLost
                | ReplicaReadOnly
        );
    (is_current && is_lost).then(|| condition.reason.clone())
}

/// A reconcile's result about coordination.
pub(super) struct CoordinationReport<'a> {
    /// The observation; `None` if none was needed, or the reconcile ended before it.
    pub(super) check: Option<&'a CoordinationCheck>,
    /// The failure that ended the reconcile.
    pub(super) failure: Option<&'a StepError>,
}

/// Maximum number of schemas with series.
const UNHEALTHY_SCHEMAS_MAX: usize = 1_000;

const UNHEALTHY: ObjectGauge<3> = ObjectGauge::new(
    "millrace_operator_coordination_unhealthy",
    "1 for a TelemetrySchema whose Keeper or ZooKeeper is lost (inserts stop) or degraded, by \
     state; only of those.",
    ["schema_namespace", "schema", "state"],
    UNHEALTHY_SCHEMAS_MAX,
);

/// Sets a schema's coordination state; `None`: healthy, or the schema was deleted.
pub(super) fn set_unhealthy(
    context: &Context,
    namespace: &str,
    schema: &str,
    state: Option<&'static str>,
) {
    let row = state.map(|state| (vec![state.into()], 1.0));
    context.metrics.set_rows(&UNHEALTHY, &[namespace, schema], row.into_iter().collect());
}

impl CoordinationReport<'_> {
    /// Sets `CoordinationHealthy`, the summary and the metric; none of them if no table needs
    /// coordination.
    pub(super) fn report_coordination(
        &self,
        context: &Context,
        schema: &TelemetrySchema,
        conditions: &mut Conditions,
        status: &mut TelemetrySchemaStatus,
    ) {
        let type_ = ConditionType::CoordinationHealthy;
        let (namespace, name) = (schema.namespace().unwrap_or_default(), schema.name_any());
        let trouble = self.check.and_then(trouble_label);
        set_unhealthy(context, &namespace, &name, trouble);
        match (self.check, self.failure) {
            (Some(check), _) => {
                let now = context.clock.now();
                status.coordination =
                    Some(update_summary(status.coordination.as_ref(), check, now));
                let CoordinationVerdict { message, .. } = &check.verdict;
                conditions.state_condition(
                    type_,
                    condition_status(&check.verdict),
                    health_reason(&check.verdict),
                    message,
                );
            }
            (None, Some(error)) if is_needed(schema) => {
                conditions.set_unknown(type_, error.reason, error.cause());
            }
            (None, _) => {
                status.coordination = None;
                conditions.remove_condition(type_);
            }
        }
    }
}

/// Returns whether a table of the spec needs coordination, as far as the spec itself shows it.
fn is_needed(schema: &TelemetrySchema) -> bool {
    let replicated = |engine| {
        matches!(engine, Engine::ReplicatedMergeTree | Engine::ReplicatedReplacingMergeTree)
    };
    let TelemetrySchemaSpec { clickhouse, signals, .. } = &schema.spec;
    clickhouse.cluster.is_some() || signals.iter().any(|(_, table)| replicated(table.engine()))
}

const fn condition_status(verdict: &CoordinationVerdict) -> ConditionStatus {
    match verdict.state {
        CoordinationState::Healthy => ConditionStatus::True,
        CoordinationState::Degraded | CoordinationState::Lost => ConditionStatus::False,
        CoordinationState::Unseen => ConditionStatus::Unknown,
    }
}

/// Returns the metric's name of a state; `None` for no trouble.
const fn trouble_label(check: &CoordinationCheck) -> Option<&'static str> {
    match check.verdict.state {
        CoordinationState::Lost => Some("lost"),
        CoordinationState::Degraded => Some("degraded"),
        CoordinationState::Unseen | CoordinationState::Healthy => None,
    }
}

/// Returns the summary for the status; the earlier one while only its figures would change, and
/// they are recent.
fn update_summary(
    before: Option<&CoordinationStatus>,
    check: &CoordinationCheck,
    now: Timestamp,
) -> CoordinationStatus {
    let current = build_summary(check, now);
    let Some(before) = before else { return current };
    let same = before.servers == current.servers
        && before.leader == current.leader
        && before.synced_followers == current.synced_followers
        && before.sessions == current.sessions;
    let age = before.observed_at.as_ref().map(|at| now.duration_since(at.0));
    let recent = age.is_some_and(|age| age < REFRESH && age >= SignedDuration::ZERO);
    if same && recent { before.clone() } else { current }
}

fn build_summary(check: &CoordinationCheck, now: Timestamp) -> CoordinationStatus {
    let CoordinationFigures {
        named,
        serving,
        leader,
        synced_followers,
        outstanding_requests,
        latency_milliseconds,
        znodes,
        data_bytes,
        watches,
        disk_bytes,
        engines,
        sessions,
    } = check.figures.clone();
    let since = check.since;
    CoordinationStatus {
        servers: (named > 0).then(|| format!("{serving}/{named}")),
        leader: leader.map(|mut leader| {
            truncate_text(&mut leader, 269);
            leader
        }),
        synced_followers: to_i64(synced_followers),
        sessions: (engines > 0).then(|| format!("{sessions}/{engines}")),
        outstanding_requests: to_i64(outstanding_requests),
        latency_microseconds: latency_milliseconds.map(|it| (it * 1_000.0).round() as i64),
        znodes: to_i64(znodes),
        data_bytes: to_i64(data_bytes),
        watches: to_i64(watches),
        disk_bytes: to_i64(disk_bytes),
        requests_per_million_rows: to_i64(since.and_then(Counters::requests_per_million_rows)),
        request_microseconds: to_i64(since.and_then(Counters::mean_wait_microseconds)),
        tables: check.tables.iter().take(TABLES_MAX).map(table_status).collect(),
        observed_at: Some(status_time(now)),
    }
}

fn table_status(load: &TableLoad) -> CoordinationTable {
    CoordinationTable {
        table: load.table.clone(),
        requests_per_million_rows: to_i64(load.requests_per_million_rows()),
        requests_per_part: to_i64(load.requests_per_part()),
        rows_per_part: to_i64(load.rows_per_part()),
        requests: to_i64(Some(load.requests)).unwrap_or_default(),
    }
}

fn to_i64(it: Option<u64>) -> Option<i64> {
    it.map(|it| i64::try_from(it).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
