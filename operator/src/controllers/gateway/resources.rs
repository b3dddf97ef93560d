//! Converts memory and CPU of one pod between spec, rule and status. Pure.
//!
//! The status stores decisions, so that a restarted operator continues from them. Limits: without
//! figures from pods nothing is decided, and the last decision remains.

use millrace_autoscale as rule;
use millrace_autoscale::{Resources, VerticalPolicy, VerticalReason, VerticalState};
use millrace_crds::v1alpha1::{GatewayPool, SizingStatus};

use super::observed::Observed;
use crate::ownership::compare::parse_quantity_millis;
use crate::pool::template::{self, cpu_text, memory_text};

/// The age at which a pod's figures count as missing: six samples, as in the rule.
pub(super) const STALE_SECONDS: i64 = 60;

/// Returns whether memory or CPU may change.
pub(super) fn may_move(pool: &GatewayPool) -> bool {
    let most = &pool.spec.settings.scaling.max_resources;
    most.memory.is_some() || most.cpu.is_some()
}

/// Returns the spec's resources, with which pods start.
pub(super) fn declared_resources(pool: &GatewayPool) -> Resources {
    template::declared_resources(&pool.spec.settings.resources)
}

/// Returns the ranges from the starting amounts to their maximum; `None` if no range is set.
pub(super) fn resource_range(pool: &GatewayPool) -> Option<VerticalPolicy> {
    let most = &pool.spec.settings.scaling.max_resources;
    let written = declared_resources(pool);
    let memory = most.memory.as_ref().map(|most| most.bytes());
    may_move(pool).then(|| VerticalPolicy {
        written,
        memory_min_bytes: written.memory_limit_bytes,
        memory_max_bytes: memory.unwrap_or(written.memory_limit_bytes),
        cpu_max_millicores: most.cpu.as_ref().map(|most| most.millicores()),
    })
}

/// Returns the range to decide in; `None` while no pod reports figures.
pub(super) fn vertical_policy(pool: &GatewayPool, observed: &Observed) -> Option<VerticalPolicy> {
    let now = observed.now.as_second();
    let has_figures =
        observed.memory.pods.pods.iter().any(|pod| pod.if_fresh(now, STALE_SECONDS).is_some());
    resource_range(pool).filter(|_| has_figures)
}

/// Returns the status's decision; the rule moves missing or outside values into its ranges.
pub(super) fn restore_state(before: &SizingStatus) -> VerticalState {
    let memory = before.memory_limit.as_deref().and_then(parse_bytes);
    let cpu_limit = before.cpu_limit.as_deref().and_then(parse_millicores);
    let cpu_request = before.cpu_request.as_deref().and_then(parse_millicores);
    let is_known = memory.is_some() || cpu_request.is_some();
    let resources = is_known.then(|| Resources {
        memory_request_bytes: before.memory_request.as_deref().and_then(parse_bytes).unwrap_or(0),
        memory_limit_bytes: memory.unwrap_or(0),
        cpu_request_millicores: cpu_request.unwrap_or(0),
        cpu_limit_millicores: cpu_limit,
    });
    VerticalState { resources, ..VerticalState::default() }
}

/// Writes the decision, also while pods are silent; omits amounts that don't change.
pub(super) fn report_resources(
    sizing: &mut SizingStatus,
    before: Option<&SizingStatus>,
    pool: &GatewayPool,
    decision: &rule::Decision,
) {
    let Some(decided) = decision.state.memory.vertical.resources else { return };
    let most = &pool.spec.settings.scaling.max_resources;
    if most.memory.is_some() {
        sizing.memory_limit = Some(memory_text(decided.memory_limit_bytes));
        sizing.memory_request = Some(memory_text(decided.memory_request_bytes));
    }
    if most.cpu.is_some() {
        sizing.cpu_limit = decided.cpu_limit_millicores.map(cpu_text);
        sizing.cpu_request = Some(cpu_text(decided.cpu_request_millicores));
    }
    let why = decision.resources.map(|(_, why)| why).filter(|why| *why != VerticalReason::Steady);
    let why = why.filter(|_| may_move(pool)).map(|why| why.as_str().to_owned());
    let reported_reason = || before.and_then(|before| before.resources_reason.clone());
    sizing.resources_reason = why.or_else(reported_reason).filter(|_| may_move(pool));
}

/// Returns whether two decisions request the same resources.
pub(super) fn has_same_resources(before: &SizingStatus, now: &SizingStatus) -> bool {
    let desired = |it: &SizingStatus| {
        let (memory, cpu) = (&it.memory_limit, &it.cpu_limit);
        [memory, &it.memory_request, cpu, &it.cpu_request].map(Clone::clone)
    };
    desired(before) == desired(now)
}

/// Returns the latest change as message text.
pub(super) fn change_text(decision: &rule::Decision) -> String {
    let changed = decision.resources.filter(|(_, why)| *why != VerticalReason::Steady);
    let Some((it, why)) = changed else { return String::new() };
    format!("; {} a pod: {}", amounts_text(&it), why.as_str())
}

/// Returns the changeable amounts as message text.
pub(super) fn amounts_text(it: &Resources) -> String {
    let cpu = cpu_text(it.cpu_millicores());
    let cores = if it.cpu_limit_millicores.is_some() { "cores" } else { "cores requested" };
    format!("memory {} and {cpu} {cores}", memory_text(it.memory_limit_bytes))
}

pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    u64::try_from(parse_quantity_millis(text)? / 1_000).ok()
}

/// Parses CPU from a status, in thousandths of a core.
pub(super) fn parse_millicores(text: &str) -> Option<u64> {
    u64::try_from(parse_quantity_millis(text)?).ok()
}
