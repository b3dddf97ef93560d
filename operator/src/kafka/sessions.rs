//! All sessions: one per connection in use.
//!
//! Connections are identified by servers, protocol and the contents of their secrets: changed
//! secrets make another session, and the old one closes when unused. Their number is bounded:
//! connections beyond it get temporary sessions. All questions about topics or lag enter here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use kube::Client;
use millrace_crds::Reason;
use tokio::sync::Semaphore;

use super::connection::{Identity, Settings};
use super::failure::Failure;
use super::lag::Asked;
use super::records::{Entry, Place};
use super::session::Session;
use super::topics::{Done, Job, JobKind, TopicChange, TopicSeen};
use crate::error::{Step, StepError};
use crate::kafka::lag_board::{LagObservation, LagQuery, LagSource};
use crate::outbound::Outbound;

/// Kept sessions. Each is one or two clients of about 1 MiB and four threads. All are used in turn,
/// so one more must not replace the least recently used: that is the next in turn, and each would
/// be made anew each time.
const SESSIONS_MAX: usize = 64;

/// Temporary sessions, each for as long as a caller waits. Callers beyond these wait. Each makes a
/// new connection, so only as many connections a minute are served as can be made.
const PASSING_MAX: usize = 16;

/// Longest wait for a temporary session: as long as a hanging one takes.
const PASS_WAIT: Duration = Duration::from_secs(20);

/// A session unused for this long makes room for another: half as long again as the longest
/// interval between reconciles.
const UNUSED_AFTER: Duration = Duration::from_secs(90);

/// A session unused for this long closes. Topics reconcile every minute, pools every ten seconds.
const IDLE_MAX: Duration = Duration::from_secs(180);

/// How often idle sessions are searched for.
const SWEEP: Duration = Duration::from_secs(60);

/// When lag is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From one full observation to the next. A pool's answer is as old as its interval less its
    /// wait here, so this must be shorter.
    pub tick: Duration,
    /// From one observation to the next for groups never answered.
    pub strangers: Duration,
}

impl Pace {
    /// Callers are answered at once.
    pub const AT_ONCE: Self = Self { tick: Duration::ZERO, strangers: Duration::ZERO };
}

impl Default for Pace {
    /// Just under the pools' interval of ten seconds.
    fn default() -> Self {
        Self { tick: Duration::from_secs(8), strangers: Duration::from_millis(500) }
    }
}

/// All sessions of a process. Clones share them.
#[derive(Clone, Default)]
pub struct Sessions(Arc<Open>);

#[derive(Default)]
struct Open {
    pace: Pace,
    outbound: Outbound,
    state: Mutex<State>,
    /// As many as there are passing sessions left.
    passes: Passes,
}

/// How many passing sessions there may be.
struct Passes(Arc<Semaphore>);

impl Default for Passes {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(PASSING_MAX)))
    }
}

#[derive(Default)]
struct State {
    sessions: HashMap<Identity, Arc<Session>>,
    /// Temporary sessions.
    passing: HashMap<Identity, Weak<Session>>,
    /// A task searches for idle ones.
    sweeping: bool,
}

impl Sessions {
    /// No session yet.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self(Arc::new(Open { pace, ..Open::default() }))
    }

    /// The same, connecting to allowed hosts alone.
    #[must_use]
    pub fn bounded_by(self, outbound: Outbound) -> Self {
        Self(Arc::new(Open { pace: self.0.pace, outbound, ..Open::default() }))
    }

    /// Observes a topic.
    ///
    /// # Errors
    /// When Kafka can't be reached or refuses.
    pub async fn observe_topic(&self, to: Settings, topic: &str) -> Result<TopicSeen, Failure> {
        match self.topic(to, topic, JobKind::Observe).await? {
            Done::Seen(seen) => Ok(seen),
            Done::Made | Done::Records(_) => Err(Failure::interrupted()),
        }
    }

    /// What is on record about a place.
    ///
    /// # Errors
    /// When Kafka can't be reached or refuses.
    pub async fn recorded(&self, to: Settings, place: Place) -> Result<Vec<Entry>, Failure> {
        // Group records are asked by group alone; the name only has to reach a broker.
        let (Place::Topic(topic) | Place::Group(topic)) = place.clone();
        match self.topic(to, &topic, JobKind::Recorded(place)).await? {
            Done::Records(entries) => Ok(entries),
            Done::Made | Done::Seen(_) => Err(Failure::interrupted()),
        }
    }

    /// Replaces a record.
    ///
    /// # Errors
    /// When Kafka can't be reached or refuses; `TopicMissing` without the topic it belongs to.
    pub async fn record(&self, to: Settings, place: Place, entry: Entry) -> Result<(), Failure> {
        let Entry { topic, text, at_millis } = entry;
        self.topic(to, &topic, JobKind::Record { place, text, at_millis }).await.map(|_| ())
    }

    /// Makes one change of a topic. Made twice, it does no harm.
    ///
    /// # Errors
    /// When Kafka can't be reached or refuses.
    pub async fn change_topic(
        &self,
        to: Settings,
        topic: &str,
        change: TopicChange,
    ) -> Result<(), Failure> {
        self.topic(to, topic, JobKind::Change(change)).await.map(|_| ())
    }

    /// Deletes a topic with all its records. A missing topic is a success.
    ///
    /// # Errors
    /// When Kafka can't be reached or refuses.
    pub async fn delete_topic(&self, to: Settings, topic: &str) -> Result<(), Failure> {
        self.topic(to, topic, JobKind::Delete).await.map(|_| ())
    }

    async fn topic(&self, to: Settings, topic: &str, kind: JobKind) -> Result<Done, Failure> {
        self.session(to).await?.topic(Job { topic: Arc::from(topic), kind }).await
    }

    /// Observes the lag of `group` on `topics`; `bound` is the age held against it, a second at
    /// least.
    ///
    /// # Errors
    /// When a topic does not exist, or Kafka can't be reached or refuses.
    pub async fn observe_lag(
        &self,
        to: Settings,
        group: &str,
        topics: &[String],
        bound: Duration,
    ) -> Result<LagObservation, Failure> {
        let topics = topics.iter().map(|topic| Arc::from(topic.as_str())).collect();
        let asked = Asked { group: group.to_owned(), topics, bound };
        self.session(to).await?.lag(asked, self.0.pace).await
    }

    /// Sessions there are.
    #[must_use]
    pub fn count(&self) -> usize {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sessions.len() + state.passing.values().filter(|it| it.strong_count() > 0).count()
    }

    /// A connection's session: the existing one, a new kept one, or, while all kept ones are in
    /// use, a temporary one.
    async fn session(&self, settings: Settings) -> Result<Arc<Session>, Failure> {
        self.may_connect(&settings)?;
        if let Some(known) = self.kept(&settings, UNUSED_AFTER) {
            return Ok(known);
        }
        let passes = self.0.passes.0.clone();
        let pass = tokio::time::timeout(PASS_WAIT, passes.acquire_owned()).await;
        let Ok(Ok(pass)) = pass else { return Err(Failure::crowded()) };
        let identity = settings.identity();
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = state.known(&identity) {
            return Ok(known);
        }
        let made = Arc::new(Session::passing(settings, self.0.outbound.clone(), pass));
        state.passing.retain(|_, session| session.strong_count() > 0);
        state.passing.insert(identity, Arc::downgrade(&made));
        Ok(made)
    }

    /// The existing session, or a new kept one; `None` while all kept ones are in use, that is,
    /// were used within `unused_after`.
    fn kept(&self, settings: &Settings, unused_after: Duration) -> Option<Arc<Session>> {
        let identity = settings.identity();
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = state.known(&identity) {
            return Some(known);
        }
        if state.sessions.len() >= SESSIONS_MAX {
            let oldest = state.sessions.iter().min_by_key(|(_, session)| session.used_at())?;
            if oldest.1.used_at().elapsed() < unused_after {
                return None;
            }
            let oldest = *oldest.0;
            give_up(state.sessions.remove(&oldest));
        }
        let made = Arc::new(Session::new(settings.clone(), self.0.outbound.clone()));
        state.sessions.insert(identity, made.clone());
        if !std::mem::replace(&mut state.sweeping, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
        Some(made)
    }

    fn may_connect(&self, settings: &Settings) -> Result<(), Failure> {
        let host = |server: &'_ str| {
            let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
            self.0.outbound.refuses(host)
        };
        let refused = settings.bootstrap_servers().split(',').find_map(host);
        refused.map_or(Ok(()), |why| Err(Failure::new(Reason::HostNotAllowed, why)))
    }
}

impl State {
    fn known(&self, identity: &Identity) -> Option<Arc<Session>> {
        let passing = || self.passing.get(identity).and_then(Weak::upgrade);
        let known = self.sessions.get(identity).cloned().or_else(passing)?;
        known.used();
        Some(known)
    }
}

impl Open {
    /// Closes sessions unused for that long; returns whether any are left.
    fn sweep(&self, idle_max: Duration) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |_: &Identity, session: &mut Arc<Session>| {
            now.saturating_duration_since(session.used_at()) >= idle_max
        };
        give_up(state.sessions.extract_if(idle).map(|(_, session)| session));
        state.sweeping = !state.sessions.is_empty();
        state.sweeping
    }
}

/// Closes sessions once all callers have their answers. That takes a moment, so it runs on another
/// thread.
fn give_up(sessions: impl IntoIterator<Item = Arc<Session>>) {
    let sessions: Vec<Arc<Session>> = sessions.into_iter().collect();
    if !sessions.is_empty() {
        drop(tokio::task::spawn_blocking(move || drop(sessions)));
    }
}

async fn sweep(open: Weak<Open>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if !open.upgrade().is_some_and(|open| open.sweep(IDLE_MAX)) {
            return;
        }
    }
}

/// Lag asked of real brokers.
pub struct KafkaLag {
    client: Client,
    sessions: Sessions,
}

impl KafkaLag {
    /// Secrets of connections are read through `client`.
    #[must_use]
    pub fn new(client: Client, sessions: Sessions) -> Self {
        Self { client, sessions }
    }
}

impl LagSource for KafkaLag {
    fn observe<'a>(
        &'a self,
        query: &'a LagQuery,
    ) -> BoxFuture<'a, Result<LagObservation, StepError>> {
        async move {
            let LagQuery { namespace, kafka, group, topics, bound } = query;
            let settings = Settings::resolve(&self.client, namespace, kafka).await?;
            self.sessions
                .observe_lag(settings, group, topics, *bound)
                .await
                .map_err(|failure| failure.at(Step::Observe))
        }
        .boxed()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/kafka/sessions.rs"]
mod tests;
