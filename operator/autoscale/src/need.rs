//! The need, and the size that meets it.
//!
//! A partition needs its arrivals over the utilisation, its backlog over the catch-up time, and
//! what a rebalance delays over the catch-up time. A size gives capacity times partitions over the
//! partitions of its busiest pod, provided that pod can also hold the hottest partition beside
//! average others. A partition that needs more than one pod counts as one pod: more pods can't help
//! it.

use crate::arrivals::Arrivals;
use crate::observation::Group;
use crate::policy::Policy;
use crate::size::{Bounds, sizes};

/// What is read and not yet committed, in seconds of arrivals: a batch is at most 2 s old, an
/// insert and its commit some seconds more. Only what is beyond is a backlog.
const IN_FLIGHT_SECONDS: f64 = 5.0;

/// The terms of a decision; rates are messages per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// What arrives now.
    pub arrival_per_second: f64,
    /// What is expected when new pods would work.
    pub expected_per_second: f64,
    /// Messages waiting beyond what is in flight.
    pub backlog_messages: f64,
    /// What working the backlog off in time takes.
    pub backlog_per_second: f64,
    /// What making up for one rebalance takes.
    pub pause_per_second: f64,
    /// The sum, with headroom.
    pub needed_per_second: f64,
    /// What one pod can do.
    pub capacity_per_second: f64,
    /// Whether that was measured with saturated pods.
    pub capacity_measured: bool,
    /// The hottest partition's arrivals.
    pub hottest_per_second: f64,
    /// The smallest size that gives what is needed, inside the bounds.
    pub size_needed: u32,
    /// The bounds are too narrow for what is needed.
    pub beyond_bounds: bool,
}

/// Needs by partition.
#[derive(Clone, Debug)]
pub(crate) struct Need<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) arrivals: &'a Arrivals,
    pub(crate) capacity: f64,
}

/// What partitions need.
#[derive(Clone, Debug)]
struct Needs {
    /// Each, for what arrives and for its backlog.
    whole: Vec<f64>,
    /// What the pod that reads the hottest one must have for it.
    hottest: f64,
}

impl Need<'_> {
    /// What is needed now, backlog and trend included.
    pub(crate) fn now(&self, group: &Group, bounds: Bounds, size: u32, measured: bool) -> Terms {
        let Self { policy, arrivals, capacity } = *self;
        let expected = arrivals.expected(policy.reaction_seconds);
        let growth = expected / arrivals.smoothed().max(f64::MIN_POSITIVE);
        let (mut backlog, mut whole) = (0.0, Vec::with_capacity(group.partitions.len()));
        for (rate, partition) in arrivals.partitions().iter().zip(&group.partitions) {
            let waiting = partition.lag_messages as f64 - rate * IN_FLIGHT_SECONDS;
            backlog += waiting.max(0.0);
            whole.push(self.steady(rate * growth) + waiting.max(0.0) / policy.catch_up_seconds);
        }
        let hottest = self.steady(arrivals.hottest() * growth);
        let behind = whole.iter().copied().fold(0.0, f64::max).min(capacity * BEHIND_SHARE);
        let needs = Needs { whole, hottest: hottest.max(behind) };
        let found = self.grown(&needs, bounds, size);
        Terms {
            arrival_per_second: arrivals.present(),
            expected_per_second: expected,
            backlog_messages: backlog,
            backlog_per_second: backlog / policy.catch_up_seconds,
            pause_per_second: expected * policy.pause_seconds / policy.catch_up_seconds,
            needed_per_second: needs.whole.iter().sum(),
            capacity_per_second: capacity,
            capacity_measured: measured,
            hottest_per_second: arrivals.partitions().iter().copied().fold(0.0, f64::max),
            size_needed: found.unwrap_or(bounds.ceiling),
            beyond_bounds: found.is_none(),
        }
    }

    /// The highest total of arrivals that `size` pods can take without a backlog, if the present
    /// spread over partitions stays.
    pub(crate) fn level(&self, size: u32) -> f64 {
        let smoothed = self.arrivals.smoothed();
        let whole: Vec<f64> =
            self.arrivals.partitions().iter().map(|rate| self.steady(*rate)).collect();
        let needed: f64 = whole.iter().sum();
        let hottest = whole.iter().copied().fold(0.0, f64::max);
        let given = self.given(&Needs { whole, hottest }, size) * SHRINK_SLACK;
        if needed <= 0.0 { f64::INFINITY } else { smoothed * given / needed }
    }

    /// What a pool of this size can take in all, if it is spread evenly.
    pub(crate) fn throughput(&self, size: u32, partitions: u32) -> f64 {
        let busiest = partitions.div_ceil(size.max(1)).max(1);
        self.capacity * f64::from(partitions) / f64::from(busiest)
    }

    fn steady(&self, rate: f64) -> f64 {
        rate / self.policy.utilisation
            + rate * self.policy.pause_seconds / self.policy.catch_up_seconds
    }

    /// The size for these needs: the present one while it gives them; else one with room for what
    /// comes next, so that a rise is followed in few steps.
    fn grown(&self, needs: &Needs, bounds: Bounds, size: u32) -> Option<u32> {
        let found = self.smallest(needs, bounds, GROW_SLACK);
        if found.is_some_and(|found| found <= size) {
            return found;
        }
        self.smallest(needs, bounds, 1.0 / GROW_ROOM).or(found)
    }

    /// The smallest size worth having that gives all needs.
    fn smallest(&self, needs: &Needs, bounds: Bounds, slack: f64) -> Option<u32> {
        let needed: f64 = needs.whole.iter().map(|need| need.min(self.capacity)).sum();
        let partitions = u32::try_from(needs.whole.len()).unwrap_or(u32::MAX);
        sizes(partitions, bounds).find(|size| needed <= self.given(needs, *size) * slack)
    }

    /// What `size` pods give, in the measure in which `needs` adds up: scaled so that the busiest
    /// pod is exactly full.
    fn given(&self, needs: &Needs, size: u32) -> f64 {
        let Needs { whole, hottest } = needs;
        let (count, hottest) = (whole.len() as f64, *hottest);
        let partitions = u32::try_from(whole.len()).unwrap_or(u32::MAX);
        let busiest = f64::from(partitions.div_ceil(size.max(1)).max(1));
        let even = self.capacity * count / busiest;
        let needed: f64 = whole.iter().map(|need| need.min(self.capacity)).sum();
        if count < 2.0 || hottest >= self.capacity {
            return even;
        }
        let largest = whole.iter().copied().fold(0.0, f64::max).min(self.capacity);
        let others = (needed - largest).max(0.0) / (count - 1.0);
        let held = hottest + (busiest - 1.0) * others;
        if held <= 0.0 { even } else { even.min(needed * self.capacity / held) }
    }
}

/// A partition that fell behind alone gets at least this much of the pod that reads it, and no pod
/// of its own: the last quarter would double the pool.
const BEHIND_SHARE: f64 = 0.75;
/// Need must pass what a size gives by this much before it counts as too small: three times the
/// error of the smoothed rate.
const GROW_SLACK: f64 = 1.05;
/// A pool that grows takes this much more than is needed.
const GROW_ROOM: f64 = 1.1;
/// A smaller size must give this much more than is needed.
const SHRINK_SLACK: f64 = 0.95;
