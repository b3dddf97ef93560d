//! Hands targets over: (documents, pods, what is wanted) -> the next writes. All memory is in the
//! documents, so a new operator goes on where the last one stopped, even between two writes.
//!
//! The rule: a target is written into a pod's document only if it is in no other one, and each pod
//! that had it has confirmed a version without it or is gone. A target that is taken away is first
//! noted as released in the same write, with that version; the note stays until it is confirmed.
//!
//! Pods obey: a pod scrapes what the newest version it has read says and nothing else, never goes
//! back to a lower version, reports a version only after it has stopped what is not in it, reads
//! its document from the API server itself (not from a cache) when it starts, and scrapes nothing
//! without one. Limit: a pod that is alive but silent is taken for dead, so its targets may be
//! scraped twice until it reads its document again.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::document::{Entry, Released, Share};
use crate::pod::{PodName, PodState, Seen, state};
use crate::target::TargetId;

/// Where a target is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The pod.
    pub pod: PodName,
    /// What the pod is to read.
    pub entry: Entry,
}

/// What a step goes by.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// All documents, as they are stored.
    pub shares: &'a BTreeMap<PodName, Share>,
    /// All pods that are known, also deleted ones until their documents are.
    pub pods: &'a BTreeMap<PodName, Seen>,
    /// Where each target is to be. One that is missing here is taken from its pod.
    pub wanted: &'a BTreeMap<TargetId, Wanted>,
    /// The settings of all jobs, by name: a document has those of its targets' jobs. Other settings
    /// are a new version.
    pub jobs: &'a BTreeMap<String, Value>,
    /// Seconds on the caller's clock.
    pub now: i64,
    /// A pod that was not heard for so long is gone ([`crate::SILENT_SECONDS`]).
    pub silent_seconds: i64,
}

/// A change of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Write the document, if the stored one has the version below (0: if there is none).
    Put(PodName, Share),
    /// Delete the document of a pod that is deleted.
    Delete(PodName),
}

/// The next writes, to be made in this order. One that fails ends the step: later ones may rely on
/// it. Nothing to do is no writes.
#[must_use]
pub fn step(step: &Step<'_>) -> Vec<Write> {
    let mut writes: Vec<Write> = Vec::new();
    let mut next: BTreeMap<&PodName, Share> = BTreeMap::new();
    // Documents of pods that are deleted mean nothing any more.
    let (void, shares): (Vec<_>, Vec<_>) =
        step.shares.iter().partition(|(name, _)| deleted(step, name));
    writes.extend(void.into_iter().map(|(name, _)| Write::Delete(name.clone())));
    let notes = newest(step.shares.values());
    for (name, share) in &shares {
        if let Some(share) = taken(step, &notes, name, share) {
            next.insert(name, share);
        }
    }
    // Those of silent pods come first: what they lose is given away in the same step.
    let silent: Vec<&PodName> = next.keys().copied().filter(|name| gone(step, name)).collect();
    let blocked = blocked(step, &shares, &next);
    give(step, &blocked, &mut next);
    configure(step, &shares, &mut next);
    let mut put = |name: &PodName, share: Share| writes.push(Write::Put(name.clone(), share));
    for name in silent {
        if let Some(share) = next.remove(name) {
            put(name, share);
        }
    }
    next.into_iter().for_each(|(name, share)| put(name, share));
    writes
}

/// The present assignment as documents say it: where targets are, and where those are to go that
/// nobody has at the moment.
#[must_use]
pub fn assigned(shares: &BTreeMap<PodName, Share>) -> BTreeMap<TargetId, PodName> {
    let mut all = BTreeMap::new();
    for (id, note) in newest(shares.values()) {
        if let Some(pod) = &note.to {
            all.insert(id, pod.clone());
        }
    }
    for (name, share) in shares {
        all.extend(share.targets.keys().map(|id| (*id, name.clone())));
    }
    all
}

/// Of each target that has notes the newest one.
fn newest<'a>(shares: impl Iterator<Item = &'a Share>) -> HashMap<TargetId, &'a Released> {
    let mut newest: HashMap<TargetId, &Released> = HashMap::new();
    for (id, note) in shares.flat_map(|share| &share.released) {
        let known = newest.entry(*id).or_insert(note);
        if note.turn > known.turn {
            *known = note;
        }
    }
    newest
}

fn gone(step: &Step<'_>, name: &PodName) -> bool {
    let seen = step.pods.get(name);
    seen.is_none_or(|seen| state(seen, step.now, step.silent_seconds) == PodState::Gone)
}

/// A pod that nobody knows is deleted: the caller lists pods before it takes a step.
fn deleted(step: &Step<'_>, name: &PodName) -> bool {
    step.pods.get(name).is_none_or(|seen| seen.deleted)
}

fn confirmed(step: &Step<'_>, name: &PodName, version: u64) -> bool {
    let reported = step.pods.get(name).and_then(|seen| seen.reported);
    reported.is_some_and(|reported| reported >= version)
}

/// A document without what its pod is to lose, if there is any such.
fn taken(
    step: &Step<'_>,
    notes: &HashMap<TargetId, &Released>,
    name: &PodName,
    share: &Share,
) -> Option<Share> {
    let keeps = |id: &TargetId| step.wanted.get(id).is_some_and(|wanted| wanted.pod == *name);
    let changed = |(id, entry): (&TargetId, &Entry)| {
        let wanted = step.wanted.get(id).filter(|wanted| wanted.pod == *name);
        wanted.is_none_or(|wanted| differs(&wanted.entry, entry))
    };
    if !share.targets.iter().any(changed) {
        return None;
    }
    let (version, jobs) = (share.version + 1, share.jobs.clone());
    let mut next = Share { version, jobs, ..Share::default() };
    for (id, entry) in &share.targets {
        let wanted = step.wanted.get(id);
        if keeps(id) {
            let entry = wanted.map_or(entry, |wanted| &wanted.entry);
            next.targets.insert(*id, entry.clone());
        } else {
            let to = wanted.map(|wanted| wanted.pod.clone());
            let turn = notes.get(id).map_or(0, |note| note.turn) + 1;
            next.released.insert(*id, Released { version, turn, to });
        }
    }
    keep_notes(step, name, share, &mut next);
    Some(next)
}

/// Another weight alone is no reason to write.
fn differs(wanted: &Entry, entry: &Entry) -> bool {
    (&wanted.job, &wanted.address, &wanted.labels) != (&entry.job, &entry.address, &entry.labels)
}

/// Notes that aren't confirmed stay, and say where the target is to go now.
fn keep_notes(step: &Step<'_>, name: &PodName, share: &Share, next: &mut Share) {
    for (id, note) in &share.released {
        if next.targets.contains_key(id) || confirmed(step, name, note.version) {
            continue;
        }
        let to = step.wanted.get(id).map(|wanted| wanted.pod.clone());
        next.released.entry(*id).or_insert(Released { to, ..*note });
    }
}

/// Targets that may still be scraped, and by which pod. A pod that is gone doesn't count.
fn blocked<'a>(
    step: &Step<'_>,
    shares: &[(&'a PodName, &'a Share)],
    next: &BTreeMap<&'a PodName, Share>,
) -> HashMap<TargetId, Vec<&'a PodName>> {
    let mut blocked: HashMap<TargetId, Vec<&PodName>> = HashMap::new();
    for (name, stored) in shares {
        let share = next.get(name).unwrap_or(stored);
        // What a silent pod has lost is free once its document says so, which is written first.
        for id in share.targets.keys() {
            blocked.entry(*id).or_default().push(name);
        }
        if gone(step, name) {
            continue;
        }
        for (id, note) in &share.released {
            if !confirmed(step, name, note.version) {
                blocked.entry(*id).or_default().push(name);
            }
        }
    }
    blocked
}

/// Writes targets that nobody may be scraping, or only the wanted pod itself, into its document.
fn give<'a>(
    step: &Step<'a>,
    blocked: &HashMap<TargetId, Vec<&'a PodName>>,
    next: &mut BTreeMap<&'a PodName, Share>,
) {
    for (id, wanted) in step.wanted {
        let others = blocked.get(id).map_or(&[][..], Vec::as_slice);
        let Some((name, seen)) = step.pods.get_key_value(&wanted.pod) else { continue };
        let takes = matches!(
            state(seen, step.now, step.silent_seconds),
            PodState::Ready | PodState::Leaving
        );
        if !takes || others.iter().any(|other| *other != name) {
            continue;
        }
        let stored = step.shares.get(name);
        let has = |share: &Share| share.targets.contains_key(id);
        if next.get(name).or(stored).is_some_and(has) {
            continue;
        }
        let share = next.entry(name).or_insert_with(|| renewed(step, name, stored));
        share.released.remove(id);
        share.targets.insert(*id, wanted.entry.clone());
    }
}

/// Puts the settings of jobs into the documents whose targets have them, and opens those of which
/// nothing else changes. A silent pod's document waits for the pod.
fn configure<'a>(
    step: &Step<'a>,
    shares: &[(&'a PodName, &'a Share)],
    next: &mut BTreeMap<&'a PodName, Share>,
) {
    for (name, stored) in shares {
        if !next.contains_key(name) && !gone(step, name) && jobs(step, stored) != stored.jobs {
            next.insert(name, renewed(step, name, Some(stored)));
        }
    }
    for share in next.values_mut() {
        share.jobs = jobs(step, share);
    }
}

/// The settings that a document needs. A job that isn't known now keeps what it has.
fn jobs(step: &Step<'_>, share: &Share) -> BTreeMap<String, Value> {
    let mut jobs = BTreeMap::new();
    for Entry { job, .. } in share.targets.values() {
        if !jobs.contains_key(job)
            && let Some(settings) = step.jobs.get(job).or_else(|| share.jobs.get(job))
        {
            jobs.insert(job.clone(), settings.clone());
        }
    }
    jobs
}

/// The next version of a document, with the same targets. A document that somebody deleted goes on
/// behind what its pod has taken up: the pod ignores lower ones.
fn renewed(step: &Step<'_>, name: &PodName, stored: Option<&Share>) -> Share {
    let Some(stored) = stored else {
        let reported = step.pods.get(name).and_then(|seen| seen.reported).unwrap_or(0);
        return Share { version: reported + 1, ..Share::default() };
    };
    let (jobs, targets) = (stored.jobs.clone(), stored.targets.clone());
    let version = stored.version + 1;
    let mut next = Share { version, jobs, targets, ..Share::default() };
    keep_notes(step, name, stored, &mut next);
    next
}
