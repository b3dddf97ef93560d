//! Tracks the versions of children that watches reported, and which of them were verified, so that
//! a converged reconcile need not read its children.
//!
//! A child is skipped only while three things agree: the newest version from its watch, the version
//! last compared in full, and the hash of the desired state. An edit changes the first before its
//! owner is reconciled, so it is always detected. A version whose metadata shows that the desired
//! state was applied and not changed since counts as compared ([`AppliedState`]). No entry is
//! trusted for longer than [`VERIFIED_FOR`], which bounds the damage of a watch that missed an
//! event. Without a watch nothing is skipped. A version written or read before its watch reports it
//! is stored separately until then. No object, Secret content or client is stored here.
//!
//! Limits: about 100 bytes per child and 300 per owner: 9 MB for 50,000 children of 10,000 owners;
//! [`AHEAD_MAX`] children not yet reported by a watch.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use millrace_rollout::WorkloadObservation;

use crate::hash::{fingerprint_of, spread_by};
use crate::ownership::applied_state::AppliedState;

/// A child is compared in full at least this often. 10,000 edge pools have 50,000 children, so an
/// operator reads about 35 a second (each 1,350 s after its last read on average; its owner
/// reconciles 110 s later). A watch that misses nothing would not need this.
pub const VERIFIED_FOR: SignedDuration = SignedDuration::from_secs(1_800);
/// A watch reports a write within this time, unless it is far behind.
const AHEAD_FOR: SignedDuration = SignedDuration::from_secs(30);
/// Maximum number of children verified before their watch reported them: those of some hundred
/// owners, more than reconcile at once. Others are read again.
const AHEAD_MAX: usize = 1_000;

/// A child's key: a 128-bit fingerprint of its kind, namespace and name, which would use more
/// memory than all other fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChildKey(u64, u64);

impl ChildKey {
    /// Returns the key of the child of kind `K` called `name` in `namespace`.
    #[must_use]
    pub fn new<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> Self {
        let child = (K::kind(&()), namespace, name);
        Self(fingerprint_of(&child), fingerprint_of(&("another", child)))
    }

    /// Returns how long this child stays verified: up to half less than the maximum, so that
    /// children created together are not read together.
    fn verified_duration(self) -> Duration {
        let most = VERIFIED_FOR.unsigned_abs();
        most - spread_by(&self, most / 2)
    }
}

/// One state of one object: its uid and resource version, as a fingerprint of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectVersion(u64);

impl ObjectVersion {
    /// Returns the mark of an object that was read, written or reported by a watch.
    #[must_use]
    pub fn of_object<K: Resource>(object: &K) -> Self {
        Self(fingerprint_of(&(object.uid(), object.resource_version())))
    }
}

/// A child's state from its watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildState {
    /// The fingerprint of the state.
    pub mark: ObjectVersion,
    /// The applied state that the child's metadata records, if any.
    pub claim: Option<AppliedState>,
    /// A workload's figures, if the watch carries complete objects.
    pub figures: Option<WorkloadObservation>,
}

impl ChildState {
    /// Returns the state of a watched object, with its figures if the watch carries them.
    #[must_use]
    pub fn of_object<K: Resource>(object: &K, figures: Option<WorkloadObservation>) -> Self {
        Self {
            mark: ObjectVersion::of_object(object),
            claim: AppliedState::of_child(object),
            figures,
        }
    }
}

/// The cached state of one child.
#[derive(Debug, Default)]
struct ChildEntry {
    /// The newest state from the watch; `None` before the first event.
    observed: Option<ObjectVersion>,
    /// The applied state that the metadata of the newest state records.
    claim: Option<AppliedState>,
    /// A workload's figures in the newest state, if its watch carries them. Boxed, since most
    /// children have none.
    figures: Option<Box<WorkloadObservation>>,
    /// The watch that reported the child, and the list it was in.
    round: ListRound,
    /// The child's owner, to reconcile after a deletion and to count its children.
    owner: Option<ChildOwner>,
    verified: Option<Verified>,
}

/// A child's owner, and the kind under which the child is counted.
#[derive(Clone, Debug)]
struct ChildOwner {
    owner: Arc<Owner>,
    kind: u64,
}

/// An owner: its kind, namespace and name. All its children share one value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owner {
    kind: Cow<'static, str>,
    namespace: Box<str>,
    name: Box<str>,
}

impl Owner {
    fn new<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> Self {
        Self { kind: K::kind(&()), namespace: namespace.into(), name: name.into() }
    }
}

/// The result of a full comparison that found or made the child as desired.
#[derive(Debug)]
struct Verified {
    state: ObjectVersion,
    desired: u64,
    at: Timestamp,
    /// A workload's figures in that state, if it was read or written.
    figures: Option<Box<WorkloadObservation>>,
}

/// A child in the desired state.
#[derive(Clone, Debug)]
pub struct VerifiedChild {
    /// The newest state that its watch reported.
    pub state: ObjectVersion,
    /// A workload's figures in that state, if it was read or written, or its watch carries them.
    pub figures: Option<WorkloadObservation>,
}

/// Returns whether a comparison is recent enough to count.
fn is_fresh(verified: &Verified, key: ChildKey, now: Timestamp) -> bool {
    let age = now.duration_since(verified.at);
    age >= SignedDuration::ZERO && age.unsigned_abs() < key.verified_duration()
}

/// Identifies a watch and one of its lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListRound {
    watch: u32,
    list: u32,
}

impl ListRound {
    /// Returns the same watch with its next list.
    #[must_use]
    pub fn next(self) -> Self {
        Self { list: self.list.wrapping_add(1), ..self }
    }
}

/// A child that is missing from a new list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedChild {
    /// The child's namespace.
    pub namespace: String,
    /// The owner's name.
    pub owner: String,
}

#[derive(Debug, Default)]
struct Children {
    entries: HashMap<ChildKey, ChildEntry>,
    /// How many children of each kind an owner has.
    owners: HashMap<Arc<Owner>, Vec<(u64, u32)>>,
    /// Children verified before a watch reported them.
    ahead: HashMap<ChildKey, Verified>,
}

impl Children {
    fn set_owner(&mut self, key: ChildKey, owner: Option<(Owner, u64)>) {
        let before = self.entries.get_mut(&key).and_then(|entry| entry.owner.take());
        if let Some(before) = before {
            self.release_owner(&before);
        }
        let Some((owner, kind)) = owner else { return };
        let owner = match self.owners.get_key_value(&owner) {
            Some((known, _)) => known.clone(),
            None => Arc::new(owner),
        };
        let counts = self.owners.entry(owner.clone()).or_default();
        match counts.iter_mut().find(|(counted, _)| *counted == kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((kind, 1)),
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.owner = Some(ChildOwner { owner, kind });
        }
    }

    fn release_owner(&mut self, belongs: &ChildOwner) {
        let Some(counts) = self.owners.get_mut(&belongs.owner) else { return };
        for (kind, count) in counts.iter_mut() {
            if *kind == belongs.kind {
                *count = count.saturating_sub(1);
            }
        }
        counts.retain(|(_, count)| *count > 0);
        if counts.is_empty() {
            self.owners.remove(&belongs.owner);
        }
    }

    fn remove(&mut self, key: ChildKey) -> Option<ChildEntry> {
        let entry = self.entries.remove(&key)?;
        if let Some(belongs) = &entry.owner {
            self.release_owner(belongs);
        }
        Some(entry)
    }
}

/// The reported and verified states of the children of all owners.
#[derive(Debug, Default)]
pub struct ChildCache {
    children: Mutex<Children>,
    watches: AtomicU32,
}

impl ChildCache {
    /// Registers a new watch.
    #[must_use]
    pub fn begin_watch(&self) -> ListRound {
        ListRound { watch: self.watches.fetch_add(1, Ordering::Relaxed) + 1, list: 0 }
    }

    /// Records that a watch reported a child of kind `C`, owned by `K`.
    pub fn record_child<K, C>(
        &self,
        (namespace, name): (&str, &str),
        state: ChildState,
        owner: Option<&str>,
        round: ListRound,
    ) where
        K: Resource<DynamicType = ()>,
        C: Resource<DynamicType = ()>,
    {
        let key = ChildKey::new::<C>(namespace, name);
        let owner = owner.map(|owner| Owner::new::<K>(namespace, owner));
        let mut children = self.lock();
        let ahead = children.ahead.remove(&key);
        let entry = children.entries.entry(key).or_default();
        entry.verified = ahead.or(entry.verified.take());
        entry.observed = Some(state.mark);
        entry.claim = state.claim;
        entry.figures = state.figures.map(Box::new);
        entry.round = round;
        if entry.owner.as_ref().map(|it| it.owner.as_ref()) != owner.as_ref() {
            children.set_owner(key, owner.map(|owner| (owner, fingerprint_of(&C::kind(&())))));
        }
    }

    /// Returns how many children of kind `C` the `K` called `owner` has, according to the watches.
    #[must_use]
    pub fn count_children<K, C>(&self, namespace: &str, owner: &str) -> usize
    where
        K: Resource<DynamicType = ()>,
        C: Resource<DynamicType = ()>,
    {
        let kind = fingerprint_of(&C::kind(&()));
        let children = self.lock();
        let counts = children.owners.get(&Owner::new::<K>(namespace, owner));
        let count = counts.into_iter().flatten().find(|(counted, _)| *counted == kind);
        count.map_or(0, |(_, count)| usize::try_from(*count).unwrap_or(usize::MAX))
    }

    /// Removes a child whose deletion a watch reported.
    pub fn remove_child(&self, key: &ChildKey) {
        let mut children = self.lock();
        children.ahead.remove(key);
        children.remove(*key);
    }

    /// Returns whether a watch reported the child. Then the API server's cache is at least as new.
    #[must_use]
    pub fn is_known(&self, key: &ChildKey) -> bool {
        self.lock().entries.contains_key(key)
    }

    /// Returns whether `state` is the newest that a watch reported.
    #[must_use]
    pub fn is_newest(&self, key: &ChildKey, state: ObjectVersion) -> bool {
        self.lock().entries.get(key).is_some_and(|entry| entry.observed == Some(state))
    }

    /// Returns whether the child was verified for another desired state and is unchanged since: it
    /// is ours, unedited, and must be written.
    #[must_use]
    pub fn is_outdated(&self, key: &ChildKey, hash: &str, now: Timestamp) -> bool {
        let children = self.lock();
        let Some(ChildEntry { observed, verified, .. }) = children.entries.get(key) else {
            return false;
        };
        verified.as_ref().is_some_and(|it| {
            is_fresh(it, *key, now)
                && *observed == Some(it.state)
                && it.desired != fingerprint_of(&hash)
        })
    }

    /// Drops the children missing from a watch's finished new list, and returns the owners to
    /// reconcile.
    pub fn finish_list(&self, round: ListRound) -> Vec<DeletedChild> {
        let mut deleted = Vec::new();
        let mut children = self.lock();
        let is_stale =
            |entry: &ChildEntry| entry.round.watch == round.watch && entry.round.list != round.list;
        let stale = children.entries.iter().filter(|(_, entry)| is_stale(entry));
        for key in stale.map(|(key, _)| *key).collect::<Vec<_>>() {
            if let Some(ChildOwner { owner, .. }) = children.remove(key).and_then(|it| it.owner) {
                let (namespace, owner) = (owner.namespace.to_string(), owner.name.to_string());
                deleted.push(DeletedChild { namespace, owner });
            }
        }
        deleted
    }

    /// Returns the child's newest state if that is the desired one: it was compared and is watched
    /// unchanged since, or its watched metadata shows exactly `claim`. A child that was ever
    /// compared in full is compared again when that expires.
    #[must_use]
    pub fn verified_child(
        &self,
        key: &ChildKey,
        hash: &str,
        claim: impl FnOnce() -> AppliedState,
        now: Timestamp,
    ) -> Option<VerifiedChild> {
        let desired = fingerprint_of(&hash);
        let mut children = self.lock();
        let entry = children.entries.get_mut(key)?;
        let state = entry.observed?;
        let verified = entry.verified.as_ref();
        if verified.is_some_and(|it| it.desired != desired || !is_fresh(it, *key, now)) {
            return None;
        }
        if verified.is_none_or(|it| it.state != state) {
            if entry.claim? != claim() {
                return None;
            }
            let at = verified.map_or(now, |it| it.at);
            entry.verified = Some(Verified { state, desired, at, figures: None });
        }
        let read = entry.verified.as_ref().and_then(|it| it.figures.as_deref());
        Some(VerifiedChild { state, figures: read.or(entry.figures.as_deref()).cloned() })
    }

    /// Records a full comparison that found or made the child as desired.
    pub fn record_verified(
        &self,
        key: ChildKey,
        hash: &str,
        state: ObjectVersion,
        figures: Option<WorkloadObservation>,
        now: Timestamp,
    ) {
        let fingerprint = fingerprint_of(&hash);
        let verified =
            Verified { state, desired: fingerprint, at: now, figures: figures.map(Box::new) };
        let mut children = self.lock();
        if let Some(entry) = children.entries.get_mut(&key) {
            entry.verified = Some(verified);
            return;
        }
        // A watch may never report some of them: evict the oldest.
        if children.ahead.len() >= AHEAD_MAX {
            children.ahead.retain(|_, it| now.duration_since(it.at) < AHEAD_FOR);
        }
        if children.ahead.len() < AHEAD_MAX {
            children.ahead.insert(key, verified);
        }
    }

    /// Returns the number of cached children.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Returns whether no child is cached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Children> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
