//! What an edge pool's pods should run, what they run, and how the workload is written. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{CanarySettings, EdgePool, PendingChange, PendingStage};
use millrace_rollout::{LoadFigures, Member, RolloutVerdict, Unit};

use super::validate::Validated;
use crate::cache::absent::AbsentCount;
use crate::cache::baseline::Untried;
use crate::pool::names::PoolNames;
use crate::pool::rollout::attempt_key;
use crate::pool::secrets::{CurrentSecrets, SecretUses, with_secrets, without_secrets};
use crate::pool::status::cut_message;
use crate::pool::template::{self, BaselineTemplate};
use crate::pool::{member, preflight};
use crate::report::conditions::status_time;

/// The field for rollout commands, in messages.
const FIELD: &str = "spec.rolloutAction";

/// The unit that pods should run.
#[derive(Clone, Debug)]
pub(super) struct DesiredUnit {
    pub(super) image: String,
    pub(super) config_map: String,
    /// Distinguishes the change from any other that might fix a refused change.
    key: String,
    /// The Secrets that the unit needs, and their digest.
    pub(super) secrets: (SecretUses, Option<String>),
}

impl DesiredUnit {
    /// Returns what a spec requests.
    pub(super) fn from_validated(validated: &Validated<'_>) -> Self {
        let Validated { pool, draft, secrets_digest } = validated;
        let key = attempt_key(&draft.image, &draft.config_map, &pool.spec.settings.resources);
        let secrets = (draft.secrets.clone(), secrets_digest.clone());
        let (image, config_map) = (draft.image.clone(), draft.config_map.clone());
        Self { image, config_map, key, secrets }
    }

    /// Returns whether a status is about this change. Rotated Secrets don't make it another change,
    /// except after a refusal by a trial pod: they may fix it, and no pod of the pool runs it.
    pub(super) fn is_reported_by(&self, reported: &PendingChange) -> bool {
        let (key, secrets) = without_secrets(&reported.digest);
        let is_mended =
            reported.stage == PendingStage::Rejected && secrets != self.secrets.1.as_deref();
        key == self.key && !is_mended
    }

    /// Returns whether this template is the desired one.
    pub(super) fn is_run_by(&self, template: &PodTemplateSpec) -> bool {
        template::template_runs(template) == Some((&self.image, &self.config_map))
    }

    /// Returns whether this pod runs the desired unit.
    pub(super) fn is_run_by_pod(&self, pod: &Pod) -> bool {
        template::pod_runs(pod) == Some((&self.image, &self.config_map))
    }

    /// Returns what pods should run, for the rule of rollouts.
    pub(super) fn to_unit(&self) -> Unit {
        unit_of(&self.image, &self.config_map)
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn to_text(&self) -> String {
        format!("{} with {}", self.image, self.config_map)
    }

    /// Returns whether this workload needs more than a write of the desired template.
    pub(super) fn matters_to(&self, live: &Live) -> bool {
        live.baseline.is_some() || !self.is_run_by(&live.template)
    }

    pub(super) fn trial_name(&self, names: &PoolNames) -> String {
        preflight::trial_name(names, &self.image, &self.config_map)
    }

    pub(super) fn rolling_out_change(&self, now: Timestamp) -> PendingChange {
        let message = format!("pods get {}", self.to_text());
        let why = (Reason::RolloutStarted.as_str(), message);
        self.pending_change(PendingStage::RollingOut, status_time(now), why)
    }

    /// Begins the rollout: on a few nodes first, if the pool declares canaries.
    pub(super) fn start_rollout(
        &self,
        observed: &ChangeObservation<'_>,
        before: BaselineTemplate,
    ) -> (WriteMode, PendingChange) {
        if canary_settings(observed).is_none() {
            return (WriteMode::WithBaseline(before), self.rolling_out_change(observed.now));
        }
        let message = format!("the first nodes get {}", self.to_text());
        let why = (Reason::RolloutStarted.as_str(), message);
        (
            WriteMode::Paused(before),
            self.pending_change(PendingStage::Canary, status_time(observed.now), why),
        )
    }

    pub(super) fn aborted_change(&self, now: Timestamp) -> PendingChange {
        let why = (Reason::RolloutAborted.as_str(), format!("rolled back by {FIELD}"));
        self.pending_change(PendingStage::RolledBack, status_time(now), why)
    }

    pub(super) fn paused_change(&self, stage: PendingStage, since: Time) -> PendingChange {
        let why = (Reason::RolloutPaused.as_str(), format!("paused by {FIELD}"));
        self.pending_change(stage, since, why)
    }

    pub(super) fn pending_change(
        &self,
        stage: PendingStage,
        since: Time,
        why: (&str, String),
    ) -> PendingChange {
        let Self { image, config_map, key, secrets } = self.clone();
        let digest = with_secrets(&key, secrets.1.as_deref());
        let (reason, message) = (why.0.to_owned(), cut_message(why.1));
        PendingChange { stage, since, reason, message, image, config_map, digest }
    }
}

/// The parts of the live workload that a change needs.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) template: PodTemplateSpec,
    /// The stored rollback template.
    pub(super) baseline: Option<BaselineTemplate>,
    /// The present Secrets of both templates.
    pub(super) current: CurrentSecrets,
    pub(super) verdict: RolloutVerdict,
    /// The number of pods that the workload should have.
    pub(super) desired: u32,
}

impl Live {
    /// Returns the rollback target with the present Secrets: the stored template, else the running
    /// one.
    pub(super) fn rollback_target(&self) -> Option<BaselineTemplate> {
        let baseline = self.baseline.as_ref();
        let mut template = baseline.map_or(&self.template, |baseline| &baseline.template).clone();
        let is_old = self.current.renew_digest(&mut template);
        let text = baseline.filter(|_| !is_old).map(|baseline| baseline.text.clone());
        let text = text.or_else(|| serde_json::to_string(&template).ok())?;
        Some(BaselineTemplate { text, template })
    }

    /// Returns whether pods are getting a change, and the template of before is stored.
    pub(super) fn is_changing(&self) -> bool {
        let before = self.baseline.as_ref().map(|it| template::template_runs(&it.template));
        before.is_some_and(|before| before != template::template_runs(&self.template))
    }

    /// Returns whether pods have outdated Secrets.
    pub(super) fn is_behind(&self) -> bool {
        self.current.renew_digest(&mut self.template.clone())
    }
}

/// How the workload is written.
#[derive(Clone, Debug)]
pub(super) enum WriteMode {
    /// Writes the desired template.
    Desired,
    /// Writes the desired template and stores the previous one.
    WithBaseline(BaselineTemplate),
    /// Like `WithBaseline`, but replaces no further pods.
    Paused(BaselineTemplate),
    /// Writes this template, which is the live one, and stores the previous one; replaces no
    /// further pods.
    Stopped(Box<PodTemplateSpec>, BaselineTemplate),
    /// Writes and stores the previous template; other fields as desired.
    Baseline(BaselineTemplate),
    /// Writes nothing yet.
    Deferred,
}

/// The observation of a pool with a change.
pub(super) struct ChangeObservation<'a> {
    pub(super) pool: &'a EdgePool,
    pub(super) names: &'a PoolNames,
    /// The desired template.
    pub(super) desired: &'a PodTemplateSpec,
    /// `None` if there is no workload.
    pub(super) live: Option<Live>,
    /// The pool's pods; only needed during a rollout.
    pub(super) pods: &'a [Pod],
    /// Pods that existed since the change began and aren't recreated.
    pub(super) lost: Option<AbsentCount>,
    /// The load of each pod during the analysis, and of all before; only needed while the first
    /// nodes are compared.
    pub(super) loads: (Vec<(String, LoadFigures)>, Vec<LoadFigures>),
    /// The trial pods.
    pub(super) tries: &'a [Pod],
    /// The trial pod that can't be created.
    pub(super) untried: Option<Untried>,
    pub(super) now: Timestamp,
}

/// Returns how the pool tries changes on a few nodes first, if it does.
pub(super) fn canary_settings<'a>(
    observed: &'a ChangeObservation<'_>,
) -> Option<&'a CanarySettings> {
    observed.pool.spec.rollout.canary.as_ref()
}

/// Returns one of the absent pods, whose time starts at `began` at the earliest.
pub(super) fn missing_member(absent: AbsentCount, began: i64, now: Timestamp) -> Member {
    let name = match absent.pods {
        1 => "of one node".to_owned(),
        pods => format!("of each of {pods} nodes"),
    };
    member::missing_member(&name, absent.since.max(began), now)
}

pub(super) fn unit_of(image: &str, config: &str) -> Unit {
    Unit { image: image.to_owned(), config: config.to_owned(), ..Unit::default() }
}

/// Returns whether the status reports that the change is paused.
pub(super) fn is_paused(reported: &PendingChange) -> bool {
    reported.reason == Reason::RolloutPaused.as_str()
}
