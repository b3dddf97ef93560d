//! Why a gateway pool has its size: the operator's last decision, its inputs, and their meaning.

use millrace_autoscale::ScalingReason;
use millrace_crds::v1alpha1::{GatewayPool, LagStatus, Scaling, SizingStatus};
use serde::Serialize;

use crate::facts::{Facts, Gap};

/// A pipeline's sizing decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SizingReport {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The GatewayPool.
    pub pool: String,
    /// Ready pods, of those wanted.
    pub pods: Option<String>,
    /// The age of the decision, in seconds.
    pub decided_seconds_ago: Option<i64>,
    /// The meaning of the reason.
    pub meaning: Option<&'static str>,
    /// Whether the reason holds a change back.
    pub holds: bool,
    /// The bounds.
    pub scaling: Scaling,
    /// The number in the spec, and who wrote it.
    pub fixed: Option<FixedReplicas>,
    /// The pool's lag.
    pub lag: Option<LagStatus>,
    /// The decision, from the status.
    pub decision: Option<SizingStatus>,
    /// Parts that could not be read.
    pub gaps: Vec<Gap>,
}

/// A written number of pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FixedReplicas {
    /// The number.
    pub replicas: u32,
    /// Its field manager.
    pub by: Option<String>,
    /// Whether that is the operator, which sizes by lag.
    pub by_operator: bool,
}

/// The field manager that the operator sizes with.
const SCALER: &str = "millrace-operator/scale";

/// Returns the sizing decision; `None` if no gateway pool could be read.
#[must_use]
pub fn sizing_report(facts: &Facts) -> Option<SizingReport> {
    let pool = facts.gateways.first()?;
    let status = pool.status.as_ref();
    let decision = status.and_then(|status| status.sizing.clone());
    let reason = decision.as_ref().and_then(|decision| ScalingReason::parse(&decision.reason));
    let ago = decision.as_ref().map(|it| facts.at_second - it.decided_at.0.as_second());
    Some(SizingReport {
        namespace: facts.namespace().to_owned(),
        name: facts.name().to_owned(),
        pool: pool.metadata.name.clone().unwrap_or_default(),
        pods: status.and_then(|status| status.pods.clone()),
        decided_seconds_ago: ago.map(|ago| ago.max(0)),
        meaning: reason.map(ScalingReason::meaning),
        holds: reason.is_some_and(|reason| reason.as_str().starts_with("Hold")),
        scaling: pool.spec.settings.scaling.clone(),
        fixed: fixed_replicas(pool),
        lag: status.and_then(|status| status.lag.clone()),
        decision,
        gaps: facts.gaps.clone(),
    })
}

fn fixed_replicas(pool: &GatewayPool) -> Option<FixedReplicas> {
    let replicas = pool.spec.settings.replicas?;
    let owner = pool.metadata.managed_fields.iter().flatten().find(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| !fields["f:spec"]["f:replicas"].is_null())
    });
    let by = owner.and_then(|entry| entry.manager.clone());
    let by_operator = by.as_deref() == Some(SCALER);
    Some(FixedReplicas { replicas, by, by_operator })
}

/// A decision on a timeline: the result and its inputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SizingDecision {
    /// The time, in seconds since 1970.
    pub at_second: i64,
    /// The chosen number of pods.
    pub replicas: i32,
    /// The number of pods without holds.
    pub proposed_replicas: i32,
    /// The reason, as a stable word.
    pub reason: String,
    /// Messages that arrive per second.
    pub arrival_per_second: Option<i64>,
    /// Messages per second needed.
    pub needed_per_second: Option<i64>,
    /// Messages per second that a pod can process.
    pub capacity_per_second: Option<i64>,
    /// Messages in the backlog.
    pub backlog_messages: Option<i64>,
    /// The age of the oldest message, in seconds.
    pub lag_seconds: Option<i64>,
    /// The fullest pod's memory.
    pub memory_percent: Option<i32>,
    /// The busiest pod's CPU use.
    pub cpu_percent: Option<i32>,
}

impl SizingDecision {
    /// Reads a decision from a status.
    #[must_use]
    pub fn from_status(decision: &SizingStatus, lag: Option<&LagStatus>) -> Self {
        let terms = decision.terms.as_ref();
        let signals = decision.signals.as_ref();
        Self {
            at_second: decision.decided_at.0.as_second(),
            replicas: decision.replicas,
            proposed_replicas: decision.proposed_replicas,
            reason: decision.reason.clone(),
            arrival_per_second: terms.map(|it| it.arrival_per_second),
            needed_per_second: terms.map(|it| it.needed_per_second),
            capacity_per_second: terms.map(|it| it.capacity_per_second),
            backlog_messages: terms.map(|it| it.backlog_messages),
            lag_seconds: lag.and_then(|lag| lag.seconds),
            memory_percent: signals.and_then(|it| it.memory_percent),
            cpu_percent: signals.and_then(|it| it.cpu_percent),
        }
    }
}
