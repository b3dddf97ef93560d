//! Claims on things outside Kubernetes: a topic in Kafka, a consumer group, a database's tables.
//!
//! Two objects that name the same thing would silently mix their data: they would read each other's
//! topics and write the same tables. So the older object holds it (by creation time, then by name).
//! The other gets a condition that names the holder, unless both declare that they share. A
//! controller records claims as its watch reports objects, before it reconciles any.
//!
//! A server is known by its address as written. Limits: one server under two names, namespaces that
//! this operator doesn't watch, and other clusters are invisible here; records cover those
//! ([`crate::holders`]). One entry per address and thing of each existing object, about 200 bytes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use kube::{Resource, ResourceExt};
use millrace_crds::Reason;

use crate::error::Invalid;

/// The claims of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The claimed things as text for messages, once per server address: `topic t on kafka:9092`.
    pub things: Vec<String>,
    /// Whether the object allows others to hold the same things.
    pub shared: bool,
    /// The setting that another object could change instead.
    pub advice: &'static str,
}

/// All claims of the objects that exist.
#[derive(Debug, Default)]
pub struct Claims {
    known: Mutex<Known>,
}

/// An object that claims a thing. Age comes first: the oldest holds the thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Holder {
    created_second: i64,
    namespace: String,
    name: String,
    kind: String,
}

#[derive(Debug, Default)]
struct Known {
    /// The claimants of each thing, and whether each shares it.
    by_thing: HashMap<String, BTreeMap<Holder, bool>>,
    /// The claims of each object, by kind, namespace and name.
    by_object: HashMap<String, (Holder, Claim)>,
}

impl Holder {
    fn of_object<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let created = object.creation_timestamp();
        Self {
            created_second: created.map_or(i64::MAX, |time| time.0.as_second()),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            kind: K::kind(&()).into_owned(),
        }
    }

    fn object_key(&self) -> String {
        super::object_key(&self.kind, &self.namespace, &self.name)
    }
}

impl Claims {
    /// Replaces an object's claims.
    pub fn record_claim<K: Resource<DynamicType = ()>>(&self, object: &K, claim: Claim) {
        let holder = Holder::of_object(object);
        let key = holder.object_key();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.by_object.get(&key).is_some_and(|(it, has)| *it == holder && *has == claim) {
            return;
        }
        known.release_claims(&key);
        for thing in &claim.things {
            let holders = known.by_thing.entry(thing.clone()).or_default();
            holders.insert(holder.clone(), claim.shared);
        }
        known.by_object.insert(key, (holder, claim));
    }

    /// Drops a deleted object's claims, by kind, namespace and name.
    pub fn remove_claims(&self, key: &str) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).release_claims(key);
    }

    /// Checks that no older object holds what an object claims.
    ///
    /// # Errors
    /// The first thing that an older object holds, and that object.
    pub fn check_conflict<K: Resource<DynamicType = ()>>(&self, object: &K) -> Result<(), Invalid> {
        let me = Holder::of_object(object);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, claim)) = known.by_object.get(&me.object_key()) else { return Ok(()) };
        let held = claim.things.iter().find_map(|thing| {
            let mut older = known.by_thing.get(thing)?.range(..&me);
            let (holder, _) = older.find(|(_, shared)| !(claim.shared && **shared))?;
            let Holder { namespace, name, kind, .. } = holder;
            let message = format!(
                "{thing} is held by {kind} {name} in namespace {namespace}, which is older: write \
                 {}, or ownership: Shared in both",
                claim.advice
            );
            Some(Invalid { reason: Reason::HeldByAnother, message })
        });
        held.map_or(Ok(()), Err)
    }

    /// Returns whether an older object, by kind, namespace and name, claims some of the same things
    /// at any address: for callers that learned from the server itself that both are one.
    pub fn is_held_by<K: Resource<DynamicType = ()>>(&self, object: &K, key: &str) -> bool {
        let me = Holder::of_object(object);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |key: &str| known.by_object.get(key);
        let (Some((_, mine)), Some((holder, theirs))) = (of(&me.object_key()), of(key)) else {
            return false;
        };
        let is_claimed = |thing: &String| {
            theirs.things.iter().any(|their| without_address(their) == without_address(thing))
        };
        *holder < me && mine.things.iter().any(is_claimed)
    }

    /// Returns another object with some of the same claims: it would lose what is deleted here.
    pub fn other_claimant<K: Resource<DynamicType = ()>>(&self, object: &K) -> Option<String> {
        let me = Holder::of_object(object);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, claim) = known.by_object.get(&me.object_key())?;
        claim.things.iter().find_map(|thing| {
            let other = known.by_thing.get(thing)?.keys().find(|holder| **holder != me)?;
            let Holder { namespace, name, kind, .. } = other;
            Some(format!("{thing} also belongs to {kind} {name} in namespace {namespace}"))
        })
    }
}

fn without_address(thing: &str) -> &str {
    thing.rsplit_once(" on ").map_or(thing, |(name, _)| name)
}

impl Known {
    fn release_claims(&mut self, key: &str) {
        let Some((holder, claim)) = self.by_object.remove(key) else { return };
        for thing in claim.things {
            if let Some(holders) = self.by_thing.get_mut(&thing) {
                holders.remove(&holder);
                if holders.is_empty() {
                    self.by_thing.remove(&thing);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
