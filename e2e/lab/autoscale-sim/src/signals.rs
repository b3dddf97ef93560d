//! What rules get to see of a world: rates between two looks, lag, pods; late, noisy, or missing.
//!
//! All rules see the same signals; each takes the ones that its original takes.

use millrace_autoscale::{
    Aged, ConsumerGroup, Observation, PartitionLoad, PodReport, SinkReport, Transition,
};

use crate::rng::Rng;
use crate::trace::{Fault, Trace};
use crate::world::{BOUND_SECONDS, World};

/// The group is looked at this often.
pub const LOOK_SECONDS: usize = 10;
/// Signals that go missing and errors of rates where the trace says nothing of them.
const USUAL: (f64, f64) = (0.01, 0.02);
/// After a broker is lost nobody answers for this long: clients find the new leaders.
const BROKER_SILENT_SECONDS: usize = 60;

/// What can be seen at one time.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Now.
    pub now: usize,
    /// Pods wanted.
    pub wanted: u32,
    /// Whether pods are as wanted.
    pub transition: Transition,
    /// Partitions.
    pub partitions: u32,
    /// The newest look at the group.
    pub group: Option<Aged<ConsumerGroup>>,
    /// The newest look at each pod.
    pub pods: Vec<Aged<PodReport>>,
    /// The newest look at the sink.
    pub sink: Option<Aged<SinkReport>>,
}

impl Seen {
    /// The same as an observation for `millrace_autoscale`.
    #[must_use]
    pub fn observation(&self) -> Observation {
        Observation {
            now: self.now as i64,
            current: Some(self.wanted),
            transition: self.transition,
            capacity_key: "image".into(),
            group: self.group.clone(),
            pods: self.pods.clone(),
            sink: self.sink.clone(),
        }
    }
}

/// Looks at a world now and then.
#[derive(Debug)]
pub struct Watcher {
    rng: Rng,
    missing: f64,
    noise: f64,
    silent: Vec<(usize, usize)>,
    last: Option<(usize, Vec<f64>, Vec<f64>)>,
    busy: Vec<(f64, u32)>,
    group: Option<Aged<ConsumerGroup>>,
    pods: Vec<Aged<PodReport>>,
    sink: Option<Aged<SinkReport>>,
}

impl Watcher {
    /// A watcher for one run.
    #[must_use]
    pub fn new(trace: &Trace, seed: u64) -> Self {
        let bad = trace.faults.iter().find_map(|fault| match fault {
            Fault::Signals { missing, noise } => Some((*missing, *noise)),
            _ => None,
        });
        let (missing, noise) = bad.unwrap_or(USUAL);
        let silent = trace.faults.iter().filter_map(|fault| match fault {
            Fault::BrokerLoss { from, .. } => Some((*from, *from + BROKER_SILENT_SECONDS)),
            _ => None,
        });
        Self {
            rng: Rng::new(seed, 11),
            missing,
            noise,
            silent: silent.collect(),
            last: None,
            busy: Vec::new(),
            group: None,
            pods: Vec::new(),
            sink: None,
        }
    }

    /// Looks, if it is time to.
    pub fn look(&mut self, world: &World, now: usize) {
        self.busy.resize(world.pods.len(), (0.0, 0));
        for (sum, pod) in self.busy.iter_mut().zip(&world.pods) {
            sum.0 += pod.busy;
            sum.1 += 1;
        }
        if !now.is_multiple_of(LOOK_SECONDS) {
            return;
        }
        let silent = self.silent.iter().any(|(from, to)| (*from..*to).contains(&now));
        if !silent && !self.rng.chance(self.missing) {
            self.look_at_group(world, now);
        }
        if !self.rng.chance(self.missing) {
            self.look_at_pods(world, now);
        }
        self.busy.iter_mut().for_each(|sum| *sum = (0.0, 0));
    }

    fn look_at_group(&mut self, world: &World, now: usize) {
        let count = world.committed.len();
        let arrived: Vec<f64> = (0..count).map(|at| world.arrived(at)).collect();
        let committed = world.committed.clone();
        let before = self.last.replace((now, arrived.clone(), committed.clone()));
        let noise = self.noise;
        let mut rate = |now_count: f64, then: Option<(usize, f64)>| {
            let (at, then) = then?;
            let error = (1.0 + noise * self.rng.normal()).max(0.0);
            Some((now_count - then) / (now - at).max(1) as f64 * error)
        };
        let partitions = (0..count).map(|at| {
            let then = before.as_ref();
            PartitionLoad {
                arrival_per_second: rate(
                    arrived[at],
                    then.map(|(t, arrived, _)| (*t, arrived[at])),
                ),
                commit_per_second: rate(committed[at], then.map(|(t, _, done)| (*t, done[at]))),
                lag_messages: (arrived[at] - committed[at]).max(0.0) as u64,
                owner: world.group.owners[at],
            }
        });
        let value = ConsumerGroup {
            partitions: partitions.collect(),
            lag_seconds: Some(world.lag_seconds as f64),
            within_bound: world.lag_seconds <= BOUND_SECONDS,
            bytes_per_message: None,
        };
        self.group = Some(Aged { observed_at: now as i64, value });
    }

    fn look_at_pods(&mut self, world: &World, now: usize) {
        let seen_at = now as i64;
        let pods = (0u32..).zip(&world.pods).zip(&self.busy);
        let up = pods.filter(|((_, pod), _)| pod.is_up(now));
        self.pods = up
            .map(|((ordinal, pod), (sum, seconds))| {
                let busy = sum / f64::from((*seconds).max(1));
                let value = PodReport {
                    ordinal,
                    busy: Some(busy),
                    cpu_millicores: Some(busy * 1_000.0),
                    cpu_limit_millicores: Some(1_000),
                    memory_bytes: Some(pod.memory as u64),
                    memory_limit_bytes: Some(world.memory_limit as u64),
                    oom_kills: pod.oom_kills,
                };
                Aged { observed_at: seen_at, value }
            })
            .collect();
        self.sink = Some(Aged {
            observed_at: seen_at,
            value: SinkReport { pressure: world.sink_pressure },
        });
    }

    /// What can be seen now.
    #[must_use]
    pub fn seen(&self, world: &World, now: usize) -> Seen {
        Seen {
            now,
            wanted: world.size(),
            transition: world.transition(now),
            partitions: u32::try_from(world.committed.len()).unwrap_or(u32::MAX),
            group: self.group.clone(),
            pods: self.pods.clone(),
            sink: self.sink.clone(),
        }
    }
}
