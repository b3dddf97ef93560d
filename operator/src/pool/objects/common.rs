//! The objects that pools of both kinds have besides their workload: written and pruned in one way.

use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;

use crate::cluster::{Applicable, ApplyError, ChildChange, Children};
use crate::pool::names::PoolNames;

/// A pool's objects without its workload.
#[derive(Clone, Debug)]
pub struct CommonObjects {
    /// The account of its pods.
    pub account: ServiceAccount,
    /// The configuration in use.
    pub config_map: ConfigMap,
    /// The Service of its pods.
    pub service: Service,
    /// The disruption budget, if the pool has one.
    pub budget: Option<PodDisruptionBudget>,
    /// The network policy, if the pool has one.
    pub policy: Option<NetworkPolicy>,
}

impl CommonObjects {
    /// Writes the objects that differ, and returns the changes.
    ///
    /// # Errors
    /// As [`Children::apply_child`].
    pub async fn apply(&self, children: &Children<'_>) -> Result<Vec<ChildChange>, ApplyError> {
        let Self { account, config_map, service, budget, policy } = self.clone();
        let mut changes = vec![
            children.apply_child(account).await?,
            children.apply_child(config_map).await?,
            children.apply_child(service).await?,
        ];
        if let Some(budget) = budget {
            changes.push(children.apply_child(budget).await?);
        }
        if let Some(policy) = policy {
            changes.push(children.apply_child(policy).await?);
        }
        Ok(changes)
    }

    /// Deletes the budget and the policy that the pool no longer has, and returns the pruning of
    /// its other objects. Called after [`Self::apply`].
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub async fn prune_optional<'a, P: Applicable>(
        &self,
        children: &'a Children<'a>,
        names: &'a PoolNames,
    ) -> Result<Pruning<'a>, ApplyError> {
        let is_blind = children.has_compared::<ConfigMap>(&self.config_map.name_any());
        let pruning = Pruning { children, names, is_blind };
        pruning.prune_unless::<P, PodDisruptionBudget>(self.budget.is_some()).await?;
        pruning.prune_unless::<P, NetworkPolicy>(self.policy.is_some()).await?;
        Ok(pruning)
    }
}

/// Deletes objects of an earlier spec once watches show them; that event also triggers the
/// reconcile. If the configuration in use was read in full, they are listed instead, which costs
/// the API server a pass over the namespace.
pub struct Pruning<'a> {
    children: &'a Children<'a>,
    names: &'a PoolNames,
    is_blind: bool,
}

impl Pruning<'_> {
    /// Deletes the configurations of the pool, of kind `P`, except those in `retained`. `is_due`:
    /// there may be some that no watch shows.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub async fn prune_configs<P: Applicable>(
        &self,
        retained: &[&str],
        is_due: bool,
    ) -> Result<(), ApplyError> {
        self.prune::<P, ConfigMap>(retained, self.is_blind || is_due).await
    }

    /// Deletes the object of kind `C`, of which the pool has one at most, unless it `stays`.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub async fn prune_unless<P: Applicable, C: Applicable>(
        &self,
        stays: bool,
    ) -> Result<(), ApplyError> {
        let retained: &[&str] = if stays { &[&self.names.base] } else { &[] };
        // All have the same name: if one is retained, no other exists.
        self.prune::<P, C>(retained, self.is_blind && !stays).await
    }

    async fn prune<P: Applicable, C: Applicable>(
        &self,
        retained: &[&str],
        is_due: bool,
    ) -> Result<(), ApplyError> {
        if is_due || self.children.has_more_than::<P, C>(retained.len()) {
            self.children.prune_children::<C>(&self.names.selector_text(), retained).await?;
        }
        Ok(())
    }
}
