//! The horizontal pod autoscaler's own arithmetic, and its use with processor time.
//!
//! Source: Kubernetes, horizontal pod autoscaling (documentation of the algorithm and of
//! `autoscaling/v2` defaults): looked at every 15 s; no change while the ratio is within 0.1 of 1;
//! up: the larger of doubling and four pods every 15 s, without stabilisation; down: all at once,
//! to the highest size recommended within 300 s. Processor time: the default target of 80 % of the
//! request; pods not ready count as idle when it would grow. The request here is all a pod can use.
//! Left out: metrics of pods in their first minutes, which are only rarely decisive.

use std::collections::VecDeque;

use millrace_autoscale::Aged;

use super::{Rule, Wish};
use crate::signals::Seen;

/// Every 15 s.
pub(super) const PERIOD_SECONDS: usize = 15;
/// `--horizontal-pod-autoscaler-tolerance`.
pub(super) const TOLERANCE: f64 = 0.1;
/// `behavior.scaleDown.stabilizationWindowSeconds`.
const STABILISE_SECONDS: usize = 300;
/// `averageUtilization` when none is given.
const TARGET: f64 = 0.8;

/// What every HPA does with a recommendation.
#[derive(Clone, Debug, Default)]
pub(super) struct Behaviour {
    recommended: VecDeque<(usize, u32)>,
}

impl Behaviour {
    pub(super) fn apply(&mut self, now: usize, current: u32, desired: u32, max: u32) -> u32 {
        let desired = desired.clamp(1, max);
        self.recommended.push_back((now, desired));
        while self.recommended.front().is_some_and(|(at, _)| now - at > STABILISE_SECONDS) {
            self.recommended.pop_front();
        }
        let highest = self.recommended.iter().map(|(_, size)| *size).max().unwrap_or(desired);
        let stable = if desired < current { highest.min(current) } else { desired };
        stable.min((current * 2).max(current + 4))
    }
}

/// An HPA on processor time.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    behaviour: Behaviour,
}

impl Rule for Cpu {
    fn name(&self) -> &'static str {
        "HPA on CPU"
    }

    fn period_seconds(&self) -> usize {
        PERIOD_SECONDS
    }

    fn decide(&mut self, seen: &Seen) -> Wish {
        let current = seen.wanted;
        let told = seen.pods.iter().filter_map(|pod: &Aged<_>| pod.value.busy);
        let (sum, count) = told.fold((0.0, 0.0), |(sum, count), busy| (sum + busy, count + 1.0));
        if count == 0.0 {
            return Wish::size(current);
        }
        let ratio = sum / count / TARGET;
        // Pods that did not tell count as idle when growing, and as at the target when shrinking.
        let missing = f64::from(current) - count;
        let ratio = if ratio > 1.0 {
            (sum / f64::from(current) / TARGET).max(1.0)
        } else {
            (sum + missing.max(0.0) * TARGET) / f64::from(current) / TARGET
        };
        let desired = if (ratio - 1.0).abs() <= TOLERANCE {
            current
        } else {
            (f64::from(current) * ratio).ceil() as u32
        };
        Wish::size(self.behaviour.apply(seen.now, current, desired, seen.partitions))
    }
}
