//! Numaflow's rule for a source vertex.
//!
//! Source: numaproj/numaflow `pkg/reconciler/vertex/scaling/scaling.go` and its defaults: pending
//! over rate, both means over 120 s, is the time to work off what is pending; the size is that over
//! 20 s, times the present size, rounded. At most two pods more or fewer at a time, 90 s apart, and
//! only while all pods run. Nothing is done while rate or pending are unknown. Left out: back
//! pressure of vertices further down, which a pool that writes to its sink by itself does not have.

use std::collections::VecDeque;

use millrace_autoscale::Transition;

use super::{Rule, Wish};
use crate::signals::Seen;

const LOOK_BACK_SECONDS: usize = 120;
const TARGET_SECONDS: f64 = 20.0;
const COOL_DOWN_SECONDS: usize = 90;
const STEP: u32 = 2;

/// Numaflow's rule and its memory.
#[derive(Clone, Debug, Default)]
pub struct Numaflow {
    samples: VecDeque<(usize, f64, f64)>,
    changed_at: Option<usize>,
}

impl Rule for Numaflow {
    fn name(&self) -> &'static str {
        "Numaflow"
    }

    fn period_seconds(&self) -> usize {
        5
    }

    fn decide(&mut self, seen: &Seen) -> Wish {
        let (now, current) = (seen.now, seen.wanted);
        let stay = Wish::size(current);
        let fresh = seen.group.as_ref().and_then(|group| group.if_fresh(now as i64, 30));
        let Some(group) = fresh else { return stay };
        let rate: Option<f64> = group.partitions.iter().map(|it| it.commit_per_second).sum();
        let Some(rate) = rate else { return stay };
        let pending: u64 = group.partitions.iter().map(|it| it.lag_messages).sum();
        self.samples.push_back((now, rate, pending as f64));
        while self.samples.front().is_some_and(|(at, ..)| now - at > LOOK_BACK_SECONDS) {
            self.samples.pop_front();
        }
        let cooling = self.changed_at.is_some_and(|at| now - at < COOL_DOWN_SECONDS);
        if cooling || seen.transition != Transition::Stable {
            return stay;
        }
        let count = self.samples.len() as f64;
        let rate = self.samples.iter().map(|(_, rate, _)| rate).sum::<f64>() / count;
        let pending = self.samples.iter().map(|(.., pending)| pending).sum::<f64>() / count;
        if rate <= 0.0 || pending <= 0.0 {
            return stay;
        }
        let desired = (pending / rate / TARGET_SECONDS * f64::from(current)).round();
        let desired = (desired as u32).clamp(1, seen.partitions);
        let size = desired.clamp(current.saturating_sub(STEP).max(1), current + STEP);
        if size != current {
            self.changed_at = Some(now);
        }
        Wish::size(size)
    }
}
