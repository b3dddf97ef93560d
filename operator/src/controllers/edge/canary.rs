//! The first nodes of a change: which pods are replaced first, and whether the new ones perform as
//! well as the others. Pure; the rule itself is `millrace_rollout::step`, as for gateways.
//!
//! A DaemonSet has no partition. While its update strategy is `OnDelete` it replaces no pod by
//! itself, so the operator deletes those of the first nodes and their successors have the new
//! template; `change` goes on with all nodes after that. Limits: pods of nodes that come meanwhile
//! have the new template too and are compared with the first; nothing is compared after that.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{CanarySettings, PendingChange, PendingStage};
use millrace_rollout::{
    Canary, Cause, Fault, FaultKind, First, Judgement, Load, Member, Moving, Plan, PodFigures,
    Point, Policy, Seen, Stage, State, Step, Sum, Trouble, Unit, Verdict, step,
};

use super::change::{Asked, Kept, Live, Seen as Look, Way, is_paused, time};
use crate::pool::member::member;
use crate::pool::template;
use crate::pool::wish;

/// A pod to be deleted, so that one with the new template takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) name: String,
    pub(super) uid: Option<String>,
}

/// What comes of the first nodes.
pub(super) struct Outcome {
    pub(super) way: Way,
    pub(super) pending: PendingChange,
    pub(super) replace: Vec<Chosen>,
}

/// How the pool's changes are tried on a few nodes first, if they are.
pub(super) fn settings<'a>(look: &'a Look<'_>) -> Option<&'a CanarySettings> {
    look.pool.spec.rollout.canary.as_ref()
}

/// Goes on with a change that the first nodes have, or get.
pub(super) fn go_on(
    asked: &Asked,
    told: &PendingChange,
    live: &Live,
    runs: bool,
    before: Kept,
    look: &Look<'_>,
) -> Outcome {
    let only = |way, pending| Outcome { way, pending, replace: Vec::new() };
    // Without nodes there is nobody to be first.
    let has_none = live.wanted == 0 && live.verdict == Verdict::Complete;
    let Some(canary) = settings(look).filter(|_| !has_none) else {
        return only(Way::Keeping(before), asked.rolling_out(look.now));
    };
    if !runs {
        // Edited by hand: written again before any pod is replaced.
        return only(Way::Held(before), told.clone());
    }
    let pods = Pods::of(asked, &before, look);
    let policy = Policy {
        canary: Some(Canary { pods: canary.pods, judge_seconds: i64::from(canary.judge_seconds) }),
        rolls_back: look.pool.spec.rollout.auto_rollback,
    };
    let seen = pods.seen(asked, live, look);
    let step = step(Some(&state(asked, told, &before)), &seen, &policy);
    let since = told_since(step.state.since);
    match &step.state.stage {
        Stage::Moving(point @ (Point::Canary | Point::Judging)) => {
            let count = match step.plan {
                Plan::Split { pods } => pods,
                Plan::Whole | Plan::Old => 0,
            };
            let (stage, why) = words(*point, count, asked, &step);
            let is_same = told.stage == stage && told.reason == why.0;
            let pending =
                if is_same { told.clone() } else { asked.pending(stage, since, (&why.0, why.1)) };
            let replace = if seen.taken_up { pods.chosen(count) } else { Vec::new() };
            Outcome { way: Way::Held(before), pending, replace }
        }
        Stage::Paused(point) => only(Way::Held(before), asked.paused(stage_of(*point), since)),
        Stage::Returning(Cause::Aborted) | Stage::Returned(Cause::Aborted) => {
            only(Way::NotYet, asked.aborted(look.now))
        }
        Stage::Returning(Cause::Failed(fault)) | Stage::Returned(Cause::Failed(fault)) => {
            let why = (fault.kind.as_str(), fault.text.clone());
            only(Way::NotYet, asked.pending(PendingStage::RolledBack, since, why))
        }
        Stage::Stable | Stage::Moving(Point::Waiting | Point::Promoting { .. }) => {
            let (reason, text) = compared(&step, &seen);
            let why = (reason.as_str(), text);
            only(Way::Keeping(before), asked.pending(PendingStage::RollingOut, since, why))
        }
    }
}

/// The pool's pods, by what they run.
struct Pods<'a> {
    /// Those that stay and are in no trouble of the cluster's.
    members: Vec<(&'a Pod, Member)>,
    /// Those that run what ran before the change.
    before: Vec<&'a str>,
    /// Pods that end: others take their places.
    ending: u32,
    /// What is the matter with a pod that is in such a trouble.
    lost: Option<Fault>,
}

impl<'a> Pods<'a> {
    fn of(asked: &Asked, before: &Kept, look: &Look<'a>) -> Self {
        let runs = before.template.spec.as_ref().and_then(template::runs);
        let (mut members, mut names, mut ending, mut lost) = (Vec::new(), Vec::new(), 0, None);
        for pod in look.pods {
            let member =
                Member { updated: asked.is_run_by_pod(pod), ..member(pod, None, look.now) };
            // A node that is lost, or has no room, proves nothing, and another one can be tried.
            if member.figures.trouble().is_some_and(Trouble::is_the_clusters) {
                let PodFigures { name, message, .. } = &member.figures;
                let text = format!("pod {name}: {message}");
                lost.get_or_insert_with(|| Fault::new(FaultKind::PodsNotReady, text));
                continue;
            }
            if pod.metadata.deletion_timestamp.is_some() {
                ending += 1;
                continue;
            }
            if pod.spec.as_ref().and_then(template::runs) == runs {
                names.extend(pod.metadata.name.as_deref());
            }
            members.push((pod, member));
        }
        Self { members, before: names, ending, lost }
    }

    /// As the rule of rollouts sees them.
    fn seen(&self, asked: &Asked, live: &Live, look: &Look<'_>) -> Seen {
        let is_new =
            |name: &str| self.members.iter().any(|(pod, it)| it.updated && pod.name_any() == name);
        let all = &look.loads.0;
        let of = |is: &dyn Fn(&str) -> bool| -> Vec<Load> {
            all.iter().filter(|(pod, _)| is(pod)).map(|(_, load)| load.clone()).collect()
        };
        let old = of(&|name| self.before.contains(&name));
        let verdict = &live.verdict;
        let there = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        let there = there.saturating_add(self.ending);
        Seen {
            now: look.now.as_second(),
            wanted: asked.unit(),
            key: asked.key().to_owned(),
            running: None,
            wish: wish(look.pool),
            first: First::Done,
            // As many as can be first.
            size: live.wanted.min(there),
            taken_up: *verdict != Verdict::Moving(Moving::NotSeen),
            complete: *verdict == Verdict::Complete,
            members: self.members.iter().map(|(_, member)| member.clone()).collect(),
            stays: self.lost.clone().filter(|_| there == 0),
            // Nobody has asked it: without other pods, unready ones prove nothing.
            broker_away: true,
            new_loads: of(&is_new),
            old_loads: if old.is_empty() { look.loads.1.clone() } else { old },
        }
    }

    /// The pods to be deleted so that `count` have the change. First those of another change that
    /// didn't come to its end, then ready ones: a node without lines to read shows nothing.
    fn chosen(&self, count: u32) -> Vec<Chosen> {
        let (new, mut old): (Vec<_>, Vec<_>) =
            self.members.iter().partition(|(_, member)| member.updated);
        old.sort_by_key(|(pod, member)| {
            let name = pod.name_any();
            (self.before.contains(&name.as_str()), !member.ready, name)
        });
        let there = u32::try_from(new.len()).unwrap_or(u32::MAX).saturating_add(self.ending);
        let missing = usize::try_from(count.saturating_sub(there)).unwrap_or(0);
        let chosen = old.into_iter().take(missing);
        chosen.map(|(pod, _)| Chosen { name: pod.name_any(), uid: pod.uid() }).collect()
    }
}

/// What the status says, in the rule's words.
fn state(asked: &Asked, told: &PendingChange, before: &Kept) -> State {
    let point = match told.stage {
        PendingStage::Judging => Point::Judging,
        _ => Point::Canary,
    };
    let runs = before.template.spec.as_ref().and_then(template::runs);
    let before = runs.map(|(image, config)| unit(image, config));
    State {
        stage: if is_paused(told) { Stage::Paused(point) } else { Stage::Moving(point) },
        since: told.since.0.as_second(),
        before,
        after: asked.unit(),
        key: asked.key().to_owned(),
        attempts: 1,
    }
}

/// What pods run.
pub(super) fn unit(image: &str, config: &str) -> Unit {
    Unit { image: image.to_owned(), config: config.to_owned(), ..Unit::default() }
}

fn stage_of(point: Point) -> PendingStage {
    match point {
        Point::Judging => PendingStage::Judging,
        Point::Waiting | Point::Canary | Point::Promoting { .. } => PendingStage::Canary,
    }
}

/// Stage, reason and message while the first nodes get the change or are watched.
fn words(point: Point, count: u32, asked: &Asked, step: &Step) -> (PendingStage, (String, String)) {
    let stage = stage_of(point);
    let what = asked.text();
    let (reason, text) = match (step.held.as_ref().or(step.waits.as_ref()), point) {
        (Some(fault), _) => (fault.kind.as_str(), fault.text.clone()),
        (None, Point::Judging) => (
            Reason::RolloutJudging.as_str(),
            format!("{count} nodes with {what} are compared with the others"),
        ),
        (None, _) => {
            (Reason::RolloutStarted.as_str(), format!("the first {count} nodes get {what}"))
        }
    };
    (stage, (reason.to_owned(), text))
}

/// What the comparison came to, for people.
fn compared(step: &Step, seen: &Seen) -> (Reason, String) {
    let side = |name: &str, loads: &[Load]| {
        let Some(sum) = Sum::of(loads) else { return String::new() };
        let rate = sum.records_per_cpu_second();
        let rate = rate.map_or_else(|| "?".to_owned(), |rate| format!("{rate:.0}"));
        let (cpu, memory) = (sum.cpus_per_pod() * 1e3, sum.resident_bytes >> 20);
        format!("; {name}: {rate} records per CPU-second, {cpu:.0} millicores, {memory} MiB")
    };
    let sides = side("before", &seen.old_loads) + &side("after", &seen.new_loads);
    match &step.judgement {
        Some(Judgement::TooFew { records }) => (
            Reason::RolloutTooFewRecords,
            format!(
                "only {records} records came of the first nodes, too few to compare; nothing \
                 speaks against the change, so the others get it{sides}"
            ),
        ),
        _ => (Reason::RolloutPromoting, format!("the other nodes get it{sides}")),
    }
}

fn told_since(second: i64) -> Time {
    time(Timestamp::from_second(second).unwrap_or_default())
}
