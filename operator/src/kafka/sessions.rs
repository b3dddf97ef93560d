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
mod tests {
    use super::*;

    fn of(number: usize) -> Settings {
        Settings::direct(&format!("k{number}:9092"), None)
    }

    /// Scenario: the same connection twice, another one, more connections than are kept, one that
    /// was not used for long, and then nobody. Guarantee: the same session is given for the same
    /// connection; their number is bounded; only one that is not used makes room; unused ones are
    /// given up.
    #[tokio::test]
    async fn sessions_are_shared_bounded_and_given_up() {
        let sessions = Sessions::new(Pace::AT_ONCE);
        let first = sessions.session(of(0)).await.unwrap();
        assert!(Arc::ptr_eq(&first, &sessions.session(of(0)).await.unwrap()));
        for number in 1..SESSIONS_MAX {
            sessions.session(of(number)).await.unwrap();
        }
        assert!(sessions.kept(&of(SESSIONS_MAX), UNUSED_AFTER).is_none(), "all are in use");
        first.used();
        assert!(sessions.kept(&of(SESSIONS_MAX), Duration::ZERO).is_some());
        assert_eq!(sessions.count(), SESSIONS_MAX);
        let again = sessions.session(of(0)).await.unwrap();
        assert!(Arc::ptr_eq(&first, &again), "the one used last was given up");
        assert!(sessions.0.sweep(IDLE_MAX), "sessions in use were given up");
        assert_eq!(sessions.count(), SESSIONS_MAX);
        assert!(!sessions.0.sweep(Duration::ZERO), "sessions nobody uses are kept");
        assert_eq!(sessions.count(), 0);
    }

    /// Scenario: a quarter more connections than are kept are asked over in a circle, five times.
    /// Guarantee: those that were kept first are the same each time round; only the others are made
    /// anew, and none of them stays.
    #[tokio::test]
    async fn more_connections_than_are_kept_do_not_push_each_other_out() {
        let sessions = Sessions::new(Pace::AT_ONCE);
        let mut kept = Vec::new();
        for number in 0..SESSIONS_MAX {
            kept.push(sessions.session(of(number)).await.unwrap());
        }
        for _ in 0..5 {
            for number in 0..SESSIONS_MAX + SESSIONS_MAX / 4 {
                let session = sessions.session(of(number)).await.unwrap();
                let is_kept = kept.get(number).is_some_and(|kept| Arc::ptr_eq(kept, &session));
                assert_eq!(is_kept, number < SESSIONS_MAX, "connection {number}");
            }
            assert_eq!(sessions.count(), SESSIONS_MAX);
        }
    }

    /// Scenario: as many passing sessions as there may be are in use; one more is asked for, and
    /// one of theirs again. Guarantee: theirs is shared; the new one waits until one is done, and
    /// no longer than its time.
    #[tokio::test(start_paused = true)]
    async fn passing_sessions_are_shared_and_bounded() {
        let sessions = Sessions::new(Pace::AT_ONCE);
        let all = SESSIONS_MAX + PASSING_MAX;
        let mut used = Vec::new();
        for number in 0..all {
            used.push(sessions.session(of(number)).await.unwrap());
        }
        let shared = sessions.session(of(all - 1)).await.unwrap();
        assert!(Arc::ptr_eq(&shared, used.last().unwrap()));
        drop(shared);
        let refused = sessions.session(of(all)).await.map(|_| ()).unwrap_err();
        assert_eq!(refused, Failure::crowded());
        let waits = sessions.session(of(all));
        let done = async { drop(used.pop()) };
        let (made, ()) = tokio::join!(waits, done);
        assert!(made.is_ok());
        assert_eq!(sessions.count(), all);
    }

    /// Scenario: servers that are not among the allowed hosts. Guarantee: no session is made.
    #[tokio::test]
    async fn hosts_that_are_not_allowed_are_not_connected_to() {
        let outbound = Outbound::new(vec!["k0".parse().unwrap()]);
        let sessions = Sessions::new(Pace::AT_ONCE).bounded_by(outbound);
        assert!(sessions.session(of(0)).await.is_ok());
        for servers in ["k1:9092", "k0:9092,k1:9092", "169.254.169.254:9092"] {
            let refused = sessions.session(Settings::direct(servers, None)).await;
            assert_eq!(refused.map(|_| ()).unwrap_err().reason, Reason::HostNotAllowed);
        }
        assert_eq!(sessions.count(), 1);
    }
}
