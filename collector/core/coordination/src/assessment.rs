//! Judges an observation: whether inserts into replicated tables work, stop, or have no margin
//! left.
//!
//! [`judge`] collects the faults and returns the worst. Silence is never an outage:
//! [`CoordinationState::Lost`] requires a server that reports one. Messages name server and figure;
//! they omit figures within limits, so an unchanged state has an unchanged message.
//!
//! Limits: a shard whose ClickHouse servers can't be queried is not judged. A follower's report of
//! a leader is believed; it may be some seconds old.

use crate::observation::{
    ClickHouseServer, CoordinationView, KeeperServer, Observation, ProbeError, ServerReport,
    ServerRole, ViewError,
};

/// The most servers or replicas named in one message.
const NAMED_MAX: usize = 3;

/// Sessions that may break at one ClickHouse server between two observations: one when its Keeper
/// server restarts, and one more when the leader changes with it.
const BROKEN_MAX: u64 = 2;

/// The limits above which coordination is degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DegradationLimits {
    /// Requests waiting at one server.
    pub outstanding_requests: u64,
    /// Mean latency, in milliseconds.
    pub latency_milliseconds: Option<u64>,
    /// Nodes in the tree.
    pub znodes: Option<u64>,
    /// Bytes of the nodes.
    pub data_bytes: Option<u64>,
    /// Bytes of snapshots and logs on a server's disk.
    pub disk_bytes: Option<u64>,
}

impl DegradationLimits {
    /// The number of waiting requests at which ZooKeeper accepts no more from clients
    /// (`zookeeper.globalOutstandingLimit`, by default).
    pub const OUTSTANDING_REQUESTS: u64 = 1_000;
}

impl Default for DegradationLimits {
    fn default() -> Self {
        Self {
            outstanding_requests: Self::OUTSTANDING_REQUESTS,
            latency_milliseconds: None,
            znodes: None,
            data_bytes: None,
            disk_bytes: None,
        }
    }
}

/// The state of coordination, from bad to good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoordinationState {
    /// Inserts into the replicated tables of at least one shard stop.
    Lost,
    /// Inserts work, but the fault must be fixed before the next failure.
    Degraded,
    /// No queried server could report the state.
    Unseen,
    /// Inserts work.
    Healthy,
}

/// The reason for a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoordinationReason {
    /// No fault was found.
    Works,
    /// No server of the ensemble leads, or too few follow.
    QuorumLost,
    /// A server of the ensemble doesn't serve, or its copy is behind.
    ServerDown,
    /// A ClickHouse server has no live session.
    SessionLost,
    /// A replica accepts no inserts.
    ReplicaReadOnly,
    /// ClickHouse has no Keeper in its configuration.
    KeeperMissing,
    /// Sessions break repeatedly.
    Unsteady,
    /// A figure is above its limit.
    OverLimit,
    /// The user lacks a right.
    NotAllowed,
    /// No server that could report the state could be queried.
    Unreachable,
}

/// The verdict on an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinationVerdict {
    /// The state.
    pub state: CoordinationState,
    /// The reason.
    pub reason: CoordinationReason,
    /// The observed facts, for people.
    pub message: String,
}

impl CoordinationVerdict {
    fn new(state: CoordinationState, reason: CoordinationReason, message: String) -> Self {
        Self { state, reason, message }
    }
}

/// Judges an observation. `broken` is the number of sessions that a fault ended since the previous
/// one.
#[must_use]
pub fn assess_coordination(
    observation: &Observation,
    limits: &DegradationLimits,
    broken: u64,
) -> CoordinationVerdict {
    let found = [
        check_quorum(observation),
        check_keeper(observation),
        check_sessions(observation),
        check_read_only(observation),
        check_down_servers(observation),
        check_followers(observation),
        check_load(observation, limits),
        check_broken_sessions(observation, broken),
        check_visibility(observation),
    ];
    // The first of the worst wins.
    let worst = found.into_iter().flatten().min_by_key(|verdict| verdict.state);
    worst.unwrap_or_else(|| {
        CoordinationVerdict::new(
            CoordinationState::Healthy,
            CoordinationReason::Works,
            healthy_message(observation),
        )
    })
}

/// The figures of an observation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoordinationFigures {
    /// Servers whose addresses are known.
    pub named: usize,
    /// Servers that serve.
    pub serving: usize,
    /// The leader's address.
    pub leader: Option<String>,
    /// The leader's synced followers.
    pub synced_followers: Option<u64>,
    /// Waiting requests, at the server with most.
    pub outstanding_requests: Option<u64>,
    /// The highest mean latency of a server, in milliseconds.
    pub latency_milliseconds: Option<f64>,
    /// Nodes, at the server with most.
    pub znodes: Option<u64>,
    /// Bytes of the nodes, at the server with most.
    pub data_bytes: Option<u64>,
    /// Watches of all servers.
    pub watches: Option<u64>,
    /// Bytes on disk, at the server with most.
    pub disk_bytes: Option<u64>,
    /// ClickHouse servers.
    pub engines: usize,
    /// ClickHouse servers with a live session.
    pub sessions: usize,
}

/// Returns the figures of an observation.
#[must_use]
pub fn collect_figures(observation: &Observation) -> CoordinationFigures {
    let reports = || observation.servers.iter().filter_map(|it| it.report.as_ref().ok());
    let most = |of: fn(&ServerReport) -> Option<u64>| reports().filter_map(of).max();
    let leader = find_leader(observation);
    let watches = reports().filter_map(|it| it.watches).reduce(u64::saturating_add);
    CoordinationFigures {
        named: observation.servers.len(),
        serving: serving_servers(observation).count(),
        leader: leader.map(|(address, _)| address.to_owned()),
        synced_followers: leader.and_then(|(_, report)| report.synced_followers),
        outstanding_requests: most(|it| it.outstanding_requests),
        latency_milliseconds: reports()
            .filter_map(|it| it.latency_milliseconds)
            .max_by(f64::total_cmp),
        znodes: most(|it| it.znodes),
        data_bytes: most(|it| it.data_bytes),
        watches,
        disk_bytes: most(|it| it.disk_bytes),
        engines: observation.engines.len(),
        sessions: observation.engines.iter().filter(|it| has_session(it) == Some(true)).count(),
    }
}

fn serving_servers(observation: &Observation) -> impl Iterator<Item = (&str, &ServerReport)> {
    let reports =
        observation.servers.iter().filter_map(|KeeperServer { address, report: outcome }| {
            let report = outcome.as_ref().ok()?;
            Some((address.as_str(), report))
        });
    reports.filter(|(_, report)| report.role.is_serving())
}

fn find_leader(observation: &Observation) -> Option<(&str, &ServerReport)> {
    serving_servers(observation).find(|(_, report)| report.role.is_leading())
}

/// The votes in the ensemble, as far as known: the addresses may be incomplete.
fn voter_count(observation: &Observation) -> u64 {
    let leader = find_leader(observation).map(|(_, report)| report);
    if let Some(voters) = leader.and_then(|report| report.voters) {
        return voters;
    }
    let followers = leader.and_then(|report| report.followers);
    let observers = serving_servers(observation)
        .filter(|(_, report)| report.role == ServerRole::Observer)
        .count();
    let named = to_u64(observation.servers.len() - observers);
    named.max(followers.map_or(0, |it| it.saturating_add(1)))
}

const fn majority_of(voters: u64) -> u64 {
    voters / 2 + 1
}

fn to_u64(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

fn check_quorum(observation: &Observation) -> Option<CoordinationVerdict> {
    let lost = |message| {
        Some(CoordinationVerdict::new(
            CoordinationState::Lost,
            CoordinationReason::QuorumLost,
            message,
        ))
    };
    let stops = "inserts into replicated tables wait in Kafka until a majority is available";
    let voters = voter_count(observation);
    let needed = majority_of(voters);
    if let Some((address, report)) = find_leader(observation) {
        let synced = report.synced_followers.filter(|_| report.role == ServerRole::Leader)?;
        let has = synced.saturating_add(1);
        return (has < needed).then_some(()).and_then(|()| {
            lost(format!(
                "{address} leads with {synced} synced followers: {has} of {voters} votes, {needed} \
                 are required; {stops}"
            ))
        });
    }
    let is_leaderless = |it: &&KeeperServer| match &it.report {
        Ok(report) => !report.role.is_serving(),
        Err(silence) => *silence == ProbeError::NotServing,
    };
    let leaderless = observation.servers.iter().find(is_leaderless)?;
    if serving_servers(observation).next().is_some() {
        return None;
    }
    let faults = list_some(observation.servers.iter().filter_map(describe_fault));
    let address = &leaderless.address;
    lost(format!("the ensemble has no leader, as {address} reports ({faults}); {stops}"))
}

/// Returns the fault of one server, if it has one.
fn describe_fault(server: &KeeperServer) -> Option<String> {
    let KeeperServer { address, report: outcome } = server;
    match outcome {
        Ok(report) if report.role.is_serving() => None,
        Ok(_) => Some(format!("{address}: it is read-only")),
        Err(silence) => Some(format!("{address}: {silence}")),
    }
}

fn check_keeper(observation: &Observation) -> Option<CoordinationVerdict> {
    let is_missing = |it: &ClickHouseServer| it.view == Err(ViewError::NoKeeper);
    let state = fault_extent(observation, |it| is_state_known(it).then(|| is_missing(it)))?;
    let names = list_some(observation.engines.iter().filter(|it| is_missing(it)).map(endpoint_of));
    let message = format!(
        "{names} has no Keeper in its configuration, but the tables are replicated: configure a \
         Keeper, or declare MergeTree"
    );
    Some(CoordinationVerdict::new(state, CoordinationReason::KeeperMissing, message))
}

fn check_sessions(observation: &Observation) -> Option<CoordinationVerdict> {
    let is_lost = |it: &ClickHouseServer| has_session(it).map(|has| !has);
    let state = fault_extent(observation, is_lost)?;
    let why = |it: &ClickHouseServer| match &it.view {
        Err(why) => format!("{}: {why}", it.endpoint),
        Ok(sight) => {
            let server = sight.sessions.first().map_or("no server", |it| it.server.as_str());
            format!("{}: its session with {server} has expired", it.endpoint)
        }
    };
    let names =
        list_some(observation.engines.iter().filter(|it| is_lost(it) == Some(true)).map(why));
    let message = format!("ClickHouse has no live session with its Keeper ({names})");
    Some(CoordinationVerdict::new(state, CoordinationReason::SessionLost, message))
}

fn check_read_only(observation: &Observation) -> Option<CoordinationVerdict> {
    let refuses = |it: &ClickHouseServer| {
        let sight = it.view.as_ref().ok().filter(|sight| !sight.replicas.is_empty())?;
        Some(refusing_replicas(sight).next().is_some())
    };
    let state = fault_extent(observation, refuses)?;
    let refusals = observation.engines.iter().flat_map(|engine| {
        let sight = engine.view.as_ref().ok();
        sight.into_iter().flat_map(refusing_replicas).map(|replica| {
            let why = if replica.is_session_expired { "its session has expired" } else { "" };
            let why = if replica.exception.is_empty() { why } else { &replica.exception };
            let why = if why.is_empty() { "no cause reported" } else { why };
            format!("{} at {}: {why}", replica.table, engine.endpoint)
        })
    });
    let refusals = list_some(refusals);
    let message = format!("replicas accept no inserts ({refusals})");
    Some(CoordinationVerdict::new(state, CoordinationReason::ReplicaReadOnly, message))
}

fn refusing_replicas(
    sight: &CoordinationView,
) -> impl Iterator<Item = &crate::observation::Replica> {
    sight.replicas.iter().filter(|it| it.is_readonly || it.is_session_expired)
}

/// Returns the extent of a fault of ClickHouse servers: `Lost` if every reporting server of a shard
/// has it, so the shard accepts no inserts; `None` if no server has it. `has` returns `None` for a
/// server that can't report.
fn fault_extent(
    observation: &Observation,
    has: impl Fn(&ClickHouseServer) -> Option<bool>,
) -> Option<CoordinationState> {
    let any = observation.engines.iter().any(|it| has(it) == Some(true));
    let affects_all = |shard: &[ClickHouseServer]| {
        let mut known = shard.iter().filter_map(&has).peekable();
        known.peek().is_some() && known.all(|has| has)
    };
    let state = if observation.by_shard().any(affects_all) {
        CoordinationState::Lost
    } else {
        CoordinationState::Degraded
    };
    any.then_some(state)
}

/// Whether a ClickHouse server has a live session; `None` if that is unknown.
fn has_session(engine: &ClickHouseServer) -> Option<bool> {
    match &engine.view {
        Ok(sight) => Some(sight.sessions.iter().any(|it| !it.is_expired)),
        Err(ViewError::SessionLost(_)) => Some(false),
        // `keeper_missing` reports this.
        Err(ViewError::NoKeeper) => None,
        Err(ViewError::NotAllowed { .. } | ViewError::Unreachable(_)) => None,
    }
}

fn is_state_known(engine: &ClickHouseServer) -> bool {
    matches!(engine.view, Ok(_) | Err(ViewError::NoKeeper | ViewError::SessionLost(_)))
}

fn check_down_servers(observation: &Observation) -> Option<CoordinationVerdict> {
    let serves = serving_servers(observation).count();
    let is_down = |it: &&KeeperServer| match &it.report {
        Ok(report) => !report.role.is_serving(),
        Err(silence) => silence.is_down(),
    };
    let faults = list_some(observation.servers.iter().filter(is_down).filter_map(describe_fault));
    if serves == 0 || faults.is_empty() {
        return None;
    }
    let (all, needed) = (observation.servers.len(), majority_of(voter_count(observation)));
    let votes = serving_servers(observation)
        .filter(|(_, report)| report.role != ServerRole::Observer)
        .count();
    let margin = if to_u64(votes) <= needed { "; one more failure stops inserts" } else { "" };
    let message = format!("{serves} of {all} servers are serving ({faults}){margin}");
    Some(CoordinationVerdict::new(
        CoordinationState::Degraded,
        CoordinationReason::ServerDown,
        message,
    ))
}

fn check_followers(observation: &Observation) -> Option<CoordinationVerdict> {
    let (address, report) = find_leader(observation)?;
    let others = report.voters.map(|voters| voters.saturating_sub(1));
    let (followers, synced) = (others.or(report.followers)?, report.synced_followers?);
    (synced < followers).then(|| {
        let message =
            format!("{address} leads, and {synced} of its {followers} followers are synced");
        CoordinationVerdict::new(
            CoordinationState::Degraded,
            CoordinationReason::ServerDown,
            message,
        )
    })
}

fn check_load(
    observation: &Observation,
    limits: &DegradationLimits,
) -> Option<CoordinationVerdict> {
    serving_servers(observation).find_map(|(address, report)| {
        let above = |what: &str, has: Option<u64>, limit: Option<u64>| {
            let (has, limit) = (has?, limit?);
            (has > limit).then(|| {
                format!("{address} has {} {what}, above the limit of {limit}", round_figure(has))
            })
        };
        let latency = report.latency_milliseconds.map(|it| it as u64);
        let outstanding = Some(limits.outstanding_requests);
        let message = above("outstanding requests", report.outstanding_requests, outstanding)
            .or_else(|| above("ms of mean latency", latency, limits.latency_milliseconds))
            .or_else(|| above("bytes on its disk", report.disk_bytes, limits.disk_bytes))
            .or_else(|| above("bytes of data", report.data_bytes, limits.data_bytes))
            .or_else(|| above("nodes", report.znodes, limits.znodes))?;
        Some(CoordinationVerdict::new(
            CoordinationState::Degraded,
            CoordinationReason::OverLimit,
            message,
        ))
    })
}

/// Keeps two leading digits, so that a small change of a figure doesn't change the message.
fn round_figure(figure: u64) -> u64 {
    let digits = figure.checked_ilog10().unwrap_or(0);
    let unit = 10_u64.pow(digits.saturating_sub(1));
    figure / unit * unit
}

fn check_broken_sessions(observation: &Observation, broken: u64) -> Option<CoordinationVerdict> {
    (broken > BROKEN_MAX.saturating_mul(to_u64(observation.engines.len()))).then(|| {
        let message = format!(
            "ClickHouse reported {broken} broken sessions with its Keeper since the previous check \
             (ZooKeeperHardwareExceptions)"
        );
        CoordinationVerdict::new(CoordinationState::Degraded, CoordinationReason::Unsteady, message)
    })
}

/// Returns a verdict if no configured address reports anything, or if ClickHouse servers don't and
/// there is no other source.
fn check_visibility(observation: &Observation) -> Option<CoordinationVerdict> {
    let verdict = |reason, message| {
        Some(CoordinationVerdict::new(CoordinationState::Unseen, reason, message))
    };
    let has_servers = !observation.servers.is_empty();
    if has_servers && serving_servers(observation).next().is_none() {
        let faults = list_some(observation.servers.iter().filter_map(describe_fault));
        let sessions = collect_figures(observation).sessions;
        let message = format!(
            "no server in clickhouse.coordination could be queried ({faults}); ClickHouse servers \
             with live sessions: {sessions}"
        );
        return verdict(CoordinationReason::Unreachable, message);
    }
    if observation.engines.iter().any(is_state_known) || has_servers {
        return None;
    }
    let refused = observation.engines.iter().find_map(|it| match &it.view {
        Err(ViewError::NotAllowed { grant }) => Some((&it.endpoint, grant)),
        _ => None,
    });
    if let Some((endpoint, grant)) = refused {
        let message = format!(
            "the ClickHouse user may not read the state of Keeper at {endpoint}; have an \
             administrator run: {grant}"
        );
        return verdict(CoordinationReason::NotAllowed, message);
    }
    let reasons = list_some(observation.engines.iter().filter_map(|it| {
        let why = it.view.as_ref().err()?;
        Some(format!("{}: {why}", it.endpoint))
    }));
    verdict(
        CoordinationReason::Unreachable,
        format!("no ClickHouse server could be queried ({reasons})"),
    )
}

fn healthy_message(observation: &Observation) -> String {
    let CoordinationFigures { named, serving, leader, synced_followers, engines, sessions, .. } =
        collect_figures(observation);
    let engines = format!("{sessions} of {engines} ClickHouse servers have sessions");
    let servers = match (named, leader, synced_followers) {
        (0, _, _) => "clickhouse.coordination lists no server, so quorum and load are not \
                      monitored; "
            .to_owned(),
        (_, Some(leader), Some(synced)) => {
            format!(
                "{serving} of {named} servers are serving, {leader} leads with {synced} synced; "
            )
        }
        (_, Some(leader), None) => {
            format!("{serving} of {named} servers are serving, {leader} leads; ")
        }
        (_, None, _) => format!("{serving} of {named} servers are serving; "),
    };
    let grants = observation.engines.iter().filter_map(|it| match &it.view {
        Ok(sight) => sight.grant.as_deref(),
        Err(ViewError::NotAllowed { grant }) => Some(grant.as_str()),
        Err(_) => None,
    });
    let grant =
        grants.take(1).map(|it| format!("; for more detail, have an administrator run: {it}"));
    format!("{servers}{engines}{}", grant.collect::<String>())
}

fn endpoint_of(engine: &ClickHouseServer) -> String {
    engine.endpoint.clone()
}

/// Lists the first items and the number of the others.
fn list_some(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    let more = items.len().saturating_sub(NAMED_MAX);
    let shown = items.get(..items.len() - more).unwrap_or_default().join("; ");
    if more == 0 { shown } else { format!("{shown}; and {more} more") }
}

#[cfg(test)]
mod tests;
