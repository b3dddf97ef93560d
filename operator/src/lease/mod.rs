//! Leader election: one replica writes at a time, by a `coordination.k8s.io` Lease.
//!
//! A replica acquires the lease when nobody renewed it for its complete duration, by its own
//! monotonic clock (clocks of two machines are never compared). It releases the lease on a clean
//! exit, so that a rolling update hands over at once, and stops writing when it could not renew in
//! time. A renewal counts from before it was sent, since others may have observed it at any time
//! after. Take-over after a crash takes at most the duration plus one poll: 15 s + 3 s.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::time::Instant;

/// How long a lease lasts without a renewal, as in Kubernetes' own components: the holder survives
/// any stall of the API server below 9 s, and restarts at one of 12 s.
pub const LEASE_DURATION_DEFAULT: Duration = Duration::from_secs(15);
/// Maximum time to release the lease: the chart grants 20 s in all, of which running reconciles
/// take 12.
const RELEASE_MAX: Duration = Duration::from_secs(4);
/// Renewals per duration: four may fail before the lease is lost.
const RENEWALS_PER_DURATION: u32 = 5;
/// The holder stops one renewal interval before others may take over.
const HOLD_SHARE: (u32, u32) = (4, 5);

/// The timing of a lease.
#[derive(Clone, Copy, Debug)]
pub struct LeaseTiming {
    /// Whole seconds, at least 2: the time others wait after the last renewal.
    pub duration: Duration,
}

impl LeaseTiming {
    /// Returns how often the holder renews and others check.
    #[must_use]
    pub fn renew_every(self) -> Duration {
        self.duration / RENEWALS_PER_DURATION
    }

    /// Returns the time without a renewal after which the holder must stop writing.
    #[must_use]
    pub fn give_up_after(self) -> Duration {
        self.duration * HOLD_SHARE.0 / HOLD_SHARE.1
    }
}

/// The lease as this replica last observed it, and since when it is unchanged.
#[derive(Debug, Default)]
pub struct ObservedLease {
    last: Option<(LeaseRecord, Instant)>,
}

/// The fields that change when a holder renews.
#[derive(Clone, Debug, PartialEq)]
struct LeaseRecord {
    holder: Option<String>,
    renewed: Option<Timestamp>,
}

/// The decision about a lease that was just read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseDecision {
    /// It is free, expired or ours: write our name.
    Acquire,
    /// Another replica holds and renews it.
    Wait,
}

impl ObservedLease {
    /// Records the lease at `now` and decides whether `identity` may acquire it.
    pub fn observe_lease(
        &mut self,
        spec: &LeaseSpec,
        identity: &str,
        now: Instant,
    ) -> LeaseDecision {
        let mark = LeaseRecord {
            holder: spec.holder_identity.clone().filter(|holder| !holder.is_empty()),
            renewed: spec.renew_time.as_ref().map(|time| time.0),
        };
        let Some(holder) = mark.holder.clone() else {
            return LeaseDecision::Acquire;
        };
        if holder == identity {
            return LeaseDecision::Acquire;
        }
        let since = match &self.last {
            Some((observed, since)) if *observed == mark => *since,
            _ => {
                self.last = Some((mark, now));
                now
            }
        };
        let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0);
        if now.saturating_duration_since(since) >= Duration::from_secs(seconds) {
            LeaseDecision::Acquire
        } else {
            LeaseDecision::Wait
        }
    }
}

/// How holding the lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// We were requested to stop; the lease was released if the API server could be reached.
    Released,
    /// Another replica has it, or it could not be renewed in time.
    Lost,
}

/// Acquires, renews and releases one lease.
#[derive(Clone, Debug)]
pub struct LeaderElector {
    api: Api<Lease>,
    name: String,
    identity: String,
    terms: LeaseTiming,
}

impl LeaderElector {
    /// Creates an elector for the lease `name`; `identity` must be unique among replicas.
    #[must_use]
    pub fn new(api: Api<Lease>, name: String, identity: String, terms: LeaseTiming) -> Self {
        Self { api, name, identity, terms }
    }

    /// Waits until the lease is ours, and returns the time from which it counts, for
    /// [`Self::hold`]. Logs errors of the API server and retries. A late response is abandoned: the
    /// next read shows our name, or another's.
    pub async fn acquire(&self) -> Instant {
        let mut sighting = ObservedLease::default();
        let mut interval = tokio::time::interval(self.terms.renew_every());
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let limit = self.terms.give_up_after();
            match tokio::time::timeout(limit, self.try_acquire(&mut sighting)).await {
                Ok(Ok(Some(since))) => {
                    tracing::info!(lease = %self.name, identity = %self.identity, "lease acquired");
                    return since;
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the lease could not be read or acquired"),
                Err(_elapsed) => tracing::warn!("reading or acquiring the lease took too long"),
            }
        }
    }

    /// Reads the lease, writes it if it may be acquired, and returns when the write was sent. A
    /// conflict means that another replica was faster.
    async fn try_acquire(
        &self,
        sighting: &mut ObservedLease,
    ) -> Result<Option<Instant>, kube::Error> {
        let found = self.api.get_opt(&self.name).await?;
        let sent = Instant::now();
        let written = match found {
            None => self.api.create(&PostParams::default(), &self.new_lease()).await,
            Some(mut lease) => {
                let spec = lease.spec.get_or_insert_default();
                if sighting.observe_lease(spec, &self.identity, sent) == LeaseDecision::Wait {
                    return Ok(None);
                }
                let changed_hands = spec.holder_identity.as_deref() != Some(&self.identity);
                let transitions = spec.lease_transitions.unwrap_or(0) + i32::from(changed_hands);
                *spec = self.lease_spec(spec.acquire_time.clone(), transitions, changed_hands);
                self.api.replace(&self.name, &PostParams::default(), &lease).await
            }
        };
        match written {
            Ok(_) => Ok(Some(sent)),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Renews until `stop` resolves (then releases the lease) or the lease is lost. `renewed` comes
    /// from [`Self::acquire`].
    pub async fn hold_lease(&self, mut renewed: Instant, stop: impl Future<Output = ()>) -> Ending {
        let mut stop = std::pin::pin!(stop);
        let mut interval = tokio::time::interval(self.terms.renew_every());
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = &mut stop => {
                    self.release().await;
                    return Ending::Released;
                }
                _ = interval.tick() => {}
            }
            let left = self.terms.give_up_after().saturating_sub(renewed.elapsed());
            // A stop doesn't wait for a renewal in flight. If that still arrives after the release,
            // its version is outdated.
            let renewal = tokio::select! {
                () = &mut stop => {
                    self.release().await;
                    return Ending::Released;
                }
                renewal = tokio::time::timeout(left, self.renew()) => renewal,
            };
            match renewal {
                Ok(Ok(Some(sent))) => renewed = sent,
                Ok(Ok(None)) => return Ending::Lost,
                Ok(Err(error)) => tracing::warn!(%error, "the lease could not be renewed"),
                Err(_elapsed) => {}
            }
            if renewed.elapsed() >= self.terms.give_up_after() {
                return Ending::Lost;
            }
        }
    }

    /// Writes a new renewal time and returns when that was sent; `None` when the lease names
    /// another replica.
    async fn renew(&self) -> Result<Option<Instant>, kube::Error> {
        let found = self.api.get_opt(&self.name).await?;
        let sent = Instant::now();
        let Some(mut lease) = found else {
            // Somebody deleted it: acquiring it again races with others, so only `create` may win
            // it.
            return match self.api.create(&PostParams::default(), &self.new_lease()).await {
                Ok(_) => Ok(Some(sent)),
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
                Err(error) => Err(error),
            };
        };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            return Ok(None);
        }
        *spec =
            self.lease_spec(spec.acquire_time.clone(), spec.lease_transitions.unwrap_or(0), false);
        self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        Ok(Some(sent))
    }

    /// Releases the lease, so that the next replica need not wait. A failure is harmless: it
    /// expires.
    async fn release(&self) {
        let released = async {
            loop {
                match self.try_release().await {
                    // An abandoned renewal arrived in between.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    outcome => return outcome,
                }
            }
        };
        match tokio::time::timeout(RELEASE_MAX, released).await {
            Ok(Ok(())) => tracing::info!(lease = %self.name, "lease released"),
            Ok(Err(error)) => tracing::warn!(%error, "the lease could not be released"),
            Err(_elapsed) => tracing::warn!("releasing the lease took too long"),
        }
    }

    async fn try_release(&self) -> Result<(), kube::Error> {
        let mut lease = self.api.get(&self.name).await?;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() == Some(&self.identity) {
            spec.holder_identity = None;
            spec.renew_time = None;
            self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }

    fn new_lease(&self) -> Lease {
        Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: Some(self.lease_spec(None, 0, true)),
        }
    }

    fn lease_spec(&self, acquired: Option<MicroTime>, transitions: i32, new: bool) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        LeaseSpec {
            acquire_time: if new { Some(now.clone()) } else { acquired },
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.terms.duration.as_secs().min(3600) as i32),
            lease_transitions: Some(transitions),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }
    }
}

#[cfg(test)]
mod tests;
