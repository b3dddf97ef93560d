//! Versions of children that watches reported, and which of them were verified: so a converged
//! reconcile need not read its children.
//!
//! A child is skipped only while three things agree: the newest version from its watch, the version
//! last compared in full, and the hash of the desired state. An edit changes the first before its
//! owner is reconciled, so it is always seen. A version whose metadata shows that the desired state
//! was applied and not changed since counts as compared ([`AppliedState`]). No entry is trusted for
//! longer than [`VERIFIED_FOR`], which bounds the damage of a watch that missed an event. Without a
//! watch nothing is skipped. A version written or read before its watch reports it is kept apart
//! until then. No object, Secret content or client is held here.
//!
//! Limits: about 100 bytes per child and 300 per owner: 9 MB for 50,000 children of 10,000 owners;
//! [`AHEAD_MAX`] children not yet reported by a watch.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use millrace_rollout::Observation;

use crate::ownership::applied_state::AppliedState;

/// A child is compared in full at least this often. 10,000 edge pools have 50,000 children, so an
/// operator reads about 35 a second (each 1,350 s after its last read on average; its owner
/// reconciles 110 s later). A watch that misses nothing would not need this.
pub const VERIFIED_FOR: SignedDuration = SignedDuration::from_secs(1_800);
/// Up to this share of that time is subtracted by the child's name, so that children created
/// together are not read together.
const JITTER_PERCENT: u64 = 50;
/// A watch reports a write within this time, unless it is far behind.
const AHEAD_FOR: SignedDuration = SignedDuration::from_secs(30);
/// Children verified before their watch reported them: those of some hundred owners, far more than
/// reconcile at once. Others are read once more.
const AHEAD_MAX: usize = 1_000;

/// A child's key: a 128-bit fingerprint of its kind, namespace and name. The names would take more
/// than everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64, u64);

impl Key {
    /// The key of the child of kind `K` called `name` in `namespace`.
    #[must_use]
    pub fn new<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> Self {
        let child = (K::kind(&()), namespace, name);
        Self(fingerprint(&child), fingerprint(&("another", child)))
    }

    /// How long this child stays verified.
    fn patience(self) -> SignedDuration {
        let most = u64::try_from(VERIFIED_FOR.as_secs()).unwrap_or(0);
        let less = self.0 % (most * JITTER_PERCENT / 100).max(1);
        VERIFIED_FOR - SignedDuration::from_secs(i64::try_from(less).unwrap_or(0))
    }
}

/// One state of one object: its uid and resource version, as a fingerprint of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    /// The mark of an object that was read, written or reported by a watch.
    #[must_use]
    pub fn of<K: Resource>(object: &K) -> Self {
        Self(fingerprint(&(object.uid(), object.resource_version())))
    }
}

/// A child's state from its watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Which it is.
    pub mark: Mark,
    /// What was applied, by its metadata, if known.
    pub claim: Option<AppliedState>,
    /// A workload's figures, if the watch carries whole objects.
    pub figures: Option<Observation>,
}

impl State {
    /// The state of a watched object, with its figures if the watch carries them.
    #[must_use]
    pub fn of<K: Resource>(object: &K, figures: Option<Observation>) -> Self {
        Self { mark: Mark::of(object), claim: AppliedState::of(object), figures }
    }
}

/// The same for equal values within one process, and evenly spread.
pub(crate) fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What is cached of one child.
#[derive(Debug, Default)]
struct Entry {
    /// Its newest state from the watch; none before the first event.
    seen: Option<Mark>,
    /// What was applied, by its metadata in that state.
    claim: Option<AppliedState>,
    /// A workload's figures in that state, if its watch carries them. Boxed, since most children
    /// have none.
    figures: Option<Box<Observation>>,
    /// The watch that reported it, and the list it was in.
    round: Round,
    /// Its owner: to reconcile it when the child is deleted, and to count.
    owner: Option<Belongs>,
    verified: Option<Verified>,
}

/// A child's owner, and the kind it counts under.
#[derive(Clone, Debug)]
struct Belongs {
    owner: Arc<Owner>,
    kind: u64,
}

/// An owner: its kind, namespace and name. All children of one share it.
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

/// A full comparison that found or made the child as desired.
#[derive(Debug)]
struct Verified {
    state: Mark,
    wanted: u64,
    at: Timestamp,
    /// A workload's figures in that state, if it was read or written.
    figures: Option<Box<Observation>>,
}

impl Entry {
    /// The last comparison, if it is recent and the child has not changed since.
    fn unmoved(&self, key: Key, now: Timestamp) -> Option<&Verified> {
        let verified = self.verified.as_ref()?;
        (is_young(verified, key, now) && self.seen == Some(verified.state)).then_some(verified)
    }
}

/// Whether it is recent enough to count.
fn is_young(verified: &Verified, key: Key, now: Timestamp) -> bool {
    let age = now.duration_since(verified.at);
    age >= SignedDuration::ZERO && age < key.patience()
}

/// A watch, and which of its lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    watch: u32,
    list: u32,
}

impl Round {
    /// The same watch, when it begins a new list.
    #[must_use]
    pub fn next(self) -> Self {
        Self { list: self.list.wrapping_add(1), ..self }
    }
}

/// A child that a new list no longer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its namespace.
    pub namespace: String,
    /// Its owner's name.
    pub owner: String,
}

#[derive(Debug, Default)]
struct Children {
    entries: HashMap<Key, Entry>,
    /// How many children of each kind an owner has.
    owners: HashMap<Arc<Owner>, Vec<(u64, u32)>>,
    /// Children verified before a watch reported them.
    ahead: HashMap<Key, Verified>,
}

impl Children {
    fn adopt(&mut self, key: Key, owner: Option<(Owner, u64)>) {
        let before = self.entries.get_mut(&key).and_then(|entry| entry.owner.take());
        if let Some(before) = before {
            self.orphan(&before);
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
            entry.owner = Some(Belongs { owner, kind });
        }
    }

    fn orphan(&mut self, belongs: &Belongs) {
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

    fn remove(&mut self, key: Key) -> Option<Entry> {
        let entry = self.entries.remove(&key)?;
        if let Some(belongs) = &entry.owner {
            self.orphan(belongs);
        }
        Some(entry)
    }
}

/// The children of all owners: reported and verified states.
#[derive(Debug, Default)]
pub struct Seen {
    children: Mutex<Children>,
    watches: AtomicU32,
}

impl Seen {
    /// A new watch begins.
    #[must_use]
    pub fn begin(&self) -> Round {
        Round { watch: self.watches.fetch_add(1, Ordering::Relaxed) + 1, list: 0 }
    }

    /// A watch reported a child of kind `C`, owned by `K`.
    pub fn note<K, C>(
        &self,
        (namespace, name): (&str, &str),
        state: State,
        owner: Option<&str>,
        round: Round,
    ) where
        K: Resource<DynamicType = ()>,
        C: Resource<DynamicType = ()>,
    {
        let key = Key::new::<C>(namespace, name);
        let owner = owner.map(|owner| Owner::new::<K>(namespace, owner));
        let mut children = self.lock();
        let ahead = children.ahead.remove(&key);
        let entry = children.entries.entry(key).or_default();
        entry.verified = ahead.or(entry.verified.take());
        entry.seen = Some(state.mark);
        entry.claim = state.claim;
        entry.figures = state.figures.map(Box::new);
        entry.round = round;
        if entry.owner.as_ref().map(|it| it.owner.as_ref()) != owner.as_ref() {
            children.adopt(key, owner.map(|owner| (owner, fingerprint(&C::kind(&())))));
        }
    }

    /// How many children of kind `C` the `K` called `owner` has, by the watches.
    #[must_use]
    pub fn count<K, C>(&self, namespace: &str, owner: &str) -> usize
    where
        K: Resource<DynamicType = ()>,
        C: Resource<DynamicType = ()>,
    {
        let kind = fingerprint(&C::kind(&()));
        let children = self.lock();
        let counts = children.owners.get(&Owner::new::<K>(namespace, owner));
        let count = counts.into_iter().flatten().find(|(counted, _)| *counted == kind);
        count.map_or(0, |(_, count)| usize::try_from(*count).unwrap_or(usize::MAX))
    }

    /// A watch reported a deletion.
    pub fn forget(&self, key: &Key) {
        let mut children = self.lock();
        children.ahead.remove(key);
        children.remove(*key);
    }

    /// Whether a watch has reported the child. Then the API server's cache has a copy that is at
    /// least as new.
    #[must_use]
    pub fn is_known(&self, key: &Key) -> bool {
        self.lock().entries.contains_key(key)
    }

    /// Whether `state` is the newest that a watch reported.
    #[must_use]
    pub fn is_newest(&self, key: &Key, state: Mark) -> bool {
        self.lock().entries.get(key).is_some_and(|entry| entry.seen == Some(state))
    }

    /// Whether the child was verified for another desired state and has not changed since: it is
    /// ours, holds no edit, and must be written.
    #[must_use]
    pub fn is_outdated(&self, key: &Key, wanted: &str, now: Timestamp) -> bool {
        let children = self.lock();
        let entry = children.entries.get(key);
        let verified = entry.and_then(|entry| entry.unmoved(*key, now));
        verified.is_some_and(|verified| verified.wanted != fingerprint(&wanted))
    }

    /// A watch has finished a new list: drops children missing from it, and returns owners to
    /// reconcile.
    pub fn settle(&self, round: Round) -> Vec<Gone> {
        let mut gone = Vec::new();
        let mut children = self.lock();
        let is_stale =
            |entry: &Entry| entry.round.watch == round.watch && entry.round.list != round.list;
        let stale = children.entries.iter().filter(|(_, entry)| is_stale(entry));
        for key in stale.map(|(key, _)| *key).collect::<Vec<_>>() {
            if let Some(Belongs { owner, .. }) = children.remove(key).and_then(|it| it.owner) {
                let (namespace, owner) = (owner.namespace.to_string(), owner.name.to_string());
                gone.push(Gone { namespace, owner });
            }
        }
        gone
    }

    /// Whether the child was verified for this desired state and has not changed since, by its
    /// watch.
    #[must_use]
    pub fn is_as_wanted(&self, key: &Key, wanted: &str, now: Timestamp) -> bool {
        self.verified(key, wanted, now, |_, _| ()).is_some()
    }

    /// Whether the child's metadata, as watched, shows that it holds exactly the desired state;
    /// then it counts as verified. A child that was ever compared in full is compared in full again
    /// when that expires.
    #[must_use]
    pub fn is_claimed(
        &self,
        key: &Key,
        wanted: &str,
        claim: impl FnOnce() -> AppliedState,
        now: Timestamp,
    ) -> bool {
        let wanted = fingerprint(&wanted);
        let mut children = self.lock();
        let Some(entry) = children.entries.get_mut(key) else { return false };
        let (Some(state), Some(found)) = (entry.seen, entry.claim) else { return false };
        let at = match &entry.verified {
            None => now,
            Some(verified) if verified.wanted == wanted && is_young(verified, *key, now) => {
                verified.at
            }
            Some(_) => return false,
        };
        if found != claim() {
            return false;
        }
        entry.verified = Some(Verified { state, wanted, at, figures: None });
        true
    }

    /// As [`Self::is_as_wanted`], for a copy of the child in `state`, which must be the newest.
    #[must_use]
    pub fn is_as_wanted_in(&self, key: &Key, wanted: &str, state: Mark, now: Timestamp) -> bool {
        self.verified(key, wanted, now, |_, it| it.state == state).unwrap_or(false)
    }

    /// A workload's figures as verified or watched, while it has not changed since.
    #[must_use]
    pub fn figures(&self, key: &Key, wanted: &str, now: Timestamp) -> Option<Observation> {
        self.verified(key, wanted, now, |entry, verified| {
            verified.figures.as_deref().or(entry.figures.as_deref()).cloned()
        })
        .flatten()
    }

    fn verified<T>(
        &self,
        key: &Key,
        wanted: &str,
        now: Timestamp,
        then: impl FnOnce(&Entry, &Verified) -> T,
    ) -> Option<T> {
        let children = self.lock();
        let entry = children.entries.get(key)?;
        let verified = entry.unmoved(*key, now)?;
        (verified.wanted == fingerprint(&wanted)).then(|| then(entry, verified))
    }

    /// A full comparison found or made the child as desired in this state.
    pub fn verify(
        &self,
        key: Key,
        wanted: &str,
        state: Mark,
        figures: Option<Observation>,
        now: Timestamp,
    ) {
        let wanted = fingerprint(&wanted);
        let verified = Verified { state, wanted, at: now, figures: figures.map(Box::new) };
        let mut children = self.lock();
        if let Some(entry) = children.entries.get_mut(&key) {
            entry.verified = Some(verified);
            return;
        }
        // Some may never be reported: evict the oldest.
        if children.ahead.len() >= AHEAD_MAX {
            children.ahead.retain(|_, it| now.duration_since(it.at) < AHEAD_FOR);
        }
        if children.ahead.len() < AHEAD_MAX {
            children.ahead.insert(key, verified);
        }
    }

    /// How many children are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Children> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/cache/children.rs"]
mod tests;
