//! From checked values to the objects of an edge pool. Pure: no client.

use std::fmt::Debug;

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, Deployment, DeploymentSpec,
    DeploymentStrategy, RollingUpdateDaemonSet, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{
    ConfigMap, PodTemplateSpec, Service, ServiceAccount, ServiceSpec,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use millrace_crds::v1alpha1::{EdgeMode, EdgePool, EdgeSettings, ServiceSettings};

use super::change::Asked;
use super::validate::Validated;
use crate::pool::names::PoolNames;
use crate::pool::objects;
use crate::pool::status::as_i32;
use crate::pool::template::{self, OTLP_GRPC_PORT, OTLP_HTTP_PORT};

/// A rollout without progress for this long is called stuck.
const PROGRESS_DEADLINE_SECONDS: i32 = 300;
/// Earlier ReplicaSets kept, for `kubectl rollout undo` in an emergency.
const REVISIONS_KEPT: i32 = 3;

/// The ports of its pods and its Service.
pub(super) const PORTS: &[(&str, i32)] =
    &[("otlp-grpc", OTLP_GRPC_PORT), ("otlp-http", OTLP_HTTP_PORT)];

/// The objects of an edge pool, not yet written.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) names: PoolNames,
    pub(super) image: String,
    pub(super) account: ServiceAccount,
    /// The right of its pods to read their shares.
    pub(super) share_access: Option<RoleBinding>,
    pub(super) config_map: ConfigMap,
    pub(super) service: Service,
    pub(super) budget: Option<PodDisruptionBudget>,
    pub(super) policy: Option<NetworkPolicy>,
    pub(super) asked: Asked,
    pub(super) workload: Workload,
}

/// What runs the pods.
#[derive(Clone, Debug)]
pub(super) enum Workload {
    /// A number of pods.
    Deployment(Box<Deployment>),
    /// One pod on each node.
    DaemonSet(Box<DaemonSet>),
}

/// Builds the objects.
pub(super) fn build(validated: &Validated<'_>, share_role: Option<&str>) -> Prepared {
    let Validated { pool, draft, secrets_digest } = validated;
    let settings = &pool.spec.settings;
    let names = &draft.names;
    let mut pods = draft.template.clone();
    template::note_secrets(&mut pods, secrets_digest.as_deref());
    // Evictions never take a DaemonSet's pods, so a budget for them would only confuse.
    let budget = (settings.mode == EdgeMode::Deployment).then_some(&settings.disruption_budget);
    let policy = settings.network_policy.enabled;
    Prepared {
        names: names.clone(),
        image: draft.image.clone(),
        account: objects::service_account(names),
        share_access: share_role
            .filter(|_| settings.receivers.prometheus.is_some())
            .map(|role| objects::share_access(names, role)),
        config_map: objects::config_map(names, &draft.config_map, &draft.config),
        service: service(names, &settings.service),
        budget: budget.and_then(|settings| objects::disruption_budget(names, settings)),
        policy: policy.then(|| objects::network_policy(names, PORTS)),
        asked: Asked::of(validated),
        workload: match settings.mode {
            EdgeMode::Deployment => {
                Workload::Deployment(Box::new(deployment(names, settings, pods)))
            }
            EdgeMode::DaemonSet => Workload::DaemonSet(Box::new(daemon_set(names, pods))),
        },
    }
}

fn service(names: &PoolNames, settings: &ServiceSettings) -> Service {
    let ServiceSettings {
        type_,
        metadata,
        load_balancer_class,
        load_balancer_source_ranges,
        external_traffic_policy,
        internal_traffic_policy,
        ip_families,
        ip_family_policy,
    } = settings;
    let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
    let spec = ServiceSpec {
        type_: Some(word(type_)),
        load_balancer_class: load_balancer_class.clone(),
        load_balancer_source_ranges: some(load_balancer_source_ranges.clone()),
        external_traffic_policy: external_traffic_policy.as_ref().map(word),
        internal_traffic_policy: internal_traffic_policy.as_ref().map(word),
        ip_families: some(ip_families.iter().map(word).collect()),
        ip_family_policy: ip_family_policy.as_ref().map(word),
        ..ServiceSpec::default()
    };
    let mut service = objects::service(names, PORTS, spec);
    service.metadata.labels.get_or_insert_default().extend(metadata.labels.clone());
    let annotations = Some(metadata.annotations.clone());
    service.metadata.annotations = annotations.filter(|it| !it.is_empty());
    service
}

/// A variant that is named as Kubernetes names it.
fn word(variant: &impl Debug) -> String {
    format!("{variant:?}")
}

fn deployment(names: &PoolNames, settings: &EdgeSettings, template: PodTemplateSpec) -> Deployment {
    // A pod stops only after its successor is ready: clients never find fewer, and targets have a
    // pod to go to.
    let strategy = DeploymentStrategy {
        type_: Some("RollingUpdate".into()),
        rolling_update: Some(RollingUpdateDeployment {
            max_surge: Some(IntOrString::String("25%".into())),
            max_unavailable: Some(IntOrString::Int(0)),
        }),
    };
    let replicas = asked_for(settings);
    Deployment {
        metadata: objects::metadata(names, &names.base),
        spec: Some(DeploymentSpec {
            replicas: Some(as_i32(replicas)),
            selector: objects::selector(names),
            strategy: Some(strategy),
            template,
            progress_deadline_seconds: Some(PROGRESS_DEADLINE_SECONDS),
            revision_history_limit: Some(REVISIONS_KEPT),
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn asked_for(settings: &EdgeSettings) -> u32 {
    settings.replicas.unwrap_or(EdgeSettings::DEFAULT_REPLICAS)
}

/// The number of pods that the spec asks for; none for a DaemonSet.
pub(super) fn size(pool: &EdgePool) -> Option<u32> {
    let settings = &pool.spec.settings;
    (settings.mode == EdgeMode::Deployment).then(|| asked_for(settings))
}

fn daemon_set(names: &PoolNames, template: PodTemplateSpec) -> DaemonSet {
    let update_strategy = DaemonSetUpdateStrategy {
        type_: Some("RollingUpdate".into()),
        rolling_update: Some(RollingUpdateDaemonSet {
            max_surge: Some(IntOrString::Int(0)),
            max_unavailable: Some(IntOrString::String("10%".into())),
        }),
    };
    DaemonSet {
        metadata: objects::metadata(names, &names.base),
        spec: Some(DaemonSetSpec {
            selector: objects::selector(names),
            template,
            update_strategy: Some(update_strategy),
            revision_history_limit: Some(REVISIONS_KEPT),
            ..DaemonSetSpec::default()
        }),
        status: None,
    }
}
