//! The small objects of a pool: account, configuration, Service, disruption budget, network policy.
//! Pure; each function gives one object without namespace and owner, which `apply` adds.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use millrace_crds::v1alpha1::DisruptionBudgetSettings;

use super::names::PoolNames;
use super::status::as_i32;
use super::template::CONFIG_KEY;
use crate::pods::ADMIN_PORT;

/// Metadata of an object of the pool.
#[must_use]
pub fn metadata(names: &PoolNames, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(names.labels()),
        ..ObjectMeta::default()
    }
}

/// The pool's label selector.
#[must_use]
pub fn selector(names: &PoolNames) -> LabelSelector {
    LabelSelector { match_labels: Some(names.selector()), match_expressions: None }
}

/// An account without a token; pods that watch pods, or read their share of targets, ask for one
/// themselves, and the account has the right to it then (`access`, [`share_access`]). No other
/// collector talks to the Kubernetes API.
#[must_use]
pub fn service_account(names: &PoolNames) -> ServiceAccount {
    ServiceAccount {
        metadata: metadata(names, &names.base),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

/// Lets the pool's pods read ConfigMaps of their namespace, as the role says: RBAC can't restrict a
/// watch to labels.
#[must_use]
pub fn share_access(names: &PoolNames, role: &str) -> RoleBinding {
    RoleBinding {
        metadata: metadata(names, &names.base),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "ClusterRole".to_owned(),
            name: role.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            namespace: Some(names.namespace.clone()),
            name: names.base.clone(),
            api_group: None,
        }]),
    }
}

/// The configuration, immutable and named by its content: pods of an older revision that restart
/// during a rollout still find theirs.
#[must_use]
pub fn config_map(names: &PoolNames, name: &str, text: &str) -> ConfigMap {
    ConfigMap {
        metadata: metadata(names, name),
        data: Some(BTreeMap::from([(CONFIG_KEY.to_owned(), text.to_owned())])),
        immutable: Some(true),
        ..ConfigMap::default()
    }
}

/// A Service over the pool's pods.
#[must_use]
pub fn service(names: &PoolNames, ports: &[(&str, i32)], spec: ServiceSpec) -> Service {
    let ports = ports.iter().map(|(name, port)| ServicePort {
        name: Some((*name).into()),
        port: *port,
        protocol: Some("TCP".into()),
        target_port: Some(IntOrString::String((*name).into())),
        ..ServicePort::default()
    });
    Service {
        metadata: metadata(names, &names.base),
        spec: Some(ServiceSpec {
            ports: Some(ports.collect()),
            selector: Some(names.selector()),
            ..spec
        }),
        ..Service::default()
    }
}

/// A budget that always lets some pod go (a drain is never blocked for ever), and lets broken pods
/// go whatever the count.
#[must_use]
pub fn disruption_budget(
    names: &PoolNames,
    settings: &DisruptionBudgetSettings,
) -> Option<PodDisruptionBudget> {
    settings.enabled.then(|| PodDisruptionBudget {
        metadata: metadata(names, &names.base),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(as_i32(settings.max_unavailable))),
            selector: Some(selector(names)),
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".into()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    })
}

/// Allows only the served ports. Egress is not restricted: brokers give out addresses that no spec
/// names.
#[must_use]
pub fn network_policy(names: &PoolNames, ports: &[(&str, i32)]) -> NetworkPolicy {
    let open = ports.iter().map(|(_, port)| *port).chain([ADMIN_PORT]);
    let rule = NetworkPolicyIngressRule {
        ports: Some(
            open.map(|port| NetworkPolicyPort {
                port: Some(IntOrString::Int(port)),
                protocol: Some("TCP".into()),
                end_port: None,
            })
            .collect(),
        ),
        from: None,
    };
    NetworkPolicy {
        metadata: metadata(names, &names.base),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selector(names)),
            policy_types: Some(vec!["Ingress".into()]),
            ingress: Some(vec![rule]),
            egress: None,
        }),
    }
}
