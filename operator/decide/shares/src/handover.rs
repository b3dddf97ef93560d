//! Hands targets over: (documents, pods, desired targets) -> the next writes. All state is in the
//! documents, so a new operator continues where the last one stopped, even between two writes.
//!
//! The rule: a target is written into a pod's document only if no other document has it, and each
//! pod that had it has confirmed a version without it or is gone. The write that removes a target
//! also notes it as released, with that version; the note stays until the pod confirms it.
//!
//! Assumptions: a pod scrapes only what the newest version it has read contains, never returns to a
//! lower version, reports a version only after it has stopped what is not in it, reads its document
//! from the API server itself (not from a cache) when it starts, and scrapes nothing without one.
//! Limit: a pod that is alive, but neither answers nor counts as ready, is taken for dead, so its
//! targets may be scraped twice until it reads its document again.

use std::collections::{BTreeMap, HashMap};

use millrace_share_documents::{PodName, Released, Share, TargetEntry, TargetId};
use serde_json::Value;

use crate::pod::{PodObservation, PodState, pod_state};

/// The desired pod of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredTarget {
    /// The pod.
    pub pod: PodName,
    /// The entry for the pod's document.
    pub entry: TargetEntry,
}

/// The input of a step.
#[derive(Clone, Copy, Debug)]
pub struct HandoverInput<'a> {
    /// All stored documents.
    pub shares: &'a BTreeMap<PodName, Share>,
    /// All known pods, also deleted ones until their documents are deleted.
    pub pods: &'a BTreeMap<PodName, PodObservation>,
    /// The desired pod of each target. A target that is missing here is removed from its pod.
    pub desired: &'a BTreeMap<TargetId, DesiredTarget>,
    /// The settings of all jobs, by name: a document has those of its targets' jobs. Changed
    /// settings are a new version.
    pub jobs: &'a BTreeMap<String, Value>,
    /// Seconds on the caller's clock.
    pub now: i64,
    /// A pod that was not heard from for so long is silent ([`crate::SILENT_SECONDS`]).
    pub silent_seconds: i64,
}

/// A change of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Write the document, if the stored one has the previous version (0: if none exists).
    Put(PodName, Share),
    /// Delete the document of a pod that is deleted.
    Delete(PodName),
}

/// Returns the next writes, in the required order. A failed write must end the step: later ones may
/// rely on it.
#[must_use]
pub fn plan_writes(plan_writes: &HandoverInput<'_>) -> Vec<Write> {
    let mut writes: Vec<Write> = Vec::new();
    let mut next: BTreeMap<&PodName, Share> = BTreeMap::new();
    // Documents of deleted pods have no effect any more.
    let (void, shares): (Vec<_>, Vec<_>) =
        plan_writes.shares.iter().partition(|(name, _)| is_deleted(plan_writes, name));
    writes.extend(void.into_iter().map(|(name, _)| Write::Delete(name.clone())));
    let releases = newest_releases(plan_writes.shares.values());
    for (name, share) in &shares {
        if let Some(share) = release_unwanted(plan_writes, &releases, name, share) {
            next.insert(name, share);
        }
    }
    // Documents of silent pods come first: the same step gives their targets away.
    let silent: Vec<&PodName> =
        next.keys().copied().filter(|name| is_dead(plan_writes, name)).collect();
    let blocked = blocked_targets(plan_writes, &shares, &next);
    assign_free_targets(plan_writes, &blocked, &mut next);
    update_job_settings(plan_writes, &shares, &mut next);
    let mut put = |name: &PodName, share: Share| writes.push(Write::Put(name.clone(), share));
    for name in silent {
        if let Some(share) = next.remove(name) {
            put(name, share);
        }
    }
    next.into_iter().for_each(|(name, share)| put(name, share));
    writes
}

/// Returns the assignment in the documents: the pod of each target, or the destination of a target
/// that no pod has at the moment.
#[must_use]
pub fn current_assignment(shares: &BTreeMap<PodName, Share>) -> BTreeMap<TargetId, PodName> {
    let mut all = BTreeMap::new();
    for (id, note) in newest_releases(shares.values()) {
        if let Some(pod) = &note.to {
            all.insert(id, pod.clone());
        }
    }
    for (name, share) in shares {
        all.extend(share.targets.keys().map(|id| (*id, name.clone())));
    }
    all
}

/// Returns the newest note of each target that has notes.
fn newest_releases<'a>(shares: impl Iterator<Item = &'a Share>) -> HashMap<TargetId, &'a Released> {
    let mut newest: HashMap<TargetId, &Released> = HashMap::new();
    for (id, note) in shares.flat_map(|share| &share.released) {
        let known = newest.entry(*id).or_insert(note);
        if note.turn > known.turn {
            *known = note;
        }
    }
    newest
}

/// Returns the state of a pod; `None` if it is unknown.
fn state_of(step: &HandoverInput<'_>, name: &PodName) -> Option<PodState> {
    step.pods.get(name).map(|pod| pod_state(pod, step.now, step.silent_seconds))
}

/// Returns whether the pod counts as dead, so that no step waits for its confirmation.
fn is_dead(step: &HandoverInput<'_>, name: &PodName) -> bool {
    matches!(state_of(step, name), None | Some(PodState::Silent | PodState::Ended))
}

/// Returns whether the pod is deleted. An unknown pod is: the caller lists pods before a step.
fn is_deleted(step: &HandoverInput<'_>, name: &PodName) -> bool {
    step.pods.get(name).is_none_or(|pod| pod.deleted)
}

fn has_confirmed(step: &HandoverInput<'_>, name: &PodName, version: u64) -> bool {
    let reported = step.pods.get(name).and_then(|pod| pod.reported);
    reported.is_some_and(|reported| reported >= version)
}

/// Returns the document without the targets that its pod is to lose or change, if there are any.
fn release_unwanted(
    step: &HandoverInput<'_>,
    releases: &HashMap<TargetId, &Released>,
    name: &PodName,
    share: &Share,
) -> Option<Share> {
    let stays = |id: &TargetId| step.desired.get(id).is_some_and(|desired| desired.pod == *name);
    let changed = |(id, entry): (&TargetId, &TargetEntry)| {
        let desired = step.desired.get(id).filter(|desired| desired.pod == *name);
        desired.is_none_or(|desired| has_changed(&desired.entry, entry))
    };
    if !share.targets.iter().any(changed) {
        return None;
    }
    let (version, jobs) = (share.version + 1, share.jobs.clone());
    let mut next = Share { version, jobs, ..Share::default() };
    for (id, entry) in &share.targets {
        let desired = step.desired.get(id);
        if stays(id) {
            let entry = desired.map_or(entry, |desired| &desired.entry);
            next.targets.insert(*id, entry.clone());
        } else {
            let to = desired.map(|desired| desired.pod.clone());
            let release_count = releases.get(id).map_or(0, |note| note.turn) + 1;
            next.released.insert(*id, Released { version, turn: release_count, to });
        }
    }
    retain_releases(step, name, share, &mut next);
    Some(next)
}

/// A change of only the weight does not count.
fn has_changed(desired: &TargetEntry, entry: &TargetEntry) -> bool {
    (&desired.job, &desired.address, &desired.labels) != (&entry.job, &entry.address, &entry.labels)
}

/// Retains notes that aren't confirmed, with the current destination.
fn retain_releases(step: &HandoverInput<'_>, name: &PodName, share: &Share, next: &mut Share) {
    for (id, note) in &share.released {
        if next.targets.contains_key(id) || has_confirmed(step, name, note.version) {
            continue;
        }
        let to = step.desired.get(id).map(|desired| desired.pod.clone());
        next.released.entry(*id).or_insert(Released { to, ..*note });
    }
}

/// Returns the targets that may still be scraped, and by which pods. A pod that is gone doesn't
/// count.
fn blocked_targets<'a>(
    step: &HandoverInput<'_>,
    shares: &[(&'a PodName, &'a Share)],
    next: &BTreeMap<&'a PodName, Share>,
) -> HashMap<TargetId, Vec<&'a PodName>> {
    let mut blocked: HashMap<TargetId, Vec<&PodName>> = HashMap::new();
    for (name, stored) in shares {
        let share = next.get(name).unwrap_or(stored);
        // A silent pod's targets are free once its document omits them, which is written first.
        for id in share.targets.keys() {
            blocked.entry(*id).or_default().push(name);
        }
        if is_dead(step, name) {
            continue;
        }
        for (id, note) in &share.released {
            if !has_confirmed(step, name, note.version) {
                blocked.entry(*id).or_default().push(name);
            }
        }
    }
    blocked
}

/// Writes a target into the desired pod's document if no other pod may be scraping it.
///
/// A pod that became unreachable during the hand-over still reads its document. So it gets back a
/// target whose release it can't confirm, and it gets a target that is on its way to it. Otherwise
/// no pod would scrape the target for as long as the network is closed.
fn assign_free_targets<'a>(
    step: &HandoverInput<'a>,
    blocked: &HashMap<TargetId, Vec<&'a PodName>>,
    next: &mut BTreeMap<&'a PodName, Share>,
) {
    for (id, desired) in step.desired {
        let holders = blocked.get(id).map_or(&[][..], Vec::as_slice);
        let pod = match holders {
            [holder] if state_of(step, holder) == Some(PodState::Unreachable) => *holder,
            _ => &desired.pod,
        };
        let Some((name, _)) = step.pods.get_key_value(pod) else { continue };
        let takes = matches!(
            state_of(step, name),
            Some(PodState::Ready | PodState::Leaving | PodState::Unreachable)
        );
        if !takes || holders.iter().any(|holder| *holder != name) {
            continue;
        }
        let stored = step.shares.get(name);
        let has = |share: &Share| share.targets.contains_key(id);
        if next.get(name).or(stored).is_some_and(has) {
            continue;
        }
        let share = next.entry(name).or_insert_with(|| next_version(step, name, stored));
        share.released.remove(id);
        share.targets.insert(*id, desired.entry.clone());
    }
}

/// Puts the settings of jobs into the documents whose targets have them, including documents
/// without other changes. A silent pod's document waits for the pod.
fn update_job_settings<'a>(
    step: &HandoverInput<'a>,
    shares: &[(&'a PodName, &'a Share)],
    next: &mut BTreeMap<&'a PodName, Share>,
) {
    for (name, stored) in shares {
        if !next.contains_key(name)
            && !is_dead(step, name)
            && job_settings(step, stored) != stored.jobs
        {
            next.insert(name, next_version(step, name, Some(stored)));
        }
    }
    for share in next.values_mut() {
        share.jobs = job_settings(step, share);
    }
}

/// Returns the settings that a document needs. An unknown job retains its stored settings.
fn job_settings(step: &HandoverInput<'_>, share: &Share) -> BTreeMap<String, Value> {
    let mut jobs = BTreeMap::new();
    for TargetEntry { job, .. } in share.targets.values() {
        if !jobs.contains_key(job)
            && let Some(settings) = step.jobs.get(job).or_else(|| share.jobs.get(job))
        {
            jobs.insert(job.clone(), settings.clone());
        }
    }
    jobs
}

/// Returns the next version of a document, with the same targets. After a deletion, versions
/// continue from what the pod has applied: the pod ignores lower ones.
fn next_version(step: &HandoverInput<'_>, name: &PodName, stored: Option<&Share>) -> Share {
    let Some(stored) = stored else {
        let reported = step.pods.get(name).and_then(|pod| pod.reported).unwrap_or(0);
        return Share { version: reported + 1, ..Share::default() };
    };
    let (jobs, targets) = (stored.jobs.clone(), stored.targets.clone());
    let version = stored.version + 1;
    let mut next = Share { version, jobs, targets, ..Share::default() };
    retain_releases(step, name, stored, &mut next);
    next
}
