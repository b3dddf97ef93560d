//! A pool in front of a topic, second by second: arrivals, reading, the sink, memory, and the
//! score.
//!
//! A message counts as committed once it was read and inserted; a batch waits two seconds. A pod
//! shares its time evenly among the partitions that have something for it. It knows nothing of
//! rules. Figures are one pod's for a day of the project's own gateway, rounded: 1,000 messages a
//! second, 1 GiB of memory, half a minute to start.

use millrace_autoscale::Transition;

use crate::group::{Group, Protocol, ROUND_SECONDS};
use crate::rng::Rng;
use crate::score::{FLAP_SECONDS, Score};
use crate::trace::{Fault, Trace};

/// Messages per second that an average pod can do.
pub const POD_RATE: f64 = 1_000.0;
/// Age of a message not committed that is still right.
pub const BOUND_SECONDS: usize = 60;
/// A batch is sent this long after its first message at the latest.
const BATCH_SECONDS: usize = 2;
/// From a decision until a new pod asks to join: scheduling, image at hand, start.
const START_SECONDS: (f64, f64) = (20.0, 35.0);
/// Memory limit at the start, and the most that a rule may ask for.
pub const MEMORY_LIMIT: f64 = (1u64 << 30) as f64;
/// The most memory a pod may get.
pub const MEMORY_MAX: f64 = (2u64 << 30) as f64;
/// Memory of an idle pod, of each partition's buffers, and of a full budget.
const MEMORY_BASE: f64 = (220u64 << 20) as f64;
const MEMORY_PARTITION: f64 = (12u64 << 20) as f64;
const MEMORY_BUDGET: f64 = (200u64 << 20) as f64;
/// A pod that was ended starts again after this long, doubled each time, up to five minutes.
const BACK_OFF_SECONDS: usize = 10;
/// Inserters beyond this number cost the sink throughput.
const SINK_FREE_INSERTERS: f64 = 8.0;

/// A pod.
#[derive(Clone, Debug)]
pub struct PodSim {
    speed: f64,
    ready_at: usize,
    down_until: usize,
    /// Memory in use, in bytes.
    pub memory: f64,
    leaked: f64,
    /// How often it was ended.
    pub oom_kills: u32,
    /// Use of its processor time, 0 to 1, in the last second.
    pub busy: f64,
}

/// A pool and what it reads.
#[derive(Debug)]
pub struct World {
    trace: Trace,
    rng: Rng,
    weights: Vec<f64>,
    wobble: Vec<f64>,
    shared: f64,
    scale: f64,
    phase: usize,
    /// Messages arrived by each second, by partition.
    arrived: Vec<Vec<f64>>,
    /// Messages committed, by partition.
    pub committed: Vec<f64>,
    oldest: Vec<usize>,
    withheld: Vec<f64>,
    /// Pods by ordinal.
    pub pods: Vec<PodSim>,
    /// The group.
    pub group: Group,
    /// Memory limit of a pod, in bytes.
    pub memory_limit: f64,
    /// Pressure of the sink, 0 to 1.
    pub sink_pressure: f64,
    /// What it cost so far.
    pub score: Score,
    last_change: Option<(usize, bool)>,
    /// Age of the oldest message not committed, in seconds.
    pub lag_seconds: usize,
}

impl World {
    /// A settled pool.
    #[must_use]
    pub fn new(trace: &Trace, protocol: Protocol, seed: u64) -> Self {
        let mut rng = Rng::new(seed, 7);
        let partitions = trace.partitions;
        let raw: Vec<f64> =
            (0..partitions).map(|_| (1.0 + trace.skew * rng.normal()).max(0.2)).collect();
        let sum: f64 = raw.iter().sum();
        let (scale, phase) = if trace.pools > 1 {
            (rng.between(0.5, 1.5), (rng.unit() * trace.seconds as f64) as usize)
        } else {
            (1.0, 0)
        };
        let mut world = Self {
            trace: trace.clone(),
            weights: raw.iter().map(|weight| weight / sum).collect(),
            wobble: vec![0.0; partitions],
            shared: 0.0,
            scale,
            phase,
            arrived: vec![Vec::with_capacity(trace.seconds); partitions],
            committed: vec![0.0; partitions],
            oldest: vec![0; partitions],
            withheld: vec![0.0; partitions],
            pods: Vec::new(),
            group: Group::new(protocol, partitions, (0..trace.start).collect()),
            memory_limit: MEMORY_LIMIT,
            sink_pressure: 0.0,
            score: Score::default(),
            last_change: None,
            lag_seconds: 0,
            rng,
        };
        for _ in 0..trace.start {
            let pod = world.new_pod(0);
            world.pods.push(pod);
        }
        world
    }

    fn new_pod(&mut self, ready_at: usize) -> PodSim {
        PodSim {
            speed: self.rng.between(0.96, 1.04),
            ready_at,
            down_until: 0,
            memory: MEMORY_BASE,
            leaked: 0.0,
            oom_kills: 0,
            busy: 0.0,
        }
    }

    /// Pods wanted.
    #[must_use]
    pub fn size(&self) -> u32 {
        u32::try_from(self.pods.len()).unwrap_or(u32::MAX)
    }

    /// Whether pods are as wanted.
    #[must_use]
    pub fn transition(&self, now: usize) -> Transition {
        let all = self.pods.iter().all(|pod| pod.is_up(now));
        if all { Transition::Stable } else { Transition::Scaling }
    }

    /// Pods' worth of load at a second, without noise.
    #[must_use]
    pub fn load(&self, now: usize) -> f64 {
        (self.trace.load)((now + self.phase) % self.trace.seconds) * self.scale
    }

    /// Messages arrived in a partition so far.
    #[must_use]
    pub fn arrived(&self, partition: usize) -> f64 {
        self.arrived[partition].last().copied().unwrap_or(0.0)
    }

    /// Wants another number of pods from now on.
    pub fn resize(&mut self, size: u32, now: usize) {
        let before = self.size();
        if size == before {
            return;
        }
        let up = size > before;
        if self.last_change.is_some_and(|(at, was_up)| was_up != up && now - at < FLAP_SECONDS) {
            self.score.0[Score::FLAPS] += 1.0;
        }
        self.last_change = Some((now, up));
        self.pods.truncate(size as usize);
        while self.pods.len() < size as usize {
            let start = self.rng.between(START_SECONDS.0, START_SECONDS.1) as usize;
            let pod = self.new_pod(now + start);
            self.pods.push(pod);
        }
    }

    /// The end of the run: what waits for longer than the bound was delayed too.
    pub fn finish(&mut self, seconds: usize) {
        let Some(old) = seconds.checked_sub(1 + BOUND_SECONDS) else { return };
        for (arrived, committed) in self.arrived.iter().zip(&self.committed) {
            self.score.0[Score::DELAYED] += (arrived[old] - committed).max(0.0) / 1_000.0;
        }
    }

    /// One second.
    pub fn tick(&mut self, now: usize) {
        self.arrive(now);
        if now.is_multiple_of(ROUND_SECONDS) {
            let joined = (0u32..).zip(&self.pods).filter(|(_, pod)| pod.ready_at <= now);
            let members = joined.map(|(ordinal, _)| ordinal).collect();
            self.group.settle(members, now, &mut self.rng);
        }
        self.read(now);
        self.remember(now);
        self.judge(now);
    }

    fn broker_is_away(&self, now: usize) -> bool {
        self.trace.faults.iter().any(
            |fault| matches!(fault, Fault::BrokerLoss { from, to } if (*from..*to).contains(&now)),
        )
    }

    fn arrive(&mut self, now: usize) {
        self.shared += 0.05 * (self.trace.noise * self.rng.normal() * 3.0 - self.shared);
        let load = self.load(now) * POD_RATE * (1.0 + self.shared).max(0.0);
        let away = self.broker_is_away(now);
        for partition in 0..self.weights.len() {
            let wobble = &mut self.wobble[partition];
            *wobble += 0.2 * (self.trace.noise * self.rng.normal() * 2.0 - *wobble);
            let mut rate = load * self.weights[partition] * (1.0 + *wobble).max(0.0);
            for fault in self.trace.faults {
                if let Fault::Hot { from, to, load } = fault
                    && partition == 0
                    && (*from..*to).contains(&now)
                {
                    rate += load * POD_RATE;
                }
            }
            let withheld = &mut self.withheld[partition];
            if away && partition % 3 == 0 {
                *withheld += rate;
                rate = 0.0;
            } else if *withheld > 0.0 {
                // Producers send what they held back within some twenty seconds.
                let sent = (*withheld * 0.1).max(rate).min(*withheld);
                *withheld -= sent;
                rate += sent;
            }
            let before = self.arrived(partition);
            self.arrived[partition].push(before + rate);
        }
    }

    /// What each pod reads this second, then what the sink lets through of it.
    fn read(&mut self, now: usize) {
        let Some(seen) = now.checked_sub(BATCH_SECONDS) else { return };
        let away = self.broker_is_away(now);
        let mut taken = vec![0.0; self.weights.len()];
        let mut budgets = vec![0.0; self.pods.len()];
        for (pod, budget) in self.pods.iter().zip(&mut budgets) {
            let noise = 1.0 + 0.02 * self.rng.normal();
            *budget = if pod.is_up(now) { pod.speed * POD_RATE * noise } else { 0.0 };
        }
        let mut wants: Vec<Vec<(usize, f64)>> = vec![Vec::new(); self.pods.len()];
        for (partition, owner) in self.group.owners.iter().enumerate() {
            let stands = self.group.paused_until[partition] > now || away && partition % 3 == 0;
            let waiting = self.arrived[partition][seen] - self.committed[partition];
            let owner = owner.map(|owner| owner as usize).filter(|owner| *owner < wants.len());
            if let Some(owner) = owner.filter(|_| !stands && waiting > 0.0) {
                wants[owner].push((partition, waiting));
            }
        }
        for (want, budget) in wants.iter_mut().zip(&budgets) {
            share_out(want, *budget, &mut taken);
        }
        let asked: f64 = taken.iter().sum();
        let passed = self.pass(asked, now);
        for (partition, amount) in taken.iter().enumerate() {
            self.commit(partition, amount * passed, now);
        }
        for ((pod, want), budget) in self.pods.iter_mut().zip(&wants).zip(&budgets) {
            let done: f64 = want.iter().map(|(partition, _)| taken[*partition]).sum();
            pod.busy = if *budget > 0.0 { (done * passed / budget).min(1.0) } else { 0.0 };
        }
    }

    /// The share of what pods want to insert that the sink takes.
    fn pass(&mut self, asked: f64, now: usize) -> f64 {
        let limit = self.trace.faults.iter().find_map(|fault| match fault {
            Fault::Sink { from, to, load } if (*from..*to).contains(&now) => Some(*load),
            _ => None,
        });
        let Some(limit) = limit else {
            self.sink_pressure = 0.0;
            return 1.0;
        };
        let inserters = self.pods.len() as f64;
        let crowd = (SINK_FREE_INSERTERS / inserters.max(SINK_FREE_INSERTERS)).powf(0.5);
        let takes = limit * POD_RATE * crowd;
        let passed = if asked > takes { takes / asked } else { 1.0 };
        self.sink_pressure = 1.0 - passed;
        passed
    }

    fn commit(&mut self, partition: usize, amount: f64, now: usize) {
        let before = self.committed[partition];
        let after = before + amount;
        self.committed[partition] = after;
        if let Some(old) = now.checked_sub(BOUND_SECONDS) {
            let late = (self.arrived[partition][old].min(after) - before).max(0.0);
            self.score.0[Score::DELAYED] += late / 1_000.0;
        }
    }

    /// Memory: pods that leave too little go.
    fn remember(&mut self, now: usize) {
        let leak = self.trace.faults.iter().find_map(|fault| match fault {
            Fault::Leak { bytes_per_second } => Some(*bytes_per_second),
            _ => None,
        });
        let mut held = vec![0.0; self.pods.len()];
        for owner in self.group.owners.iter().flatten() {
            if let Some(held) = held.get_mut(*owner as usize) {
                *held += MEMORY_PARTITION;
            }
        }
        for (pod, held) in self.pods.iter_mut().zip(held) {
            if !pod.is_up(now) {
                continue;
            }
            pod.leaked += leak.unwrap_or(0.0);
            pod.memory = MEMORY_BASE + held + MEMORY_BUDGET * pod.busy + pod.leaked;
            if pod.memory > self.memory_limit {
                pod.oom_kills += 1;
                let wait = BACK_OFF_SECONDS << pod.oom_kills.min(5);
                pod.down_until = now + wait.min(300);
                (pod.memory, pod.leaked, pod.busy) = (MEMORY_BASE, 0.0, 0.0);
                self.score.0[Score::OOM_KILLS] += 1.0;
            }
        }
    }

    fn judge(&mut self, now: usize) {
        self.lag_seconds = 0;
        for partition in 0..self.weights.len() {
            let oldest = &mut self.oldest[partition];
            let arrived = &self.arrived[partition];
            while *oldest < now && arrived[*oldest] <= self.committed[partition] + 1e-6 {
                *oldest += 1;
            }
            self.lag_seconds = self.lag_seconds.max(now - *oldest);
        }
        if self.lag_seconds > BOUND_SECONDS {
            self.score.0[Score::OVER_BOUND] += 1.0;
        }
        let weight = (1.0 + self.memory_limit / MEMORY_LIMIT) / 2.0;
        self.score.0[Score::POD_HOURS] += self.pods.len() as f64 * weight / 3_600.0;
        self.score.0[Score::REBALANCES] = f64::from(self.group.rebalances);
    }
}

impl PodSim {
    /// Whether it works at this second.
    #[must_use]
    pub fn is_up(&self, now: usize) -> bool {
        self.ready_at <= now && self.down_until <= now
    }
}

/// Shares a budget evenly among wants: who wants less leaves the rest to others.
fn share_out(wants: &mut [(usize, f64)], mut budget: f64, taken: &mut [f64]) {
    wants.sort_by(|a, b| a.1.total_cmp(&b.1));
    for (at, (partition, want)) in wants.iter().enumerate() {
        let share = budget / (wants.len() - at) as f64;
        let given = want.min(share);
        taken[*partition] = given;
        budget -= given;
    }
}
