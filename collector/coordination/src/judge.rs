//! What a look means: whether inserts into replicated tables work, stop, or have no margin left.
//!
//! [`judge`] collects what is wrong and states the worst. It never takes silence for an outage:
//! [`State::Lost`] needs a server that says so. Messages name server and figure; figures that are
//! fine are left out, so that an unchanged state has an unchanged message.
//!
//! Limits: a shard whose ClickHouse servers can't be asked is not judged. A follower's word that
//! there is a leader is believed; it may be some seconds old.

use crate::observation::{Blindness, Engine, Observation, Report, Role, Server, Sight, Silence};

/// Servers or replicas named in one message.
const NAMED_MAX: usize = 3;

/// Sessions that may break at one ClickHouse server between two looks: one when its Keeper server
/// restarts, and one more when the leader changes with it.
const BROKEN_MAX: u64 = 2;

/// What is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that wait at one server.
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

impl Limits {
    /// Waiting requests from which on ZooKeeper takes no more from clients
    /// (`zookeeper.globalOutstandingLimit`, by default).
    pub const OUTSTANDING_REQUESTS: u64 = 1_000;
}

impl Default for Limits {
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

/// How coordination is, from bad to good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Inserts into replicated tables stop, of one shard at least.
    Lost,
    /// They work, and something has to be done before the next failure.
    Degraded,
    /// Nobody who was asked could say.
    Unseen,
    /// They work.
    Healthy,
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nothing is wrong.
    Works,
    /// No server of the ensemble leads, or too few follow.
    QuorumLost,
    /// A server of the ensemble doesn't serve, or its copy is behind.
    ServerDown,
    /// A ClickHouse server has no live session.
    SessionLost,
    /// A replica takes no inserts.
    ReplicaReadOnly,
    /// ClickHouse has no Keeper in its configuration.
    KeeperMissing,
    /// Sessions break again and again.
    Unsteady,
    /// A figure is above its limit.
    OverLimit,
    /// The user lacks a right.
    NotAllowed,
    /// None of those that should know could be asked.
    Unreachable,
}

/// A judged look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How it is.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// What was seen, for people.
    pub message: String,
}

impl Verdict {
    fn new(state: State, reason: Reason, message: String) -> Self {
        Self { state, reason, message }
    }
}

/// Judges a look. `broken` sessions ended by a fault since the look before.
#[must_use]
pub fn judge(seen: &Observation, limits: &Limits, broken: u64) -> Verdict {
    let found = [
        quorum(seen),
        keeper_missing(seen),
        sessions(seen),
        read_only(seen),
        down(seen),
        behind(seen),
        over(seen, limits),
        unsteady(seen, broken),
        unseen(seen),
    ];
    // The first of the worst.
    let worst = found.into_iter().flatten().min_by_key(|verdict| verdict.state);
    worst.unwrap_or_else(|| Verdict::new(State::Healthy, Reason::Works, healthy(seen)))
}

/// Figures of a look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Servers whose addresses are known.
    pub named: usize,
    /// Those that serve.
    pub serving: usize,
    /// The address of the one that leads.
    pub leader: Option<String>,
    /// Its synced followers.
    pub synced_followers: Option<u64>,
    /// Requests that wait, at the server with most.
    pub outstanding_requests: Option<u64>,
    /// The highest mean latency of a server, in milliseconds.
    pub latency_milliseconds: Option<f64>,
    /// Nodes, at the server with most.
    pub znodes: Option<u64>,
    /// Bytes of them, at the server with most.
    pub data_bytes: Option<u64>,
    /// Watches of all servers.
    pub watches: Option<u64>,
    /// Bytes on disk, at the server with most.
    pub disk_bytes: Option<u64>,
    /// ClickHouse servers.
    pub engines: usize,
    /// Those with a live session.
    pub sessions: usize,
}

/// The figures of a look.
#[must_use]
pub fn figures(seen: &Observation) -> Figures {
    let reports = || seen.servers.iter().filter_map(|it| it.said.as_ref().ok());
    let most = |of: fn(&Report) -> Option<u64>| reports().filter_map(of).max();
    let leader = leader(seen);
    let watches = reports().filter_map(|it| it.watches).reduce(u64::saturating_add);
    Figures {
        named: seen.servers.len(),
        serving: serving(seen).count(),
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
        engines: seen.engines.len(),
        sessions: seen.engines.iter().filter(|it| has_session(it) == Some(true)).count(),
    }
}

fn serving(seen: &Observation) -> impl Iterator<Item = (&str, &Report)> {
    let said = seen.servers.iter().filter_map(|Server { address, said }| {
        let report = said.as_ref().ok()?;
        Some((address.as_str(), report))
    });
    said.filter(|(_, report)| report.role.serves())
}

fn leader(seen: &Observation) -> Option<(&str, &Report)> {
    serving(seen).find(|(_, report)| report.role.leads())
}

/// Votes in the ensemble, as far as is known: the addresses may be a part of it.
fn voters(seen: &Observation) -> u64 {
    let leader = leader(seen).map(|(_, report)| report);
    if let Some(voters) = leader.and_then(|report| report.voters) {
        return voters;
    }
    let followers = leader.and_then(|report| report.followers);
    let observers = serving(seen).filter(|(_, report)| report.role == Role::Observer).count();
    let named = count(seen.servers.len() - observers);
    named.max(followers.map_or(0, |it| it.saturating_add(1)))
}

const fn majority(voters: u64) -> u64 {
    voters / 2 + 1
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

fn quorum(seen: &Observation) -> Option<Verdict> {
    let lost = |message| Some(Verdict::new(State::Lost, Reason::QuorumLost, message));
    let stops = "inserts into replicated tables wait in Kafka until a majority is back";
    let voters = voters(seen);
    let needed = majority(voters);
    if let Some((address, report)) = leader(seen) {
        let synced = report.synced_followers.filter(|_| report.role == Role::Leader)?;
        let has = synced.saturating_add(1);
        return (has < needed).then_some(()).and_then(|()| {
            lost(format!(
                "{address} leads with {synced} synced followers: {has} of {voters} votes, where \
                 {needed} are needed; {stops}"
            ))
        });
    }
    let is_leaderless = |it: &&Server| match &it.said {
        Ok(report) => !report.role.serves(),
        Err(silence) => *silence == Silence::NotServing,
    };
    let leaderless = seen.servers.iter().find(is_leaderless)?;
    if serving(seen).next().is_some() {
        return None;
    }
    let told = listed(seen.servers.iter().filter_map(trouble));
    let address = &leaderless.address;
    lost(format!("no server of the ensemble leads, as {address} says ({told}); {stops}"))
}

/// What is wrong with one server.
fn trouble(server: &Server) -> Option<String> {
    let Server { address, said } = server;
    match said {
        Ok(report) if report.role.serves() => None,
        Ok(_) => Some(format!("{address}: it is read-only")),
        Err(silence) => Some(format!("{address}: {silence}")),
    }
}

fn keeper_missing(seen: &Observation) -> Option<Verdict> {
    let is_missing = |it: &Engine| it.said == Err(Blindness::NoKeeper);
    let state = extent(seen, |it| known(it).then(|| is_missing(it)))?;
    let names = listed(seen.engines.iter().filter(|it| is_missing(it)).map(name));
    let message = format!(
        "{names} has no Keeper in its configuration, and replicated tables are declared: configure \
         one, or declare MergeTree"
    );
    Some(Verdict::new(state, Reason::KeeperMissing, message))
}

fn sessions(seen: &Observation) -> Option<Verdict> {
    let is_lost = |it: &Engine| has_session(it).map(|has| !has);
    let state = extent(seen, is_lost)?;
    let why = |it: &Engine| match &it.said {
        Err(why) => format!("{}: {why}", it.endpoint),
        Ok(sight) => {
            let server = sight.sessions.first().map_or("no server", |it| it.server.as_str());
            format!("{}: its session with {server} has expired", it.endpoint)
        }
    };
    let names = listed(seen.engines.iter().filter(|it| is_lost(it) == Some(true)).map(why));
    let message = format!("ClickHouse has no live session with its Keeper ({names})");
    Some(Verdict::new(state, Reason::SessionLost, message))
}

fn read_only(seen: &Observation) -> Option<Verdict> {
    let refuses = |it: &Engine| {
        let sight = it.said.as_ref().ok().filter(|sight| !sight.replicas.is_empty())?;
        Some(refusing(sight).next().is_some())
    };
    let state = extent(seen, refuses)?;
    let told = seen.engines.iter().flat_map(|engine| {
        let sight = engine.said.as_ref().ok();
        sight.into_iter().flat_map(refusing).map(|replica| {
            let why = if replica.is_session_expired { "its session has expired" } else { "" };
            let why = if replica.exception.is_empty() { why } else { &replica.exception };
            let why = if why.is_empty() { "it says no cause" } else { why };
            format!("{} at {}: {why}", replica.table, engine.endpoint)
        })
    });
    let told = listed(told);
    let message = format!("replicas take no inserts ({told})");
    Some(Verdict::new(state, Reason::ReplicaReadOnly, message))
}

fn refusing(sight: &Sight) -> impl Iterator<Item = &crate::observation::Replica> {
    sight.replicas.iter().filter(|it| it.is_readonly || it.is_session_expired)
}

/// How far a fault of ClickHouse servers goes: a shard of which each server that says something has
/// it takes no inserts. `None`: no server has it. `has` gives `None` for a server that can't say.
fn extent(seen: &Observation, has: impl Fn(&Engine) -> Option<bool>) -> Option<State> {
    let any = seen.engines.iter().any(|it| has(it) == Some(true));
    let whole = |shard: &[Engine]| {
        let mut said = shard.iter().filter_map(&has).peekable();
        said.peek().is_some() && said.all(|has| has)
    };
    let state = if seen.by_shard().any(whole) { State::Lost } else { State::Degraded };
    any.then_some(state)
}

/// Whether a ClickHouse server has a live session; `None`: it can't be told.
fn has_session(engine: &Engine) -> Option<bool> {
    match &engine.said {
        Ok(sight) => Some(sight.sessions.iter().any(|it| !it.is_expired)),
        Err(Blindness::SessionLost(_)) => Some(false),
        // Said by itself.
        Err(Blindness::NoKeeper) => None,
        Err(Blindness::NotAllowed { .. } | Blindness::Unreachable(_)) => None,
    }
}

fn known(engine: &Engine) -> bool {
    matches!(engine.said, Ok(_) | Err(Blindness::NoKeeper | Blindness::SessionLost(_)))
}

fn down(seen: &Observation) -> Option<Verdict> {
    let serves = serving(seen).count();
    let is_down = |it: &&Server| match &it.said {
        Ok(report) => !report.role.serves(),
        Err(silence) => silence.is_down(),
    };
    let told = listed(seen.servers.iter().filter(is_down).filter_map(trouble));
    if serves == 0 || told.is_empty() {
        return None;
    }
    let (all, needed) = (seen.servers.len(), majority(voters(seen)));
    let votes = serving(seen).filter(|(_, report)| report.role != Role::Observer).count();
    let margin = if count(votes) <= needed { "; one more, and inserts stop" } else { "" };
    let message = format!("{serves} of {all} servers serve ({told}){margin}");
    Some(Verdict::new(State::Degraded, Reason::ServerDown, message))
}

fn behind(seen: &Observation) -> Option<Verdict> {
    let (address, report) = leader(seen)?;
    let others = report.voters.map(|voters| voters.saturating_sub(1));
    let (followers, synced) = (others.or(report.followers)?, report.synced_followers?);
    (synced < followers).then(|| {
        let message =
            format!("{address} leads, and of its {followers} followers {synced} are synced");
        Verdict::new(State::Degraded, Reason::ServerDown, message)
    })
}

fn over(seen: &Observation, limits: &Limits) -> Option<Verdict> {
    serving(seen).find_map(|(address, report)| {
        let above = |what: &str, has: Option<u64>, limit: Option<u64>| {
            let (has, limit) = (has?, limit?);
            (has > limit).then(|| format!("{address} has {} {what}, above {limit}", rounded(has)))
        };
        let latency = report.latency_milliseconds.map(|it| it as u64);
        let outstanding = Some(limits.outstanding_requests);
        let message = above("requests that wait", report.outstanding_requests, outstanding)
            .or_else(|| above("ms of mean latency", latency, limits.latency_milliseconds))
            .or_else(|| above("bytes on its disk", report.disk_bytes, limits.disk_bytes))
            .or_else(|| above("bytes of data", report.data_bytes, limits.data_bytes))
            .or_else(|| above("nodes", report.znodes, limits.znodes))?;
        Some(Verdict::new(State::Degraded, Reason::OverLimit, message))
    })
}

/// Two leading digits: a figure that moves a little leaves the message as it is.
fn rounded(figure: u64) -> u64 {
    let digits = figure.checked_ilog10().unwrap_or(0);
    let unit = 10_u64.pow(digits.saturating_sub(1));
    figure / unit * unit
}

fn unsteady(seen: &Observation, broken: u64) -> Option<Verdict> {
    (broken > BROKEN_MAX.saturating_mul(count(seen.engines.len()))).then(|| {
        let message = format!(
            "ClickHouse counted {broken} broken sessions with its Keeper since the look before \
             (ZooKeeperHardwareExceptions)"
        );
        Verdict::new(State::Degraded, Reason::Unsteady, message)
    })
}

/// Addresses that tell nothing, or ClickHouse servers that don't while nobody else does.
fn unseen(seen: &Observation) -> Option<Verdict> {
    let verdict = |reason, message| Some(Verdict::new(State::Unseen, reason, message));
    let asked = !seen.servers.is_empty();
    if asked && serving(seen).next().is_none() {
        let told = listed(seen.servers.iter().filter_map(trouble));
        let sessions = figures(seen).sessions;
        let message = format!(
            "none of the servers in clickhouse.coordination can be asked ({told}); {sessions} \
             ClickHouse servers have live sessions"
        );
        return verdict(Reason::Unreachable, message);
    }
    if seen.engines.iter().any(known) || asked {
        return None;
    }
    let refused = seen.engines.iter().find_map(|it| match &it.said {
        Err(Blindness::NotAllowed { grant }) => Some((&it.endpoint, grant)),
        _ => None,
    });
    if let Some((endpoint, grant)) = refused {
        let message = format!(
            "{endpoint} doesn't let the user see how its Keeper is; have an administrator run: \
             {grant}"
        );
        return verdict(Reason::NotAllowed, message);
    }
    let told = listed(seen.engines.iter().filter_map(|it| {
        let why = it.said.as_ref().err()?;
        Some(format!("{}: {why}", it.endpoint))
    }));
    verdict(Reason::Unreachable, format!("no ClickHouse server could be asked ({told})"))
}

fn healthy(seen: &Observation) -> String {
    let Figures { named, serving, leader, synced_followers, engines, sessions, .. } = figures(seen);
    let engines = format!("{sessions} of {engines} ClickHouse servers have sessions");
    let servers = match (named, leader, synced_followers) {
        (0, _, _) => {
            "clickhouse.coordination names no server, so quorum and load are not seen; ".to_owned()
        }
        (_, Some(leader), Some(synced)) => {
            format!("{serving} of {named} servers serve, {leader} leads with {synced} synced; ")
        }
        (_, Some(leader), None) => format!("{serving} of {named} servers serve, {leader} leads; "),
        (_, None, _) => format!("{serving} of {named} servers serve; "),
    };
    let grants = seen.engines.iter().filter_map(|it| match &it.said {
        Ok(sight) => sight.grant.as_deref(),
        Err(Blindness::NotAllowed { grant }) => Some(grant.as_str()),
        Err(_) => None,
    });
    let grant = grants.take(1).map(|it| format!("; to see more, have an administrator run: {it}"));
    format!("{servers}{engines}{}", grant.collect::<String>())
}

fn name(engine: &Engine) -> String {
    engine.endpoint.clone()
}

/// Some of these, and how many more there are.
fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    let more = items.len().saturating_sub(NAMED_MAX);
    let shown = items.get(..items.len() - more).unwrap_or_default().join("; ");
    if more == 0 { shown } else { format!("{shown}; and {more} more") }
}

#[cfg(test)]
#[path = "../tests/unit/judge.rs"]
mod tests;
