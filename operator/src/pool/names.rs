//! Derives names and labels of a pool's objects. They depend on the pool's name and role alone, so
//! a restarted operator finds all objects again, and are checked against Kubernetes' limits once.

use std::collections::BTreeMap;

use kube::Resource;
use kube::api::ObjectMeta;
use millrace_crds::MANAGED_BY;
pub use millrace_crds::pods::{PRODUCT, Role};

use crate::error::Invalid;

/// The longest workload name. A StatefulSet's pods carry `<name>-<hash of 10>` as a label value of
/// at most 63, and a pod's ordinal needs up to 5 more; Kubernetes itself advises 52.
const WORKLOAD_NAME_BYTES_MAX: usize = 52;

/// The checked names and labels of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolNames {
    /// The pool's namespace.
    pub namespace: String,
    /// The pool's own name.
    pub pool: String,
    /// The role of its collectors.
    pub role: Role,
    /// `<pool>-<role>`, the name of the workload, Service, account, budget and policy.
    pub base: String,
}

impl PoolNames {
    /// Returns the names for a pool.
    ///
    /// # Errors
    /// When the pool's name is too long for the suffixes.
    pub fn new(namespace: &str, pool: &str, role: Role) -> Result<Self, Invalid> {
        let base = format!("{pool}-{}", role.as_str());
        if base.len() > WORKLOAD_NAME_BYTES_MAX {
            let most = WORKLOAD_NAME_BYTES_MAX - role.as_str().len() - 1;
            return Err(Invalid::spec_invalid(format!(
                "metadata.name has {} characters; use at most {most}, as pods are named after it",
                pool.len()
            )));
        }
        if pool.contains('.') {
            return Err(Invalid::spec_invalid(
                "metadata.name holds a dot; use letters, digits and '-', as Services are named \
                 after it",
            ));
        }
        Ok(Self { namespace: namespace.to_owned(), pool: pool.to_owned(), role, base })
    }

    /// Returns the names for a stored pool.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_pool<K: Resource>(pool: &K, role: Role) -> Result<Self, Invalid> {
        let ObjectMeta { namespace, name, .. } = pool.meta();
        Self::new(
            namespace.as_deref().unwrap_or_default(),
            name.as_deref().unwrap_or_default(),
            role,
        )
    }

    /// Returns the name of the immutable ConfigMap for the configuration with this hash.
    #[must_use]
    pub fn config_map(&self, hash: &str) -> String {
        format!("{}-{}", self.base, hash.get(..10).unwrap_or(hash))
    }

    /// Returns the name of the Secret for monitors.
    #[must_use]
    pub fn monitors_secret(&self) -> String {
        format!("{}-monitors", self.base)
    }

    /// Returns the labels that select only the pool's pods.
    #[must_use]
    pub fn selector(&self) -> BTreeMap<String, String> {
        [
            ("app.kubernetes.io/name", PRODUCT),
            ("app.kubernetes.io/instance", &self.pool),
            ("app.kubernetes.io/component", self.role.as_str()),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
    }

    /// Returns the labels of every object of the pool.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.selector();
        labels.insert("app.kubernetes.io/managed-by".into(), MANAGED_BY.into());
        labels
    }

    /// Returns the selector as text, for status and lists.
    #[must_use]
    pub fn selector_text(&self) -> String {
        let parts: Vec<String> =
            self.selector().iter().map(|(key, value)| format!("{key}={value}")).collect();
        parts.join(",")
    }

    /// Returns the selector of the pods of all pools of a role, as text.
    #[must_use]
    pub fn role_selector_text(role: Role) -> String {
        format!("app.kubernetes.io/name={PRODUCT},app.kubernetes.io/component={}", role.as_str())
    }

    /// Returns the Service's name inside the cluster.
    #[must_use]
    pub fn service_host(&self) -> String {
        format!("{}.{}.svc", self.base, self.namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: names are at and over the limit. Guarantee: long ones are refused before anything
    /// is created.
    #[test]
    fn a_name_that_leaves_no_room_is_refused() {
        assert!(PoolNames::new("ns", &"a".repeat(44), Role::Gateway).is_ok());
        let error = PoolNames::new("ns", &"a".repeat(45), Role::Gateway).unwrap_err();
        assert!(error.message.contains("at most 44"), "{error}");
        assert!(PoolNames::new("ns", "a.b", Role::Edge).is_err());
    }

    /// Scenario: an edge and a gateway pool have one name. Guarantee: none of their objects
    /// collide.
    #[test]
    fn two_roles_of_one_name_share_nothing() {
        let edge = PoolNames::new("ns", "prod", Role::Edge).unwrap();
        let gateway = PoolNames::new("ns", "prod", Role::Gateway).unwrap();
        assert_ne!(edge.base, gateway.base);
        assert_ne!(edge.selector(), gateway.selector());
    }
}
