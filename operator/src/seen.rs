//! What watches have seen of children, and which of them were verified in that very state: why a
//! converged reconcile need not read its children again.
//!
//! A child is passed over only while three things agree: the watch's newest version of it, the
//! version that was last compared in full, and the hash of what is wanted. An edit moves the first
//! before the owner is woken, so it is always looked at. Nothing here is believed for longer than
//! [`VERIFIED_FOR`]: a watch that lost something is found out by then. Without a watch nothing is
//! passed over. It never holds an object, a Secret's content or a client.
//!
//! Limits: some 300 bytes per child that exists, counts by owner included: 60,000 children take 18
//! MB.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use millrace_rollout::Observation;

/// A child is compared in full at least this often, whatever its watch says.
pub const VERIFIED_FOR: SignedDuration = SignedDuration::from_secs(300);
/// Up to this share of that time is taken off by the child's name, so that children that were made
/// together are not all read together.
const JITTER_PERCENT: u64 = 40;

/// Which child: its kind and name. The namespace is part of the name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    kind: Cow<'static, str>,
    name: Box<str>,
}

impl Key {
    /// The key of the child of kind `K` called `name` in `namespace`.
    #[must_use]
    pub fn new<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> Self {
        let kind = K::kind(&());
        Self { kind, name: format!("{namespace}/{name}").into() }
    }

    /// How long this child stays verified.
    fn patience(&self) -> SignedDuration {
        let most = u64::try_from(VERIFIED_FOR.as_secs()).unwrap_or(0);
        let less = fingerprint(&self.name) % (most * JITTER_PERCENT / 100).max(1);
        VERIFIED_FOR - SignedDuration::from_secs(i64::try_from(less).unwrap_or(0))
    }
}

/// One state of one object: its uid and resource version, as a fingerprint of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    /// The mark of an object as it was read, written or seen by a watch.
    #[must_use]
    pub fn of<K: Resource>(object: &K) -> Self {
        Self(fingerprint(&(object.uid(), object.resource_version())))
    }
}

fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What is known of one child.
#[derive(Debug, Default)]
struct Entry {
    /// Its newest state by the watch; none while no watch has told of it.
    seen: Option<Mark>,
    /// The watch that told of it, and in which of its lists.
    round: Round,
    /// Whose it is: to wake the owner when the child turns out to be gone, and to count.
    owner: Option<Owner>,
    verified: Option<Verified>,
}

/// An owner: its kind and name, in the child's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owner {
    kind: Cow<'static, str>,
    name: Box<str>,
}

/// Children of one kind that one owner has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Family {
    kind: Cow<'static, str>,
    namespace: Box<str>,
    owner: Owner,
}

/// A comparison in full that found, or made, everything as wanted.
#[derive(Debug)]
struct Verified {
    state: Mark,
    wanted: u64,
    at: Timestamp,
    /// A workload's figures at that state.
    figures: Option<Observation>,
}

/// A watch and the list it goes on from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    watch: u64,
    list: u64,
}

impl Round {
    /// The same watch, when it begins a new list.
    #[must_use]
    pub fn next(self) -> Self {
        Self { list: self.list + 1, ..self }
    }
}

/// A child that a new list no longer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its owner's name.
    pub owner: String,
}

#[derive(Debug, Default)]
struct Children {
    entries: HashMap<Key, Entry>,
    families: HashMap<Family, usize>,
}

impl Children {
    fn family(key: &Key, owner: &Owner) -> Family {
        let namespace = key.name.split_once('/').map_or("", |(namespace, _)| namespace);
        Family { kind: key.kind.clone(), namespace: namespace.into(), owner: owner.clone() }
    }

    fn adopt(&mut self, key: &Key, owner: Option<Owner>) {
        let before = self.entries.get_mut(key).and_then(|entry| entry.owner.take());
        if let Some(before) = before {
            self.orphan(key, &before);
        }
        if let Some(owner) = &owner {
            *self.families.entry(Self::family(key, owner)).or_default() += 1;
        }
        if let Some(entry) = self.entries.get_mut(key) {
            entry.owner = owner;
        }
    }

    fn orphan(&mut self, key: &Key, owner: &Owner) {
        let family = Self::family(key, owner);
        if let Some(count) = self.families.get_mut(&family) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.families.remove(&family);
            }
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        if let Some(owner) = &entry.owner {
            self.orphan(key, owner);
        }
        Some(entry)
    }
}

/// The children of all owners, as watches tell and as they were verified.
#[derive(Debug, Default)]
pub struct Seen {
    children: Mutex<Children>,
    watches: AtomicU64,
}

impl Seen {
    /// A new watch begins.
    #[must_use]
    pub fn begin(&self) -> Round {
        Round { watch: self.watches.fetch_add(1, Ordering::Relaxed) + 1, list: 0 }
    }

    /// A watch told of a child's state.
    pub fn note<K>(&self, key: Key, state: Mark, owner: Option<&str>, round: Round)
    where
        K: Resource<DynamicType = ()>,
    {
        let owner = owner.map(|name| Owner { kind: K::kind(&()), name: name.into() });
        let mut children = self.lock();
        let entry = children.entries.entry(key.clone()).or_default();
        entry.seen = Some(state);
        entry.round = round;
        if entry.owner != owner {
            children.adopt(&key, owner);
        }
    }

    /// How many children of kind `C` the `K` called `owner` has, as watches tell.
    #[must_use]
    pub fn count<K, C>(&self, namespace: &str, owner: &str) -> usize
    where
        K: Resource<DynamicType = ()>,
        C: Resource<DynamicType = ()>,
    {
        let owner = Owner { kind: K::kind(&()), name: owner.into() };
        let family = Family { kind: C::kind(&()), namespace: namespace.into(), owner };
        self.lock().families.get(&family).copied().unwrap_or(0)
    }

    /// A watch told that a child is gone.
    pub fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    /// A new list of a watch is complete: forgets those of its children that the list did not hold,
    /// and tells which had an owner to wake.
    pub fn settle(&self, round: Round) -> Vec<Gone> {
        let mut gone = Vec::new();
        let mut children = self.lock();
        let is_stale =
            |entry: &Entry| entry.round.watch == round.watch && entry.round.list != round.list;
        let stale = children.entries.iter().filter(|(_, entry)| is_stale(entry));
        for key in stale.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            let owner = children.remove(&key).and_then(|entry| entry.owner);
            if let (Some(owner), Some((namespace, name))) = (owner, key.name.split_once('/')) {
                gone.push(Gone {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    owner: owner.name.into(),
                });
            }
        }
        gone
    }

    /// Whether the child was verified for this wanted state and has not moved since, by its watch.
    #[must_use]
    pub fn is_as_wanted(&self, key: &Key, wanted: &str, now: Timestamp) -> bool {
        self.verified(key, wanted, now, |_| ()).is_some()
    }

    /// As [`Self::is_as_wanted`], for a copy of the child in `state`: it must be that very one.
    #[must_use]
    pub fn is_as_wanted_in(&self, key: &Key, wanted: &str, state: Mark, now: Timestamp) -> bool {
        self.verified(key, wanted, now, |verified| verified.state == state).unwrap_or(false)
    }

    /// The figures a workload had when it was verified, while nothing has moved since.
    #[must_use]
    pub fn figures(&self, key: &Key, wanted: &str, now: Timestamp) -> Option<Observation> {
        self.verified(key, wanted, now, |verified| verified.figures.clone()).flatten()
    }

    fn verified<T>(
        &self,
        key: &Key,
        wanted: &str,
        now: Timestamp,
        then: impl FnOnce(&Verified) -> T,
    ) -> Option<T> {
        let children = self.lock();
        let Entry { seen, verified, .. } = children.entries.get(key)?;
        let verified = verified.as_ref()?;
        let age = now.duration_since(verified.at);
        let young = age >= SignedDuration::ZERO && age < key.patience();
        let same = *seen == Some(verified.state) && verified.wanted == fingerprint(&wanted);
        (young && same).then(|| then(verified))
    }

    /// A comparison in full found, or made, the child as wanted in this state.
    pub fn verify(
        &self,
        key: Key,
        wanted: &str,
        state: Mark,
        figures: Option<Observation>,
        now: Timestamp,
    ) {
        let wanted = fingerprint(&wanted);
        // A child that no watch has told of is not remembered: it may never be told of.
        if let Some(entry) = self.lock().entries.get_mut(&key) {
            entry.verified = Some(Verified { state, wanted, at: now, figures });
        }
    }

    /// How many children are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Children> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Service;
    use millrace_crds::v1alpha1::EdgePool;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn state(version: &str) -> Mark {
        let mut service = Service::default();
        service.metadata.resource_version = Some(version.into());
        Mark::of(&service)
    }

    fn key() -> Key {
        Key::new::<Service>("ns", "prod-edge")
    }

    /// Scenario: a verified child, then an edit, another wanted state, and time. Guarantee: passed
    /// over only while all of it agrees, and never for longer than the limit.
    #[test]
    fn a_child_is_passed_over_only_while_everything_agrees() {
        let seen = Seen::default();
        let round = seen.begin();
        seen.note::<EdgePool>(key(), state("1"), Some("prod"), round);
        assert!(!seen.is_as_wanted(&key(), "hash", at(0)), "never compared");
        seen.verify(key(), "hash", state("1"), None, at(0));
        assert!(seen.is_as_wanted(&key(), "hash", at(1)));
        assert!(!seen.is_as_wanted(&key(), "other", at(1)), "something else is wanted");
        assert!(!seen.is_as_wanted(&key(), "hash", at(300)), "too long ago");
        assert!(!seen.is_as_wanted(&key(), "hash", at(-1)), "the clock went back");
        seen.note::<EdgePool>(key(), state("2"), Some("prod"), round);
        assert!(!seen.is_as_wanted(&key(), "hash", at(1)), "it was edited");
    }

    /// Scenario: a child no watch tells of. Guarantee: it is read each time and not remembered.
    #[test]
    fn without_a_watch_nothing_is_passed_over() {
        let seen = Seen::default();
        seen.verify(key(), "hash", state("1"), None, at(0));
        assert!(!seen.is_as_wanted(&key(), "hash", at(0)) && seen.is_empty());
    }

    /// Scenario: a watch breaks, a child is deleted meanwhile, a new list comes. Guarantee: the
    /// owner of the missing child is named; what other watches told of is left alone.
    #[test]
    fn a_child_missing_from_a_new_list_wakes_its_owner() {
        let seen = Seen::default();
        let (edge, gateway) = (seen.begin(), seen.begin());
        let other = || Key::new::<Service>("ns", "other-edge");
        seen.note::<EdgePool>(key(), state("1"), Some("prod"), edge);
        seen.note::<EdgePool>(other(), state("1"), Some("other"), edge);
        seen.note::<EdgePool>(
            Key::new::<Service>("ns", "prod-gateway"),
            state("1"),
            Some("prod"),
            gateway,
        );
        seen.note::<EdgePool>(other(), state("1"), Some("other"), edge.next());
        let gone = seen.settle(edge.next());
        let wanted =
            Gone { namespace: "ns".into(), name: "prod-edge".into(), owner: "prod".into() };
        assert_eq!(gone, [wanted]);
        assert_eq!(seen.len(), 2);
        let count = |owner| seen.count::<EdgePool, Service>("ns", owner);
        assert_eq!([count("prod"), count("other"), count("nobody")], [1, 1, 0]);
        seen.forget(&other());
        assert_eq!(count("other"), 0);
    }
}
