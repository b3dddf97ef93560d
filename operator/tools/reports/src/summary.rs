//! A pipeline in one line, from its own status only: for lists.

use millrace_crds::v1alpha1::TelemetryPipeline;
use millrace_crds::{Condition, ConditionStatus, ConditionType, find_condition};
use serde::Serialize;

/// Whether a pipeline is Ready, by a status of its newest spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ReadyState {
    /// It is not Ready.
    NotReady,
    /// The newest spec has no status yet.
    Unknown,
    /// It is Ready.
    Ready,
}

/// A pipeline in one line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether it is Ready.
    pub verdict: ReadyState,
    /// Ready's reason.
    pub reason: String,
    /// Ready's message.
    pub message: String,
    /// Whether records are lost or became dead letters, unacknowledged.
    pub loses: bool,
    /// Ready pods of wanted ones.
    pub pods: Option<String>,
    /// The age of the oldest message not committed, in seconds.
    pub lag_seconds: Option<i64>,
    /// The bound of the lag.
    pub lag_bound_seconds: Option<i64>,
    /// Its signals.
    pub signals: Vec<&'static str>,
}

impl Summary {
    /// Returns whether the pipeline needs attention.
    #[must_use]
    pub fn is_troubled(&self) -> bool {
        self.verdict != ReadyState::Ready || self.loses
    }
}

/// Conditions that report lost records or dead letters.
const LOSSES: [ConditionType; 3] =
    [ConditionType::DataLost, ConditionType::LogsLost, ConditionType::DeadLettersPresent];

/// Summarizes a pipeline.
#[must_use]
pub fn summarize_pipeline(pipeline: &TelemetryPipeline) -> Summary {
    let meta = &pipeline.metadata;
    let status = pipeline.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let ready = current_ready(conditions, meta.generation);
    let lag = status.and_then(|status| status.lag.as_ref());
    let is_lost = |type_: ConditionType| {
        find_condition(conditions, type_).is_some_and(|it| it.status == ConditionStatus::True)
    };
    Summary {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        verdict: ready.map_or(ReadyState::Unknown, |it| match it.status {
            ConditionStatus::True => ReadyState::Ready,
            ConditionStatus::False => ReadyState::NotReady,
            ConditionStatus::Unknown => ReadyState::Unknown,
        }),
        reason: ready.map_or("NotObserved".to_owned(), |it| it.reason.clone()),
        message: ready.map_or_else(String::new, |it| it.message.clone()),
        loses: LOSSES.into_iter().any(is_lost),
        pods: status.and_then(|status| status.pods.clone()),
        lag_seconds: lag.and_then(|lag| lag.seconds),
        lag_bound_seconds: lag.map(|lag| lag.bound_seconds),
        signals: pipeline.spec.signals.iter().map(|(signal, _)| signal.as_str()).collect(),
    }
}

/// Returns the condition `Ready`, if it is about the newest spec.
pub(crate) fn current_ready(
    conditions: &[Condition],
    generation: Option<i64>,
) -> Option<&Condition> {
    find_condition(conditions, ConditionType::Ready)
        .filter(|it| Some(it.observed_generation) == generation)
}
