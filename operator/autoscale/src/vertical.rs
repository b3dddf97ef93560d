//! Memory and processor time of one pod: from what was used and what was not enough.
//!
//! Memory grows at once (in place, no rebalance) when the highest use comes near the limit or a pod
//! was ended for it; it shrinks only after long calm. Processor time grows while pods are at their
//! limit with messages waiting: that is tried before more pods. Limits: inside the policy's ranges.

use crate::observation::Pod;
use crate::policy::VerticalPolicy;

/// Memory moves in steps of 64 MiB, so that small changes change nothing.
const MEMORY_STEP_BYTES: u64 = 64 << 20;
/// The limit is kept this much above the highest use: a batch more per worker, and the allocator's
/// retained pages.
const MEMORY_HEADROOM: f64 = 1.3;
/// Requested is this much above the highest use.
const REQUEST_HEADROOM: f64 = 1.1;
/// Above this share of the limit memory grows.
const MEMORY_NEAR_SHARE: f64 = 0.85;
/// After an end for lack of memory the limit grows by half: the use seen before says too little.
const OOM_GROWTH: f64 = 1.5;
/// Memory shrinks after six calm hours: the daily peak is seldom further away twice.
const MEMORY_CALM_SECONDS: i64 = 6 * 3600;
/// Below this share of the limit memory counts as idle.
const MEMORY_IDLE_SHARE: f64 = 0.5;
/// Pods at their processor limit, and for how long, before it grows.
const CPU_FULL: f64 = 0.95;
const CPU_FULL_SECONDS: i64 = 10;
/// What more processor time brings shows within this time; the pool does not grow meanwhile.
const CPU_GREW_SECONDS: i64 = 30;
/// Growth of the processor limit in one step.
const CPU_GROWTH: f64 = 1.5;

/// Resources of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Memory requested, in bytes.
    pub memory_request_bytes: u64,
    /// Memory limit, in bytes.
    pub memory_limit_bytes: u64,
    /// Processor time requested, in thousandths of a core.
    pub cpu_request_millicores: u64,
    /// Processor time limit, in thousandths of a core, if there is one.
    pub cpu_limit_millicores: Option<u64>,
}

/// Why resources are as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerticalReason {
    /// They suffice.
    Steady,
    /// The pool starts with them.
    Initial,
    /// Memory in use came near the limit.
    MemoryNearLimit,
    /// A pod was ended for using more memory than its limit.
    OutOfMemory,
    /// Most of the memory stayed unused for hours.
    MemoryIdle,
    /// Pods are at their processor limit while messages wait.
    CpuAtLimit,
}

impl VerticalReason {
    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Steady => "Steady",
            Self::Initial => "Initial",
            Self::MemoryNearLimit => "MemoryNearLimit",
            Self::OutOfMemory => "OutOfMemory",
            Self::MemoryIdle => "MemoryIdle",
            Self::CpuAtLimit => "CpuAtLimit",
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
    /// Since when pods have been at their processor limit without a break.
    pub cpu_full_since: Option<i64>,
    /// When they last got more of it.
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
    let Some(mut resources) = last.resources.map(|it| clamp(it, policy)) else {
        let resources = initial(policy, pods);
        state.resources = Some(resources);
        state.oom_kills = kills(pods);
        return (resources, VerticalReason::Initial, state);
    };
    let used = pods.iter().filter_map(|pod| pod.memory_bytes).max().unwrap_or(0);
    let limit = resources.memory_limit_bytes as f64;
    let mut reason = VerticalReason::Steady;
    if kills(pods) > last.oom_kills {
        reason = VerticalReason::OutOfMemory;
        resources.memory_limit_bytes = step(limit * OOM_GROWTH);
    } else if used as f64 > limit * MEMORY_NEAR_SHARE {
        reason = VerticalReason::MemoryNearLimit;
        resources.memory_limit_bytes = step(used as f64 * MEMORY_HEADROOM);
    }
    state.oom_kills = kills(pods).max(last.oom_kills);
    let idle = used > 0 && (used as f64) < limit * MEMORY_IDLE_SHARE;
    state.idle_since = idle.then(|| last.idle_since.unwrap_or(now));
    if state.idle_since.is_some_and(|since| now - since >= MEMORY_CALM_SECONDS) {
        reason = VerticalReason::MemoryIdle;
        resources.memory_limit_bytes = step((used as f64 * MEMORY_HEADROOM).max(limit * 0.5));
        state.idle_since = None;
    }
    let request = step(used as f64 * REQUEST_HEADROOM);
    resources.memory_request_bytes = resources.memory_request_bytes.max(request);
    if let Some(grown) = more_cpu(policy, pods, waiting, now, &resources, &mut state) {
        resources = grown;
        reason = VerticalReason::CpuAtLimit;
    }
    let resources = clamp(resources, policy);
    let changed = state.resources.map(|it| clamp(it, policy)) != Some(resources);
    state.resources = Some(resources);
    (resources, if changed { reason } else { VerticalReason::Steady }, state)
}

fn initial(policy: &VerticalPolicy, pods: &[&Pod]) -> Resources {
    let limit = pods.iter().filter_map(|pod| pod.memory_limit_bytes).max();
    clamp(
        Resources {
            memory_request_bytes: policy.memory_min_bytes,
            memory_limit_bytes: limit.unwrap_or(policy.memory_max_bytes),
            cpu_request_millicores: policy.cpu_min_millicores,
            cpu_limit_millicores: policy.cpu_max_millicores,
        },
        policy,
    )
}

fn more_cpu(
    policy: &VerticalPolicy,
    pods: &[&Pod],
    waiting: bool,
    now: i64,
    resources: &Resources,
    state: &mut VerticalState,
) -> Option<Resources> {
    let (limit, most) = (resources.cpu_limit_millicores?, policy.cpu_max_millicores?);
    let full = pods.iter().filter(|pod| pod.busy.is_some_and(|busy| busy >= CPU_FULL)).count();
    let full = waiting && full * 2 > pods.len();
    state.cpu_full_since = full.then(|| state.cpu_full_since.unwrap_or(now));
    let long = state.cpu_full_since.is_some_and(|since| now - since >= CPU_FULL_SECONDS);
    (long && limit < most).then(|| {
        state.cpu_grew_at = Some(now);
        let grown = ((limit as f64 * CPU_GROWTH) as u64).min(most);
        Resources {
            cpu_limit_millicores: Some(grown),
            cpu_request_millicores: resources.cpu_request_millicores.max(grown / 2),
            ..*resources
        }
    })
}

fn kills(pods: &[&Pod]) -> u32 {
    pods.iter().map(|pod| pod.oom_kills).fold(0, u32::saturating_add)
}

fn step(bytes: f64) -> u64 {
    (bytes as u64).div_ceil(MEMORY_STEP_BYTES).saturating_mul(MEMORY_STEP_BYTES)
}

fn clamp(resources: Resources, policy: &VerticalPolicy) -> Resources {
    let most = policy.memory_max_bytes.max(policy.memory_min_bytes);
    let limit = resources.memory_limit_bytes.clamp(policy.memory_min_bytes, most);
    let cpu_limit = match (resources.cpu_limit_millicores, policy.cpu_max_millicores) {
        (Some(limit), Some(most)) => Some(limit.clamp(policy.cpu_min_millicores.min(most), most)),
        (_, most) => most,
    };
    let cpu_most = cpu_limit.unwrap_or(u64::MAX);
    Resources {
        memory_request_bytes: resources.memory_request_bytes.clamp(policy.memory_min_bytes, limit),
        memory_limit_bytes: limit,
        cpu_request_millicores: resources
            .cpu_request_millicores
            .clamp(policy.cpu_min_millicores.min(cpu_most), cpu_most),
        cpu_limit_millicores: cpu_limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: VerticalPolicy = VerticalPolicy {
        memory_min_bytes: 256 << 20,
        memory_max_bytes: 2 << 30,
        cpu_min_millicores: 500,
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

    /// Scenario: memory in use comes near the limit, then a pod is ended for it. Guarantee: the
    /// limit grows at once each time and never past the range.
    #[test]
    fn memory_grows_before_and_after_it_runs_out() {
        let (first, _, state) =
            decide(&POLICY, &[&pod(100, 512, 0.1)], false, 0, &VerticalState::default());
        assert_eq!(first.memory_limit_bytes, 512 << 20);
        let (grown, reason, state) = decide(&POLICY, &[&pod(480, 512, 0.1)], false, 10, &state);
        assert_eq!(reason, VerticalReason::MemoryNearLimit);
        assert_eq!(grown.memory_limit_bytes, 640 << 20);
        let ended = Pod { oom_kills: 1, ..pod(100, 640, 0.1) };
        let (grown, reason, mut state) = decide(&POLICY, &[&ended], false, 20, &state);
        assert_eq!(reason, VerticalReason::OutOfMemory);
        assert_eq!(grown.memory_limit_bytes, 960 << 20);
        for kills in 2..20 {
            let ended = Pod { oom_kills: kills, ..pod(100, 640, 0.1) };
            let (resources, _, next) = decide(&POLICY, &[&ended], false, 20, &state);
            assert!(resources.memory_limit_bytes <= 2 << 30);
            state = next;
        }
    }

    /// Scenario: pods at their processor limit with and without messages waiting. Guarantee: it
    /// grows only while messages wait, and stops at the range's end.
    #[test]
    fn processor_time_grows_only_while_messages_wait() {
        let low = Resources {
            memory_request_bytes: 0,
            memory_limit_bytes: 1 << 30,
            cpu_request_millicores: 500,
            cpu_limit_millicores: Some(1_000),
        };
        let state = VerticalState { resources: Some(low), ..VerticalState::default() };
        let run = |waiting: bool| {
            let mut state = state;
            for now in (0..600).step_by(10) {
                state = decide(&POLICY, &[&pod(300, 1_024, 1.0)], waiting, now, &state).2;
            }
            state.resources.unwrap().cpu_limit_millicores
        };
        assert_eq!(run(false), Some(1_000));
        assert_eq!(run(true), Some(2_000));
    }
}
