//! The table of pods by address, uid and name. Readers look up pods in memory, under a lock that is
//! held briefly.
//!
//! An address that a node or several pods have identifies none. A pod that has ended has no address
//! but is found by uid for a while, for records that arrive late.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use millrace_processing::enrich::{FindPod, PodAttributes, PodKey, UnlabeledReason};

use crate::identity::{PodIdentity, name_key};

/// The most pods that are known, ended ones included: twice the 10,000 of a large cluster, and far
/// above those of one node.
pub const IDENTITIES_MAX: usize = 20_000;

/// The most memory of the table: 20,000 pods with 2 KiB each, which is a dozen attributes and as
/// many labels.
pub const IDENTITY_BYTES_MAX: u64 = 40 << 20;

/// How long a pod is found by uid and name after it has ended: clients and agents send again for
/// minutes.
pub const ENDED_RETENTION: Duration = Duration::from_secs(600);

/// The memory of a pod beyond its attributes and names: entries of four maps at half load, and the
/// headers of allocations.
const ENTRY_BYTES: u64 = 512;

/// The memory of an address: its entry and the list of pods that have it.
const ADDRESS_BYTES: u64 = 128;

/// The memory of a namespace beyond its name and attributes: its entry at half load.
const NAMESPACE_BYTES: u64 = 128;

/// All known pods.
#[derive(Debug)]
pub struct IdentityTable {
    state: RwLock<State>,
    bytes_max: u64,
}

#[derive(Debug, Default)]
struct State {
    pods: HashMap<Arc<str>, PodRecord>,
    /// The pods that have an address and have not ended.
    addresses: HashMap<IpAddr, Vec<Arc<str>>>,
    names: HashMap<Box<str>, Arc<str>>,
    /// The attributes that the pods of a namespace get in addition to their own.
    namespaces: HashMap<Box<str>, PodAttributes>,
    /// The pods that have ended, in that order. Entries of pods that were stored again are skipped.
    ended: VecDeque<(Instant, Arc<str>)>,
    bytes: u64,
    /// The number of the current list.
    list: u64,
    /// Whether that list is complete.
    is_synced: bool,
}

#[derive(Debug)]
struct PodRecord {
    name_key: Box<str>,
    addresses: Box<[IpAddr]>,
    is_on_host_network: bool,
    is_terminating: bool,
    ended_at: Option<Instant>,
    /// The number of the list or of the watch after it that had this pod.
    list: u64,
    attributes: Arc<PodAttributes>,
    /// The length of the pod's attributes, which those of its namespace follow.
    own_bytes: usize,
    bytes: u64,
}

impl IdentityTable {
    /// Returns an empty table with at most this much memory.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        Self { state: RwLock::default(), bytes_max }
    }

    /// Begins a list of all pods. Known ones stay, but lose an address to a pod of the list.
    pub(crate) fn begin_list(&self) {
        let mut state = self.write();
        state.list += 1;
        state.is_synced = false;
    }

    /// Ends the list: pods that it doesn't have are gone.
    pub(crate) fn finish_list(&self, now: Instant) {
        let mut state = self.write();
        state.is_synced = true;
        let current = state.list;
        let is_missing = |pod: &PodRecord| pod.list < current && pod.ended_at.is_none();
        let missing: Vec<Arc<str>> = (state.pods.iter())
            .filter(|(_, pod)| is_missing(pod))
            .map(|(uid, _)| Arc::clone(uid))
            .collect();
        missing.iter().for_each(|uid| state.end_pod(uid, now));
    }

    /// Stores a pod's current state. Returns false if the table is full.
    pub(crate) fn store_pod(&self, pod: PodIdentity, now: Instant) -> bool {
        self.write().store_pod(pod, now, self.bytes_max)
    }

    /// Ends a pod that was deleted.
    pub(crate) fn mark_deleted(&self, uid: &str, now: Instant) {
        self.write().end_pod(uid, now);
    }

    /// Sets the attributes that the pods of a namespace get. Returns false if the table is full.
    pub(crate) fn set_namespace(&self, namespace: &str, attributes: PodAttributes) -> bool {
        self.write().set_namespace(namespace, attributes, self.bytes_max)
    }

    /// Removes a namespace that was deleted. Its pods retain what they have.
    pub(crate) fn remove_namespace(&self, namespace: &str) {
        self.write().remove_namespace(namespace);
    }

    /// Removes pods that ended long ago. Returns the number of known pods and their memory.
    pub(crate) fn evict_ended(&self, now: Instant) -> (usize, u64) {
        let mut state = self.write();
        let is_due =
            |(at, _): &(Instant, Arc<str>)| now.saturating_duration_since(*at) >= ENDED_RETENTION;
        while state.ended.front().is_some_and(is_due) {
            state.pop_ended();
        }
        (state.pods.len(), state.bytes)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        // No change panics between its parts.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn store_pod(&mut self, pod: PodIdentity, now: Instant, bytes_max: u64) -> bool {
        let PodIdentity { uid, name_key, addresses, attributes, .. } = pod;
        let known = self.remove_pod(&uid);
        let own_bytes = attributes.bytes().len();
        let attributes = match self.namespaces.get(namespace_of(&name_key)) {
            Some(more) => attributes.join(own_bytes, more),
            None => attributes,
        };
        let bytes = ENTRY_BYTES
            + ADDRESS_BYTES * addresses.len() as u64
            + (attributes.bytes().len() + uid.len() + 2 * name_key.len()) as u64;
        while self.pods.len() >= IDENTITIES_MAX || self.bytes + bytes > bytes_max {
            if !self.evict_oldest() {
                return false;
            }
        }
        let uid: Arc<str> = uid.into();
        let ended_at = pod.has_ended.then(|| {
            let known = known.as_ref().and_then(|known| known.ended_at);
            known.unwrap_or(now)
        });
        match ended_at {
            Some(at) if known.as_ref().and_then(|known| known.ended_at) == Some(at) => {}
            Some(at) => self.ended.push_back((at, Arc::clone(&uid))),
            None => {
                for address in &addresses {
                    self.addresses.entry(*address).or_default().push(Arc::clone(&uid));
                }
            }
        }
        if ended_at.is_none() || !self.names.contains_key(name_key.as_str()) {
            self.names.insert(name_key.clone().into(), Arc::clone(&uid));
        }
        // Most updates change the status alone.
        let attributes = match known {
            Some(known) if *known.attributes == attributes => known.attributes,
            _ => Arc::new(attributes),
        };
        let record = PodRecord {
            name_key: name_key.into(),
            addresses: addresses.into(),
            is_on_host_network: pod.is_on_host_network,
            is_terminating: pod.is_terminating,
            ended_at,
            list: self.list,
            attributes,
            own_bytes,
            bytes,
        };
        self.bytes += bytes;
        self.pods.insert(uid, record);
        true
    }

    fn set_namespace(&mut self, name: &str, attributes: PodAttributes, bytes_max: u64) -> bool {
        if self.namespaces.get(name).is_some_and(|known| *known == attributes) {
            return true;
        }
        self.remove_namespace(name);
        let bytes = namespace_bytes(name, &attributes);
        if self.bytes + bytes > bytes_max {
            return false;
        }
        self.bytes += bytes;
        let mut has_space = true;
        for pod in self.pods.values_mut().filter(|pod| namespace_of(&pod.name_key) == name) {
            let joined = pod.attributes.join(pod.own_bytes, &attributes);
            let before = pod.attributes.bytes().len() as u64;
            let after = joined.bytes().len() as u64;
            if self.bytes - before + after > bytes_max {
                has_space = false;
                continue;
            }
            self.bytes = self.bytes - before + after;
            pod.bytes = pod.bytes - before + after;
            pod.attributes = Arc::new(joined);
        }
        self.namespaces.insert(name.into(), attributes);
        has_space
    }

    fn remove_namespace(&mut self, name: &str) {
        if let Some(attributes) = self.namespaces.remove(name) {
            self.bytes -= namespace_bytes(name, &attributes);
        }
    }

    /// Takes a pod's addresses.
    fn end_pod(&mut self, uid: &str, now: Instant) {
        let Some((uid, pod)) = self.pods.get_key_value(uid) else { return };
        if pod.ended_at.is_some() {
            return;
        }
        let uid = Arc::clone(uid);
        self.ended.push_back((now, Arc::clone(&uid)));
        if let Some(pod) = self.pods.get_mut(&uid) {
            pod.ended_at = Some(now);
            release_addresses(&mut self.addresses, &pod.addresses, &uid);
        }
    }

    /// Removes the pod that ended first. Returns false if none has ended.
    fn evict_oldest(&mut self) -> bool {
        while !self.ended.is_empty() {
            if self.pop_ended() {
                return true;
            }
        }
        false
    }

    /// Removes the first entry of those that have ended. Returns whether its pod was removed, and
    /// not stored again since.
    fn pop_ended(&mut self) -> bool {
        let Some((at, uid)) = self.ended.pop_front() else { return false };
        let is_pod = self.pods.get(&uid).is_some_and(|pod| pod.ended_at == Some(at));
        is_pod && self.remove_pod(&uid).is_some()
    }

    fn remove_pod(&mut self, uid: &str) -> Option<PodRecord> {
        let pod = self.pods.remove(uid)?;
        release_addresses(&mut self.addresses, &pod.addresses, uid);
        if self.names.get(&pod.name_key).is_some_and(|named| **named == *uid) {
            self.names.remove(&pod.name_key);
        }
        self.bytes -= pod.bytes;
        Some(pod)
    }

    /// Returns the only pod that an address identifies.
    fn find_owner(&self, address: IpAddr) -> Result<&PodRecord, UnlabeledReason> {
        let uids = self.addresses.get(&address).ok_or(UnlabeledReason::UnknownPod)?;
        let pods: Vec<&PodRecord> = uids.iter().filter_map(|uid| self.pods.get(uid)).collect();
        if pods.iter().any(|pod| pod.is_on_host_network) {
            return Err(UnlabeledReason::SharedAddress);
        }
        if let [only] = pods.as_slice() {
            return Ok(only);
        }
        // A pod whose end hasn't arrived here yet has lost its address to the newer one.
        let is_current = |pod: &&&PodRecord| !pod.is_terminating && pod.list == self.list;
        let mut current = pods.iter().filter(is_current);
        match (current.next(), current.next()) {
            (Some(newer), None) => Ok(newer),
            _ => Err(UnlabeledReason::SharedAddress),
        }
    }
}

/// Returns the namespace in the key of a pod's name.
fn namespace_of(name_key: &str) -> &str {
    name_key.split_once('/').map_or("", |(namespace, _)| namespace)
}

fn namespace_bytes(name: &str, attributes: &PodAttributes) -> u64 {
    NAMESPACE_BYTES + (name.len() + attributes.bytes().len()) as u64
}

fn release_addresses(
    addresses: &mut HashMap<IpAddr, Vec<Arc<str>>>,
    released: &[IpAddr],
    uid: &str,
) {
    for address in released {
        let Some(uids) = addresses.get_mut(address) else { continue };
        uids.retain(|one| **one != *uid);
        if uids.is_empty() {
            addresses.remove(address);
        }
    }
}

impl FindPod for IdentityTable {
    fn find_pod(&self, key: PodKey<'_>) -> Result<Arc<PodAttributes>, UnlabeledReason> {
        let state = self.read();
        let found = match key {
            PodKey::Address(address) => state.find_owner(address),
            PodKey::Uid(uid) => state.pods.get(uid).ok_or(UnlabeledReason::UnknownPod),
            PodKey::Name { namespace, name } => {
                let uid = state.names.get(name_key(namespace, name).as_str());
                uid.and_then(|uid| state.pods.get(uid)).ok_or(UnlabeledReason::UnknownPod)
            }
        };
        match found {
            Ok(pod) => Ok(Arc::clone(&pod.attributes)),
            Err(UnlabeledReason::UnknownPod) if !state.is_synced => Err(UnlabeledReason::NotSynced),
            Err(reason) => Err(reason),
        }
    }
}

#[cfg(test)]
mod tests;
