//! Writes an edge pool's workload; a change of image or configuration as `change` decides.
//!
//! A converged pool without a change costs no read. Decides nothing.

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetUpdateStrategy, Deployment};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::ResourceExt;
use kube::api::{DeleteParams, Preconditions};
use millrace_crds::v1alpha1::{EdgePool, PendingChange, PendingStage};
use millrace_rollout::{Load, Observation, judge};

use super::canary::Chosen;
use super::change::{self, Asked, Decision, Live, Seen, Way, decide};
use crate::cache::baseline;
use crate::cluster::{Applicable, Change, Children, Looked, api, is_paused};
use crate::context::Context;
use crate::error::{Step, StepError};
use crate::pool::names::PoolNames;
use crate::pool::secrets::{CurrentSecrets, SecretUses};
use crate::pool::template::{self, BASELINE_ANNOTATION};
use crate::pool::{observe, preflight, try_pods, workload as figures};

/// How a kind of workload is read and written.
pub(super) struct Kind<K> {
    figures: fn(&K) -> Observation,
    template: fn(&K) -> Option<&PodTemplateSpec>,
    template_mut: fn(&mut K) -> Option<&mut PodTemplateSpec>,
    /// Stops its controller from replacing more pods.
    hold: fn(&mut K),
}

/// A number of pods.
pub(super) const DEPLOYMENT: Kind<Deployment> = Kind {
    figures: figures::deployment,
    template: |it| Some(&it.spec.as_ref()?.template),
    template_mut: |it| Some(&mut it.spec.as_mut()?.template),
    hold: |it| it.spec.iter_mut().for_each(|spec| spec.paused = Some(true)),
};

/// One pod on each node.
pub(super) const DAEMON_SET: Kind<DaemonSet> = Kind {
    figures: figures::daemon_set,
    template: |it| Some(&it.spec.as_ref()?.template),
    template_mut: |it| Some(&mut it.spec.as_mut()?.template),
    hold: |it| {
        let by_hand = || DaemonSetUpdateStrategy {
            type_: Some("OnDelete".into()),
            ..DaemonSetUpdateStrategy::default()
        };
        it.spec.iter_mut().for_each(|spec| spec.update_strategy = Some(by_hand()));
    },
};

/// Keeps the workload of one pool.
pub(super) struct Gate<'a> {
    pub(super) context: &'a Context,
    pub(super) pool: &'a EdgePool,
    pub(super) names: &'a PoolNames,
    pub(super) asked: &'a Asked,
    pub(super) children: &'a Children<'a>,
}

/// What keeping the workload came to.
pub(super) struct Kept {
    pub(super) seen: Observation,
    pub(super) change: Change,
    /// A change that not all pods have.
    pub(super) pending: Option<PendingChange>,
    /// The pool's pods, if they were read.
    pub(super) pods: Option<Vec<Pod>>,
}

impl Gate<'_> {
    /// Writes what differs, unless it must wait.
    pub(super) async fn keep<K: Applicable>(
        &self,
        wanted: K,
        kind: &Kind<K>,
    ) -> Result<Kept, StepError> {
        let told = change::told(self.pool);
        if is_paused(self.pool) {
            let (seen, change) = self.children.keep_workload(wanted, kind.figures).await?;
            return Ok(Kept { seen, change, pending: told.cloned(), pods: None });
        }
        let live = match told {
            Some(_) => self.children.live::<K>(&wanted.name_any()).await?,
            None => match self.children.look_at_workload(wanted.clone()).await? {
                Looked::AsWanted(seen) => return Ok(Kept::done(seen, Change::None)),
                Looked::Differs { replaced } => replaced,
            },
        };
        let found = live.as_ref().and_then(|live| kind.live(live));
        if told.is_none() && !found.as_ref().is_some_and(|live| self.asked.matters_to(live)) {
            let (seen, change) = self.children.keep_workload(wanted, kind.figures).await?;
            return Ok(Kept::done(seen, change));
        }
        let found = match found {
            Some(found) => Some(self.with_secrets(found).await?),
            None => None,
        };
        let (decision, pods) = self.decide(found, (kind.template)(&wanted)).await?;
        let Decision { pending, way, replace, .. } = decision;
        let old = live.as_ref().map(kind.figures);
        let (seen, change) = match (kind.by(way, wanted), old) {
            (None, Some(seen)) => (seen, Change::None),
            (None, None) => (Observation::default(), Change::None),
            (Some(wanted), _) => self.children.keep_workload(wanted, kind.figures).await?,
        };
        // A template that was just written may not be taken up: the old one's pod would come again.
        if change == Change::None {
            self.replace(replace).await?;
        }
        Ok(Kept { seen, change, pending, pods })
    }

    /// Deletes pods, so that others with the new template take their places.
    async fn replace(&self, chosen: Vec<Chosen>) -> Result<(), StepError> {
        let namespace = &self.names.namespace;
        let pods = api::<Pod>(&self.context.client, namespace);
        for Chosen { name, uid } in chosen {
            let this_one = Preconditions { uid, resource_version: None };
            let params = DeleteParams { preconditions: Some(this_one), ..DeleteParams::default() };
            match pods.delete(&name, &params).await {
                Ok(_) => {}
                // It went by itself, and another has its name or will.
                Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
                Err(error) => {
                    let what = format!("delete Pod {namespace}/{name}");
                    return Err(StepError::api(Step::Apply, what, error));
                }
            }
        }
        Ok(())
    }

    /// Reads the current Secrets of the running and of the kept template.
    async fn with_secrets(&self, live: Live) -> Result<Live, StepError> {
        let salt = self.pool.metadata.uid.as_deref().unwrap_or_default();
        let kept = live.kept.as_ref().map(|kept| &kept.template);
        let templates = [&live.template].into_iter().chain(kept).map(SecretUses::of).collect();
        let (namespace, known) = (&self.names.namespace, self.asked.secrets.clone());
        let current =
            observe::current_secrets(self.context, namespace, salt, known, templates).await?;
        Ok(Live { current, ..live })
    }

    /// Decides, and creates or removes trial pods. Where none may be created, the pool's first pods
    /// try the change.
    async fn decide(
        &self,
        live: Option<Live>,
        wanted: Option<&PodTemplateSpec>,
    ) -> Result<(Decision, Option<Vec<Pod>>), StepError> {
        let Self { context, pool, names, asked, .. } = self;
        let namespace = &names.namespace;
        let tries = observe::pods(context, namespace, &preflight::selector(names)).await?;
        let told = change::told(pool);
        let rolls = told.is_some_and(|it| {
            use PendingStage::{Canary, Judging, RollingOut};
            [Canary, Judging, RollingOut].contains(&it.stage)
        });
        let pods = match rolls {
            true => Some(observe::pods(context, namespace, &names.selector()).await?),
            false => None,
        };
        let loads = match (told, &pods) {
            (Some(told), Some(pods)) => loads(context, pool, names, told, pods).await,
            _ => Default::default(),
        };
        let none = PodTemplateSpec::default();
        let mut seen = Seen {
            pool,
            names,
            wanted: wanted.unwrap_or(&none),
            live,
            pods: pods.as_deref().unwrap_or_default(),
            loads,
            tries: &tries,
            untried: false,
            now: context.clock.now(),
        };
        let mut decision = decide(asked, &seen);
        let todo = std::mem::take(&mut decision.tries);
        if try_pods::try_out(context, *pool, todo).await?.is_some() {
            seen.untried = true;
            decision = decide(asked, &seen);
        }
        Ok((decision, pods))
    }
}

/// What pods did since the first ones are watched, and what all did before. Each time that they
/// are watched begins anew.
async fn loads(
    context: &Context,
    pool: &EdgePool,
    names: &PoolNames,
    told: &PendingChange,
    pods: &[Pod],
) -> (Vec<(String, Load)>, Vec<Load>) {
    if told.stage != PendingStage::Judging || change::is_paused(told) {
        return Default::default();
    }
    let now = context.clock.now();
    let (_, look) = observe::figures(context, names, pods, now).await;
    let uid = pool.metadata.uid.as_deref().unwrap_or_default();
    let mut baseline = context.baselines.get(uid);
    let name = format!("{}/{}", told.digest, told.since.0.as_second());
    baseline.watch(&name, baseline::answered(&look));
    let loads = (baseline.loads(), baseline.past());
    context.baselines.put(uid, baseline, now);
    loads
}

impl Kept {
    fn done(seen: Observation, change: Change) -> Self {
        Self { seen, change, pending: None, pods: None }
    }
}

impl<K: Applicable> Kind<K> {
    /// What a change needs of a live workload.
    fn live(&self, live: &K) -> Option<Live> {
        let figures = (self.figures)(live);
        Some(Live {
            template: (self.template)(live)?.clone(),
            kept: template::kept(live).map(|(text, template)| change::Kept { text, template }),
            current: CurrentSecrets::default(),
            verdict: judge(&figures),
            wanted: figures.wanted,
        })
    }

    /// The workload to be written; `None`: not yet.
    fn by(&self, way: Way, mut wanted: K) -> Option<K> {
        let kept = match way {
            Way::NotYet => return None,
            Way::AsAsked => return Some(wanted),
            Way::Keeping(kept) => kept,
            Way::Held(kept) => {
                (self.hold)(&mut wanted);
                kept
            }
            Way::Old(kept) => {
                if let Some(template) = (self.template_mut)(&mut wanted) {
                    *template = kept.template.clone();
                }
                kept
            }
        };
        wanted.annotations_mut().insert(BASELINE_ANNOTATION.into(), kept.text);
        Some(wanted)
    }
}
