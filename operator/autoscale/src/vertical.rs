//! Memory and processor time of one pod, from its use.
//!
//! Memory grows at once (in place, no rebalance) when the highest use comes near the limit or a pod
//! was killed for it. A limit of processor time grows while pods reach it with messages waiting:
//! that is tried before more pods. Where pods have no such limit, the request follows the use. All
//! of it shrinks only after long calm, and nothing grows further before pods have the last
//! decision. A request keeps its written share of the limit, so that a pod's class of service
//! stays. Limits: inside the policy's ranges.

use crate::observation::Pod;
use crate::policy::VerticalPolicy;
use crate::resources::Resources;

/// Memory moves in steps of 64 MiB, so that small changes change nothing.
const MEMORY_STEP_BYTES: u64 = 64 << 20;
/// What is requested is in whole mebibytes, as people write them.
const REQUEST_STEP_BYTES: u64 = 1 << 20;
/// The limit is kept this much above the highest use: a batch more per worker, and the allocator's
/// retained pages.
const MEMORY_HEADROOM: f64 = 1.3;
/// Above this share of the limit memory grows.
const MEMORY_NEAR_SHARE: f64 = 0.85;
/// After an end for lack of memory the limit grows by half: the use seen before says too little.
const OOM_GROWTH: f64 = 1.5;
/// All shrinks after six calm hours: the daily peak is seldom further away twice.
const CALM_SECONDS: i64 = 6 * 3600;
/// Below this share of the limit memory counts as idle.
const MEMORY_IDLE_SHARE: f64 = 0.5;
/// Processor time moves in steps of a twentieth of a core.
const CPU_STEP_MILLICORES: u64 = 50;
/// Pods at their processor limit, and for how long, before it grows.
const CPU_FULL: f64 = 0.95;
const CPU_FULL_SECONDS: i64 = 10;
/// What more processor time brings shows within this time; the pool does not grow meanwhile.
const CPU_GREW_SECONDS: i64 = 30;
/// Growth of the processor limit in one step.
const CPU_GROWTH: f64 = 1.5;
/// More than is requested is used for this long before more is requested: it slows nobody down
/// while the node has some to spare.
const CPU_OVER_SECONDS: i64 = 600;
/// Requested is then this much above what is used.
const CPU_REQUEST_HEADROOM: f64 = 1.2;
/// Below this share processor time counts as idle.
const CPU_IDLE_SHARE: f64 = 0.4;
/// It shrinks to this much above what is used, and by half at most.
const CPU_HEADROOM: f64 = 1.5;
const CPU_SHRINK: f64 = 0.5;

/// Why resources are as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerticalReason {
    /// They suffice.
    Steady,
    /// The pool starts with them.
    Initial,
    /// The range that was asked for changed.
    Bounds,
    /// Memory in use came near the limit.
    MemoryNearLimit,
    /// A pod was ended for using more memory than its limit.
    OutOfMemory,
    /// Most of the memory stayed unused for hours.
    MemoryIdle,
    /// Pods are at their processor limit while messages wait.
    CpuAtLimit,
    /// Pods without a processor limit use more than is requested for them.
    CpuAboveRequest,
    /// Most of the processor time stayed unused for hours.
    CpuIdle,
}

impl VerticalReason {
    /// All of them, in the order of the reference.
    pub const ALL: [Self; 9] = [
        Self::Steady,
        Self::Initial,
        Self::Bounds,
        Self::MemoryNearLimit,
        Self::OutOfMemory,
        Self::MemoryIdle,
        Self::CpuAtLimit,
        Self::CpuAboveRequest,
        Self::CpuIdle,
    ];

    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Steady => "Steady",
            Self::Initial => "Initial",
            Self::Bounds => "Bounds",
            Self::MemoryNearLimit => "MemoryNearLimit",
            Self::OutOfMemory => "OutOfMemory",
            Self::MemoryIdle => "MemoryIdle",
            Self::CpuAtLimit => "CpuAtLimit",
            Self::CpuAboveRequest => "CpuAboveRequest",
            Self::CpuIdle => "CpuIdle",
        }
    }
}

/// What is remembered of resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerticalState {
    /// What was last decided.
    pub resources: Option<Resources>,
    /// Ends for lack of memory counted so far.
    pub oom_kills: u32,
    /// Since when memory has been idle without a break.
    pub idle_since: Option<i64>,
    /// Since when pods have been at their processor limit, or above what is requested where they
    /// have none, without a break.
    pub cpu_full_since: Option<i64>,
    /// Since when processor time has been idle without a break.
    pub cpu_idle_since: Option<i64>,
    /// When they last got a higher processor limit.
    pub cpu_grew_at: Option<i64>,
}

impl VerticalState {
    /// Whether pods got more processor time a short while ago.
    pub(crate) fn cpu_grew_within(&self, now: i64) -> bool {
        self.cpu_grew_at.is_some_and(|at| (0..CPU_GREW_SECONDS).contains(&(now - at)))
    }
}

/// Decides the resources of one pod.
pub(crate) fn decide(
    policy: &VerticalPolicy,
    pods: &[&Pod],
    waiting: bool,
    now: i64,
    last: &VerticalState,
) -> (Resources, VerticalReason, VerticalState) {
    let mut state = *last;
    let Some(before) = last.resources else {
        let in_force = pods.iter().filter_map(|pod| pod.memory_limit_bytes).max();
        let limit = in_force.unwrap_or(policy.written.memory_limit_bytes);
        let resources = complete(policy, limit, policy.written.cpu_millicores());
        state.resources = Some(resources);
        state.oom_kills = kills(pods);
        return (resources, VerticalReason::Initial, state);
    };
    let from = complete(policy, before.memory_limit_bytes, before.cpu_millicores());
    let (limit, memory_why) = memory(&from, pods, now, &mut state);
    let (cpu, cpu_why) = processor(policy, &from, pods, waiting, now, &mut state);
    let resources = complete(policy, limit, cpu);
    state.resources = Some(resources);
    let cpu_moved = resources.cpu_millicores() != from.cpu_millicores();
    let why = match (cpu_moved, resources == from) {
        (true, _) => cpu_why,
        (false, false) => memory_why,
        (false, true) if from != before => VerticalReason::Bounds,
        (false, true) => VerticalReason::Steady,
    };
    (resources, why, state)
}

/// The memory limit, and why.
fn memory(
    from: &Resources,
    pods: &[&Pod],
    now: i64,
    state: &mut VerticalState,
) -> (u64, VerticalReason) {
    let used = pods.iter().filter_map(|pod| pod.memory_bytes).max().unwrap_or(0) as f64;
    let decided = from.memory_limit_bytes;
    let limit = decided as f64;
    let idle = used > 0.0 && used < limit * MEMORY_IDLE_SHARE;
    state.idle_since = idle.then(|| state.idle_since.unwrap_or(now));
    // A pod that was ended while it had less than was decided says nothing about what was decided.
    let in_force = pods.iter().filter_map(|pod| pod.memory_limit_bytes).all(|it| it >= decided);
    let ended = kills(pods) > state.oom_kills;
    state.oom_kills = state.oom_kills.max(kills(pods));
    if ended && in_force {
        return (step(limit * OOM_GROWTH, MEMORY_STEP_BYTES), VerticalReason::OutOfMemory);
    }
    if used > limit * MEMORY_NEAR_SHARE {
        let grown = step(used * MEMORY_HEADROOM, MEMORY_STEP_BYTES);
        return (grown, VerticalReason::MemoryNearLimit);
    }
    if calm(&mut state.idle_since, now) {
        let less = (used * MEMORY_HEADROOM).max(limit * MEMORY_IDLE_SHARE);
        return (step(less, MEMORY_STEP_BYTES), VerticalReason::MemoryIdle);
    }
    (decided, VerticalReason::Steady)
}

/// The processor limit, or what is requested of it where pods have none, and why.
fn processor(
    policy: &VerticalPolicy,
    from: &Resources,
    pods: &[&Pod],
    waiting: bool,
    now: i64,
    state: &mut VerticalState,
) -> (u64, VerticalReason) {
    let decided = from.cpu_millicores();
    let used = pods.iter().filter_map(|pod| pod.cpu_millicores).reduce(f64::max);
    let idle = used.is_some_and(|used| used < decided as f64 * CPU_IDLE_SHARE);
    state.cpu_idle_since = idle.then(|| state.cpu_idle_since.unwrap_or(now));
    let has_limit = from.cpu_limit_millicores.is_some();
    let (full, patience) = match has_limit {
        true => (waiting && most_are_full(pods, decided), CPU_FULL_SECONDS),
        false => (used.is_some_and(|used| used > decided as f64), CPU_OVER_SECONDS),
    };
    state.cpu_full_since = full.then(|| state.cpu_full_since.unwrap_or(now));
    let long = state.cpu_full_since.is_some_and(|since| now - since >= patience);
    let room = policy.cpu_max_millicores.is_some_and(|most| most > decided);
    if long && room && has_limit {
        state.cpu_grew_at = Some(now);
        return ((decided as f64 * CPU_GROWTH) as u64, VerticalReason::CpuAtLimit);
    }
    if long && room {
        state.cpu_full_since = None;
        let grown = used.unwrap_or(0.0) * CPU_REQUEST_HEADROOM;
        return (step(grown, CPU_STEP_MILLICORES), VerticalReason::CpuAboveRequest);
    }
    if calm(&mut state.cpu_idle_since, now) {
        let less = (used.unwrap_or(0.0) * CPU_HEADROOM).max(decided as f64 * CPU_SHRINK);
        return (step(less, CPU_STEP_MILLICORES), VerticalReason::CpuIdle);
    }
    (decided, VerticalReason::Steady)
}

/// Whether more than half of the pods use all of the limit that was decided. A pod that has not got
/// it yet says nothing about it.
fn most_are_full(pods: &[&Pod], decided: u64) -> bool {
    let full = |pod: &&&Pod| {
        pod.busy.is_some_and(|busy| busy >= CPU_FULL)
            && pod.cpu_limit_millicores.is_none_or(|in_force| in_force >= decided)
    };
    pods.iter().filter(full).count() * 2 > pods.len()
}

/// Whether it has been calm for long; a window that is over begins anew.
fn calm(since: &mut Option<i64>, now: i64) -> bool {
    since.take_if(|since| now - *since >= CALM_SECONDS).is_some()
}

fn kills(pods: &[&Pod]) -> u32 {
    pods.iter().map(|pod| pod.oom_kills).fold(0, u32::saturating_add)
}

fn step(amount: f64, step: u64) -> u64 {
    (amount as u64).div_ceil(step).saturating_mul(step)
}

/// Resources with these two amounts, inside the ranges; what is requested follows.
fn complete(policy: &VerticalPolicy, memory_limit_bytes: u64, cpu: u64) -> Resources {
    let written = &policy.written;
    let most = policy.memory_max_bytes.max(policy.memory_min_bytes);
    let limit = memory_limit_bytes.clamp(policy.memory_min_bytes, most);
    let request = share(limit, written.memory_request_bytes, written.memory_limit_bytes);
    let least = written.cpu_millicores();
    let cpu = cpu.clamp(least, policy.cpu_max_millicores.unwrap_or(least).max(least));
    let has_limit = written.cpu_limit_millicores.is_some();
    let cpu_request = match has_limit {
        true => share(cpu, written.cpu_request_millicores, least).max(1),
        false => cpu,
    };
    Resources {
        memory_request_bytes: match limit == written.memory_limit_bytes {
            true => request,
            false if request == limit => limit,
            false => (request - request % REQUEST_STEP_BYTES).max(REQUEST_STEP_BYTES).min(limit),
        },
        memory_limit_bytes: limit,
        cpu_request_millicores: cpu_request,
        cpu_limit_millicores: has_limit.then_some(cpu),
    }
}

impl VerticalPolicy {
    /// Resources with this memory limit and this much processor time (the limit, or what is
    /// requested where none is written), put inside the ranges; what is requested follows.
    #[must_use]
    pub fn resources(&self, memory_limit_bytes: u64, cpu_millicores: u64) -> Resources {
        complete(self, memory_limit_bytes, cpu_millicores)
    }
}

/// What is requested of a limit: as much of it as `request` is of `whole`. All of it stays all of
/// it, and less stays less: the class of service of a pod can't be changed in place.
fn share(limit: u64, request: u64, whole: u64) -> u64 {
    let part = u128::from(limit) * u128::from(request.min(whole)) / u128::from(whole.max(1));
    u64::try_from(part).unwrap_or(limit).min(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: Resources = Resources {
        memory_request_bytes: 256 << 20,
        memory_limit_bytes: 512 << 20,
        cpu_request_millicores: 500,
        cpu_limit_millicores: Some(1_000),
    };
    const POLICY: VerticalPolicy = VerticalPolicy {
        written: WRITTEN,
        memory_min_bytes: 512 << 20,
        memory_max_bytes: 2 << 30,
        cpu_max_millicores: Some(2_000),
    };

    fn pod(used_mib: u64, limit_mib: u64, busy: f64) -> Pod {
        Pod {
            memory_bytes: Some(used_mib << 20),
            memory_limit_bytes: Some(limit_mib << 20),
            busy: Some(busy),
            ..Pod::default()
        }
    }

    fn using(millicores: f64, limit: Option<u64>) -> Pod {
        Pod {
            cpu_millicores: Some(millicores),
            cpu_limit_millicores: limit,
            busy: limit.map(|limit| millicores / limit as f64),
            ..pod(300, 512, 0.0)
        }
    }

    /// Looks at one pod every ten seconds for so long; gives the resources at the end.
    fn play(
        policy: &VerticalPolicy,
        state: &mut VerticalState,
        seconds: std::ops::Range<i64>,
        waiting: bool,
        pod: impl Fn(&Resources) -> Pod,
    ) -> (Resources, Vec<VerticalReason>) {
        let mut reasons = Vec::new();
        for now in seconds.step_by(10) {
            let pod = pod(&state.resources.unwrap_or(policy.written));
            let (_, reason, next) = decide(policy, &[&pod], waiting, now, state);
            if reason != VerticalReason::Steady {
                reasons.push(reason);
            }
            *state = next;
        }
        (state.resources.unwrap(), reasons)
    }

    /// Scenario: memory in use comes near the limit, then a pod is ended for it. Guarantee: the
    /// limit grows at once each time and never past the range, and half of it is requested as
    /// written.
    #[test]
    fn memory_grows_before_and_after_it_runs_out() {
        let (first, _, state) =
            decide(&POLICY, &[&pod(100, 512, 0.1)], false, 0, &VerticalState::default());
        assert_eq!(first, WRITTEN);
        let (grown, reason, state) = decide(&POLICY, &[&pod(480, 512, 0.1)], false, 10, &state);
        assert_eq!(reason, VerticalReason::MemoryNearLimit);
        assert_eq!(grown.memory_limit_bytes, 640 << 20);
        assert_eq!(grown.memory_request_bytes, 320 << 20);
        let ended = Pod { oom_kills: 1, ..pod(100, 640, 0.1) };
        let (grown, reason, mut state) = decide(&POLICY, &[&ended], false, 20, &state);
        assert_eq!(reason, VerticalReason::OutOfMemory);
        assert_eq!(grown.memory_limit_bytes, 960 << 20);
        for kills in 2..20 {
            let ended = Pod { oom_kills: kills, ..pod(100, 2_048, 0.1) };
            let (resources, _, next) = decide(&POLICY, &[&ended], false, 20, &state);
            assert!(resources.memory_limit_bytes <= 2 << 30);
            state = next;
        }
        assert_eq!(state.resources.unwrap().memory_limit_bytes, 2 << 30);
    }

    /// Scenario: a pod is ended for its memory again and again while a growth decided before has
    /// not reached it. Guarantee: no further growth until it has.
    #[test]
    fn memory_grows_no_further_before_it_has_grown() {
        let low = VerticalState { resources: Some(WRITTEN), ..VerticalState::default() };
        let ended = |kills, limit| Pod { oom_kills: kills, ..pod(100, limit, 0.1) };
        let mut state = decide(&POLICY, &[&ended(1, 512)], false, 0, &low).2;
        for kills in 2..9 {
            state = decide(&POLICY, &[&ended(kills, 512)], false, 10, &state).2;
        }
        assert_eq!(state.resources.unwrap().memory_limit_bytes, 768 << 20);
        let (grown, _, _) = decide(&POLICY, &[&ended(9, 768)], false, 20, &state);
        assert_eq!(grown.memory_limit_bytes, 1_152 << 20);
    }

    /// Scenario: pods at their processor limit with and without messages waiting, and such that
    /// have not got what was decided. Guarantee: it grows only while messages wait, step by step as
    /// pods get it, and stops at the range's end; half of it is requested as written.
    #[test]
    fn processor_time_grows_only_while_messages_wait() {
        let state = || VerticalState { resources: Some(WRITTEN), ..VerticalState::default() };
        let full = |it: &Resources| {
            let limit = it.cpu_limit_millicores.unwrap();
            using(limit as f64, Some(limit))
        };
        let (calm, _) = play(&POLICY, &mut state(), 0..600, false, full);
        assert_eq!(calm, WRITTEN);
        let (grown, reasons) = play(&POLICY, &mut state(), 0..600, true, full);
        assert_eq!(
            (grown.cpu_limit_millicores, grown.cpu_request_millicores),
            (Some(2_000), 1_000)
        );
        assert_eq!(reasons, [VerticalReason::CpuAtLimit; 2]);
        let stuck = |_: &Resources| using(1_000.0, Some(1_000));
        let (grown, _) = play(&POLICY, &mut state(), 0..600, true, stuck);
        assert_eq!(grown.cpu_limit_millicores, Some(1_500));
    }

    /// Scenario: a grown pod uses little processor time for a day, but for one busy minute after
    /// five hours. Guarantee: it goes back after six hours of calm, in steps, to what is written.
    #[test]
    fn processor_time_goes_back_after_long_calm() {
        let grown = Resources { cpu_limit_millicores: Some(2_000), ..WRITTEN };
        let mut state = VerticalState { resources: Some(grown), ..VerticalState::default() };
        let idle = |it: &Resources| using(300.0, it.cpu_limit_millicores);
        let (_, reasons) = play(&POLICY, &mut state, 0..5 * 3_600, false, idle);
        assert_eq!(reasons, [VerticalReason::Bounds], "what is requested was put in proportion");
        play(&POLICY, &mut state, 18_000..18_060, false, |_| using(1_500.0, Some(2_000)));
        let (later, reasons) = play(&POLICY, &mut state, 18_060..18_060 + 5 * 3_600, false, idle);
        assert_eq!((later.cpu_limit_millicores, reasons), (Some(2_000), vec![]));
        let (end, reasons) = play(&POLICY, &mut state, 36_060..36_060 + 86_400, false, idle);
        assert_eq!(end.cpu_limit_millicores, Some(1_000));
        assert_eq!(reasons, [VerticalReason::CpuIdle]);
    }

    /// Scenario: pods without a processor limit use twice what is requested, for minutes and then
    /// for long. Guarantee: more is requested after ten minutes, by what they use, inside the
    /// range; no limit is ever set, and the pool's own growth isn't held for it.
    #[test]
    fn what_is_requested_follows_use_where_there_is_no_limit() {
        let written = Resources { cpu_limit_millicores: None, ..WRITTEN };
        let policy = VerticalPolicy { written, ..POLICY };
        let mut state = VerticalState { resources: Some(written), ..VerticalState::default() };
        let busy = |_: &Resources| using(990.0, None);
        let (early, _) = play(&policy, &mut state, 0..600, false, busy);
        assert_eq!(early.cpu_request_millicores, 500);
        let (later, reasons) = play(&policy, &mut state, 600..3_600, false, busy);
        assert_eq!((later.cpu_request_millicores, later.cpu_limit_millicores), (1_200, None));
        assert_eq!(reasons, [VerticalReason::CpuAboveRequest]);
        assert!(!state.cpu_grew_within(3_600));
        let (most, _) = play(&policy, &mut state, 3_600..9_000, false, |_| using(7_000.0, None));
        assert_eq!(most.cpu_request_millicores, 2_000);
    }

    /// Scenario: pods whose requests are their limits, and such where they differ, by any amounts.
    /// Guarantee: equal stays equal and less stays less, so a pod's class of service stays.
    #[test]
    fn a_pods_class_of_service_stays() {
        for (request, limit) in [(1u64, 7u64), (3, 7), (6, 7), (7, 7)] {
            let written = Resources {
                memory_request_bytes: request * (100 << 20),
                memory_limit_bytes: limit * (100 << 20),
                cpu_request_millicores: request * 111,
                cpu_limit_millicores: Some(limit * 111),
            };
            let policy = VerticalPolicy { written, memory_max_bytes: 1 << 40, ..POLICY };
            let policy = VerticalPolicy { cpu_max_millicores: Some(64_000), ..policy };
            for nth in 0..200u64 {
                let it = complete(&policy, nth * (67 << 20), nth * 37);
                let memory = it.memory_request_bytes == it.memory_limit_bytes;
                let cpu = Some(it.cpu_request_millicores) == it.cpu_limit_millicores;
                assert_eq!((memory, cpu), (request == limit, request == limit), "{it:?}");
                assert!(it.memory_request_bytes <= it.memory_limit_bytes, "{it:?}");
            }
            assert_eq!(complete(&policy, written.memory_limit_bytes, limit * 111), written);
        }
    }
}
