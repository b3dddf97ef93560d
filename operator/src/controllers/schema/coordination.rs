//! Keeper or ZooKeeper of replicated tables: what is asked, what it means for conditions and
//! status, and whether statements wait. Judging is `millrace_coordination`'s; here are its words.
//! Only [`ask`] reads Secrets.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use millrace_coordination::judge::{self, Figures, Limits, State, Verdict};
use millrace_coordination::observation::{Counters, Observation, TableLoad};
use millrace_crds::v1alpha1::{
    Coordination, CoordinationLimits, CoordinationStatus, CoordinationTable, CoordinationTls,
    Engine, TelemetrySchema, TelemetrySchemaSpec, TelemetrySchemaStatus,
};
use millrace_crds::{ConditionStatus, ConditionType, Reason, cut, find};

use super::validate::invalid;
use crate::context::Context;
use crate::coordination::Ask;
use crate::error::{Invalid, StepError};
use crate::outbound::credentials::Secrets;
use crate::report::conditions::Conditions;

/// Figures in the status get this old while nothing else changes: each new one is a write.
const REFRESH: SignedDuration = SignedDuration::from_secs(600);

/// Tables in the status: a schema with all signals has seven.
const TABLES_MAX: usize = 16;

/// Counters of each ClickHouse server at the last look, by endpoint.
type Counted = BTreeMap<String, Counters>;

/// A look, judged.
#[derive(Clone, Debug)]
pub(super) struct Looked {
    pub(super) verdict: Verdict,
    figures: Figures,
    /// What the ClickHouse servers counted since the look before.
    since: Option<Counters>,
    /// What each table asked lately, at all ClickHouse servers.
    tables: Vec<TableLoad>,
}

/// Whom to ask; nobody if the spec names no server.
///
/// # Errors
/// When a Secret is missing, or the API server refuses or can't be reached.
pub(super) async fn ask(context: &Context, schema: &TelemetrySchema) -> Result<Ask, StepError> {
    let Some(settings) = &schema.spec.clickhouse.coordination else { return Ok(Ask::default()) };
    let Coordination { servers, tls, credentials_secret_ref, limits } = settings;
    let servers = servers.iter().map(|server| server.as_str().parse());
    let servers = servers.collect::<Result<Vec<_>, _>>();
    let servers = servers.map_err(|error| invalid("clickhouse.coordination.servers", error))?;
    let secrets = Secrets::of(&context.client, &schema.namespace().unwrap_or_default());
    let login = match credentials_secret_ref {
        Some(reference) => Some(secrets.login(reference).await?),
        None => None,
    };
    let authority = match tls {
        Some(CoordinationTls { ca_secret_ref: Some(ca) }) => {
            Some(secrets.authority(ca).await?.into_bytes())
        }
        Some(CoordinationTls { ca_secret_ref: None }) | None => None,
    };
    let disk = limits.as_ref().is_some_and(|limits| limits.disk_size.is_some());
    Ok(Ask { servers, encrypted: tls.is_some(), authority, login, disk })
}

fn limits(schema: &TelemetrySchema) -> Limits {
    let settings = schema.spec.clickhouse.coordination.as_ref();
    let Some(limits) = settings.and_then(|it| it.limits.as_ref()) else { return Limits::default() };
    let CoordinationLimits {
        outstanding_requests,
        latency_milliseconds,
        znodes,
        data_size,
        disk_size,
    } = limits;
    Limits {
        outstanding_requests: outstanding_requests.map_or(Limits::OUTSTANDING_REQUESTS, u64::from),
        latency_milliseconds: latency_milliseconds.map(u64::from),
        znodes: znodes.map(u64::from),
        data_bytes: data_size.as_ref().map(|it| it.bytes()),
        disk_bytes: disk_size.as_ref().map(|it| it.bytes()),
    }
}

/// Judges a look, and keeps its counters for the next one.
pub(super) fn judge(context: &Context, schema: &TelemetrySchema, seen: &Observation) -> Looked {
    let uid = schema.metadata.uid.as_deref().unwrap_or_default();
    let before: Counted = context.coordination_counts.get(uid);
    let counted = seen.engines.iter().filter_map(|engine| {
        let counters = engine.said.as_ref().ok()?.counters?;
        Some((engine.endpoint.clone(), counters))
    });
    let counted: Counted = counted.collect();
    let looked = looked(seen, &limits(schema), &before, &counted);
    // A server that doesn't answer now is compared with what it said last.
    let kept = before.into_iter().chain(counted).collect();
    context.coordination_counts.put(uid, kept, context.clock.now());
    looked
}

fn looked(seen: &Observation, limits: &Limits, before: &Counted, counted: &Counted) -> Looked {
    let since = |(endpoint, now): (&String, &Counters)| {
        let before = before.get(endpoint).copied();
        now.since(before.unwrap_or_default())
    };
    let since = counted.iter().map(since).reduce(Counters::with);
    // What broke before this process first looked is no news.
    let broken = counted.iter().filter_map(|(endpoint, now)| {
        let before = before.get(endpoint)?;
        Some(now.since(*before).broken)
    });
    let verdict = judge::judge(seen, limits, broken.sum());
    let sights = seen.engines.iter().filter_map(|engine| engine.said.as_ref().ok());
    let tables = TableLoad::summed(sights.flat_map(|sight| &sight.tables));
    Looked { verdict, figures: judge::figures(seen), since, tables }
}

/// The stable reason of a verdict.
const fn reason(verdict: &Verdict) -> Reason {
    let is_lost = matches!(verdict.state, State::Lost);
    match verdict.reason {
        judge::Reason::Works => Reason::CoordinationWorks,
        judge::Reason::QuorumLost => Reason::CoordinationQuorumLost,
        judge::Reason::ServerDown => Reason::CoordinationServerDown,
        judge::Reason::SessionLost if is_lost => Reason::ClickHouseKeeperLost,
        judge::Reason::ReplicaReadOnly if is_lost => Reason::ReplicaReadOnly,
        judge::Reason::KeeperMissing if is_lost => Reason::ClickHouseKeeperMissing,
        judge::Reason::SessionLost
        | judge::Reason::ReplicaReadOnly
        | judge::Reason::KeeperMissing => Reason::CoordinationPartlyLost,
        judge::Reason::Unsteady => Reason::CoordinationUnsteady,
        judge::Reason::OverLimit => Reason::CoordinationOverLimit,
        judge::Reason::NotAllowed => Reason::ClickHouseNotAuthorized,
        judge::Reason::Unreachable => Reason::CoordinationUnreachable,
    }
}

/// Why statements wait; `None`: they don't.
pub(super) fn holds(looked: Option<&Looked>) -> Option<Invalid> {
    let verdict = &looked?.verdict;
    (verdict.state == State::Lost).then(|| Invalid {
        reason: reason(verdict),
        message: format!("statements wait for coordination: {}", verdict.message),
    })
}

/// Why inserts of a schema's tables stop, as its newest status says; `None`: they don't, or it
/// isn't known.
pub(super) fn stops(schema: &TelemetrySchema) -> Option<String> {
    use Reason::{
        ClickHouseKeeperLost, ClickHouseKeeperMissing, CoordinationQuorumLost, ReplicaReadOnly,
    };
    let conditions = &schema.status.as_ref()?.conditions;
    let condition = find(conditions, ConditionType::CoordinationHealthy)?;
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

/// What a reconcile came to know of coordination.
pub(super) struct Coordinated<'a> {
    /// The look; `None` if none was needed, or the reconcile ended before it.
    pub(super) looked: Option<&'a Looked>,
    /// Why the reconcile ended.
    pub(super) failure: Option<&'a StepError>,
}

impl Coordinated<'_> {
    /// States `CoordinationHealthy`, the summary and the metric; nothing where no table needs it.
    pub(super) fn report(
        &self,
        context: &Context,
        schema: &TelemetrySchema,
        conditions: &mut Conditions,
        status: &mut TelemetrySchemaStatus,
    ) {
        let type_ = ConditionType::CoordinationHealthy;
        let (namespace, name) = (schema.namespace().unwrap_or_default(), schema.name_any());
        let trouble = self.looked.and_then(trouble);
        context.metrics.coordination_is(&namespace, &name, trouble);
        match (self.looked, self.failure) {
            (Some(looked), _) => {
                let now = context.clock.now();
                status.coordination = Some(summary(status.coordination.as_ref(), looked, now));
                let Verdict { message, .. } = &looked.verdict;
                conditions.state(type_, held(&looked.verdict), reason(&looked.verdict), message);
            }
            (None, Some(error)) if is_needed(schema) => {
                conditions.unknown(type_, error.reason, error.cause());
            }
            (None, _) => {
                status.coordination = None;
                conditions.drop(type_);
            }
        }
    }
}

/// Whether a table of the spec needs coordination, as far as the spec itself says it.
fn is_needed(schema: &TelemetrySchema) -> bool {
    let replicated = |engine| {
        matches!(engine, Engine::ReplicatedMergeTree | Engine::ReplicatedReplacingMergeTree)
    };
    let TelemetrySchemaSpec { clickhouse, signals, .. } = &schema.spec;
    clickhouse.cluster.is_some() || signals.iter().any(|(_, table)| replicated(table.engine))
}

const fn held(verdict: &Verdict) -> ConditionStatus {
    match verdict.state {
        State::Healthy => ConditionStatus::True,
        State::Degraded | State::Lost => ConditionStatus::False,
        State::Unseen => ConditionStatus::Unknown,
    }
}

/// The word of a state for the metric; `None`: nothing is wrong.
const fn trouble(looked: &Looked) -> Option<&'static str> {
    match looked.verdict.state {
        State::Lost => Some("lost"),
        State::Degraded => Some("degraded"),
        State::Unseen | State::Healthy => None,
    }
}

/// The summary for the status; the earlier one while only its figures would change, and they are
/// recent.
fn summary(
    before: Option<&CoordinationStatus>,
    looked: &Looked,
    now: Timestamp,
) -> CoordinationStatus {
    let told = figures(looked, now);
    let Some(before) = before else { return told };
    let same = before.servers == told.servers
        && before.leader == told.leader
        && before.synced_followers == told.synced_followers
        && before.sessions == told.sessions;
    let age = before.observed_at.as_ref().map(|at| now.duration_since(at.0));
    let recent = age.is_some_and(|age| age < REFRESH && age >= SignedDuration::ZERO);
    if same && recent { before.clone() } else { told }
}

fn figures(looked: &Looked, now: Timestamp) -> CoordinationStatus {
    let Figures {
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
    } = looked.figures.clone();
    let since = looked.since;
    CoordinationStatus {
        servers: (named > 0).then(|| format!("{serving}/{named}")),
        leader: leader.map(|mut leader| {
            cut(&mut leader, 269);
            leader
        }),
        synced_followers: number(synced_followers),
        sessions: (engines > 0).then(|| format!("{sessions}/{engines}")),
        outstanding_requests: number(outstanding_requests),
        latency_microseconds: latency_milliseconds.map(|it| (it * 1_000.0).round() as i64),
        znodes: number(znodes),
        data_bytes: number(data_bytes),
        watches: number(watches),
        disk_bytes: number(disk_bytes),
        requests_per_million_rows: number(since.and_then(Counters::requests_per_million_rows)),
        request_microseconds: number(since.and_then(Counters::mean_wait_microseconds)),
        tables: looked.tables.iter().take(TABLES_MAX).map(table).collect(),
        observed_at: Timestamp::from_second(now.as_second()).ok().map(Time),
    }
}

fn table(load: &TableLoad) -> CoordinationTable {
    CoordinationTable {
        table: load.table.clone(),
        requests_per_million_rows: number(load.requests_per_million_rows()),
        requests_per_part: number(load.requests_per_part()),
        rows_per_part: number(load.rows_per_part()),
        requests: number(Some(load.requests)).unwrap_or_default(),
    }
}

fn number(it: Option<u64>) -> Option<i64> {
    it.map(|it| i64::try_from(it).unwrap_or(i64::MAX))
}

#[cfg(test)]
#[path = "../../../tests/unit/controllers/schema/coordination.rs"]
mod tests;
