//! One pod's capacity, measured while pods are saturated.
//!
//! A pod counts as saturated while it is busy and messages wait in a partition it reads (in all of
//! them, where its busy share is unknown); its commit rate is then its capacity. Before the first
//! such measurement, rate over busy share is used and marked as provisional. While the sink limits
//! pods nothing is learned: that rate is the sink's. Capacity is stored for each key (image,
//! allocator, configuration, resources); a new key starts from a lower bound of the previous one.
//! Limits: the last `KEYS_MAX` keys.

use crate::observation::{ConsumerGroup, PodReport};

/// Keys stored: the current one, one to roll back to, and two more.
const KEYS_MAX: usize = 4;
/// A new key starts from this share of the previous capacity: an allocator or a build rarely costs
/// more than a fifth, and a size too large for a while is the cheaper error.
const INHERITED_SHARE: f64 = 0.8;
/// Weight of a saturated sample above the estimate, and below it: the estimate should be a high
/// quantile of the samples, so it rises fast and falls slowly.
const RISE: f64 = 0.25;
const FALL: f64 = 0.08;
/// Weight of an unsaturated sample while no saturated one exists.
const PROVISIONAL_WEIGHT: f64 = 0.2;
/// A pod that is busy for this share of its time, or more, is saturated if messages wait.
const SATURATED_BUSY: f64 = 0.8;
/// Below this busy share, rate over share is mostly noise.
const BUSY_MIN: f64 = 0.25;
/// Messages waiting for longer than this at the present rate are a backlog; messages read and not
/// yet committed are younger (a batch is at most some seconds old).
const WAITING_SECONDS: f64 = 8.0;

/// The capacity of one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// Messages per second.
    pub messages_per_second: f64,
    /// Bytes per second, where sizes are known.
    pub bytes_per_second: Option<f64>,
    /// The number of its saturated samples; 0 means provisional.
    pub samples: u32,
}

impl Capacity {
    /// Returns messages per second at this mean size: the lesser of what messages and bytes allow.
    #[must_use]
    pub fn rate_for_size(&self, bytes_per_message: Option<f64>) -> f64 {
        match (self.bytes_per_second, bytes_per_message) {
            (Some(bytes), Some(size)) if size > 0.0 => (bytes / size).min(self.messages_per_second),
            _ => self.messages_per_second,
        }
    }
}

/// Capacities by key, the last used first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capacities {
    known: Vec<(String, Capacity)>,
}

impl Capacities {
    /// Restores stored capacities, the last used first.
    #[must_use]
    pub fn restore(known: Vec<(String, Capacity)>) -> Self {
        let usable = known.into_iter().filter(|(_, it)| is_usable_rate(it.messages_per_second));
        Self { known: usable.take(KEYS_MAX).collect() }
    }

    /// Returns all capacities, the last used first.
    #[must_use]
    pub fn known(&self) -> &[(String, Capacity)] {
        &self.known
    }

    /// Returns the capacity of this key, or a lower bound from the key used before it.
    #[must_use]
    pub fn for_key(&self, key: &str) -> Option<Capacity> {
        if let Some((_, own)) = self.known.iter().find(|(known, _)| known == key) {
            return Some(own.clone());
        }
        let (_, before) = self.known.first()?;
        Some(Capacity {
            messages_per_second: before.messages_per_second * INHERITED_SHARE,
            bytes_per_second: before.bytes_per_second.map(|bytes| bytes * INHERITED_SHARE),
            samples: 0,
        })
    }

    /// Learns from one observation.
    pub(crate) fn learn_sample(
        &mut self,
        key: &str,
        group: &ConsumerGroup,
        pods: &[&PodReport],
        size: u32,
    ) {
        let Some(sample) = best_sample(group, pods, size) else { return };
        let before = self.for_key(key);
        let learned = blend_sample(before, &sample, group.bytes_per_message);
        self.known.retain(|(known, _)| known != key);
        self.known.insert(0, (key.to_owned(), learned));
        self.known.truncate(KEYS_MAX);
    }
}

fn is_usable_rate(rate: f64) -> bool {
    rate.is_finite() && rate > 0.0
}

/// A pod's speed in one observation, in messages per second.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SpeedSample {
    Saturated(f64),
    Provisional(f64),
}

fn blend_sample(before: Option<Capacity>, sample: &SpeedSample, size: Option<f64>) -> Capacity {
    let (rate, saturated) = match *sample {
        SpeedSample::Saturated(rate) => (rate, true),
        SpeedSample::Provisional(rate) => (rate, false),
    };
    let bytes = size.filter(|size| is_usable_rate(*size)).map(|size| rate * size);
    let Some(before) = before else {
        let samples = u32::from(saturated);
        return Capacity { messages_per_second: rate, bytes_per_second: bytes, samples };
    };
    if !saturated && before.samples > 0 {
        return before;
    }
    // The first saturated sample replaces a provisional one.
    let weight = |new: f64, old: f64| match (saturated, before.samples) {
        (true, 0) => 1.0,
        (true, _) if new > old => RISE,
        (true, _) => FALL,
        (false, _) => PROVISIONAL_WEIGHT,
    };
    let step = |old: f64, new: f64| old + weight(new, old) * (new - old);
    Capacity {
        messages_per_second: step(before.messages_per_second, rate),
        bytes_per_second: match (before.bytes_per_second, bytes) {
            (Some(old), Some(new)) => Some(step(old, new)),
            (old, new) => new.or(old),
        },
        samples: before.samples.saturating_add(u32::from(saturated)),
    }
}

/// Returns the best sample of an observation: the mean of the saturated pods; else, of pods that
/// are busy enough; else, when owners are unknown, the pool's mean while most partitions wait.
fn best_sample(group: &ConsumerGroup, pods: &[&PodReport], size: u32) -> Option<SpeedSample> {
    let by_owner = (0..size)
        .filter_map(|ordinal| PodRate::from_partitions(group, ordinal))
        .collect::<Vec<_>>();
    // A pod that is not busy while messages wait is blocked by something else: a broker that is
    // away, a sink, a rebalance.
    let busy = |own: &PodRate| {
        let reported = pods.iter().find(|pod| pod.ordinal == own.ordinal).and_then(|pod| pod.busy);
        reported.map_or(own.all_wait, |busy| own.one_waits && busy >= SATURATED_BUSY)
    };
    let saturated = by_owner.iter().filter(|own| busy(own) && is_usable_rate(own.rate));
    if let Some(rate) = mean(saturated.map(|pod| pod.rate)) {
        return Some(SpeedSample::Saturated(rate));
    }
    let provisional = pods.iter().filter_map(|pod| {
        let own = by_owner.iter().find(|own| own.ordinal == pod.ordinal)?;
        let busy = pod.busy.filter(|busy| *busy >= BUSY_MIN)?;
        is_usable_rate(own.rate).then(|| own.rate / busy.min(1.0))
    });
    if let Some(rate) = mean(provisional) {
        return Some(SpeedSample::Provisional(rate));
    }
    if !by_owner.is_empty() || size == 0 {
        return None;
    }
    let rates: Option<Vec<f64>> = group.partitions.iter().map(|it| it.commit_per_second).collect();
    let total: f64 = rates?.iter().sum();
    let waiting =
        group.partitions.iter().filter(|it| has_backlog(it.lag_messages, it.commit_per_second));
    let most = waiting.count() * 2 > group.partitions.len();
    (most && is_usable_rate(total)).then(|| SpeedSample::Saturated(total / f64::from(size)))
}

/// The rate of one pod, from the partitions it reads.
struct PodRate {
    ordinal: u32,
    rate: f64,
    one_waits: bool,
    all_wait: bool,
}

impl PodRate {
    fn from_partitions(group: &ConsumerGroup, ordinal: u32) -> Option<Self> {
        let own = || group.partitions.iter().filter(|it| it.owner == Some(ordinal));
        let rates: Option<Vec<f64>> = own().map(|it| it.commit_per_second).collect();
        let rates = rates.filter(|rates| !rates.is_empty())?;
        let mut waiting = own().map(|it| has_backlog(it.lag_messages, it.commit_per_second));
        let one_waits = waiting.clone().any(|waits| waits);
        let all_wait = waiting.all(|waits| waits);
        Some(Self { ordinal, rate: rates.iter().sum(), one_waits, all_wait })
    }
}

fn has_backlog(lag_messages: u64, commit_per_second: Option<f64>) -> bool {
    let rate = commit_per_second.unwrap_or(0.0);
    rate > 0.0 && lag_messages as f64 > rate * WAITING_SECONDS
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), it| (sum + it, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests;
