//! One connection to one cluster: its clients, and whether they work.
//!
//! Callers share the link: the first one makes it, the others wait for it. A link over which
//! nothing was answered is replaced; if that fails, all callers get the reason.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use millrace_crds::Reason;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use super::Deadline;
use super::connection::Settings;
use super::failure::Failure;
use super::lag_queue::LagQueue;
use super::probe::Link;
use super::topic_queue::TopicQueues;
use crate::outbound::Outbound;

/// Maximum age of a link. Until then its client for changes keeps events of brokers that come and
/// go: one that is down costs about 100 bytes every ten seconds.
const LINK_AGE_MAX: Duration = Duration::from_secs(3_600);

/// A caller this soon after a failed connection gets the same error.
const FAILURE_SHARED: Duration = Duration::from_secs(3);

/// The state of a cluster.
#[derive(Clone, Debug)]
enum Known {
    Nothing,
    Up,
    Down(Failure, Instant),
}

/// A connection that is kept.
pub(super) struct Session {
    settings: Settings,
    /// Where brokers may be.
    outbound: Outbound,
    /// Held while a link is being made.
    link: Mutex<Option<(Arc<Link>, Instant)>>,
    /// Held for a moment only.
    known: Mutex<Known>,
    pub(super) lags: LagQueue,
    pub(super) topics: TopicQueues,
    used_at: Mutex<Instant>,
    /// What one holds that is not kept.
    pass: Option<OwnedSemaphorePermit>,
}

impl Drop for Session {
    /// Closing a link takes a moment, so it runs on another thread.
    fn drop(&mut self) {
        let link = self.link.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let parts = (link, self.pass.take());
        match (&parts.0, Handle::try_current()) {
            (Some(_), Ok(runtime)) => drop(runtime.spawn_blocking(move || drop(parts))),
            _ => drop(parts),
        }
    }
}

impl Session {
    pub(super) fn new(settings: Settings, outbound: Outbound) -> Self {
        Self::made(settings, outbound, None)
    }

    /// A temporary session, which holds a permit while it exists.
    pub(super) fn passing(
        settings: Settings,
        outbound: Outbound,
        pass: OwnedSemaphorePermit,
    ) -> Self {
        Self::made(settings, outbound, Some(pass))
    }

    fn made(settings: Settings, outbound: Outbound, pass: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            settings,
            outbound,
            pass,
            link: Mutex::default(),
            known: Mutex::new(Known::Nothing),
            lags: LagQueue::default(),
            topics: TopicQueues::default(),
            used_at: Mutex::new(Instant::now()),
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Notes that somebody asks now.
    pub(super) fn used(&self) {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// When somebody last asked.
    pub(super) fn used_at(&self) -> Instant {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The link; if there is none, makes one by asking for `topic`; a link with a group if `group`
    /// is given. Blocks.
    ///
    /// # Errors
    /// When no broker can be reached.
    pub(super) fn link(
        &self,
        topic: &str,
        group: Option<&str>,
        deadline: Deadline,
    ) -> Result<Arc<Link>, Failure> {
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
        match Link::reach(&self.settings, &self.outbound, topic, group, deadline) {
            Ok(made) => {
                let made = Arc::new(made);
                *link = Some((made.clone(), Instant::now()));
                self.know(Known::Up);
                Ok(made)
            }
            Err(failure) => {
                self.know(Known::Down(failure.clone(), Instant::now()));
                Err(failure)
            }
        }
    }

    /// Closes a link, unless it has been replaced.
    pub(super) fn lose(&self, lost: &Arc<Link>) {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if link.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, lost)) {
            *link = None;
            self.know(Known::Nothing);
        }
    }

    /// Judges a conversation. If nobody answered, finds the reason with a new link and returns
    /// that.
    pub(super) fn judged<T>(
        &self,
        link: &Arc<Link>,
        (topic, group): (&str, Option<&str>),
        deadline: Deadline,
        mut outcomes: Vec<Result<T, Failure>>,
    ) -> Vec<Result<T, Failure>> {
        link.serve();
        let silent = |it: &Result<T, Failure>| {
            let failure = it.as_ref().err();
            failure.is_some_and(|it| it.reason == Reason::KafkaUnreachable && !it.passes)
        };
        if !outcomes.is_empty() && outcomes.iter().all(silent) {
            self.lose(link);
            if let Err(failure) = self.link(topic, group, deadline) {
                outcomes.fill_with(|| Err(failure.clone()));
            }
        }
        outcomes
    }

    /// Whether a broker answered, and nothing is known to the contrary.
    pub(super) fn is_up(&self) -> bool {
        matches!(*self.known.lock().unwrap_or_else(PoisonError::into_inner), Known::Up)
    }

    /// The last attempt's failure, if it was this recent.
    pub(super) fn failed_within(&self, limit: Duration) -> Option<Failure> {
        match &*self.known.lock().unwrap_or_else(PoisonError::into_inner) {
            Known::Down(failure, at) if at.elapsed() < limit => Some(failure.clone()),
            _ => None,
        }
    }

    fn know(&self, known: Known) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }
}
