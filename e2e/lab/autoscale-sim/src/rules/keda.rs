//! KEDA's Kafka scaler in front of an HPA.
//!
//! Source: kedacore/keda `pkg/scalers/kafka_scaler.go` and its documentation (2.21): the group's
//! total lag, no more than partitions times the threshold, is handed to an HPA as an average value;
//! so the size is lag over threshold, rounded up, at most one pod per partition. `lagThreshold` is
//! 10 by default. The HPA's own behaviour is in `hpa.rs`. When the scaler fails the HPA holds.
//! The default of 10 messages fits topics of few large messages; the tuned variant takes what a pod
//! does in ten seconds, which an operator who measured a pod would choose. Left out: scaling to
//! zero (no rule here does), and the options that are off by default.

use super::hpa::{Behaviour, PERIOD_SECONDS, TOLERANCE};
use super::{Rule, Wish};
use crate::signals::Seen;
use crate::world::POD_RATE;

/// KEDA with some threshold.
#[derive(Clone, Debug)]
pub struct Keda {
    name: &'static str,
    lag_threshold: f64,
    behaviour: Behaviour,
}

impl Keda {
    /// With the documented default.
    #[must_use]
    pub fn with_default_threshold() -> Self {
        Self { name: "KEDA, default", lag_threshold: 10.0, behaviour: Behaviour::default() }
    }

    /// With what a pod does in ten seconds.
    #[must_use]
    pub fn tuned() -> Self {
        let lag_threshold = 10.0 * POD_RATE;
        Self { name: "KEDA, tuned", lag_threshold, behaviour: Behaviour::default() }
    }
}

impl Rule for Keda {
    fn name(&self) -> &'static str {
        self.name
    }

    fn period_seconds(&self) -> usize {
        PERIOD_SECONDS
    }

    fn decide(&mut self, seen: &Seen) -> Wish {
        let current = seen.wanted;
        // A look missed twice is an error to the HPA: it keeps the size.
        let fresh = seen.group.as_ref().and_then(|group| group.if_fresh(seen.now as i64, 30));
        let Some(group) = fresh else { return Wish::size(current) };
        let lag: u64 = group.partitions.iter().map(|partition| partition.lag_messages).sum();
        let lag = (lag as f64).min(f64::from(seen.partitions) * self.lag_threshold);
        let ratio = lag / (self.lag_threshold * f64::from(current));
        let desired = if (ratio - 1.0).abs() <= TOLERANCE {
            current
        } else {
            (lag / self.lag_threshold).ceil() as u32
        };
        Wish::size(self.behaviour.apply(seen.now, current, desired, seen.partitions))
    }
}
