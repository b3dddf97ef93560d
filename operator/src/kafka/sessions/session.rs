//! One connection to one cluster: its clients, and whether they work.
//!
//! Callers share the link: the first one creates it, the others wait for it. A link over which no
//! request was answered is replaced; if that fails, all callers get the reason.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use millrace_crds::Reason;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use crate::kafka::Deadline;
use crate::kafka::client::connection::ConnectionSettings;
use crate::kafka::client::probe::BrokerClient;
use crate::kafka::failure::Failure;
use crate::kafka::lag::queue::LagQueue;
use crate::kafka::topics::queue::TopicQueues;
use crate::outbound::Outbound;

/// Maximum age of a link. Until then its client for changes retains events of brokers that come and
/// go: one that is down costs about 100 bytes every ten seconds.
const LINK_AGE_MAX: Duration = Duration::from_secs(3_600);

/// A caller this soon after a failed connection gets the same error.
const FAILURE_SHARED: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
enum ClusterState {
    Nothing,
    Up,
    Down(Failure, Instant),
}

/// A cached connection.
pub(in crate::kafka) struct KafkaSession {
    settings: ConnectionSettings,
    /// The hosts and addresses that brokers may have.
    outbound: Outbound,
    /// Locked while a link is created.
    link: Mutex<Option<(Arc<BrokerClient>, Instant)>>,
    /// Locked only briefly.
    known: Mutex<ClusterState>,
    pub(in crate::kafka) lags: LagQueue,
    pub(in crate::kafka) topics: TopicQueues,
    used_at: Mutex<Instant>,
    /// The permit of a temporary session.
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for KafkaSession {
    /// Closing a link takes a moment, so it runs on another thread.
    fn drop(&mut self) {
        let link = self.link.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let parts = (link, self.permit.take());
        match (&parts.0, Handle::try_current()) {
            (Some(_), Ok(runtime)) => drop(runtime.spawn_blocking(move || drop(parts))),
            _ => drop(parts),
        }
    }
}

impl KafkaSession {
    /// Creates a session. A temporary one holds a permit while it exists.
    pub(in crate::kafka) fn new(
        settings: ConnectionSettings,
        outbound: Outbound,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self {
            settings,
            outbound,
            permit,
            link: Mutex::default(),
            known: Mutex::new(ClusterState::Nothing),
            lags: LagQueue::default(),
            topics: TopicQueues::default(),
            used_at: Mutex::new(Instant::now()),
        }
    }

    pub(in crate::kafka) fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }

    /// Records that a caller uses the session now.
    pub(super) fn mark_used(&self) {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns when a caller last used the session.
    pub(in crate::kafka) fn used_at(&self) -> Instant {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the link. If there is none, creates one by a request for `topic`, with a group if
    /// `group` is given. Blocks.
    ///
    /// # Errors
    /// When no broker can be reached.
    pub(in crate::kafka) fn open_link(
        &self,
        topic: &str,
        group: Option<&str>,
        deadline: Deadline,
    ) -> Result<Arc<BrokerClient>, Failure> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, made)) = link.as_ref()
            && made.elapsed() < LINK_AGE_MAX
            && (known.in_group || group.is_none())
        {
            return Ok(known.clone());
        }
        if let Some(failure) = self.failed_within(FAILURE_SHARED) {
            return Err(failure);
        }
        *link = None;
        match BrokerClient::connect_to_broker(
            &self.settings,
            &self.outbound,
            topic,
            group,
            deadline,
        ) {
            Ok(made) => {
                let made = Arc::new(made);
                *link = Some((made.clone(), Instant::now()));
                self.set_known(ClusterState::Up);
                Ok(made)
            }
            Err(failure) => {
                self.set_known(ClusterState::Down(failure.clone(), Instant::now()));
                Err(failure)
            }
        }
    }

    /// Closes a link, unless it has been replaced.
    pub(in crate::kafka) fn close_link(&self, lost: &Arc<BrokerClient>) {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if link.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, lost)) {
            *link = None;
            self.set_known(ClusterState::Nothing);
        }
    }

    /// Checks the outcomes of a call. If no broker answered, finds the reason with a new link and
    /// returns that. A link with an abandoned request is closed.
    pub(in crate::kafka) fn check_outcomes<T>(
        &self,
        link: &Arc<BrokerClient>,
        (topic, group): (&str, Option<&str>),
        deadline: Deadline,
        mut outcomes: Vec<Result<T, Failure>>,
    ) -> Vec<Result<T, Failure>> {
        link.poll_events();
        if link.is_unusable() {
            self.close_link(link);
        }
        let silent = |it: &Result<T, Failure>| {
            let failure = it.as_ref().err();
            failure.is_some_and(|it| it.reason == Reason::KafkaUnreachable && !it.passes)
        };
        if !outcomes.is_empty() && outcomes.iter().all(silent) {
            self.close_link(link);
            if let Err(failure) = self.open_link(topic, group, deadline) {
                outcomes.fill_with(|| Err(failure.clone()));
            }
        }
        outcomes
    }

    /// Returns whether a broker answered, and no later failure is known.
    pub(in crate::kafka) fn is_up(&self) -> bool {
        matches!(*self.known.lock().unwrap_or_else(PoisonError::into_inner), ClusterState::Up)
    }

    /// Returns the last attempt's failure, if it was this recent.
    pub(in crate::kafka) fn failed_within(&self, limit: Duration) -> Option<Failure> {
        match &*self.known.lock().unwrap_or_else(PoisonError::into_inner) {
            ClusterState::Down(failure, at) if at.elapsed() < limit => Some(failure.clone()),
            _ => None,
        }
    }

    fn set_known(&self, known: ClusterState) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }
}
