//! Why a gateway pool has its size: the operator's last decision, its inputs, and what they mean.

use millrace_autoscale::Reason;
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
    /// Pods that are ready, of those wanted.
    pub pods: Option<String>,
    /// How long ago it was decided, in seconds.
    pub decided_seconds_ago: Option<i64>,
    /// What the reason means.
    pub meaning: Option<&'static str>,
    /// Whether the reason holds a change back.
    pub holds: bool,
    /// The bounds.
    pub scaling: Scaling,
    /// A number that is written into the spec, and by whom.
    pub fixed: Option<Fixed>,
    /// How far the pool is behind.
    pub lag: Option<LagStatus>,
    /// The decision, as the status has it.
    pub decision: Option<SizingStatus>,
    /// What could not be read.
    pub gaps: Vec<Gap>,
}

/// A written number of pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fixed {
    /// The number.
    pub replicas: u32,
    /// Who wrote it, by managed fields.
    pub by: Option<String>,
    /// Whether that is the operator, which sizes by lag.
    pub by_operator: bool,
}

/// The field manager that the operator sizes with.
const SCALER: &str = "millrace-operator/scale";

/// The sizing decision; none if there is no gateway pool to read.
#[must_use]
pub fn sizing(facts: &Facts) -> Option<SizingReport> {
    let pool = facts.gateways.first()?;
    let status = pool.status.as_ref();
    let decision = status.and_then(|status| status.sizing.clone());
    let reason = decision.as_ref().and_then(|decision| Reason::parse(&decision.reason));
    let ago = decision.as_ref().map(|it| facts.at_second - it.decided_at.0.as_second());
    Some(SizingReport {
        namespace: facts.namespace().to_owned(),
        name: facts.name().to_owned(),
        pool: pool.metadata.name.clone().unwrap_or_default(),
        pods: status.and_then(|status| status.pods.clone()),
        decided_seconds_ago: ago.map(|ago| ago.max(0)),
        meaning: reason.map(Reason::meaning),
        holds: reason.is_some_and(|reason| reason.as_str().starts_with("Hold")),
        scaling: pool.spec.settings.scaling.clone(),
        fixed: fixed(pool),
        lag: status.and_then(|status| status.lag.clone()),
        decision,
        gaps: facts.gaps.clone(),
    })
}

fn fixed(pool: &GatewayPool) -> Option<Fixed> {
    let replicas = pool.spec.settings.replicas?;
    let owner = pool.metadata.managed_fields.iter().flatten().find(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| !fields["f:spec"]["f:replicas"].is_null())
    });
    let by = owner.and_then(|entry| entry.manager.clone());
    let by_operator = by.as_deref() == Some(SCALER);
    Some(Fixed { replicas, by, by_operator })
}

/// A decision as a time line keeps it: what was decided, and from what.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// When, in seconds since 1970.
    pub at_second: i64,
    /// Pods decided on.
    pub replicas: i32,
    /// Pods without what holds a change back.
    pub wanted: i32,
    /// Why, as a stable word.
    pub reason: String,
    /// Messages that arrive per second.
    pub arrival_per_second: Option<i64>,
    /// Messages per second that were needed.
    pub needed_per_second: Option<i64>,
    /// Messages per second that a pod does.
    pub capacity_per_second: Option<i64>,
    /// Messages that waited.
    pub backlog_messages: Option<i64>,
    /// The age of the oldest of them, in seconds.
    pub lag_seconds: Option<i64>,
    /// The fullest pod's memory.
    pub memory_percent: Option<i32>,
    /// The busiest pod's processor time.
    pub cpu_percent: Option<i32>,
}

impl Decided {
    /// What a status says of a decision.
    #[must_use]
    pub fn of(decision: &SizingStatus, lag: Option<&LagStatus>) -> Self {
        let terms = decision.terms.as_ref();
        let signals = decision.signals.as_ref();
        Self {
            at_second: decision.decided_at.0.as_second(),
            replicas: decision.replicas,
            wanted: decision.wanted,
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
