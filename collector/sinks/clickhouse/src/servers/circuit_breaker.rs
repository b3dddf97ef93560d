//! Circuit breakers: whether an endpoint accepts inserts into a table, and when to probe it.
//!
//! While closed, inserts are sent. A failure opens the breaker: none is sent for a while, longer
//! after each further failure. Then it is half-open: one insert probes, and its answer closes or
//! opens it. Each endpoint and table has its own breaker, so a failure delays nothing else.
//!
//! Pure: the time is passed in.

use std::time::{Duration, Instant};

use millrace_pipeline::backoff::{Backoff, BackoffPolicy};

/// The backoff after temporary failures.
pub(crate) const RETRY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(100), longest: Duration::from_secs(30) };
/// The backoff for an overloaded server: merging a table's parts takes seconds.
const OVERLOAD: BackoffPolicy =
    BackoffPolicy { first: Duration::from_secs(2), longest: Duration::from_secs(60) };
/// The backoff until a person or the operator repairs the cause.
const REPAIR: BackoffPolicy =
    BackoffPolicy { first: Duration::from_secs(2), longest: Duration::from_secs(30) };
/// The wait from which on the table is held back at its source. A shorter one costs less than
/// reading the records from Kafka again.
const STALL: Duration = Duration::from_secs(1);

/// How fast a failure usually ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// At once.
    Retry,
    /// With the server's load.
    Overload,
    /// When somebody repairs its cause.
    Repair,
}

/// The breaker of one endpoint and table.
#[derive(Debug)]
pub(crate) struct CircuitBreaker {
    state: CircuitState,
    /// One backoff for each [`Pace`].
    backoffs: [Backoff; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CircuitState {
    Closed,
    Open {
        since: Instant,
        until: Instant,
        /// The start of the insert whose silence opened the breaker.
        silent: Option<Instant>,
    },
    /// One insert probes.
    HalfOpen {
        since: Instant,
        was_stalled: bool,
    },
}

impl CircuitBreaker {
    fn new(seed: u64) -> Self {
        let backoffs = [RETRY, OVERLOAD, REPAIR].map(|policy| Backoff::new(policy, seed));
        Self { state: CircuitState::Closed, backoffs }
    }

    fn is_closed(&self) -> bool {
        self.state == CircuitState::Closed
    }

    /// Returns whether an insert may be sent, regularly or as the probe.
    fn allows_insert(&self, now: Instant) -> bool {
        match self.state {
            CircuitState::Closed => true,
            CircuitState::Open { until, .. } => until <= now,
            CircuitState::HalfOpen { .. } => false,
        }
    }

    fn is_stalled(&self, now: Instant) -> bool {
        match self.state {
            CircuitState::Open { until, .. } if until <= now => false,
            _ => self.waits_long(),
        }
    }

    fn waits_long(&self) -> bool {
        match self.state {
            CircuitState::Closed => false,
            CircuitState::Open { since, until, .. } => until - since >= STALL,
            CircuitState::HalfOpen { was_stalled, .. } => was_stalled,
        }
    }

    /// Records that an insert is sent. Returns whether it is the probe.
    fn begin_insert(&mut self, now: Instant) -> bool {
        let was_stalled = self.waits_long();
        let is_probe = !self.is_closed();
        if is_probe {
            self.state = CircuitState::HalfOpen { since: now, was_stalled };
        }
        is_probe
    }

    fn record_success(&mut self) {
        self.state = CircuitState::Closed;
        self.backoffs.iter_mut().for_each(Backoff::reset);
    }

    /// Records the failure of an insert that began at `started`. An insert that began before the
    /// last change is ignored, unless its silence was that change: so inserts that fail together
    /// open the breaker once.
    fn record_failure(&mut self, pace: Pace, started: Instant, now: Instant) {
        match self.state {
            // The insert's timeout has passed, so the wait is over.
            CircuitState::Open { silent: Some(silent), until, .. }
                if silent == started && until <= now =>
            {
                return;
            }
            CircuitState::Open { silent: Some(silent), .. } if silent == started => {}
            CircuitState::Open { since, .. } | CircuitState::HalfOpen { since, .. }
                if started < since =>
            {
                return;
            }
            _ => {}
        }
        let until = now + self.backoffs[pace as usize].next_wait();
        self.state = CircuitState::Open { since: now, until, silent: None };
    }

    /// Records that an insert that began at `started` has waited long for its answer; it is
    /// abandoned at `until` at the latest. A probe that began later is more recent evidence.
    fn record_silence(&mut self, started: Instant, now: Instant, until: Instant) {
        let until = match self.state {
            CircuitState::HalfOpen { since, .. } if started < since => return,
            CircuitState::Open { until: open, .. } => open.max(until),
            _ => until,
        };
        self.state =
            CircuitState::Open { since: now, until: until.max(now), silent: Some(started) };
    }

    /// Records that the probe ended without an answer: another insert may probe.
    fn cancel_probe(&mut self, now: Instant) {
        if let CircuitState::HalfOpen { .. } = self.state {
            self.state = CircuitState::Open { since: now, until: now, silent: None };
        }
    }
}

/// Where an insert is sent, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To this replica, now.
    Send { replica: usize, is_probe: bool },
    /// To no replica before `until`, or before a probe has ended.
    Wait { until: Option<Instant>, is_stalled: bool },
}

/// The breakers of one table at the replicas of one shard.
#[derive(Debug)]
pub(crate) struct Circuits(Vec<CircuitBreaker>);

impl Circuits {
    pub(crate) fn new(replicas: usize, seed: impl Fn(usize) -> u64) -> Self {
        Self((0..replicas.max(1)).map(|replica| CircuitBreaker::new(seed(replica))).collect())
    }

    /// Returns the first replica that admits the insert, starting at `home`. A retried insert
    /// returns to the replica that may know its token, unless that fails. A replica that may be
    /// probed is preferred to later ones, so that inserts return to it.
    pub(crate) fn choose_replica(&mut self, home: usize, now: Instant) -> Direction {
        let replicas = self.0.len();
        for replica in (home..home + replicas).map(|at| at % replicas) {
            let breaker = &mut self.0[replica];
            if breaker.allows_insert(now) {
                return Direction::Send { replica, is_probe: breaker.begin_insert(now) };
            }
        }
        let until = self.0.iter().filter_map(|breaker| match breaker.state {
            CircuitState::Open { until, .. } => Some(until),
            CircuitState::Closed | CircuitState::HalfOpen { .. } => None,
        });
        Direction::Wait { until: until.min(), is_stalled: self.is_stalled(now) }
    }

    /// Returns whether no replica accepts inserts, now or soon.
    pub(crate) fn is_stalled(&self, now: Instant) -> bool {
        self.0.iter().all(|breaker| breaker.is_stalled(now))
    }

    /// Returns whether some replica accepts inserts, as far as known.
    pub(crate) fn is_any_closed(&self) -> bool {
        self.0.iter().any(CircuitBreaker::is_closed)
    }

    /// Returns how many replicas currently accept no inserts.
    pub(crate) fn open_count(&self) -> usize {
        self.0.iter().filter(|breaker| !breaker.is_closed()).count()
    }

    pub(crate) fn record_success(&mut self, replica: usize) {
        self.0[replica].record_success();
    }

    /// Records that an attempt failed at a replica, or `everywhere` if each would have answered the
    /// same.
    pub(crate) fn record_failure(
        &mut self,
        replica: usize,
        everywhere: bool,
        pace: Pace,
        started: Instant,
        now: Instant,
    ) {
        for (at, breaker) in self.0.iter_mut().enumerate() {
            if everywhere || at == replica {
                breaker.record_failure(pace, started, now);
            }
        }
    }

    pub(crate) fn record_silence(
        &mut self,
        replica: usize,
        started: Instant,
        now: Instant,
        until: Instant,
    ) {
        self.0[replica].record_silence(started, now, until);
    }

    pub(crate) fn cancel_probe(&mut self, replica: usize, now: Instant) {
        self.0[replica].cancel_probe(now);
    }
}

#[cfg(test)]
mod tests;
