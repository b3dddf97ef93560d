//! Lag of groups whose connection has no cached session, because there are more connections than
//! may be cached.
//!
//! A temporary session costs a log-in, so one observes all groups of its connection, and the result
//! is good for [`REUSED_FOR`]: each connection logs in about every 20 s. A query is answered just
//! before its pool's next reconcile, as by cached sessions, so that no figure gets older than 30 s
//! ([`REUSED_FOR`], ten seconds of the reconcile's interval, and 5 s for both waits). Limits: that
//! holds while 16 temporary sessions serve all connections in 20 s, as with 1,000 connections and
//! log-ins of 250 ms; else each connection has its turn, and a figure's age grows with their
//! number. There are as many groups as pools, about 1 kB each; one not requested for
//! [`FORGOTTEN_AFTER`] is dropped.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::LagRequest;
use super::queue::Pace;
use crate::kafka::client::connection::ConnectionHash;
use crate::kafka::failure::Failure;
use crate::kafka::lag::lag_cache::LagObservation;

/// A result is returned again for this long.
const REUSED_FOR: Duration = Duration::from_secs(15);
/// The same after a failure: clusters that hang must not hold all permits.
const FAILURE_REUSED_FOR: Duration = Duration::from_secs(30);
/// A group not requested for this long is no longer observed with the others.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// The interval of searches for forgotten connections.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

type LagResult = Result<LagObservation, Failure>;

/// The connections without a cached session.
#[derive(Default)]
pub(in crate::kafka) struct Rotation(Mutex<RotationTable>);

#[derive(Default)]
struct RotationTable {
    connections: HashMap<ConnectionHash, (Instant, Arc<tokio::sync::Mutex<RotatedGroups>>)>,
    swept_at: Option<Instant>,
}

/// The groups of one connection, by name. Locked while they are observed.
type RotatedGroups = BTreeMap<String, RotatedGroup>;

struct RotatedGroup {
    request: LagRequest,
    requested_at: Instant,
    latest: Option<(Instant, LagResult)>,
}

impl RotatedGroup {
    /// Returns the newest result, if it may be returned again.
    fn reusable(&self) -> Option<LagResult> {
        let (at, result) = self.latest.as_ref()?;
        let limit = if result.is_ok() { REUSED_FOR } else { FAILURE_REUSED_FOR };
        (at.elapsed() < limit).then(|| result.clone())
    }
}

impl Rotation {
    /// Returns a group's lag: a recent result, or a new observation of all groups of its
    /// connection. A group known before waits for `pace` first.
    pub(in crate::kafka) async fn query_lag(
        &self,
        identity: ConnectionHash,
        request: LagRequest,
        pace: Pace,
        observe: impl AsyncFnOnce(Vec<LagRequest>) -> Vec<LagResult>,
    ) -> LagResult {
        let groups = self.groups_of(identity);
        let name = request.group.clone();
        if groups.lock().await.contains_key(&name) {
            tokio::time::sleep(pace.tick).await;
        }
        let mut groups = groups.lock().await;
        let now = Instant::now();
        match groups.get_mut(&name).filter(|group| group.request == request) {
            Some(group) => {
                group.requested_at = now;
                if let Some(result) = group.reusable() {
                    return result;
                }
            }
            None => {
                let group = RotatedGroup { request, requested_at: now, latest: None };
                groups.insert(name.clone(), group);
            }
        }
        groups.retain(|_, group| now.duration_since(group.requested_at) < FORGOTTEN_AFTER);
        let requests = groups.values().map(|group| group.request.clone()).collect();
        let results = Box::pin(observe(requests)).await;
        let observed_at = Instant::now();
        for (group, result) in groups.values_mut().zip(results) {
            group.latest = Some((observed_at, result));
        }
        let own = groups.get(&name).and_then(|group| group.latest.clone());
        own.map_or_else(|| Err(Failure::interrupted()), |(_, result)| result)
    }

    fn groups_of(&self, identity: ConnectionHash) -> Arc<tokio::sync::Mutex<RotatedGroups>> {
        let now = Instant::now();
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.swept_at.is_none_or(|at| now.duration_since(at) >= SWEEP_EVERY) {
            table.swept_at = Some(now);
            table.connections.retain(|_, (at, _)| now.duration_since(*at) < FORGOTTEN_AFTER);
        }
        let (used_at, groups) =
            table.connections.entry(identity).or_insert_with(|| (now, Arc::default()));
        *used_at = now;
        groups.clone()
    }
}

#[cfg(test)]
mod tests;
