//! The sessions there are: one for each connection that somebody uses.
//!
//! Connections are told apart by servers, protocol and the contents of their secrets: changed ones
//! make another session, the old one is given up when nobody has asked over it for a while. Bounded
//! in number. Everybody who asks about topics or lag comes in here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use kube::Client;

use super::connection::{Identity, Settings};
use super::failure::Failure;
use super::lag::Asked;
use super::session::Session;
use super::topics::{Done, Job, JobKind, TopicChange, TopicSeen};
use crate::error::{Step, StepError};
use crate::lag::{LagObservation, LagQuery, LagSource};

/// Sessions at once. One is a client, or two, of about 1 MiB and four threads each. With more
/// clusters than that, the one that was not asked for longest is given up, and made again when it
/// is.
const SESSIONS_MAX: usize = 64;

/// A session over which nobody asked in this time is given up. Topics are looked at every minute,
/// pools every ten seconds.
const IDLE_MAX: Duration = Duration::from_secs(180);

/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(60);

/// When lag is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From one look for everybody to the next. What a pool is told is as old as its own interval
    /// less what it waited here, so this must be shorter than that.
    pub tick: Duration,
    /// From one look to the next one for groups that were never answered.
    pub strangers: Duration,
}

impl Pace {
    /// Whoever asks is answered at once.
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
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<Identity, Arc<Session>>,
    /// Somebody looks for idle ones.
    sweeping: bool,
}

impl Sessions {
    /// No session yet.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self(Arc::new(Open { pace, state: Mutex::default() }))
    }

    /// Observes a topic.
    ///
    /// # Errors
    /// When Kafka can't be reached or refuses.
    pub async fn observe_topic(&self, to: Settings, topic: &str) -> Result<TopicSeen, Failure> {
        match self.topic(to, topic, JobKind::Observe).await? {
            Done::Seen(seen) => Ok(seen),
            Done::Made => Err(Failure::interrupted()),
        }
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

    /// Deletes a topic with all its records. A topic that is gone already is fine.
    ///
    /// # Errors
    /// When Kafka can't be reached or refuses.
    pub async fn delete_topic(&self, to: Settings, topic: &str) -> Result<(), Failure> {
        self.topic(to, topic, JobKind::Delete).await.map(|_| ())
    }

    async fn topic(&self, to: Settings, topic: &str, kind: JobKind) -> Result<Done, Failure> {
        self.session(to).topic(Job { topic: Arc::from(topic), kind }).await
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
        self.session(to).lag(asked, self.0.pace).await
    }

    /// Sessions there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).sessions.len()
    }

    /// The session of a connection.
    fn session(&self, settings: Settings) -> Arc<Session> {
        let identity = settings.identity();
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = state.sessions.get(&identity) {
            known.used();
            return known.clone();
        }
        if state.sessions.len() >= SESSIONS_MAX {
            let oldest = state.sessions.iter().min_by_key(|(_, session)| session.used_at());
            let oldest = oldest.map(|(identity, _)| *identity);
            give_up(oldest.and_then(|identity| state.sessions.remove(&identity)));
        }
        let made = Arc::new(Session::new(settings));
        state.sessions.insert(identity, made.clone());
        if !std::mem::replace(&mut state.sweeping, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
        made
    }
}

impl Open {
    /// Gives up what nobody used for so long; tells whether anything is left.
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

/// Closes sessions, once those who wait have their answers. That takes a moment, so it is done
/// aside.
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

    /// Scenario: the same connection twice, another one, more connections than are kept, and then
    /// nobody. Guarantee: the same session is given for the same connection; their number is
    /// bounded; the one that was not used for longest makes room; unused ones are given up.
    #[tokio::test]
    async fn sessions_are_shared_bounded_and_given_up() {
        let sessions = Sessions::new(Pace::AT_ONCE);
        let of = |number: usize| Settings::direct(&format!("k{number}:9092"), None);
        let first = sessions.session(of(0));
        assert!(Arc::ptr_eq(&first, &sessions.session(of(0))));
        for number in 1..SESSIONS_MAX {
            sessions.session(of(number));
        }
        first.used();
        sessions.session(of(SESSIONS_MAX));
        assert_eq!(sessions.count(), SESSIONS_MAX);
        assert!(Arc::ptr_eq(&first, &sessions.session(of(0))), "the one used last was given up");
        assert!(sessions.0.sweep(IDLE_MAX), "sessions in use were given up");
        assert_eq!(sessions.count(), SESSIONS_MAX);
        assert!(!sessions.0.sweep(Duration::ZERO), "sessions nobody uses are kept");
        assert_eq!(sessions.count(), 0);
    }
}
