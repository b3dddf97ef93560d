//! Writes an edge pool's workload; `change` decides about a changed image or configuration.
//!
//! It decides nothing itself, and a converged pool without a change costs no read.

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::ResourceExt;
use kube::api::{DeleteParams, Preconditions};
use millrace_crds::v1alpha1::{EdgeMode, EdgePool, PendingChange, PendingStage};
use millrace_rollout::{LoadFigures, WorkloadObservation, assess_rollout};

use super::canary::PodToReplace;
use super::change::{self, ChangeDecision, decide_change};
use super::unit::{self, ChangeObservation, DesiredUnit, Live, WriteMode, missing_member};
use crate::cache::absent::AbsentCount;
use crate::cache::baseline;
use crate::cluster::{ChildChange, Children, WorkloadComparison, delete_object, is_paused};
use crate::context::Context;
use crate::error::StepError;
use crate::pool::names::PoolNames;
use crate::pool::secrets::{CurrentSecrets, SecretUses};
use crate::pool::template::{self, BASELINE_ANNOTATION};
use crate::pool::workload::EdgeWorkload;
use crate::pool::{observe, preflight, trial_pods};

/// Writes the workload of one pool.
pub(super) struct Gate<'a> {
    pub(super) context: &'a Context,
    pub(super) pool: &'a EdgePool,
    pub(super) names: &'a PoolNames,
    pub(super) desired: &'a DesiredUnit,
    pub(super) children: &'a Children<'a>,
}

/// The result of writing the workload.
pub(super) struct GateOutcome {
    pub(super) observation: WorkloadObservation,
    pub(super) change: ChildChange,
    /// A change that not all pods have.
    pub(super) pending: Option<PendingChange>,
    /// The pool's pods, if they were read.
    pub(super) pods: Option<Vec<Pod>>,
}

impl Gate<'_> {
    /// Writes the workload if it differs, unless it must wait.
    pub(super) async fn apply_workload<K: EdgeWorkload>(
        &self,
        desired: K,
    ) -> Result<GateOutcome, StepError> {
        let reported = change::reported_change(self.pool);
        if is_paused(self.pool) {
            let (observation, change) =
                self.children.apply_workload(desired, K::observe_workload).await?;
            return Ok(GateOutcome { observation, change, pending: reported.cloned(), pods: None });
        }
        let live = match reported {
            Some(_) => self.children.read_live(&desired).await?,
            None => match self.children.compare_workload(desired.clone()).await? {
                WorkloadComparison::AsDesired(observation) => {
                    return Ok(GateOutcome::converged(observation, ChildChange::None));
                }
                WorkloadComparison::Differs { replaced } => replaced,
            },
        };
        let found = live.as_ref().and_then(observe_live);
        if reported.is_none() && !found.as_ref().is_some_and(|live| self.desired.matters_to(live)) {
            let (observation, change) =
                self.children.apply_workload(desired, K::observe_workload).await?;
            return Ok(GateOutcome::converged(observation, change));
        }
        let found = match found {
            Some(found) => Some(self.with_secrets(found).await?),
            None => None,
        };
        let (decision, pods) = self.decide_change(found, desired.template()).await?;
        let ChangeDecision { pending, mode, replace, .. } = decision;
        let old = live.as_ref().map(K::observe_workload);
        let (observation, change) = match (workload_to_write(mode, desired), old) {
            (None, Some(observation)) => (observation, ChildChange::None),
            (None, None) => (WorkloadObservation::default(), ChildChange::None),
            (Some(desired), _) => {
                self.children.apply_workload(desired, K::observe_workload).await?
            }
        };
        // The controller may not have observed a template that was just written: it would recreate
        // the pod from the old one.
        if change == ChildChange::None {
            self.replace_pods(replace).await?;
        }
        Ok(GateOutcome { observation, change, pending, pods })
    }

    /// Deletes pods, so that pods with the new template replace them.
    async fn replace_pods(&self, chosen: Vec<PodToReplace>) -> Result<(), StepError> {
        for PodToReplace { name, uid } in chosen {
            // The pod may have ended already, and another has or will have its name.
            let this_one = Preconditions { uid, resource_version: None };
            let params = DeleteParams { preconditions: Some(this_one), ..DeleteParams::default() };
            let namespace = &self.names.namespace;
            delete_object::<Pod>(self.context, namespace, &name, &params).await?;
        }
        Ok(())
    }

    /// Reads the present Secrets of the running and the stored template.
    async fn with_secrets(&self, live: Live) -> Result<Live, StepError> {
        let salt = self.pool.metadata.uid.as_deref().unwrap_or_default();
        let baseline = live.baseline.as_ref().map(|it| &it.template);
        let templates =
            [&live.template].into_iter().chain(baseline).map(SecretUses::from_template).collect();
        let (namespace, known) = (&self.names.namespace, self.desired.secrets.clone());
        let current =
            observe::current_secrets(self.context, namespace, salt, known, templates).await?;
        Ok(Live { current, ..live })
    }

    /// Decides, and creates or deletes trial pods. If none may be created, the pool's first pods
    /// try the change.
    async fn decide_change(
        &self,
        live: Option<Live>,
        desired_template: Option<&PodTemplateSpec>,
    ) -> Result<(ChangeDecision, Option<Vec<Pod>>), StepError> {
        let Self { context, pool, names, desired, .. } = self;
        let namespace = &names.namespace;
        let tries =
            observe::list_pods(context, namespace, &preflight::trial_selector(names)).await?;
        let reported = change::reported_change(pool);
        let has_begun = reported.is_some_and(|it| {
            use PendingStage::{Analyzing, Canary, RollingOut};
            [Canary, Analyzing, RollingOut].contains(&it.stage)
        });
        // The change has to answer for pods that existed before it.
        let is_before = pool.spec.settings.mode == EdgeMode::DaemonSet
            && reported.is_some_and(|it| it.stage == PendingStage::Validating);
        let pods = match has_begun || is_before {
            true => Some(observe::list_pods(context, namespace, &names.selector()).await?),
            false => None,
        };
        let loads = match (reported, &pods) {
            (Some(reported), Some(pods)) => {
                observe_loads(context, pool, names, reported, pods).await
            }
            _ => Default::default(),
        };
        let lost = match (&live, &pods) {
            (Some(live), Some(pods)) => {
                record_lost(context, pool, (desired.key(), has_begun), (live.desired, pods.len()))
            }
            _ => None,
        };
        let none = PodTemplateSpec::default();
        let mut observed = ChangeObservation {
            pool,
            names,
            desired: desired_template.unwrap_or(&none),
            live,
            pods: pods.as_deref().unwrap_or_default(),
            lost,
            loads,
            tries: &tries,
            untried: None,
            now: context.clock.now(),
        };
        let mut decision = decide_change(desired, &observed);
        let todo = std::mem::take(&mut decision.tries);
        observed.untried = trial_pods::apply_trial_pods(context, *pool, todo).await?;
        if observed.untried.is_some() {
            decision = decide_change(desired, &observed);
        }
        Ok((decision, pods))
    }
}

/// Returns the pods that a DaemonSet lost through a change and hasn't recreated. A pod being
/// deleted counts as existing, since its successor is created only afterwards.
fn record_lost(
    context: &Context,
    pool: &EdgePool,
    change: (&str, bool),
    (desired, existing): (u32, usize),
) -> Option<AbsentCount> {
    // A Deployment's controller itself reports refusals (`ReplicaFailure`).
    if pool.spec.settings.mode != EdgeMode::DaemonSet {
        return None;
    }
    let existing = u32::try_from(existing).unwrap_or(u32::MAX);
    let uid = pool.metadata.uid.as_deref().unwrap_or_default();
    let (pods, now) = ((desired, existing), context.clock.now());
    context.baselines.update(uid, now, |it| it.lost.record_pods(change, pods, now.as_second()))
}

/// Returns why a DaemonSet's pods aren't created, if any has long been absent, whatever the reason.
pub(super) fn creation_refused(
    context: &Context,
    pool: &EdgePool,
    (desired, existing): (u32, u32),
) -> Option<String> {
    if pool.spec.settings.mode != EdgeMode::DaemonSet {
        return None;
    }
    let uid = pool.metadata.uid.as_deref().unwrap_or_default();
    let (absent, now) = (desired.saturating_sub(existing), context.clock.now());
    let absent = context
        .baselines
        .update(uid, now, |it| it.absent_clock.record_count(absent, now.as_second()));
    Some(missing_member(absent?, i64::MIN, now).find_fault()?.text)
}

/// Returns the load of pods since the analysis of the first ones began, and of all before. Each
/// analysis starts from zero.
async fn observe_loads(
    context: &Context,
    pool: &EdgePool,
    names: &PoolNames,
    reported: &PendingChange,
    pods: &[Pod],
) -> (Vec<(String, LoadFigures)>, Vec<LoadFigures>) {
    if reported.stage != PendingStage::Analyzing || unit::is_paused(reported) {
        return Default::default();
    }
    let now = context.clock.now();
    let (_, scrapes) = observe::scrape_pods(context, names, pods, now).await;
    let uid = pool.metadata.uid.as_deref().unwrap_or_default();
    let name = format!("{}/{}", reported.digest, reported.since.0.as_second());
    context.baselines.update(uid, now, |baseline| {
        baseline.record_watched(&name, baseline::successful_samples(&scrapes));
        (baseline.watched_loads(), baseline.past_loads())
    })
}

impl GateOutcome {
    fn converged(observation: WorkloadObservation, change: ChildChange) -> Self {
        Self { observation, change, pending: None, pods: None }
    }
}

/// Returns the parts of a live workload that a change needs.
fn observe_live<K: EdgeWorkload>(live: &K) -> Option<Live> {
    let figures = live.observe_workload();
    Some(Live {
        template: live.template()?.clone(),
        baseline: template::baseline_template(live),
        current: CurrentSecrets::default(),
        verdict: assess_rollout(&figures),
        desired: figures.desired,
    })
}

/// Returns the workload to write; `None` if it must wait.
fn workload_to_write<K: EdgeWorkload>(mode: WriteMode, mut desired: K) -> Option<K> {
    let baseline = match mode {
        WriteMode::Deferred => return None,
        WriteMode::Desired => return Some(desired),
        WriteMode::WithBaseline(baseline) => baseline,
        WriteMode::Paused(baseline) => {
            desired.pause_updates();
            baseline
        }
        WriteMode::Stopped(live, baseline) => {
            desired.pause_updates();
            if let Some(template) = desired.template_mut() {
                *template = *live;
            }
            baseline
        }
        WriteMode::Baseline(baseline) => {
            if let Some(template) = desired.template_mut() {
                *template = baseline.template.clone();
            }
            baseline
        }
    };
    desired.annotations_mut().insert(BASELINE_ANNOTATION.into(), baseline.text);
    Some(desired)
}
