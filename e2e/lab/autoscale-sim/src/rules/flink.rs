//! The Flink Kubernetes operator's autoscaler, for a job of one source.
//!
//! Source: apache/flink-kubernetes-operator `flink-autoscaler` (`AutoScalerOptions`,
//! `JobVertexScaler`, `AutoScalerUtils`): once a minute, means over a window of 15 min that starts
//! anew after each change and its stabilisation of 5 min. True processing rate = rate over busy
//! share; target capacity = arrivals / 0.7 + lag / 30 min + arrivals x (restart 5 min / 30 min).
//! Up when the true rate is below the same with utilisation 1.0; down when it is above arrivals /
//! 0.4, not within an hour after going up, not while lag is above 5 min, by at most 0.6. Sizes are
//! rounded up to divisors of the partitions. Modelled is the rule alone: its change of size costs
//! here what every rule's does, though Flink itself would restart the job.

use std::collections::VecDeque;

use super::{Rule, Wish};
use crate::signals::Seen;

const WINDOW_SECONDS: usize = 15 * 60;
const STABILISE_SECONDS: usize = 5 * 60;
const CATCH_UP_SECONDS: f64 = 30.0 * 60.0;
const RESTART_SECONDS: f64 = 5.0 * 60.0;
const UTILISATION: f64 = 0.7;
const BOUNDARY: f64 = 0.3;
const DOWN_FACTOR_MIN: f64 = 0.4;
const UP_GRACE_SECONDS: usize = 3_600;
const LAG_THRESHOLD_SECONDS: f64 = 5.0 * 60.0;

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: usize,
    arrival: f64,
    true_rate: f64,
}

/// Flink's rule and its memory.
#[derive(Clone, Debug, Default)]
pub struct Flink {
    samples: VecDeque<Sample>,
    changed_at: Option<usize>,
    last_increase_at: Option<usize>,
}

impl Flink {
    fn sample(seen: &Seen) -> Option<(Sample, f64, f64)> {
        let group = seen.group.as_ref()?.if_fresh(seen.now as i64, 60)?;
        let sum = |of: fn(&millrace_autoscale::PartitionLoad) -> Option<f64>| -> Option<f64> {
            group.partitions.iter().map(of).sum()
        };
        let arrival = sum(|partition| partition.arrival_per_second)?;
        let rate = sum(|partition| partition.commit_per_second)?;
        let busy = seen.pods.iter().filter_map(|pod| pod.value.busy);
        let (total, count) = busy.fold((0.0, 0.0), |(sum, count), it| (sum + it, count + 1.0));
        if count == 0.0 || total / count < 0.01 {
            return None;
        }
        let lag: u64 = group.partitions.iter().map(|partition| partition.lag_messages).sum();
        let true_rate = rate / (total / count);
        let sample = Sample { at: seen.now, arrival, true_rate };
        Some((sample, lag as f64, group.lag_seconds.unwrap_or(0.0)))
    }

    fn aligned(size: f64, partitions: u32) -> u32 {
        let least = (size.ceil() as u32).clamp(1, partitions);
        (least..=partitions).find(|size| partitions.is_multiple_of(*size)).unwrap_or(least)
    }
}

impl Rule for Flink {
    fn name(&self) -> &'static str {
        "Flink"
    }

    fn period_seconds(&self) -> usize {
        60
    }

    fn decide(&mut self, seen: &Seen) -> Wish {
        let (now, current) = (seen.now, seen.wanted);
        let stay = Wish::size(current);
        if self.changed_at.is_some_and(|at| now - at < STABILISE_SECONDS) {
            return stay;
        }
        let Some((sample, lag, lag_seconds)) = Self::sample(seen) else { return stay };
        self.samples.push_back(sample);
        while self.samples.front().is_some_and(|it| now - it.at > WINDOW_SECONDS) {
            self.samples.pop_front();
        }
        let covered = self.samples.front().map_or(0, |first| now - first.at);
        if covered + self.period_seconds() < WINDOW_SECONDS {
            return stay;
        }
        let count = self.samples.len() as f64;
        let arrival = self.samples.iter().map(|it| it.arrival).sum::<f64>() / count;
        let true_rate = self.samples.iter().map(|it| it.true_rate).sum::<f64>() / count;
        let catch_up = lag / CATCH_UP_SECONDS + arrival * RESTART_SECONDS / CATCH_UP_SECONDS;
        let too_slow = true_rate < arrival / (UTILISATION + BOUNDARY) + catch_up;
        let too_fast = lag_seconds < LAG_THRESHOLD_SECONDS
            && true_rate > arrival / (UTILISATION - BOUNDARY)
            && self.last_increase_at.is_none_or(|at| now - at >= UP_GRACE_SECONDS);
        if !too_slow && !too_fast {
            return stay;
        }
        let factor = ((arrival / UTILISATION + catch_up) / true_rate).max(DOWN_FACTOR_MIN);
        let size = Self::aligned(f64::from(current) * factor, seen.partitions);
        if size == current || (size > current) != too_slow {
            return stay;
        }
        self.samples.clear();
        self.changed_at = Some(now);
        if size > current {
            self.last_increase_at = Some(now);
        }
        Wish::size(size)
    }
}
