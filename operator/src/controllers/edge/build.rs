//! Builds the objects of an edge pool from checked values. Pure: no client.

use std::fmt::Debug;

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, Deployment, DeploymentSpec,
    DeploymentStrategy, RollingUpdateDaemonSet, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{PodTemplateSpec, Service, ServiceSpec};
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use millrace_crds::v1alpha1::{EdgeMode, EdgePool, EdgeSettings, ServiceSettings};

use super::unit::DesiredUnit;
use super::validate::{PORTS, Validated};
use crate::pool::common::CommonObjects;
use crate::pool::names::PoolNames;
use crate::pool::status::as_i32;
use crate::pool::template;
use crate::pool::{access, objects};

/// The time without progress after which a rollout is reported as stuck.
const PROGRESS_DEADLINE_SECONDS: i32 = 300;
/// The number of earlier ReplicaSets retained, for `kubectl rollout undo` in an emergency.
const REVISIONS_RETAINED: i32 = 3;

/// The objects of an edge pool, not yet written.
#[derive(Clone, Debug)]
pub(super) struct EdgeObjects {
    pub(super) names: PoolNames,
    pub(super) image: String,
    /// The right of the pool's pods to read their shares.
    pub(super) share_access: Option<RoleBinding>,
    pub(super) common: CommonObjects,
    pub(super) desired: DesiredUnit,
    pub(super) workload: Workload,
}

#[derive(Clone, Debug)]
pub(super) enum Workload {
    Deployment(Box<Deployment>),
    DaemonSet(Box<DaemonSet>),
}

pub(super) fn build_objects(validated: &Validated<'_>, share_role: Option<&str>) -> EdgeObjects {
    let Validated { pool, draft, secrets_digest } = validated;
    let settings = &pool.spec.settings;
    let names = &draft.names;
    let mut pods = draft.template.clone();
    template::annotate_secrets(&mut pods, secrets_digest.as_deref());
    // Evictions never affect a DaemonSet's pods, so a budget for them would only confuse.
    let budget = (settings.mode == EdgeMode::Deployment).then_some(&settings.disruption_budget);
    let policy = settings.network_policy.enabled;
    EdgeObjects {
        names: names.clone(),
        image: draft.image.clone(),
        share_access: share_role.filter(|_| settings.receivers.prometheus.is_some()).map(|role| {
            let account = access::account_name(&settings.pod_template, names);
            objects::share_access(names, account, role)
        }),
        common: CommonObjects {
            account: objects::service_account(names, &settings.service_account),
            config_map: objects::config_map(names, &draft.config_map, &draft.config),
            service: build_service(names, &settings.service),
            budget: budget.and_then(|settings| objects::disruption_budget(names, settings)),
            policy: policy.then(|| objects::network_policy(names, PORTS)),
        },
        desired: DesiredUnit::from_validated(validated),
        workload: match settings.mode {
            EdgeMode::Deployment => {
                Workload::Deployment(Box::new(build_deployment(names, settings, pods)))
            }
            EdgeMode::DaemonSet => Workload::DaemonSet(Box::new(build_daemon_set(names, pods))),
        },
    }
}

fn build_service(names: &PoolNames, settings: &ServiceSettings) -> Service {
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
        type_: Some(kubernetes_name(type_)),
        load_balancer_class: load_balancer_class.clone(),
        load_balancer_source_ranges: some(load_balancer_source_ranges.clone()),
        external_traffic_policy: external_traffic_policy.as_ref().map(kubernetes_name),
        internal_traffic_policy: internal_traffic_policy.as_ref().map(kubernetes_name),
        ip_families: some(ip_families.iter().map(kubernetes_name).collect()),
        ip_family_policy: ip_family_policy.as_ref().map(kubernetes_name),
        ..ServiceSpec::default()
    };
    let mut service = objects::build_service(names, PORTS, spec);
    objects::add_metadata(&mut service.metadata, metadata);
    service
}

/// Returns a variant's name, which is Kubernetes' own.
fn kubernetes_name(variant: &impl Debug) -> String {
    format!("{variant:?}")
}

fn build_deployment(
    names: &PoolNames,
    settings: &EdgeSettings,
    template: PodTemplateSpec,
) -> Deployment {
    // A pod stops only after its successor is ready: clients never find fewer, and targets always
    // have a pod.
    let strategy = DeploymentStrategy {
        type_: Some("RollingUpdate".into()),
        rolling_update: Some(RollingUpdateDeployment {
            max_surge: Some(IntOrString::String("25%".into())),
            max_unavailable: Some(IntOrString::Int(0)),
        }),
    };
    let replicas = desired_replicas(settings);
    Deployment {
        metadata: objects::build_metadata(names, &names.base),
        spec: Some(DeploymentSpec {
            replicas: Some(as_i32(replicas)),
            selector: objects::label_selector(names),
            strategy: Some(strategy),
            template,
            progress_deadline_seconds: Some(PROGRESS_DEADLINE_SECONDS),
            revision_history_limit: Some(REVISIONS_RETAINED),
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn desired_replicas(settings: &EdgeSettings) -> u32 {
    settings.replicas.unwrap_or(EdgeSettings::DEFAULT_REPLICAS)
}

/// Returns the number of pods that the spec requests; `None` for a DaemonSet.
pub(super) fn declared_size(pool: &EdgePool) -> Option<u32> {
    let settings = &pool.spec.settings;
    (settings.mode == EdgeMode::Deployment).then(|| desired_replicas(settings))
}

fn build_daemon_set(names: &PoolNames, template: PodTemplateSpec) -> DaemonSet {
    let update_strategy = DaemonSetUpdateStrategy {
        type_: Some("RollingUpdate".into()),
        rolling_update: Some(RollingUpdateDaemonSet {
            max_surge: Some(IntOrString::Int(0)),
            max_unavailable: Some(IntOrString::String("10%".into())),
        }),
    };
    DaemonSet {
        metadata: objects::build_metadata(names, &names.base),
        spec: Some(DaemonSetSpec {
            selector: objects::label_selector(names),
            template,
            update_strategy: Some(update_strategy),
            revision_history_limit: Some(REVISIONS_RETAINED),
            ..DaemonSetSpec::default()
        }),
        status: None,
    }
}
