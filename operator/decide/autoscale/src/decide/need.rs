//! The need, and the size that meets it.
//!
//! A partition needs its arrivals over the utilisation, its backlog over the catch-up time, and
//! what a rebalance delays over the catch-up time. A size supplies capacity times partitions over
//! the partitions of its busiest pod, provided that pod can also hold the hottest partition
//! alongside average others. A partition that needs more than one pod counts as one pod: more pods
//! can't help it.

use crate::arrivals::Arrivals;
use crate::decide::size::{Bounds, useful_sizes};
use crate::observation::ConsumerGroup;
use crate::policy::ScalingPolicy;

/// Messages read and not yet committed, in seconds of arrivals: a batch is at most 2 s old, an
/// insert and its commit some seconds more. Only messages beyond that are a backlog.
const IN_FLIGHT_SECONDS: f64 = 5.0;

/// The terms of a decision; rates are messages per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// The present arrivals.
    pub arrival_per_second: f64,
    /// The arrivals expected when new pods would work.
    pub expected_per_second: f64,
    /// Messages waiting beyond what is in flight.
    pub backlog_messages: f64,
    /// The rate that works the backlog off in time.
    pub backlog_per_second: f64,
    /// The rate that makes up for one rebalance.
    pub rebalance_per_second: f64,
    /// The sum, with headroom.
    pub needed_per_second: f64,
    /// The capacity of one pod.
    pub capacity_per_second: f64,
    /// Whether that was measured with saturated pods.
    pub capacity_measured: bool,
    /// The hottest partition's arrivals.
    pub hottest_per_second: f64,
    /// The smallest size inside the bounds that supplies the need.
    pub size_needed: u32,
    /// Whether the need exceeds the bounds.
    pub beyond_bounds: bool,
}

/// Needs by partition.
#[derive(Clone, Debug)]
pub(crate) struct Need<'a> {
    pub(crate) policy: &'a ScalingPolicy,
    pub(crate) arrivals: &'a Arrivals,
    pub(crate) capacity: f64,
}

/// The needs of partitions.
#[derive(Clone, Debug)]
struct Needs {
    /// Each partition's need, for arrivals and backlog.
    per_partition: Vec<f64>,
    /// What the pod that reads the hottest partition needs for it.
    hottest: f64,
}

impl Need<'_> {
    /// Returns the present need, backlog and trend included.
    pub(crate) fn compute_terms(
        &self,
        group: &ConsumerGroup,
        bounds: Bounds,
        size: u32,
        measured: bool,
    ) -> Terms {
        let Self { policy, arrivals, capacity } = *self;
        let expected = arrivals.expected_rate(policy.reaction_seconds);
        let growth = expected / arrivals.smoothed_rate().max(f64::MIN_POSITIVE);
        let (mut backlog, mut per_partition) = (0.0, Vec::with_capacity(group.partitions.len()));
        for (rate, partition) in arrivals.partition_rates().iter().zip(&group.partitions) {
            let waiting = partition.lag_messages as f64 - rate * IN_FLIGHT_SECONDS;
            backlog += waiting.max(0.0);
            per_partition.push(
                self.arrival_need(rate * growth) + waiting.max(0.0) / policy.catch_up_seconds,
            );
        }
        let hottest = self.arrival_need(arrivals.hottest_rate() * growth);
        let behind = per_partition.iter().copied().fold(0.0, f64::max).min(capacity * BEHIND_SHARE);
        let needs = Needs { per_partition, hottest: hottest.max(behind) };
        let found = self.size_with_growth(&needs, bounds, size);
        Terms {
            arrival_per_second: arrivals.current_rate(),
            expected_per_second: expected,
            backlog_messages: backlog,
            backlog_per_second: backlog / policy.catch_up_seconds,
            rebalance_per_second: expected * policy.pause_seconds / policy.catch_up_seconds,
            needed_per_second: needs.per_partition.iter().sum(),
            capacity_per_second: capacity,
            capacity_measured: measured,
            hottest_per_second: arrivals.partition_rates().iter().copied().fold(0.0, f64::max),
            size_needed: found.unwrap_or(bounds.ceiling),
            beyond_bounds: found.is_none(),
        }
    }

    /// Returns the highest total of arrivals that `size` pods can process without a backlog, if the
    /// present spread over partitions stays.
    pub(crate) fn max_arrivals(&self, size: u32) -> f64 {
        let smoothed = self.arrivals.smoothed_rate();
        let per_partition: Vec<f64> =
            self.arrivals.partition_rates().iter().map(|rate| self.arrival_need(*rate)).collect();
        let needed: f64 = per_partition.iter().sum();
        let hottest = per_partition.iter().copied().fold(0.0, f64::max);
        let supply = self.supply_of_size(&Needs { per_partition, hottest }, size) * SHRINK_SLACK;
        if needed <= 0.0 { f64::INFINITY } else { smoothed * supply / needed }
    }

    /// Returns the total throughput of a pool of this size, if it is spread evenly.
    pub(crate) fn throughput(&self, size: u32, partitions: u32) -> f64 {
        let busiest = partitions.div_ceil(size.max(1)).max(1);
        self.capacity * f64::from(partitions) / f64::from(busiest)
    }

    fn arrival_need(&self, rate: f64) -> f64 {
        rate / self.policy.utilisation
            + rate * self.policy.pause_seconds / self.policy.catch_up_seconds
    }

    /// Returns the size for these needs: the present one while it suffices; else one with a reserve
    /// for growth, so that a rise takes few steps.
    fn size_with_growth(&self, needs: &Needs, bounds: Bounds, size: u32) -> Option<u32> {
        let found = self.smallest_size(needs, bounds, GROW_SLACK);
        if found.is_some_and(|found| found <= size) {
            return found;
        }
        self.smallest_size(needs, bounds, 1.0 / GROW_ROOM).or(found)
    }

    /// Returns the smallest useful size that supplies all needs.
    fn smallest_size(&self, needs: &Needs, bounds: Bounds, slack: f64) -> Option<u32> {
        let needed: f64 = needs.per_partition.iter().map(|need| need.min(self.capacity)).sum();
        let partitions = u32::try_from(needs.per_partition.len()).unwrap_or(u32::MAX);
        useful_sizes(partitions, bounds)
            .find(|size| needed <= self.supply_of_size(needs, *size) * slack)
    }

    /// Returns the supply of `size` pods, in the units of the sum of `needs`: scaled so that the
    /// busiest pod is exactly full.
    fn supply_of_size(&self, needs: &Needs, size: u32) -> f64 {
        let Needs { per_partition, hottest } = needs;
        let (count, hottest) = (per_partition.len() as f64, *hottest);
        let partitions = u32::try_from(per_partition.len()).unwrap_or(u32::MAX);
        let busiest = f64::from(partitions.div_ceil(size.max(1)).max(1));
        let even = self.capacity * count / busiest;
        let needed: f64 = per_partition.iter().map(|need| need.min(self.capacity)).sum();
        if count < 2.0 || hottest >= self.capacity {
            return even;
        }
        let largest = per_partition.iter().copied().fold(0.0, f64::max).min(self.capacity);
        let others = (needed - largest).max(0.0) / (count - 1.0);
        let held = hottest + (busiest - 1.0) * others;
        if held <= 0.0 { even } else { even.min(needed * self.capacity / held) }
    }
}

/// A partition that alone fell behind gets at least this share of its pod, but no pod to itself:
/// the last quarter would double the pool.
const BEHIND_SHARE: f64 = 0.75;
/// A size is too small once the need exceeds its supply by this factor: three times the error of
/// the smoothed rate.
const GROW_SLACK: f64 = 1.05;
/// A pool that grows gets this multiple of the need.
const GROW_ROOM: f64 = 1.1;
/// A smaller size is used only up to this share of its supply.
const SHRINK_SLACK: f64 = 0.95;
