//! All sessions: one per connection in use.
//!
//! Connections are identified by servers, protocol and the contents of their secrets: changed
//! secrets create another session, and the old one closes when unused. Their number is bounded:
//! connections beyond it get temporary sessions. All queries about topics or lag enter here.

pub(super) mod session;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt, join_all};
use kube::Client;
use millrace_crds::Reason;
use tokio::sync::Semaphore;

use super::client::connection::{ConnectionHash, ConnectionSettings};
use super::client::resolved::ResolvedConnections;
use super::failure::Failure;
use super::lag::LagRequest;
use super::lag::queue::Pace;
use super::lag::rotation::Rotation;
use super::sessions::session::KafkaSession;
use crate::error::{ReconcileStep, StepError};
use crate::kafka::lag_cache::{LagObservation, LagQuery, LagSource};
use crate::outbound::Outbound;

/// Maximum number of cached sessions. Each is one or two clients of about 1 MiB and four threads.
/// All are used in rotation, so one more must not replace the least recently used: that is the next
/// to be used, and each would be recreated every time.
pub(super) const SESSIONS_MAX: usize = 64;

/// The memory of all sessions: cached and temporary ones, two clients of 1 MiB each. It is a part
/// of the limit in the chart's values.
pub const SESSIONS_BYTES_MAX: usize = (SESSIONS_MAX + PASSING_MAX) * 2 * 1024 * 1024;

/// Maximum number of temporary sessions, each for as long as a caller waits. Further callers wait.
/// Each creates a new connection, so connections served per minute are limited by how many can be
/// created.
pub(super) const PASSING_MAX: usize = 16;

/// Longest wait for a temporary session: as long as a hanging one takes.
const PASS_WAIT: Duration = Duration::from_secs(20);

/// A session unused for this long may be replaced by another: half as long again as the longest
/// interval between reconciles.
const UNUSED_AFTER: Duration = Duration::from_secs(90);

/// A session unused for this long closes. Topics reconcile every minute, pools every ten seconds.
const IDLE_MAX: Duration = Duration::from_secs(180);

/// How often idle sessions are searched for.
const SWEEP: Duration = Duration::from_secs(60);

/// All sessions of a process. Clones share them.
#[derive(Clone, Default)]
pub struct Sessions(Arc<SessionPool>);

#[derive(Default)]
struct SessionPool {
    pace: Pace,
    outbound: Outbound,
    state: Mutex<SessionTable>,
    resolved: ResolvedConnections,
    /// The lag of connections beyond the cached ones.
    rotation: Rotation,
    /// The permits for further temporary sessions.
    passes: Passes,
}

struct Passes(Arc<Semaphore>);

impl Default for Passes {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(PASSING_MAX)))
    }
}

#[derive(Default)]
struct SessionTable {
    sessions: HashMap<ConnectionHash, Arc<KafkaSession>>,
    passing: HashMap<ConnectionHash, Weak<KafkaSession>>,
    /// Whether a task searches for idle sessions.
    sweeping: bool,
}

impl Sessions {
    /// Creates an empty set of sessions.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self(Arc::new(SessionPool { pace, ..SessionPool::default() }))
    }

    /// Restricts connections to allowed hosts.
    #[must_use]
    pub fn bounded_by(self, outbound: Outbound) -> Self {
        Self(Arc::new(SessionPool { pace: self.0.pace, outbound, ..SessionPool::default() }))
    }

    /// Returns the connections with their Secrets.
    pub(super) fn resolved(&self) -> &ResolvedConnections {
        &self.0.resolved
    }

    /// Observes the lag of `group` on `topics`; `bound` is the bound of its age, a second at least.
    ///
    /// # Errors
    /// When a topic does not exist, or Kafka can't be reached or refuses.
    pub async fn observe_lag(
        &self,
        to: ConnectionSettings,
        group: &str,
        topics: &[String],
        bound: Duration,
    ) -> Result<LagObservation, Failure> {
        let topics = topics.iter().map(|topic| Arc::from(topic.as_str())).collect();
        let request = LagRequest { group: group.to_owned(), topics, bound };
        self.may_connect(&to)?;
        match self.cached_session(&to, UNUSED_AFTER) {
            Some(session) => {
                drop(to);
                session.query_lag(request, self.0.pace).await
            }
            None => {
                let identity = to.compute_identity();
                let observe = async |all| observe_together(self, to, all).await;
                self.0.rotation.query_lag(identity, request, self.0.pace, observe).await
            }
        }
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn session_count(&self) -> usize {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sessions.len() + state.passing.values().filter(|it| it.strong_count() > 0).count()
    }

    /// Returns a connection's session: the existing one, a new cached one, or, while all cached
    /// ones are in use, a temporary one.
    pub(super) async fn open_session(
        &self,
        settings: ConnectionSettings,
    ) -> Result<Arc<KafkaSession>, Failure> {
        self.may_connect(&settings)?;
        if let Some(known) = self.cached_session(&settings, UNUSED_AFTER) {
            return Ok(known);
        }
        let passes = self.0.passes.0.clone();
        let pass = tokio::time::timeout(PASS_WAIT, passes.acquire_owned()).await;
        let Ok(Ok(pass)) = pass else { return Err(Failure::queue_full()) };
        let identity = settings.compute_identity();
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = state.find_session(&identity) {
            return Ok(known);
        }
        let made = Arc::new(KafkaSession::new(settings, self.0.outbound.clone(), Some(pass)));
        state.passing.retain(|_, session| session.strong_count() > 0);
        state.passing.insert(identity, Arc::downgrade(&made));
        Ok(made)
    }

    /// Returns the existing session, or a new cached one; `None` while all cached ones are in use,
    /// that is, were used within `unused_after`.
    fn cached_session(
        &self,
        settings: &ConnectionSettings,
        unused_after: Duration,
    ) -> Option<Arc<KafkaSession>> {
        let identity = settings.compute_identity();
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = state.find_session(&identity) {
            return Some(known);
        }
        if state.sessions.len() >= SESSIONS_MAX {
            let oldest = state.sessions.iter().min_by_key(|(_, session)| session.used_at())?;
            if oldest.1.used_at().elapsed() < unused_after {
                return None;
            }
            let oldest = *oldest.0;
            close_sessions(state.sessions.remove(&oldest));
        }
        let made = Arc::new(KafkaSession::new(settings.clone(), self.0.outbound.clone(), None));
        state.sessions.insert(identity, made.clone());
        if !std::mem::replace(&mut state.sweeping, true) {
            tokio::spawn(sweep_idle(Arc::downgrade(&self.0)));
        }
        Some(made)
    }

    fn may_connect(&self, settings: &ConnectionSettings) -> Result<(), Failure> {
        let host = |server: &'_ str| {
            let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
            self.0.outbound.refusal_of_host(host)
        };
        let refused = settings.bootstrap_servers().split(',').find_map(host);
        refused.map_or(Ok(()), |why| Err(Failure::new(Reason::HostNotAllowed, why)))
    }
}

/// Observes groups by one session, together, and returns their lag in the same order.
async fn observe_together(
    sessions: &Sessions,
    settings: ConnectionSettings,
    requests: Vec<LagRequest>,
) -> Vec<Result<LagObservation, Failure>> {
    match sessions.open_session(settings).await {
        Ok(session) => {
            let queries = requests.into_iter().map(|it| session.query_lag(it, Pace::AT_ONCE));
            join_all(queries).await
        }
        Err(failure) => requests.iter().map(|_| Err(failure.clone())).collect(),
    }
}

impl SessionTable {
    fn find_session(&self, identity: &ConnectionHash) -> Option<Arc<KafkaSession>> {
        let passing = || self.passing.get(identity).and_then(Weak::upgrade);
        let known = self.sessions.get(identity).cloned().or_else(passing)?;
        known.mark_used();
        Some(known)
    }
}

impl SessionPool {
    /// Closes sessions unused for `idle_max`, and returns whether any are left.
    fn close_idle(&self, idle_max: Duration) -> bool {
        self.resolved.drop_old();
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |_: &ConnectionHash, session: &mut Arc<KafkaSession>| {
            now.saturating_duration_since(session.used_at()) >= idle_max
        };
        close_sessions(state.sessions.extract_if(idle).map(|(_, session)| session));
        state.sweeping = !state.sessions.is_empty();
        state.sweeping
    }
}

/// Closes sessions once all callers have their results. That takes a moment, so it runs on another
/// thread.
fn close_sessions(sessions: impl IntoIterator<Item = Arc<KafkaSession>>) {
    let sessions: Vec<Arc<KafkaSession>> = sessions.into_iter().collect();
    if !sessions.is_empty() {
        drop(tokio::task::spawn_blocking(move || drop(sessions)));
    }
}

async fn sweep_idle(open: Weak<SessionPool>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if !open.upgrade().is_some_and(|open| open.close_idle(IDLE_MAX)) {
            return;
        }
    }
}

/// Queries lag from real brokers.
pub struct KafkaLag {
    client: Client,
    sessions: Sessions,
}

impl KafkaLag {
    /// Creates a source that reads the Secrets of connections through `client`.
    #[must_use]
    pub fn new(client: Client, sessions: Sessions) -> Self {
        Self { client, sessions }
    }
}

impl LagSource for KafkaLag {
    fn observe_lag<'a>(
        &'a self,
        query: &'a LagQuery,
    ) -> BoxFuture<'a, Result<LagObservation, StepError>> {
        async move {
            let LagQuery { namespace, kafka, group, topics, bound } = query;
            let resolved = self.sessions.resolved();
            // Boxed, so that a query that waits for its answer holds none of it: there are as many
            // as pools.
            let settings = Box::pin(resolved.resolve(&self.client, namespace, kafka)).await?;
            self.sessions.observe_lag(settings, group, topics, *bound).await.map_err(|failure| {
                resolved.forget(namespace, kafka);
                failure.at_step(ReconcileStep::Observe)
            })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
