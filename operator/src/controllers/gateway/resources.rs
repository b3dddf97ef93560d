//! Memory and CPU of one pod, between spec, rule and status. Pure.
//!
//! Decisions are kept in the status, so that a restarted operator continues from them. Limits:
//! without figures from pods nothing is decided, and the last decision stays.

use millrace_autoscale as rule;
use millrace_autoscale::{Resources, VerticalPolicy, VerticalReason, VerticalState};
use millrace_crds::v1alpha1::{GatewayPool, SizingStatus};

use super::size::STALE_SECONDS;
use super::validate::Observed;
use crate::ownership::compare::quantity;
use crate::pool::template::{self, cpu_text, memory_text};

/// Whether either may move.
pub(super) fn may_move(pool: &GatewayPool) -> bool {
    let scaling = &pool.spec.settings.scaling;
    scaling.memory_max.is_some() || scaling.cpu_max.is_some()
}

/// What the spec writes: where pods start.
pub(super) fn written(pool: &GatewayPool) -> Resources {
    template::written(&pool.spec.settings.resources)
}

/// From the starting amounts to the ends of the ranges; nothing if no range is set.
pub(super) fn range(pool: &GatewayPool) -> Option<VerticalPolicy> {
    let scaling = &pool.spec.settings.scaling;
    let written = written(pool);
    let memory = scaling.memory_max.as_ref().map(|most| most.bytes());
    may_move(pool).then(|| VerticalPolicy {
        written,
        memory_min_bytes: written.memory_limit_bytes,
        memory_max_bytes: memory.unwrap_or(written.memory_limit_bytes),
        cpu_max_millicores: scaling.cpu_max.as_ref().map(|most| most.millicores()),
    })
}

/// The range to decide in. Nothing while no pod reports figures.
pub(super) fn policy(pool: &GatewayPool, observed: &Observed) -> Option<VerticalPolicy> {
    let now = observed.now.as_second();
    let told = observed.kept.pods.pods.iter().any(|pod| pod.fresh(now, STALE_SECONDS).is_some());
    range(pool).filter(|_| told)
}

/// The status's decision; the rule moves missing or outside values into its ranges.
pub(super) fn remembered(before: &SizingStatus) -> VerticalState {
    let memory = before.memory_limit.as_deref().and_then(bytes);
    let cpu_limit = before.cpu_limit.as_deref().and_then(millicores);
    let cpu_request = before.cpu_request.as_deref().and_then(millicores);
    let is_known = memory.is_some() || cpu_request.is_some();
    let resources = is_known.then(|| Resources {
        memory_request_bytes: before.memory_request.as_deref().and_then(bytes).unwrap_or(0),
        memory_limit_bytes: memory.unwrap_or(0),
        cpu_request_millicores: cpu_request.unwrap_or(0),
        cpu_limit_millicores: cpu_limit,
    });
    VerticalState { resources, ..VerticalState::default() }
}

/// The decision, also while pods are silent; nothing for amounts that don't move.
pub(super) fn tell(
    sizing: &mut SizingStatus,
    before: Option<&SizingStatus>,
    pool: &GatewayPool,
    decision: &rule::Decision,
) {
    let Some(decided) = decision.state.memory.vertical.resources else { return };
    put(sizing, pool, &decided);
    let why = decision.resources.map(|(_, why)| why).filter(|why| *why != VerticalReason::Steady);
    let why = why.filter(|_| may_move(pool)).map(|why| why.as_str().to_owned());
    let told = || before.and_then(|before| before.resources_reason.clone());
    sizing.resources_reason = why.or_else(told).filter(|_| may_move(pool));
}

/// Writes each pod's resources, as far as they may move.
pub(super) fn put(sizing: &mut SizingStatus, pool: &GatewayPool, decided: &Resources) {
    let scaling = &pool.spec.settings.scaling;
    if scaling.memory_max.is_some() {
        sizing.memory_limit = Some(memory_text(decided.memory_limit_bytes));
        sizing.memory_request = Some(memory_text(decided.memory_request_bytes));
    }
    if scaling.cpu_max.is_some() {
        sizing.cpu_limit = decided.cpu_limit_millicores.map(cpu_text);
        sizing.cpu_request = Some(cpu_text(decided.cpu_request_millicores));
    }
}

/// Whether two decisions ask the same of the pods.
pub(super) fn same(before: &SizingStatus, now: &SizingStatus) -> bool {
    let asked = |it: &SizingStatus| {
        let (memory, cpu) = (&it.memory_limit, &it.cpu_limit);
        [memory, &it.memory_request, cpu, &it.cpu_request].map(Clone::clone)
    };
    asked(before) == asked(now)
}

/// What changed just now, as message text.
pub(super) fn text(decision: &rule::Decision) -> String {
    let changed = decision.resources.filter(|(_, why)| *why != VerticalReason::Steady);
    let Some((it, why)) = changed else { return String::new() };
    format!("; {} a pod: {}", amounts(&it), why.as_str())
}

/// The amounts that move, as message text.
pub(super) fn amounts(it: &Resources) -> String {
    let cpu = cpu_text(it.cpu_millicores());
    let cores = if it.cpu_limit_millicores.is_some() { "cores" } else { "cores requested" };
    format!("memory {} and {cpu} {cores}", memory_text(it.memory_limit_bytes))
}

/// Memory as written in a status.
pub(super) fn bytes(text: &str) -> Option<u64> {
    u64::try_from(quantity(text)? / 1_000).ok()
}

/// CPU as written in a status, in thousandths of a core.
pub(super) fn millicores(text: &str) -> Option<u64> {
    u64::try_from(quantity(text)?).ok()
}
