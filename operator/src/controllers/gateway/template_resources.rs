//! The pod resources in the StatefulSet's template: the spec's, or the decided ones where pods
//! can't be resized in place. Pure.
//!
//! A change of resources alone replaces all pods one after another. So the template changes only to
//! give at least half as much again, while nothing else replaces pods and nothing forbids it.
//! Smaller resources, and those given in place, enter the template with the next change of image or
//! configuration. An annotation written in the same request keeps the template's resources. Limits:
//! one change per [`ROLL_SECONDS_MIN`], at once after an end for lack of memory; none for
//! [`HELD_SECONDS`] after new pods found no node.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use millrace_autoscale::{Reason, Resources, VerticalPolicy, VerticalReason};
use millrace_crds::v1alpha1::{GatewayPool, ResizeStatus, ResizeWay, SizingStatus};
use serde::{Deserialize, Serialize};

use super::rollout;
use super::size::is_settled;
use super::validate::Observed;
use super::{resize, resources};
use crate::cache::sizing::Sizing;
use crate::cluster::is_paused;
use crate::pool::template::{cpu_text, memory_text};

/// Annotation with the template's resources, where they differ from the spec's.
pub(super) const RESOURCES_ANNOTATION: &str = "millrace.dev/template-resources";
/// The reason for larger pods that found no node.
pub(super) const NO_NODE: &str = "NoNode";
/// Pods are not replaced for resources more often than this: a pool of ten takes some minutes, and
/// the effect must show.
const ROLL_SECONDS_MIN: i64 = 15 * 60;
/// Pods that find no node later than this have another cause.
const ROLLING_SECONDS_MAX: i64 = 3_600;
/// After larger pods found no node, none is replaced for this long.
const HELD_SECONDS: i64 = 3_600;
/// A full node may have room soon: wait this long.
const DEFERRED_SECONDS_MAX: i64 = 300;
/// Least growth by replacing pods, so that it is rare.
const ROLL_GROWTH: f64 = 1.5;
/// Growth below this, near the range's end, isn't worth it, except after a kill for memory.
const ROLL_GROWTH_MIN: f64 = 1.1;
/// Longest message in characters: room for a refusal in the API server's words, half of what the
/// CRD allows.
const MESSAGE_CHARS_MAX: usize = 512;
/// A template's resources move in steps of 64 MiB and a twentieth of a core.
const MEMORY_STEP_BYTES: u64 = 64 << 20;
const CPU_STEP_MILLICORES: u64 = 50;

/// Amounts of both, as in the annotation; CPU is the limit, or the request without a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Amounts {
    memory_limit: String,
    cpu: String,
}

impl Amounts {
    fn of(resources: &Resources) -> Self {
        Self {
            memory_limit: memory_text(resources.memory_limit_bytes),
            cpu: cpu_text(resources.cpu_millicores()),
        }
    }

    fn read(&self, range: &VerticalPolicy) -> Option<Resources> {
        let memory = resources::bytes(&self.memory_limit)?;
        Some(range.resources(memory, resources::millicores(&self.cpu)?))
    }
}

/// What the annotation keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    now: Amounts,
    /// The resources before the last replacement; restored when pods find no node.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Amounts>,
    /// When pods were last replaced for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rolled_at: Option<Timestamp>,
    /// Until when no pod is replaced for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_until: Option<Timestamp>,
}

/// What the template gives each pod.
#[derive(Clone, Debug)]
pub(super) struct TemplateResources {
    pub(super) resources: Resources,
    /// What the StatefulSet keeps of it; `None` if it equals the spec.
    pub(super) annotation: Option<String>,
}

/// Decides the template's resources, and notes in `sizing` how changes reach the pods. The
/// template's resources count as decided.
pub(super) fn decide(
    pool: &GatewayPool,
    observed: &Observed,
    rolling: &rollout::Decision,
    sizing: &mut SizingStatus,
    kept: &mut Sizing,
) -> TemplateResources {
    let written = resources::written(pool);
    let before = pool.status.as_ref().and_then(|status| status.sizing.as_ref());
    sizing.resize = before.and_then(|before| before.resize.clone());
    let Some(range) = resources::range(pool) else {
        sizing.resize = None;
        return TemplateResources { resources: written, annotation: None };
    };
    let live = observed.live.as_ref();
    let has = live.and_then(annotation);
    let now = has.as_ref().and_then(|has| has.now.read(&range)).unwrap_or(written);
    let vertical = kept.state.as_ref().and_then(|state| state.memory.vertical.resources);
    let wanted = vertical.map(|it| range.resources(it.memory_limit_bytes, it.cpu_millicores()));
    let case = Case { pool, observed, rolling, range: &range, has: has.as_ref(), now };
    let next = match wanted.filter(|_| !is_paused(pool)) {
        None => None,
        Some(wanted) if rollout::brings(live, rolling) => Some(case.taken_along(wanted)),
        Some(wanted) => case.taken_back().or_else(|| case.rolled(wanted, sizing, kept)),
    };
    let Some(next) = next else {
        if let Some(wanted) = wanted {
            case.tell_in_place(&wanted, sizing, kept);
        }
        return case.kept();
    };
    if let Some(resize) = next.resize {
        sizing.resize = Some(resize);
    }
    if next.counts_as_decided {
        resources::put(sizing, pool, &next.resources);
        if let Some(state) = &mut kept.state {
            state.memory.vertical.resources = Some(next.resources);
        }
    }
    TemplateResources {
        annotation: text(&next.kept, written, &next.resources),
        resources: next.resources,
    }
}

/// All that a decision rests on.
struct Case<'a> {
    pool: &'a GatewayPool,
    observed: &'a Observed,
    rolling: &'a rollout::Decision,
    range: &'a VerticalPolicy,
    has: Option<&'a Kept>,
    now: Resources,
}

/// A change of the template.
struct Next {
    resources: Resources,
    kept: Kept,
    resize: Option<ResizeStatus>,
    counts_as_decided: bool,
}

impl Case<'_> {
    /// What it has.
    fn kept(&self) -> TemplateResources {
        let written = resources::written(self.pool);
        let kept = |has: &Kept| Kept { now: Amounts::of(&self.now), ..has.clone() };
        let kept = self.has.map(kept);
        let annotation = kept.and_then(|kept| text(&kept, written, &self.now));
        TemplateResources { resources: self.now, annotation }
    }

    fn rolled_at(&self) -> Option<Timestamp> {
        self.has.and_then(|has| has.rolled_at)
    }

    fn held_until(&self) -> Option<Timestamp> {
        self.has.and_then(|has| has.held_until).filter(|until| *until > self.observed.now)
    }

    /// A change of image or configuration replaces all pods: new ones get what was decided.
    fn taken_along(&self, wanted: Resources) -> Next {
        let kept = Kept {
            now: Amounts::of(&wanted),
            before: None,
            rolled_at: self.rolled_at(),
            held_until: self.held_until(),
        };
        Next { resources: wanted, kept, resize: None, counts_as_decided: false }
    }

    /// Larger pods that found no node return to the old resources.
    fn taken_back(&self) -> Option<Next> {
        let before = self.has?.before.as_ref().filter(|_| self.is_rolling())?;
        let pod = self.observed.watched.pods.iter().find(|pod| finds_no_node(pod))?;
        let resources = before.read(self.range).filter(|before| *before != self.now)?;
        let until = self.observed.now + SignedDuration::from_secs(HELD_SECONDS);
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let message = format!(
            "pod {name} finds no node with {}: taken back, and not tried again before {}; add \
             nodes, or lower scaling.memoryMax and scaling.cpuMax",
            resources::amounts(&self.now),
            whole_second(until)
        );
        Some(Next {
            resources,
            kept: Kept {
                now: before.clone(),
                before: None,
                rolled_at: self.rolled_at(),
                held_until: Some(whole_second(until)),
            },
            resize: Some(told(ResizeWay::Rolling, NO_NODE, message)),
            counts_as_decided: true,
        })
    }

    /// Whether the last change of the template's resources is still rolling out. The StatefulSet's
    /// two revisions differ until all pods have it.
    fn is_rolling(&self) -> bool {
        let since = |at: Timestamp| self.observed.now.duration_since(at).as_secs();
        let status = self.observed.live.as_ref().and_then(|live| live.status.as_ref());
        rollout::is_at_rest(self.pool, self.rolling)
            && self.rolled_at().is_some_and(|at| since(at) < ROLLING_SECONDS_MAX)
            && status.is_some_and(|it| it.update_revision != it.current_revision)
    }

    /// More by replacing pods, where in-place resizing isn't possible.
    fn rolled(&self, wanted: Resources, sizing: &mut SizingStatus, kept: &Sizing) -> Option<Next> {
        let more_memory = wanted.memory_limit_bytes > self.now.memory_limit_bytes;
        // A request without a limit slows nobody down: no pod is replaced for it.
        let more_cpu = wanted.cpu_limit_millicores > self.now.cpu_limit_millicores;
        if !more_memory && !more_cpu {
            return None;
        }
        let (reason, cause) = self.hindrance(kept)?;
        let ended =
            sizing.resources_reason.as_deref() == Some(VerticalReason::OutOfMemory.as_str());
        let grow = |has: u64, wanted: u64, step: u64| {
            let least = ((has as f64 * ROLL_GROWTH) as u64).next_multiple_of(step);
            if wanted > has { wanted.max(least) } else { wanted }
        };
        let resources = self.range.resources(
            grow(self.now.memory_limit_bytes, wanted.memory_limit_bytes, MEMORY_STEP_BYTES),
            grow(self.now.cpu_millicores(), wanted.cpu_millicores(), CPU_STEP_MILLICORES),
        );
        let share = |is: u64, was: u64| is as f64 / was.max(1) as f64;
        let worth = share(resources.memory_limit_bytes, self.now.memory_limit_bytes)
            .max(share(resources.cpu_millicores(), self.now.cpu_millicores()));
        if worth < ROLL_GROWTH_MIN && !(ended && more_memory) {
            return None;
        }
        if self.waits(sizing, ended && more_memory) {
            let message =
                format!("pods are replaced once nothing moves them or speaks against it: {cause}");
            if self.held_until().is_none() {
                sizing.resize = Some(told(ResizeWay::Rolling, reason, message));
            }
            return None;
        }
        let message = format!(
            "pods are replaced one after another, with {} instead of {}: {cause}",
            resources::amounts(&resources),
            resources::amounts(&self.now)
        );
        Some(Next {
            resources,
            kept: Kept {
                now: Amounts::of(&resources),
                before: Some(Amounts::of(&self.now)),
                rolled_at: Some(whole_second(self.observed.now)),
                held_until: None,
            },
            resize: Some(told(ResizeWay::Rolling, reason, message)),
            counts_as_decided: true,
        })
    }

    /// Whether something else replaces pods now, or forbids it.
    fn waits(&self, sizing: &SizingStatus, ended: bool) -> bool {
        let now = self.observed.now;
        let held = [
            Reason::HoldRollout,
            Reason::HoldMigration,
            Reason::HoldSinkBusy,
            Reason::HoldSignalMissing,
        ];
        let young = |at: Timestamp| now.duration_since(at).as_secs() < ROLL_SECONDS_MIN;
        held.iter().any(|reason| reason.as_str() == sizing.reason)
            || !rollout::is_at_rest(self.pool, self.rolling)
            || !is_settled(self.observed)
            || self.held_until().is_some()
            || (!ended && self.rolled_at().is_some_and(young))
    }

    /// Reports that running pods have more than the template, or which one is still pending.
    fn tell_in_place(&self, wanted: &Resources, sizing: &mut SizingStatus, kept: &Sizing) {
        let pods = &self.observed.watched.pods;
        let given = *wanted != self.now && resize::all_hold(pods, sizing);
        if !given || self.hindrance(kept).is_some() {
            return;
        }
        let waiting = pods.iter().find_map(|pod| Some((pod, resize_pending(pod)?)));
        let (reason, message) = match waiting {
            None => ("Resized", "running pods were resized without a restart".to_owned()),
            Some((pod, pending)) => {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                let word = pending.reason.as_deref().unwrap_or("Pending");
                let cause = pending.message.as_deref().unwrap_or_default();
                ("Pending", format!("pod {name} waits for its node: {word}: {cause}"))
            }
        };
        sizing.resize = Some(told(ResizeWay::InPlace, reason, message));
    }

    /// Why pods can't be resized in place, as a reason and message; `None` where they can, as far
    /// as known.
    fn hindrance(&self, kept: &Sizing) -> Option<(&'static str, String)> {
        if let Some((_, cause)) = &kept.resize_refused {
            return Some(("Refused", format!("the API server refuses to resize pods: {cause}")));
        }
        self.observed.watched.pods.iter().find_map(|pod| pending(pod, self.observed.now))
    }
}

/// A pod's message about a resize that its node doesn't do.
fn pending(pod: &Pod, now: Timestamp) -> Option<(&'static str, String)> {
    let pending = resize_pending(pod)?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let cause = pending.message.as_deref().unwrap_or_default();
    let since = pending.last_transition_time.as_ref().map_or(now, |time| time.0);
    let long = now.duration_since(since).as_secs() >= DEFERRED_SECONDS_MAX;
    match pending.reason.as_deref() {
        Some("Infeasible") => Some(("Infeasible", format!("pod {name} can't be resized: {cause}"))),
        Some("Deferred") if long => {
            let minutes = DEFERRED_SECONDS_MAX / 60;
            Some(("Deferred", format!("pod {name} waits for {minutes} minutes: {cause}")))
        }
        _ => None,
    }
}

fn resize_pending(pod: &Pod) -> Option<&PodCondition> {
    let status = pod.status.as_ref().filter(|_| pod.metadata.deletion_timestamp.is_none())?;
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|it| it.type_ == "PodResizePending" && it.status == "True")
}

fn finds_no_node(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions
            .unwrap_or_default()
            .iter()
            .any(|it| it.type_ == "PodScheduled" && it.reason.as_deref() == Some("Unschedulable"))
}

/// What a StatefulSet keeps of it; nothing if unreadable.
fn annotation(live: &StatefulSet) -> Option<Kept> {
    let text = live.metadata.annotations.as_ref()?.get(RESOURCES_ANNOTATION)?;
    serde_json::from_str(text).ok()
}

/// The annotation's text; nothing if it equals the spec.
fn text(kept: &Kept, written: Resources, now: &Resources) -> Option<String> {
    let says_more = *now != written || kept.held_until.is_some() || kept.rolled_at.is_some();
    says_more.then(|| serde_json::to_string(kept).ok()).flatten()
}

/// A status holds 1,024 bytes of a message: cut what pods and servers say.
fn told(way: ResizeWay, reason: &str, message: String) -> ResizeStatus {
    let message = message.chars().take(MESSAGE_CHARS_MAX).collect();
    ResizeStatus { way, reason: reason.to_owned(), message }
}

fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
