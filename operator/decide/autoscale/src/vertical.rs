//! Sizes memory and CPU time of one pod, from its use.
//!
//! Memory grows at once (in place, no rebalance) when the highest use comes near the limit or a pod
//! was OOM-killed. A CPU limit grows while pods reach it with messages waiting: that is tried
//! before more pods. Where pods have no such limit, the request follows the use. All of it shrinks
//! only after long calm, and nothing grows further before pods have the last decision. A request
//! keeps its written share of the limit, so that a pod's QoS class stays. Limits: inside the
//! policy's ranges.

use crate::observation::PodReport;
use crate::policy::VerticalPolicy;
use crate::resources::Resources;

/// Memory moves in steps of 64 MiB, so that small changes change nothing.
const MEMORY_STEP_BYTES: u64 = 64 << 20;
/// Requests are whole mebibytes, as people write them.
const REQUEST_STEP_BYTES: u64 = 1 << 20;
/// The limit is set to this multiple of the highest use: one more batch per worker, and the
/// allocator's retained pages.
const MEMORY_HEADROOM: f64 = 1.3;
/// Memory grows above this share of the limit.
const MEMORY_NEAR_SHARE: f64 = 0.85;
/// After an OOM kill the limit grows by half: the use observed before it is too low.
const OOM_GROWTH: f64 = 1.5;
/// Resources shrink after six calm hours: the daily peak is seldom further away than that on both
/// sides.
const CALM_SECONDS: i64 = 6 * 3600;
/// Below this share of the limit memory counts as idle.
const MEMORY_IDLE_SHARE: f64 = 0.5;
/// CPU time moves in steps of a twentieth of a core.
const CPU_STEP_MILLICORES: u64 = 50;
/// The share of the CPU limit at which a pod counts as full, and for how long before it grows.
const CPU_FULL: f64 = 0.95;
const CPU_FULL_SECONDS: i64 = 10;
/// The effect of more CPU time shows within this time; the pool does not grow before.
const CPU_GREW_SECONDS: i64 = 30;
/// Growth of the CPU limit in one step.
const CPU_GROWTH: f64 = 1.5;
/// How long use must exceed the request before the request grows: it slows no pod down while the
/// node has CPU time to spare.
const CPU_OVER_SECONDS: i64 = 600;
/// The request is then this multiple of the use.
const CPU_REQUEST_HEADROOM: f64 = 1.2;
/// Below this share CPU time counts as idle.
const CPU_IDLE_SHARE: f64 = 0.4;
/// It shrinks to this multiple of the use, and by half at most.
const CPU_HEADROOM: f64 = 1.5;
const CPU_SHRINK: f64 = 0.5;

/// Why resources are as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerticalReason {
    /// They suffice.
    Steady,
    /// The pool starts with them.
    Initial,
    /// The policy's range changed.
    Bounds,
    /// Memory in use came near the limit.
    MemoryNearLimit,
    /// A pod was OOM-killed.
    OutOfMemory,
    /// Most of the memory stayed unused for hours.
    MemoryIdle,
    /// Pods are at their CPU limit while messages wait.
    CpuAtLimit,
    /// Pods without a CPU limit use more than their request.
    CpuAboveRequest,
    /// Most of the CPU time stayed unused for hours.
    CpuIdle,
}

impl VerticalReason {
    /// All reasons, in the order of the reference.
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

    /// Returns the stable name.
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

/// The stored state of resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerticalState {
    /// The last decision.
    pub resources: Option<Resources>,
    /// OOM kills counted so far.
    pub oom_kills: u32,
    /// Since when memory has been idle without a break.
    pub idle_since: Option<i64>,
    /// Since when pods have been at their CPU limit, or above their request without one, without a
    /// break.
    pub cpu_full_since: Option<i64>,
    /// Since when CPU time has been idle without a break.
    pub cpu_idle_since: Option<i64>,
    /// When the CPU limit last grew.
    pub cpu_grew_at: Option<i64>,
}

impl VerticalState {
    /// Returns whether pods got more CPU time recently.
    pub(crate) fn cpu_grew_within(&self, now: i64) -> bool {
        self.cpu_grew_at.is_some_and(|at| (0..CPU_GREW_SECONDS).contains(&(now - at)))
    }
}

/// Decides the resources of one pod.
pub(crate) fn decide_resources(
    policy: &VerticalPolicy,
    pods: &[&PodReport],
    waiting: bool,
    now: i64,
    last: &VerticalState,
) -> (Resources, VerticalReason, VerticalState) {
    let mut state = *last;
    let Some(before) = last.resources else {
        let in_force = pods.iter().filter_map(|pod| pod.memory_limit_bytes).max();
        let limit = in_force.unwrap_or(policy.written.memory_limit_bytes);
        let resources = complete_resources(policy, limit, policy.written.cpu_millicores());
        state.resources = Some(resources);
        state.oom_kills = count_oom_kills(pods);
        return (resources, VerticalReason::Initial, state);
    };
    let from = complete_resources(policy, before.memory_limit_bytes, before.cpu_millicores());
    let (limit, memory_why) = decide_memory(&from, pods, now, &mut state);
    let (cpu, cpu_why) = decide_cpu(policy, &from, pods, waiting, now, &mut state);
    let resources = complete_resources(policy, limit, cpu);
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

/// Returns the memory limit and its reason.
fn decide_memory(
    from: &Resources,
    pods: &[&PodReport],
    now: i64,
    state: &mut VerticalState,
) -> (u64, VerticalReason) {
    let used = pods.iter().filter_map(|pod| pod.memory_bytes).max().unwrap_or(0) as f64;
    let decided = from.memory_limit_bytes;
    let limit = decided as f64;
    let idle = used > 0.0 && used < limit * MEMORY_IDLE_SHARE;
    state.idle_since = idle.then(|| state.idle_since.unwrap_or(now));
    // An OOM kill of a pod that had less than the decided limit says nothing about that limit.
    let in_force = pods.iter().filter_map(|pod| pod.memory_limit_bytes).all(|it| it >= decided);
    let ended = count_oom_kills(pods) > state.oom_kills;
    state.oom_kills = state.oom_kills.max(count_oom_kills(pods));
    if ended && in_force {
        return (round_up(limit * OOM_GROWTH, MEMORY_STEP_BYTES), VerticalReason::OutOfMemory);
    }
    if used > limit * MEMORY_NEAR_SHARE {
        let grown = round_up(used * MEMORY_HEADROOM, MEMORY_STEP_BYTES);
        return (grown, VerticalReason::MemoryNearLimit);
    }
    if take_calm_window(&mut state.idle_since, now) {
        let less = (used * MEMORY_HEADROOM).max(limit * MEMORY_IDLE_SHARE);
        return (round_up(less, MEMORY_STEP_BYTES), VerticalReason::MemoryIdle);
    }
    (decided, VerticalReason::Steady)
}

/// Returns the CPU limit, or the CPU request where pods have no limit, and its reason.
fn decide_cpu(
    policy: &VerticalPolicy,
    from: &Resources,
    pods: &[&PodReport],
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
        return (round_up(grown, CPU_STEP_MILLICORES), VerticalReason::CpuAboveRequest);
    }
    if take_calm_window(&mut state.cpu_idle_since, now) {
        let less = (used.unwrap_or(0.0) * CPU_HEADROOM).max(decided as f64 * CPU_SHRINK);
        return (round_up(less, CPU_STEP_MILLICORES), VerticalReason::CpuIdle);
    }
    (decided, VerticalReason::Steady)
}

/// Returns whether more than half of the pods use all of the decided limit. A pod that does not
/// have it yet doesn't count.
fn most_are_full(pods: &[&PodReport], decided: u64) -> bool {
    let full = |pod: &&&PodReport| {
        pod.busy.is_some_and(|busy| busy >= CPU_FULL)
            && pod.cpu_limit_millicores.is_none_or(|in_force| in_force >= decided)
    };
    pods.iter().filter(full).count() * 2 > pods.len()
}

/// Returns whether the calm window is over; if so, a new one starts.
fn take_calm_window(since: &mut Option<i64>, now: i64) -> bool {
    since.take_if(|since| now - *since >= CALM_SECONDS).is_some()
}

fn count_oom_kills(pods: &[&PodReport]) -> u32 {
    pods.iter().map(|pod| pod.oom_kills).fold(0, u32::saturating_add)
}

fn round_up(amount: f64, round_up: u64) -> u64 {
    (amount as u64).div_ceil(round_up).saturating_mul(round_up)
}

/// Returns resources with these two amounts, inside the ranges; the requests follow.
fn complete_resources(policy: &VerticalPolicy, memory_limit_bytes: u64, cpu: u64) -> Resources {
    let written = &policy.written;
    let most = policy.memory_max_bytes.max(policy.memory_min_bytes);
    let limit = memory_limit_bytes.clamp(policy.memory_min_bytes, most);
    let request = request_share(limit, written.memory_request_bytes, written.memory_limit_bytes);
    let least = written.cpu_millicores();
    let cpu = cpu.clamp(least, policy.cpu_max_millicores.unwrap_or(least).max(least));
    let has_limit = written.cpu_limit_millicores.is_some();
    let cpu_request = match has_limit {
        true => request_share(cpu, written.cpu_request_millicores, least).max(1),
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
    /// Returns resources with this memory limit and this CPU time (the limit, or the request where
    /// no limit is written), inside the ranges; the requests follow.
    #[must_use]
    pub fn resources_within(&self, memory_limit_bytes: u64, cpu_millicores: u64) -> Resources {
        complete_resources(self, memory_limit_bytes, cpu_millicores)
    }
}

/// Returns the request for a limit, with the ratio of `request` to `total`. A request equal to the
/// limit stays equal, and a lower one stays lower: a pod's QoS class can't be changed in place.
fn request_share(limit: u64, request: u64, total: u64) -> u64 {
    let part = u128::from(limit) * u128::from(request.min(total)) / u128::from(total.max(1));
    u64::try_from(part).unwrap_or(limit).min(limit)
}

#[cfg(test)]
mod tests;
