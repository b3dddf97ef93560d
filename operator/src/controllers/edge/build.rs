//! From checked values to the objects of an edge pool. Pure: no client.

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, Deployment, DeploymentSpec,
    DeploymentStrategy, RollingUpdateDaemonSet, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{
    ConfigMap, PodTemplateSpec, Service, ServiceAccount, ServiceSpec,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use millrace_crds::v1alpha1::{EdgeMode, EdgePool, EdgeSettings, ServiceType};

use super::change::Asked;
use super::validate::Validated;
use crate::pool::names::PoolNames;
use crate::pool::objects;
use crate::pool::status::as_i32;
use crate::pool::template::{self, OTLP_GRPC_PORT, OTLP_HTTP_PORT, PodPlan, pod_template};

/// A rollout without progress for this long is called stuck.
const PROGRESS_DEADLINE_SECONDS: i32 = 300;
/// Earlier ReplicaSets kept, for `kubectl rollout undo` in an emergency.
const REVISIONS_KEPT: i32 = 3;

const PORTS: &[(&str, i32)] = &[("otlp-grpc", OTLP_GRPC_PORT), ("otlp-http", OTLP_HTTP_PORT)];

/// The objects of an edge pool, not yet written.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) names: PoolNames,
    pub(super) image: String,
    pub(super) account: ServiceAccount,
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
pub(super) fn build(validated: &Validated<'_>) -> Prepared {
    let Validated { pool, draft, config_map, secrets_digest } = validated;
    let settings = &pool.spec.settings;
    let names = &draft.names;
    let pods = pod_template(&PodPlan {
        names,
        image: &draft.image,
        user: draft.user,
        collector: &pool.spec.collector,
        resources: template::written(&settings.resources),
        pods: &settings.pods,
        config_map,
        secrets: &draft.secrets,
        secrets_digest: secrets_digest.as_deref(),
        buffer: settings.buffer.as_ref(),
        reads_files: settings.receivers.reads_files(),
        watches_pods: settings.receivers.watches_pods(),
        drain_seconds: settings.drain_seconds,
        ports: PORTS,
        revision_label: (settings.mode == EdgeMode::Deployment).then_some("pod-template-hash"),
    });
    let policy = settings.network_policy.enabled;
    Prepared {
        names: names.clone(),
        image: draft.image.clone(),
        account: objects::service_account(names),
        config_map: objects::config_map(names, config_map, &draft.config),
        service: service(names, settings),
        // Evictions never take a DaemonSet's pods, so a budget for them would only confuse.
        budget: (settings.mode == EdgeMode::Deployment).then(|| objects::disruption_budget(names)),
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

fn service(names: &PoolNames, settings: &EdgeSettings) -> Service {
    let type_ = match settings.service.type_ {
        ServiceType::ClusterIP => "ClusterIP",
        ServiceType::NodePort => "NodePort",
        ServiceType::LoadBalancer => "LoadBalancer",
    };
    let spec = ServiceSpec { type_: Some(type_.into()), ..ServiceSpec::default() };
    let mut service = objects::service(names, PORTS, spec);
    if !settings.service.annotations.is_empty() {
        service.metadata.annotations = Some(settings.service.annotations.clone());
    }
    service
}

fn deployment(names: &PoolNames, settings: &EdgeSettings, template: PodTemplateSpec) -> Deployment {
    // A pod stops only after its successor is ready: clients never find fewer.
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
