//! Writes an edge pool's workload; a change of image or configuration as `change` decides.
//!
//! A converged pool without a change costs no read. Decides nothing.

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetUpdateStrategy, Deployment};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::ResourceExt;
use millrace_crds::v1alpha1::{EdgePool, PendingChange, PendingStage};
use millrace_rollout::{Observation, judge};

use super::change::{self, Asked, Decision, Live, Seen, Way, decide};
use crate::cluster::{Applicable, Change, Children, Looked, is_paused};
use crate::context::Context;
use crate::error::StepError;
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
        let Decision { pending, way, .. } = decision;
        let old = live.as_ref().map(kind.figures);
        let (seen, change) = match (kind.by(way, wanted), old) {
            (None, Some(seen)) => (seen, Change::None),
            (None, None) => (Observation::default(), Change::None),
            (Some(wanted), _) => self.children.keep_workload(wanted, kind.figures).await?,
        };
        Ok(Kept { seen, change, pending, pods })
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
        let rolls = change::told(pool).is_some_and(|it| it.stage == PendingStage::RollingOut);
        let pods = match rolls {
            true => Some(observe::pods(context, namespace, &names.selector()).await?),
            false => None,
        };
        let none = PodTemplateSpec::default();
        let mut seen = Seen {
            pool,
            names,
            wanted: wanted.unwrap_or(&none),
            live,
            pods: pods.as_deref().unwrap_or_default(),
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

impl Kept {
    fn done(seen: Observation, change: Change) -> Self {
        Self { seen, change, pending: None, pods: None }
    }
}

impl<K: Applicable> Kind<K> {
    /// What a change needs of a live workload.
    fn live(&self, live: &K) -> Option<Live> {
        Some(Live {
            template: (self.template)(live)?.clone(),
            kept: template::kept(live).map(|(text, template)| change::Kept { text, template }),
            current: CurrentSecrets::default(),
            verdict: judge(&(self.figures)(live)),
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
