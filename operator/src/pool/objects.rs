//! Builds the small objects of a pool: account, configuration, Service, disruption budget, network
//! policy. Pure; each function returns one object without namespace and owner, which `apply` adds.

pub mod access;
pub mod common;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use millrace_crds::v1alpha1::{DisruptionBudgetSettings, ExtraMetadata, ServiceAccountSettings};

use super::names::PoolNames;
use super::template::CONFIG_KEY;
use crate::pods::ADMIN_PORT;

/// Returns the metadata of an object of the pool.
#[must_use]
pub fn build_metadata(names: &PoolNames, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(names.labels()),
        ..ObjectMeta::default()
    }
}

/// Returns the pool's label selector.
#[must_use]
pub fn label_selector(names: &PoolNames) -> LabelSelector {
    LabelSelector { match_labels: Some(names.selector()), match_expressions: None }
}

/// Returns an account without a token. Pods that watch pods, or read their share of targets, mount
/// a token themselves; the account then has the right (`access`, [`share_access`]). No other
/// collector uses the Kubernetes API.
#[must_use]
pub fn service_account(names: &PoolNames, theirs: &ServiceAccountSettings) -> ServiceAccount {
    let mut metadata = build_metadata(names, &names.base);
    add_metadata(&mut metadata, &theirs.metadata);
    ServiceAccount {
        metadata,
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

/// Adds the spec's labels and annotations to the operator's own.
pub fn add_metadata(metadata: &mut ObjectMeta, theirs: &ExtraMetadata) {
    metadata.labels.get_or_insert_default().extend(theirs.labels.clone());
    let annotations = Some(theirs.annotations.clone());
    metadata.annotations = annotations.filter(|it| !it.is_empty());
}

/// Lets the pool's pods read ConfigMaps of their namespace, as the role allows: RBAC can't restrict
/// a watch to labels.
#[must_use]
pub fn share_access(names: &PoolNames, account: &str, role: &str) -> RoleBinding {
    RoleBinding {
        metadata: build_metadata(names, &names.base),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "ClusterRole".to_owned(),
            name: role.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            namespace: Some(names.namespace.clone()),
            name: account.to_owned(),
            api_group: None,
        }]),
    }
}

/// Returns the configuration, immutable and named by its content: pods of an older revision that
/// restart during a rollout still find theirs.
#[must_use]
pub fn config_map(names: &PoolNames, name: &str, text: &str) -> ConfigMap {
    ConfigMap {
        metadata: build_metadata(names, name),
        data: Some(BTreeMap::from([(CONFIG_KEY.to_owned(), text.to_owned())])),
        immutable: Some(true),
        ..ConfigMap::default()
    }
}

/// Returns a Service for the pool's pods.
#[must_use]
pub fn build_service(names: &PoolNames, ports: &[(&str, i32)], spec: ServiceSpec) -> Service {
    let ports = ports.iter().map(|(name, port)| ServicePort {
        name: Some((*name).into()),
        port: *port,
        protocol: Some("TCP".into()),
        target_port: Some(IntOrString::String((*name).into())),
        ..ServicePort::default()
    });
    Service {
        metadata: build_metadata(names, &names.base),
        spec: Some(ServiceSpec {
            ports: Some(ports.collect()),
            selector: Some(names.selector()),
            ..spec
        }),
        ..Service::default()
    }
}

/// Returns a budget that by default always allows the eviction of some pod, so a drain is never
/// blocked for ever, and of broken pods whatever the count.
#[must_use]
pub fn disruption_budget(
    names: &PoolNames,
    settings: &DisruptionBudgetSettings,
) -> Option<PodDisruptionBudget> {
    let DisruptionBudgetSettings { enabled, max_unavailable, min_available } = settings;
    let usual = || min_available.is_none().then_some(IntOrString::Int(1));
    enabled.then(|| PodDisruptionBudget {
        metadata: build_metadata(names, &names.base),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: max_unavailable.clone().or_else(usual),
            min_available: min_available.clone(),
            selector: Some(label_selector(names)),
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".into()),
        }),
        ..PodDisruptionBudget::default()
    })
}

/// Allows only the served ports. Egress is not restricted: brokers advertise addresses that no spec
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
        metadata: build_metadata(names, &names.base),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(label_selector(names)),
            policy_types: Some(vec!["Ingress".into()]),
            ingress: Some(vec![rule]),
            egress: None,
        }),
    }
}
