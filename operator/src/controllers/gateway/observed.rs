//! What is known of a gateway pool when its next step is decided.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use millrace_crds::Reason;
use millrace_rollout::WorkloadObservation;

use crate::cache::baseline::Baseline;
use crate::cache::sizing::Sizing;
use crate::controllers::schema::PoolTables;
use crate::error::StepError;
use crate::kafka::lag_cache::{LagObservation, LagQuery};
use crate::pool::draft::PoolDraft;
use crate::pool::secrets::{CurrentSecrets, SecretsObservation};
use crate::pool::workload;

/// A draft, and its observation.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) draft: PoolDraft,
    pub(super) secrets: SecretsObservation,
    /// The present Secrets, for the StatefulSet's template and its stored rollback template.
    pub(super) current: CurrentSecrets,
    pub(super) live: Option<StatefulSet>,
    pub(super) lag_query: LagQuery,
    pub(super) lag: Result<LagObservation, StepError>,
    /// The observations for the pool's rollout.
    pub(super) watched: RolloutInputs,
    /// Whether the pool's tables are being migrated.
    pub(super) migrates: bool,
    /// The pool's sizing data, including the newest lag sample.
    pub(super) memory: Sizing,
    pub(super) now: Timestamp,
}

impl Observed {
    pub(super) fn workload_figures(&self) -> Option<WorkloadObservation> {
        self.live.as_ref().map(workload::observe_stateful_set)
    }

    /// Returns whether this process has yet to hear of the lag. That proves nothing about the
    /// broker.
    pub(super) fn awaits_lag(&self) -> bool {
        is_awaited(&self.lag)
    }
}

/// Returns whether the first answer about the lag is yet to come.
pub(super) fn is_awaited(lag: &Result<LagObservation, StepError>) -> bool {
    lag.as_ref().is_err_and(|error| error.reason == Reason::LagUnknown)
}

/// The additional observations for a rollout; empty while none runs.
#[derive(Clone, Debug, Default)]
pub(super) struct RolloutInputs {
    pub(super) pods: Vec<Pod>,
    /// The pool's tables; `None` unless a change is about to begin.
    pub(super) tables: Option<PoolTables>,
    /// Trial pods; empty unless a change is about to begin.
    pub(super) tries: Vec<Pod>,
    /// The load of the pool's pods so far.
    pub(super) baseline: Baseline,
}
