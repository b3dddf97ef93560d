//! Reads of a pool at rest, from watches and caches where they are current ([`GatewayCache`]).
//!
//! A pool is at rest while its status reports ready pods of the present spec, no rollout and no
//! resize. Otherwise everything is read: a decision of a rollout on pods or a stage as they were a
//! moment ago could replace one pod too many.
//!
//! [`GatewayCache`]: crate::cache::gateway::GatewayCache

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use millrace_crds::v1alpha1::{GatewayPool, RolloutStage};
use millrace_crds::{ConditionStatus, ConditionType, Reason, find_condition, is_true};

use crate::cache::children::{ChildKey, VERIFIED_FOR};
use crate::cache::gateway::SecretDigests;
use crate::cache::packed::Packed;
use crate::context::Context;
use crate::error::{Category, ReconcileStep, StepError};
use crate::hash::{fingerprint_of, spread_by};
use crate::pool::draft::PoolDraft;
use crate::pool::names::PoolNames;
use crate::pool::observe;
use crate::pool::secrets::SecretsObservation;
use crate::pool::trial_pods::is_unchanged;

/// Secrets are read after this time, or up to half of it less, by the pool's uid, so that pools of
/// one start don't read theirs together. While all records are stored in time, no server requires
/// new credentials yet.
const SECRETS_FRESH: Duration = Duration::from_secs(300);
/// The same while a server may refuse the pods' credentials: just under three resyncs, so that a
/// change is observed within 30 s.
const DOUBTED_SECRETS_FRESH: Duration = Duration::from_secs(25);
/// The same where Secrets are watched: it only covers events that the watch missed, as for
/// children.
const WATCHED_SECRETS_FRESH: Duration = VERIFIED_FOR.unsigned_abs();

/// How one reconcile reads a pool.
pub(super) struct PoolReader<'a> {
    context: &'a Context,
    names: &'a PoolNames,
    uid: &'a str,
    /// Whether caches may answer.
    is_settled: bool,
    /// Whether a server may refuse the pods' credentials.
    doubts_secrets: bool,
    now: Timestamp,
}

impl<'a> PoolReader<'a> {
    pub(super) fn new(context: &'a Context, pool: &'a GatewayPool, names: &'a PoolNames) -> Self {
        let uid = pool.metadata.uid.as_deref().unwrap_or_default();
        let (is_settled, doubts_secrets) = (is_settled(pool), doubts_secrets(pool));
        Self { context, names, uid, is_settled, doubts_secrets, now: context.clock.now() }
    }

    /// Checks that the copy of a pool that is not at rest is the newest: its watch may be late, and
    /// a step from an earlier stage would revert what was written since.
    ///
    /// # Errors
    /// When the pool has changed since, or the API server refuses or can't be reached.
    pub(super) async fn check_copy(&self, pool: &GatewayPool) -> Result<(), StepError> {
        let PoolNames { namespace, pool: name, .. } = self.names;
        if self.is_settled || is_unchanged(self.context, pool, namespace).await? {
            return Ok(());
        }
        let cause = format!("GatewayPool {namespace}/{name} changed before its reconcile");
        let (category, reason) = (Category::Conflict, Reason::ApiServerFailed);
        Err(StepError::new(ReconcileStep::Observe, category, reason, cause))
    }

    /// Returns the state of the Secrets that the spec names.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached. A missing Secret is no error here.
    pub(super) async fn read_secrets(
        &self,
        draft: &PoolDraft,
    ) -> Result<SecretsObservation, StepError> {
        let Self { context, names, uid, now, .. } = *self;
        let (references, uses) = (&context.references, &draft.secrets);
        let (namespace, pool) = (names.namespace.as_str(), names.pool.as_str());
        references.set_secrets::<GatewayPool>(namespace, pool, uses.secret_names());
        let changes = references.change_count::<GatewayPool>(namespace, pool);
        let key = (fingerprint_of(uses), changes);
        let watched = context.watches_secrets && !uses.has_config_maps();
        let spread = |most: Duration| most - spread_by(uid, most / 2);
        let fresh = match (watched, self.doubts_secrets) {
            (true, _) => spread(WATCHED_SECRETS_FRESH),
            (false, false) => spread(SECRETS_FRESH),
            (false, true) => DOUBTED_SECRETS_FRESH,
        };
        let known = || context.gateway_cache.current_secrets(uid, key, fresh, now);
        if let Some(digests) = self.is_settled.then(known).flatten() {
            return Ok(SecretsObservation::from_digests(digests));
        }
        let observation = observe::read_secrets(context, namespace, uid, uses).await?;
        let digests = observation.complete_digests().map(|by_source| SecretDigests {
            uses: key.0,
            changes: key.1,
            by_source: by_source.clone(),
            read_at: now,
        });
        context.gateway_cache.store_secrets(uid, digests, now);
        Ok(observation)
    }

    /// Returns the live StatefulSet.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached, or the object does not parse.
    pub(super) async fn read_set(&self) -> Result<Option<StatefulSet>, StepError> {
        let Self { context, uid, now, .. } = *self;
        let PoolNames { namespace, base: name, .. } = self.names;
        let key = ChildKey::new::<StatefulSet>(namespace, name);
        let cache = &context.gateway_cache;
        let known = || cache.current_set(uid, &key, &context.child_cache, now);
        if let Some(set) = self.is_settled.then(known).flatten() {
            return Ok(Some(set));
        }
        let what = || format!("get StatefulSet {namespace}/{name}");
        let sets: Api<Packed<StatefulSet>> = Api::namespaced(context.client.clone(), namespace);
        let failed = |error| StepError::from_kube(ReconcileStep::Observe, what(), error);
        let Some(packed) = sets.get_opt(name).await.map_err(failed)? else { return Ok(None) };
        let set = packed.unpack().0.map_err(|invalid| {
            let (category, reason) = (Category::Temporary, Reason::ApiServerFailed);
            let cause = format!("{}: {}", what(), invalid.error);
            StepError::new(ReconcileStep::Observe, category, reason, cause)
        })?;
        cache.store_set(uid, packed, now);
        Ok(Some(set))
    }

    /// Returns the pool's pods.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub(super) async fn read_pods(&self) -> Result<Vec<Pod>, StepError> {
        let Self { context, names, now, .. } = *self;
        let PoolNames { namespace, pool, .. } = names;
        let known = || context.gateway_cache.pods.pods_of_pool(namespace, pool, now);
        match self.is_settled.then(known).flatten() {
            Some(pods) => Ok(pods),
            None => observe::list_pods(context, namespace, &names.selector()).await,
        }
    }
}

/// Returns whether a pool's status reports ready pods of its present spec, and no change of them.
fn is_settled(pool: &GatewayPool) -> bool {
    let Some(status) = &pool.status else { return false };
    let generation = pool.metadata.generation.unwrap_or(0);
    let is_stable =
        status.rollout.as_ref().is_some_and(|rollout| rollout.stage == RolloutStage::Stable);
    let resizes = status.conditions.iter().any(|it| {
        it.type_ == ConditionType::PodsResized.as_str() && it.status != ConditionStatus::True
    });
    is_stable && !resizes && is_true(&status.conditions, ConditionType::PodsReady, generation)
}

/// Returns whether a pool's status reports what follows when a server refuses the credentials of
/// its pods: records wait longer than the lag's bound, or Kafka refuses the operator as well.
fn doubts_secrets(pool: &GatewayPool) -> bool {
    let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let lag = find_condition(conditions, ConditionType::LagWithinBound);
    lag.is_some_and(|lag| match lag.status {
        ConditionStatus::True => false,
        ConditionStatus::False => true,
        ConditionStatus::Unknown => matches!(
            Reason::parse(&lag.reason),
            Some(
                Reason::KafkaAuthenticationFailed
                    | Reason::KafkaNotAuthorized
                    | Reason::KafkaTlsFailed
            )
        ),
    })
}
