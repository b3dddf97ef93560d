//! Written-out traces: the decisions of a pool, observation by observation.

use millrace_autoscale::{
    Aged, ConsumerGroup, Decision, Observation, PartitionLoad, PodReport, Resources, ScalingMode,
    ScalingPolicy, ScalingReason, ScalingState, SinkReport, Transition, VerticalPolicy,
    VerticalReason, decide_size,
};

const PARTITIONS: u32 = 12;
/// The capacity of one pod in these tests, in messages per second.
const POD: f64 = 1_000.0;

/// A simulated pool, advanced ten seconds at a time.
struct Pool {
    policy: ScalingPolicy,
    state: ScalingState,
    now: i64,
    size: Option<u32>,
    waiting: f64,
    transition: Transition,
    sink: f64,
    hot: f64,
}

impl Pool {
    fn new(min: u32, max: u32, size: Option<u32>) -> Self {
        Self {
            policy: ScalingPolicy::with_bounds(min, max),
            state: ScalingState::default(),
            now: 1_000,
            size,
            waiting: 0.0,
            transition: Transition::Stable,
            sink: 0.0,
            hot: 0.0,
        }
    }

    /// Advances the pool once while `load` pods' worth arrives.
    fn tick(&mut self, load: f64) -> Decision {
        self.now += 10;
        let (size, arrival) = (self.size.unwrap_or(1), load * POD);
        let busiest = f64::from(PARTITIONS) / f64::from(PARTITIONS.div_ceil(size));
        let done = (arrival + self.waiting / 10.0).min(busiest * POD * (1.0 - self.sink));
        self.waiting = (self.waiting + (arrival - done) * 10.0).max(0.0);
        let hot = |nth| if nth == 0 { self.hot * POD } else { 0.0 };
        let each = f64::from(PARTITIONS).recip();
        let partitions = (0..PARTITIONS).map(|nth| PartitionLoad {
            arrival_per_second: Some(arrival * each + hot(nth)),
            commit_per_second: Some(done * each),
            lag_messages: (self.waiting * each) as u64,
            owner: Some(nth % size),
        });
        let lag_seconds = self.waiting / arrival.max(1.0);
        let group = ConsumerGroup {
            partitions: partitions.collect(),
            lag_seconds: Some(lag_seconds),
            within_bound: lag_seconds <= 60.0,
            bytes_per_message: None,
        };
        let busy = Some((done / f64::from(size) / POD).min(1.0));
        let pod = |ordinal| PodReport { ordinal, busy, ..PodReport::default() };
        self.see(
            Some(group),
            (0..size).map(pod).collect(),
            Some(SinkReport { pressure: self.sink }),
        )
    }

    fn see(
        &mut self,
        group: Option<ConsumerGroup>,
        pods: Vec<PodReport>,
        sink: Option<SinkReport>,
    ) -> Decision {
        let now = self.now;
        let seen = Observation {
            now,
            current: self.size,
            transition: self.transition,
            capacity_key: "image".into(),
            group: group.map(|value| Aged { observed_at: now, value }),
            pods: pods.into_iter().map(|value| Aged { observed_at: now, value }).collect(),
            sink: sink.map(|value| Aged { observed_at: now, value }),
        };
        let decision = decide_size(&seen, &self.policy, &self.state);
        self.state = decision.state.clone();
        self.size = Some(decision.replicas);
        decision
    }

    fn blind(&mut self) -> Decision {
        self.now += 10;
        self.see(None, Vec::new(), None)
    }

    fn run(&mut self, seconds: i64, load: f64) -> Vec<u32> {
        let mut sizes: Vec<u32> = (0..seconds / 10).map(|_| self.tick(load).replicas).collect();
        sizes.dedup();
        sizes
    }
}

/// Scenario: a pool that was never created. Guarantee: it starts at its minimum size, once.
#[test]
fn a_new_pool_starts_at_its_minimum() {
    let first = Pool::new(2, 24, None).blind();
    assert_eq!((first.replicas, first.reason), (2, ScalingReason::Initial));
}

/// Scenario: steady load, then three times as much. Guarantee: one change, to the size that the
/// load and its backlog need, before the lag exceeds its bound.
#[test]
fn a_step_is_answered_by_one_change_to_the_right_size() {
    let mut pool = Pool::new(1, 24, Some(4));
    pool.run(600, 2.5);
    let mut sizes = Vec::new();
    for _ in 0..4 {
        sizes.push(pool.tick(7.5));
    }
    let grown = sizes.iter().find(|decision| decision.replicas > 4).unwrap();
    assert_eq!(grown.reason, ScalingReason::LagAboveBound);
    assert_eq!(pool.size, Some(12));
    assert!(pool.waiting / (7.5 * POD) < 60.0);
    assert_eq!(pool.run(600, 7.5), [12]);
}

/// Scenario: a spike of ten seconds. Guarantee: no change.
#[test]
fn one_look_alone_changes_nothing() {
    let mut pool = Pool::new(1, 24, Some(4));
    pool.run(1_200, 2.8);
    assert_eq!(pool.run(10, 9.0), [4]);
    assert_eq!(pool.run(600, 2.8), [4]);
}

/// Scenario: load falls to a sixth. Guarantee: the pool retains its size for minutes, then shrinks
/// to the size that sufficed all along, and not below its minimum.
#[test]
fn a_pool_too_large_shrinks_after_a_while_to_what_sufficed() {
    let mut pool = Pool::new(2, 24, Some(12));
    pool.run(1_200, 9.0);
    assert_eq!(pool.run(290, 1.5), [12]);
    let sizes = pool.run(3_600, 1.5);
    assert_eq!(sizes.last(), Some(&2), "{sizes:?}");
    assert!(sizes.len() <= 3, "{sizes:?}");
}

/// Scenario: the same while some of its pods find no node and so never start. Guarantee: they don't
/// keep the pool large.
#[test]
fn pods_that_never_start_do_not_keep_a_pool_large() {
    let mut pool = Pool::new(2, 24, Some(12));
    pool.run(1_200, 9.0);
    pool.transition = Transition::Scaling;
    let sizes = pool.run(3_600, 1.5);
    assert_eq!(sizes.last(), Some(&2), "{sizes:?}");
}

/// Scenario: steady work for a day. Guarantee: no change at all.
#[test]
fn constant_load_never_flaps() {
    let mut pool = Pool::new(1, 24, Some(4));
    assert_eq!(pool.run(24 * 3_600, 3.0), [4]);
}

/// Scenario: the broker stops answering just before a shrink is due. Guarantee: held, and the
/// windows start again once the broker answers.
#[test]
fn missing_signals_hold_the_size_and_start_the_windows_again() {
    let mut pool = Pool::new(1, 24, Some(12));
    pool.run(280, 1.5);
    let held = pool.blind();
    assert_eq!((held.replicas, held.reason), (12, ScalingReason::HoldSignalMissing));
    assert_eq!(pool.run(280, 1.5), [12]);
}

/// Scenario: pods are being replaced, or tables migrated, while load is high. Guarantee: held until
/// that is over.
#[test]
fn a_rollout_or_a_migration_holds_the_size() {
    for (transition, reason) in [
        (Transition::Rollout, ScalingReason::HoldRollout),
        (Transition::Migration, ScalingReason::HoldMigration),
    ] {
        let mut pool = Pool::new(1, 24, Some(3));
        pool.run(600, 2.0);
        pool.transition = transition;
        pool.run(300, 5.0);
        let held = pool.tick(5.0);
        assert_eq!((held.replicas, held.reason), (3, reason));
        assert!(held.proposed > 3);
        pool.transition = Transition::Stable;
        assert!(pool.tick(5.0).replicas > 3);
    }
}

/// Scenario: ClickHouse accepts less than arrives. Guarantee: the pool does not grow, reports why,
/// and does not take the sink's rate for its pods' capacity.
#[test]
fn a_busy_sink_is_named_and_not_fed_with_more_pods() {
    let mut pool = Pool::new(1, 24, Some(6));
    pool.run(1_200, 4.0);
    let known = |pool: &Pool| pool.state.memory.capacities.for_key("image").unwrap();
    let before = known(&pool);
    pool.sink = 0.5;
    assert_eq!(pool.run(900, 4.0), [6]);
    let held = pool.tick(4.0);
    assert_eq!(held.reason, ScalingReason::HoldSinkBusy);
    assert_eq!(known(&pool), before);
    pool.sink = 0.0;
    assert!(pool.run(120, 4.0).last().is_some_and(|size| *size > 6));
}

/// Scenario: of twelve equal partitions, one fell behind: not at all, further, by far more than a
/// pod can work off in time. Guarantee: the further it is behind, the more pods are desired, up to
/// a pod that reads two of them; never one for it alone.
#[test]
fn a_partition_that_fell_behind_alone_gets_most_of_a_pod_and_no_pod_of_its_own() {
    let mut wanted = Vec::new();
    for behind in (0..3_000_000).step_by(20_000) {
        let mut pool = Pool::new(1, 24, Some(2));
        pool.run(600, 1.5);
        pool.now += 10;
        let partitions = (0..PARTITIONS).map(|nth| PartitionLoad {
            arrival_per_second: Some(1.5 * POD / f64::from(PARTITIONS)),
            commit_per_second: Some(1.5 * POD / f64::from(PARTITIONS)),
            lag_messages: if nth == 0 { behind } else { 0 },
            owner: Some(nth % 2),
        });
        let group = ConsumerGroup {
            partitions: partitions.collect(),
            lag_seconds: Some(if behind > 0 { 600.0 } else { 0.0 }),
            within_bound: behind == 0,
            bytes_per_message: None,
        };
        wanted.push(pool.see(Some(group), Vec::new(), None).proposed);
    }
    assert!(wanted.is_sorted(), "{wanted:?}");
    assert_eq!((wanted[0], wanted.last()), (2, Some(&6)), "{wanted:?}");
}

/// Scenario: one partition receives more than a pod can process. Guarantee: it is reported with a
/// number, and the pool does not grow to its ceiling for it.
#[test]
fn a_hot_partition_is_told_and_not_chased() {
    let mut pool = Pool::new(1, 24, Some(4));
    pool.run(600, 2.5);
    pool.hot = 1.5;
    pool.run(600, 2.5);
    let decision = pool.tick(2.5);
    let hot = decision.hot.unwrap();
    assert_eq!(hot.index, 0);
    assert!(hot.recommended_partitions > PARTITIONS);
    assert!(decision.replicas < PARTITIONS, "{decision}");
}

/// Scenario: capacity is unknown because the owners of partitions are. Guarantee: one step at a
/// time up to the partitions while lag is above its bound.
#[test]
fn without_capacity_lasting_lag_grows_the_pool_in_steps() {
    let mut pool = Pool::new(1, 24, Some(1));
    let mut sizes = vec![1];
    for _ in 0..360 {
        pool.now += 10;
        let partition = PartitionLoad { lag_messages: 1_000_000, ..PartitionLoad::default() };
        let group = ConsumerGroup {
            partitions: vec![partition; PARTITIONS as usize],
            lag_seconds: Some(600.0),
            within_bound: false,
            bytes_per_message: None,
        };
        sizes.push(pool.see(Some(group), Vec::new(), None).replicas);
    }
    sizes.dedup();
    assert_eq!(sizes, [1, 2, 3, 4, 6, 12]);
}

/// Scenario: growing has no effect, twice. Guarantee: the pool stops growing for a while and
/// reports it.
#[test]
fn growth_that_does_not_help_stops() {
    let mut pool = Pool::new(1, 24, Some(2));
    let mut seen = Vec::new();
    for _ in 0..400 {
        pool.now += 10;
        let size = pool.size.unwrap();
        // Whatever the size, only 500 messages a second are processed.
        let partition = |nth: u32| PartitionLoad {
            arrival_per_second: Some(100.0),
            commit_per_second: Some(500.0 / 12.0),
            lag_messages: 1_000_000,
            owner: Some(nth % size),
        };
        let group = ConsumerGroup {
            partitions: (0..PARTITIONS).map(partition).collect(),
            lag_seconds: Some(600.0),
            within_bound: false,
            bytes_per_message: None,
        };
        pool.policy.max = (size + 1).min(12);
        seen.push(pool.see(Some(group), Vec::new(), None).reason);
    }
    assert!(seen.contains(&ScalingReason::HoldIneffective), "{seen:?}");
    assert!(pool.size.unwrap() < 12);
}

/// Scenario: a person sets the size; another autoscaler owns the pool. Guarantee: the size stays in
/// both cases, and the second reports the rule's own choice.
#[test]
fn a_size_set_by_others_is_kept() {
    let mut pool = Pool::new(1, 24, Some(2));
    pool.policy.mode = ScalingMode::Fixed(7);
    let fixed = pool.tick(9.0);
    assert_eq!((fixed.replicas, fixed.reason), (7, ScalingReason::Fixed));
    let mut pool = Pool::new(1, 24, Some(2));
    pool.policy.mode = ScalingMode::Recommend;
    pool.run(600, 6.0);
    let told = pool.tick(6.0);
    assert_eq!(told.replicas, 2);
    assert!(told.proposed >= 6, "{told}");
}

/// Scenario: the maximum is lowered below the size. Guarantee: applied at once.
#[test]
fn a_size_outside_its_bounds_is_put_inside_at_once() {
    let decision = Pool::new(1, 3, Some(6)).tick(1.0);
    assert_eq!((decision.replicas, decision.reason), (3, ScalingReason::Bounds));
}

/// A policy for pods of one core that may have four.
fn up_to_four_cores() -> VerticalPolicy {
    let written = Resources {
        memory_request_bytes: 256 << 20,
        memory_limit_bytes: 1 << 30,
        cpu_request_millicores: 500,
        cpu_limit_millicores: Some(1_000),
    };
    VerticalPolicy {
        written,
        memory_min_bytes: 1 << 30,
        memory_max_bytes: 1 << 30,
        cpu_max_millicores: Some(4_000),
    }
}

/// Returns the first growth of the CPU limit under this load.
fn grown(pool: &mut Pool, load: f64) -> Option<Decision> {
    let at_limit = |decision: &Decision| {
        decision.resources.is_some_and(|(_, why)| why == VerticalReason::CpuAtLimit)
    };
    (0..30).map(|_| pool.tick(load)).find(at_limit)
}

/// Scenario: pods at their CPU limit while messages wait, below the range's maximum. Guarantee:
/// they get more CPU time before the pool grows.
#[test]
fn pods_grow_before_there_are_more_of_them() {
    let mut pool = Pool::new(1, 24, Some(2));
    pool.policy.vertical = Some(up_to_four_cores());
    pool.run(60, 1.0);
    let decision = grown(&mut pool, 6.0).unwrap();
    let (resources, _) = decision.resources.unwrap();
    assert_eq!(resources.cpu_limit_millicores, Some(1_500));
    assert_eq!(resources.cpu_request_millicores, 750);
}

/// Scenario: the same in a pool that may not grow, by its maximum and by its partitions; and with
/// no more load than the pods can process. Guarantee: only larger pods can help, so they get more
/// CPU time; without need they don't.
#[test]
fn pods_of_a_pool_at_its_ceiling_grow_too() {
    for (most, size, reason) in
        [(2, 2, ScalingReason::MaxReplicasReached), (24, PARTITIONS, ScalingReason::PartitionHot)]
    {
        let mut pool = Pool::new(1, most, Some(size));
        pool.policy.vertical = Some(up_to_four_cores());
        pool.run(60, 0.5 * f64::from(size));
        assert!(grown(&mut pool, 0.5 * f64::from(size)).is_none());
        let decision = grown(&mut pool, 2.0 * f64::from(size)).unwrap();
        assert_eq!(decision.reason, reason);
        assert_eq!(decision.resources.unwrap().0.cpu_limit_millicores, Some(1_500));
    }
}

/// Scenario: any decision. Guarantee: it renders completely: sizes, reason, terms, and every figure
/// by name.
#[test]
fn a_decision_renders_whole() {
    let mut pool = Pool::new(1, 24, Some(4));
    pool.run(600, 2.5);
    let decision = pool.tick(2.5);
    let line = decision.to_string();
    assert!(line.starts_with("4 -> 4: the size is right (arrivals 2500/s"), "{line}");
    let names: Vec<&str> = decision.named_figures().into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"needed_per_second") && names.contains(&"capacity_per_second"));
    let words: Vec<&str> = ScalingReason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert!(words.iter().all(|word| words.iter().filter(|it| it == &word).count() == 1));
}
