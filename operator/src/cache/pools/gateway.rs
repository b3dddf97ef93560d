//! What a gateway pool at rest would otherwise read from the API server at each reconcile: its
//! pods, its StatefulSet and the digests of its Secrets.
//!
//! Used only while a pool is at rest: during a change everything is read. Limits: a pool not
//! reconciled for ten minutes is dropped, about 8 kB; pods as in [`super::gateway_pods`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;

use crate::cache::children::{ChildCache, ChildKey, ObjectVersion, VERIFIED_FOR};
use crate::cache::packed::Packed;
use crate::cache::pools::by_pool::ByPool;
use crate::cache::pools::gateway_pods::GatewayPods;
use crate::outbound::credentials::FileSource;

/// The caches of gateway pools.
#[derive(Debug, Default)]
pub struct GatewayCache {
    /// The watched pods.
    pub pods: GatewayPods,
    sets: ByPool<Option<StoredSet>>,
    secrets: ByPool<Option<SecretDigests>>,
}

/// A StatefulSet that was read.
#[derive(Clone, Debug)]
struct StoredSet {
    set: Arc<Packed<StatefulSet>>,
    read_at: Timestamp,
}

/// The digests of a pool's Secrets, all of which exist.
#[derive(Clone, Debug)]
pub struct SecretDigests {
    /// A hash of the Secrets and keys that are needed.
    pub uses: u64,
    /// How many changes of these Secrets were reported before they were read.
    pub changes: u64,
    /// The digests by source.
    pub by_source: BTreeMap<FileSource, String>,
    /// When they were read.
    pub read_at: Timestamp,
}

impl GatewayCache {
    /// Returns the pool's StatefulSet, if its watch reported no newer version than was read.
    #[must_use]
    pub fn current_set(
        &self,
        uid: &str,
        key: &ChildKey,
        children: &ChildCache,
        now: Timestamp,
    ) -> Option<StatefulSet> {
        let StoredSet { set, read_at } = self.sets.get(uid)?;
        let is_current = now.duration_since(read_at) < VERIFIED_FOR
            && children.is_newest(key, ObjectVersion::of_object(&*set));
        is_current.then(|| set.unpack().0.ok()).flatten()
    }

    /// Stores a pool's StatefulSet as it was read.
    pub fn store_set(&self, uid: &str, set: Packed<StatefulSet>, now: Timestamp) {
        self.sets.insert(uid, Some(StoredSet { set: Arc::new(set), read_at: now }), now);
    }

    /// Drops a pool's StatefulSet before its watch reports that it was written.
    pub fn forget_set(&self, uid: &str, now: Timestamp) {
        self.sets.insert(uid, None, now);
    }

    /// Returns the digests of the Secrets that are needed, if they were read within `fresh` and no
    /// change was reported since.
    #[must_use]
    pub fn current_secrets(
        &self,
        uid: &str,
        (uses, changes): (u64, u64),
        fresh: Duration,
        now: Timestamp,
    ) -> Option<BTreeMap<FileSource, String>> {
        let known = self.secrets.get(uid)?;
        let is_current = (known.uses, known.changes) == (uses, changes)
            && now.duration_since(known.read_at).unsigned_abs() < fresh;
        is_current.then_some(known.by_source)
    }

    /// Stores the digests of a pool's Secrets; `None` while one is missing, so that it is searched
    /// for at each reconcile.
    pub fn store_secrets(&self, uid: &str, digests: Option<SecretDigests>, now: Timestamp) {
        self.secrets.insert(uid, digests, now);
    }
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;
    use serde_json::json;

    use super::*;
    use crate::cache::children::ChildState;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;
    const FRESH: Duration = Duration::from_secs(30);

    fn set(version: &str) -> Packed<StatefulSet> {
        let metadata = json!({"name": "s", "namespace": "ns", "uid": "u",
            "resourceVersion": version});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    /// Scenario: a StatefulSet is read; its watch reports that version, then a newer one; it is
    /// written. Guarantee: the copy is used only while it is the newest that the watch reported,
    /// and not after a write.
    #[test]
    fn a_stored_set_is_used_while_its_watch_reports_no_newer_one() {
        let (cache, children) = (GatewayCache::default(), ChildCache::default());
        let key = ChildKey::new::<StatefulSet>("ns", "s");
        let round = children.begin_watch();
        let report = |version: &str| {
            let (uid, version) = (Some("u".to_owned()), Some(version.to_owned()));
            let metadata = ObjectMeta { uid, resource_version: version, ..ObjectMeta::default() };
            let object = StatefulSet { metadata, ..StatefulSet::default() };
            let state = ChildState::of_object(&object, None);
            children.record_child::<StatefulSet, StatefulSet>(("ns", "s"), state, None, round);
        };
        let is_used = |now| cache.current_set("pool", &key, &children, now).is_some();
        cache.store_set("pool", set("1"), NOW);
        assert!(!is_used(NOW), "no watch reported it");
        report("1");
        assert!(is_used(NOW) && !is_used(NOW + VERIFIED_FOR));
        report("2");
        assert!(!is_used(NOW));
        report("1");
        cache.forget_set("pool", NOW);
        assert!(!is_used(NOW));
    }

    /// Scenario: Secrets were read; then their time is over, one changes, or others are needed.
    /// Guarantee: the digests are used in none of these cases, and else are.
    #[test]
    fn digests_are_used_while_nothing_can_have_changed() {
        let cache = GatewayCache::default();
        let by_source = BTreeMap::from([(FileSource::Secret("s".into()), "d".to_owned())]);
        let digests = SecretDigests { uses: 1, changes: 0, by_source, read_at: NOW };
        cache.store_secrets("pool", Some(digests), NOW);
        let is_used = |key, now| cache.current_secrets("pool", key, FRESH, now).is_some();
        assert!(is_used((1, 0), NOW));
        assert!(!is_used((1, 0), NOW + FRESH) && !is_used((1, 1), NOW) && !is_used((2, 0), NOW));
        cache.store_secrets("pool", None, NOW);
        assert!(!is_used((1, 0), NOW));
    }
}
