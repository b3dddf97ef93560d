//! How a change of image or configuration reaches an edge pool's pods, and how it is rolled back.
//! Pure.
//!
//! First a trial pod runs it (`pool::preflight`), then, with `rollout.canary`, the pods of a few
//! nodes (`canary`). Then the Deployment or DaemonSet rolls it out, with the previous template in
//! an annotation of the same object. If a new pod fails, that template is written again. Progress
//! is part of the status, so that another operator continues it. A change that was rolled back
//! stays so until the spec changes; one that was refused, until the spec or a Secret does. A
//! refusal that may be temporary is retried every [`RETRY_SECONDS`]. Rotated Secrets reach the
//! running pods in every case; while canaries are watched, those of the other nodes wait.
//!
//! Limits: a Deployment's pods are not compared. A missing workload has nothing to keep: it is
//! created as the spec says.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{EdgePool, PendingChange, PendingStage, RolloutStage};
use millrace_rollout::{Fault, FaultKind, First, Load, Member, Trouble, Unit, Verdict, Wish};

use super::canary::{self, Chosen};
use super::validate::Validated;
use crate::cluster::hash_of;
use crate::pool::member::member;
use crate::pool::names::PoolNames;
use crate::pool::preflight::{self, Tries};
use crate::pool::secrets::{CurrentSecrets, SecretUses, with_secrets, without_secrets};
use crate::pool::status::{Rollout, cut};
use crate::pool::{template, wish};
use crate::report::events::Notice;

/// The registry or node that failed may work again.
const RETRY_SECONDS: i64 = 600;
/// A change is rolled back when more than one in this many new pods fail.
const FAILING_ONE_IN: usize = 10;

/// The annotation for rollout commands, in messages.
const ANNOTATION: &str = "the annotation millrace.dev/rollout";

/// What pods are to run.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    image: String,
    config_map: String,
    /// Distinguishes it from any other spec change that might fix a refused change.
    key: String,
    /// The Secrets that it needs, and their digest.
    pub(super) secrets: (SecretUses, Option<String>),
}

impl Asked {
    /// What a spec asks for.
    pub(super) fn of(validated: &Validated<'_>) -> Self {
        let Validated { pool, draft, secrets_digest } = validated;
        let key = hash_of(&serde_json::json!({
            "image": draft.image,
            "config": draft.config_map,
            "resources": pool.spec.settings.resources,
            // The digest's value for a pool without Secrets, as in earlier releases.
            "secrets": None::<&str>,
        }));
        let secrets = (draft.secrets.clone(), secrets_digest.clone());
        let (image, config_map) = (draft.image.clone(), draft.config_map.clone());
        Self { image, config_map, key, secrets }
    }

    /// Whether a status is about this change. Rotated Secrets don't make it another change, except
    /// after a refusal by a trial pod: they may fix it, and no pod of the pool runs it.
    fn is_told_by(&self, told: &PendingChange) -> bool {
        let (key, secrets) = without_secrets(&told.digest);
        let is_mended = told.stage == PendingStage::Refused && secrets != self.secrets.1.as_deref();
        key == self.key && !is_mended
    }

    /// Whether this template is the desired one.
    fn is_run_by(&self, template: &PodTemplateSpec) -> bool {
        template.spec.as_ref().and_then(template::runs) == Some((&self.image, &self.config_map))
    }

    /// Whether this pod is.
    pub(super) fn is_run_by_pod(&self, pod: &Pod) -> bool {
        pod.spec.as_ref().and_then(template::runs) == Some((&self.image, &self.config_map))
    }

    /// What pods are to run, for the rule of rollouts.
    pub(super) fn unit(&self) -> Unit {
        canary::unit(&self.image, &self.config_map)
    }

    /// Distinguishes it from other changes.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// For messages.
    pub(super) fn text(&self) -> String {
        format!("{} with {}", self.image, self.config_map)
    }

    /// Whether this workload needs more than a write of the desired template.
    pub(super) fn matters_to(&self, live: &Live) -> bool {
        live.kept.is_some() || !self.is_run_by(&live.template)
    }

    /// The pod that tries it.
    fn try_name(&self, names: &PoolNames) -> String {
        preflight::name(names, &self.image, &self.config_map)
    }

    pub(super) fn rolling_out(&self, now: Timestamp) -> PendingChange {
        let message = format!("pods get {}", self.text());
        let why = (Reason::RolloutStarted.as_str(), message);
        self.pending(PendingStage::RollingOut, time(now), why)
    }

    /// The change goes out: to a few nodes first, if the pool says so.
    fn begins(&self, seen: &Seen<'_>, before: Kept) -> (Way, PendingChange) {
        if canary::settings(seen).is_none() {
            return (Way::Keeping(before), self.rolling_out(seen.now));
        }
        let message = format!("the first nodes get {}", self.text());
        let why = (Reason::RolloutStarted.as_str(), message);
        (Way::Held(before), self.pending(PendingStage::Canary, time(seen.now), why))
    }

    pub(super) fn aborted(&self, now: Timestamp) -> PendingChange {
        let why = (Reason::RolloutAborted.as_str(), format!("taken back by {ANNOTATION}"));
        self.pending(PendingStage::RolledBack, time(now), why)
    }

    pub(super) fn paused(&self, stage: PendingStage, since: Time) -> PendingChange {
        let why = (Reason::RolloutPaused.as_str(), format!("held by {ANNOTATION}"));
        self.pending(stage, since, why)
    }

    pub(super) fn pending(
        &self,
        stage: PendingStage,
        since: Time,
        why: (&str, String),
    ) -> PendingChange {
        let Self { image, config_map, key, secrets } = self.clone();
        let digest = with_secrets(&key, secrets.1.as_deref());
        let (reason, message) = (why.0.to_owned(), cut(why.1));
        PendingChange { stage, since, reason, message, image, config_map, digest }
    }
}

/// A template with the text it is kept as.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) text: String,
    pub(super) template: PodTemplateSpec,
}

/// The live workload, as far as a change needs it.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) template: PodTemplateSpec,
    /// What is kept to go back to.
    pub(super) kept: Option<Kept>,
    /// What the Secrets of both are now.
    pub(super) current: CurrentSecrets,
    pub(super) verdict: Verdict,
    /// Pods that it is to have.
    pub(super) wanted: u32,
}

impl Live {
    /// The rollback target, with today's Secrets: the kept template, else the running one.
    fn before(&self) -> Option<Kept> {
        let kept = self.kept.as_ref();
        let mut template = kept.map_or(&self.template, |kept| &kept.template).clone();
        let is_old = self.current.renew(&mut template);
        let text = kept.filter(|_| !is_old).map(|kept| kept.text.clone());
        let text = text.or_else(|| serde_json::to_string(&template).ok())?;
        Some(Kept { text, template })
    }

    /// Whether pods have other Secrets than they are now.
    fn is_behind(&self) -> bool {
        self.current.renew(&mut self.template.clone())
    }
}

/// How the workload is to be written.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// As asked for.
    AsAsked,
    /// As asked for, with what ran before kept.
    Keeping(Kept),
    /// The same, with no further pods replaced.
    Held(Kept),
    /// With the previous template, also kept; the rest as desired.
    Old(Kept),
    /// Not yet.
    NotYet,
}

/// The state of a change, and the next action.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    /// `None`: there is none.
    pub(super) pending: Option<PendingChange>,
    pub(super) tries: Tries,
    pub(super) way: Way,
    /// Pods to be deleted, once that is written.
    pub(super) replace: Vec<Chosen>,
}

/// What is seen of a pool with a change.
pub(super) struct Seen<'a> {
    pub(super) pool: &'a EdgePool,
    pub(super) names: &'a PoolNames,
    /// The template asked for.
    pub(super) wanted: &'a PodTemplateSpec,
    /// `None`: there is no workload.
    pub(super) live: Option<Live>,
    /// The pool's pods; only needed during a rollout.
    pub(super) pods: &'a [Pod],
    /// What each did since it is watched, and what all did before; only needed while the first
    /// nodes are compared.
    pub(super) loads: (Vec<(String, Load)>, Vec<Load>),
    /// Pods that try a change.
    pub(super) tries: &'a [Pod],
    /// No pod may be made to try it.
    pub(super) untried: bool,
    pub(super) now: Timestamp,
}

/// Decides the next step of a change, or reports one from the status.
pub(super) fn decide(asked: &Asked, seen: &Seen<'_>) -> Decision {
    let replacing = |way, pending, replace| {
        let tries = Tries::over(seen.tries);
        Decision { pending, tries, way, replace }
    };
    let over = |way, pending| replacing(way, pending, Vec::new());
    let Some(live) = &seen.live else { return over(Way::AsAsked, None) };
    let (runs, before) = (asked.is_run_by(&live.template), live.before());
    let kept_runs = live.kept.as_ref().is_some_and(|kept| asked.is_run_by(&kept.template));
    let told = told(seen.pool).filter(|told| asked.is_told_by(told));
    let Some(before) = before.filter(|_| !kept_runs && (!runs || live.kept.is_some())) else {
        // The previous template is desired again, or nothing differs.
        return over(Way::AsAsked, None);
    };
    match told.map(|told| (told, told.stage)) {
        Some((told, PendingStage::Refused)) if stays_refused(told, seen.now) => {
            over(Way::Old(before), Some(told.clone()))
        }
        Some((told, PendingStage::RolledBack)) => over(Way::Old(before), Some(told.clone())),
        Some((told, PendingStage::RollingOut)) => {
            let (way, pending) = roll_out(asked, told, live, runs, before, seen);
            over(way, pending)
        }
        Some((told, PendingStage::Canary | PendingStage::Judging)) => {
            let canary::Outcome { way, pending, replace } =
                canary::go_on(asked, told, live, runs, before, seen);
            replacing(way, Some(pending), replace)
        }
        // It was written, and the operator ended before it could report it.
        _ if runs => {
            let (way, pending) = asked.begins(seen, before);
            over(way, Some(pending))
        }
        Some((told, PendingStage::Trying)) => try_out(asked, Some(told), live, before, seen),
        None | Some((_, PendingStage::Refused)) => try_out(asked, None, live, before, seen),
    }
}

/// The change in the status.
pub(super) fn told(pool: &EdgePool) -> Option<&PendingChange> {
    pool.status.as_ref()?.pending_change.as_ref()
}

/// A change that no pod of the pool has yet; `told` if the status reports its trial.
fn try_out(
    asked: &Asked,
    told: Option<&PendingChange>,
    live: &Live,
    before: Kept,
    seen: &Seen<'_>,
) -> Decision {
    // Rotated Secrets don't wait for it.
    let as_it_is = || if live.is_behind() { Way::Old(before.clone()) } else { Way::NotYet };
    let since = told.map_or_else(|| time(seen.now), |told| told.since.clone());
    let over = |way, pending| {
        let (tries, replace) = (Tries::over(seen.tries), Vec::new());
        Decision { pending: Some(pending), tries, way, replace }
    };
    match wish(seen.pool) {
        Wish::Go => {}
        Wish::Pause => return over(as_it_is(), asked.paused(PendingStage::Trying, since)),
        Wish::Abort => return over(as_it_is(), asked.aborted(seen.now)),
    }
    let name = asked.try_name(seen.names);
    let untried = seen.untried.then_some(name.as_str());
    let outcome = match told {
        Some(_) => preflight::outcome(seen.tries, &name, untried, seen.now),
        None => First::Waits,
    };
    match outcome {
        First::Done => {
            let (way, pending) = asked.begins(seen, before.clone());
            over(way, pending)
        }
        First::Failed(Fault { kind, text }) => {
            let why = (kind.as_str(), text);
            over(as_it_is(), asked.pending(PendingStage::Refused, time(seen.now), why))
        }
        First::Waits => {
            let message =
                format!("a pod of its own tries {} with {}", asked.image, asked.config_map);
            let why = (Reason::Waiting.as_str(), message);
            let pod = || preflight::pod(seen.pool, seen.names, &name, seen.wanted);
            Decision {
                pending: Some(asked.pending(PendingStage::Trying, since, why)),
                tries: Tries::waiting(seen.tries, &name, told.is_some(), pod),
                way: as_it_is(),
                replace: Vec::new(),
            }
        }
    }
}

/// A change on its way to the pods.
fn roll_out(
    asked: &Asked,
    told: &PendingChange,
    live: &Live,
    runs: bool,
    before: Kept,
    seen: &Seen<'_>,
) -> (Way, Option<PendingChange>) {
    if runs && live.verdict == Verdict::Complete {
        return (Way::AsAsked, None);
    }
    match wish(seen.pool) {
        Wish::Go => {}
        Wish::Pause => {
            let pending = asked.paused(PendingStage::RollingOut, told.since.clone());
            return (Way::Held(before), Some(pending));
        }
        Wish::Abort => return (Way::NotYet, Some(asked.aborted(seen.now))),
    }
    let fault = fault(asked, seen).filter(|_| seen.pool.spec.rollout.auto_rollback);
    match fault {
        // The previous template is written once the status says so.
        Some(Fault { kind, text }) => {
            let why = (kind.as_str(), text);
            let pending = asked.pending(PendingStage::RolledBack, time(seen.now), why);
            (Way::NotYet, Some(pending))
        }
        None if is_paused(told) => (Way::Keeping(before), Some(asked.rolling_out(seen.now))),
        None => (Way::Keeping(before), Some(told.clone())),
    }
}

/// Whether the status says that the change is held.
pub(super) fn is_paused(told: &PendingChange) -> bool {
    told.reason == Reason::RolloutPaused.as_str()
}

/// The fault of new pods, if more than a tenth have one: in a large pool some node always has
/// troubles of its own. A pod without a node, or on a lost node, proves nothing; nor does an
/// unready pod, unless most old pods are ready: Kafka may be down.
fn fault(asked: &Asked, seen: &Seen<'_>) -> Option<Fault> {
    let staying = seen.pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let (new, old): (Vec<&Pod>, Vec<&Pod>) = staying.partition(|pod| asked.is_run_by_pod(pod));
    let member = |pod: &&Pod| member(pod, None, seen.now);
    let ready = old.iter().map(member).filter(|old| old.ready).count();
    let most_old_are_ready = ready * 2 > old.len();
    let counts = |fault: &Fault| fault.kind != FaultKind::PodsNotReady || most_old_are_ready;
    let is_the_clusters = |it: &Member| it.figures.trouble().is_some_and(Trouble::is_the_clusters);
    let members = new.iter().map(member).filter(|new| !is_the_clusters(new));
    let faults = members.filter_map(|new| new.fault()).filter(counts);
    let faults: Vec<Fault> = faults.collect();
    let are_many = faults.len() * FAILING_ONE_IN > new.len();
    faults.into_iter().next().filter(|_| are_many)
}

fn stays_refused(told: &PendingChange, now: Timestamp) -> bool {
    let is_final = told.reason == FaultKind::SettingsRefused.as_str();
    is_final || now.as_second() - told.since.0.as_second() < RETRY_SECONDS
}

/// As statuses keep times.
pub(super) fn time(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Whether a user aborted the change.
fn is_aborted(pending: &PendingChange) -> bool {
    pending.reason == Reason::RolloutAborted.as_str()
}

/// The pool's condition while a change is pending; `judged` is the state of its pods.
pub(super) fn condition(pending: &PendingChange, judged: &Verdict) -> Rollout {
    let PendingChange { stage, reason, message, image, config_map, .. } = pending;
    let stuck =
        |reason, message| Rollout::Told { reason, message, progressing: false, stalled: true };
    match stage {
        _ if is_paused(pending) => Rollout::Told {
            reason: Reason::RolloutPaused,
            message: message.clone(),
            progressing: false,
            stalled: false,
        },
        PendingStage::Trying => Rollout::Told {
            reason: Reason::Waiting,
            message: message.clone(),
            progressing: true,
            stalled: false,
        },
        PendingStage::Canary | PendingStage::Judging => match FaultKind::parse(reason) {
            Some(_) => {
                stuck(Reason::parse(reason).unwrap_or(Reason::PodsNotReady), message.clone())
            }
            None => Rollout::Told {
                reason: Reason::PodsNotReady,
                message: message.clone(),
                progressing: true,
                stalled: false,
            },
        },
        // All pods are up, but whether they are new was not checked.
        PendingStage::RollingOut if *judged == Verdict::Complete => Rollout::Told {
            reason: Reason::PodsNotReady,
            message: message.clone(),
            progressing: true,
            stalled: false,
        },
        PendingStage::RollingOut => Rollout::Judged(judged.clone()),
        PendingStage::Refused => {
            let reason = Reason::parse(reason).unwrap_or(Reason::PodsRefused);
            stuck(reason, format!("no pod was changed to {image} with {config_map}: {message}"))
        }
        PendingStage::RolledBack if is_aborted(pending) => {
            stuck(Reason::RolloutAborted, message.clone())
        }
        PendingStage::RolledBack => {
            let what = format!("{image} with {config_map} was taken back: {reason}: {message}");
            stuck(Reason::RolledBack, what)
        }
    }
}

/// The stage to count, by the gateways' names. After a refusal no pod has the change either.
pub(super) fn stage(pending: Option<&PendingChange>) -> RolloutStage {
    match pending.map(|pending| (pending, pending.stage)) {
        None => RolloutStage::Stable,
        Some((pending, _)) if is_paused(pending) => RolloutStage::Paused,
        Some((pending, _)) if is_aborted(pending) => RolloutStage::Aborted,
        Some((_, PendingStage::Trying)) => RolloutStage::Waiting,
        Some((_, PendingStage::Canary)) => RolloutStage::Canary,
        Some((_, PendingStage::Judging)) => RolloutStage::Judging,
        Some((_, PendingStage::RollingOut)) => RolloutStage::Promoting,
        Some((_, PendingStage::Refused | PendingStage::RolledBack)) => RolloutStage::RolledBack,
    }
}

/// Events of what changed; `asked` is the current spec. Conditions report failures.
pub(super) fn notice(
    before: Option<&PendingChange>,
    now: Option<&PendingChange>,
    asked: &Asked,
) -> Option<Notice> {
    use PendingStage::{Canary, Judging, RollingOut};
    let is_out = |it: &&PendingChange| [Canary, Judging, RollingOut].contains(&it.stage);
    let was_paused = before.is_some_and(is_paused);
    let (was, is) = (before.filter(is_out), now.filter(is_out));
    let normal = |reason: Reason, note| Notice::normal(reason, "Rollout", note);
    let too_few = Reason::RolloutTooFewRecords;
    match (was, is, now) {
        (Some(_), Some(is), _) if was_paused && !is_paused(is) => {
            Some(normal(Reason::RolloutResumed, is.message.clone()))
        }
        (Some(was), Some(is), _) if was.stage != is.stage && !is_paused(is) => {
            let note = is.message.clone();
            Some(match is.stage {
                RollingOut if is.reason == too_few.as_str() => {
                    Notice::warning(too_few, "Rollout", note)
                }
                Judging => normal(Reason::RolloutJudging, note),
                _ => normal(Reason::RolloutPromoting, note),
            })
        }
        (None, Some(is), _) => Some(normal(Reason::RolloutStarted, is.message.clone())),
        // A change that is no longer desired did not complete.
        (Some(was), None, None) if was.stage == RollingOut && asked.is_told_by(was) => {
            let note = format!("all pods run {} with {}", was.image, was.config_map);
            Some(normal(Reason::RolloutCompleted, note))
        }
        _ => None,
    }
}
