//! Translates a pool's spec to what is discovered for it in the cluster, and defines the volume
//! with the secrets of discovered targets. Pure.

use k8s_openapi::api::core::v1::{SecretVolumeSource, Volume, VolumeMount};
use millrace_crds::v1alpha1 as crds;
use millrace_monitors::{Holds, MonitorKind, Requirement, SECRETS_FOLDER, Selector};
use millrace_scrape::relabel::Rule;

use super::scrape;
use crate::discovery::{DiscoveryRequest, Pick};
use crate::pool::names::PoolNames;
use crate::pool::volumes::{MONITORS_VOLUME, mount_volume};

/// Owner and group may read; the group is the pod's own (`fsGroup`).
const FILE_MODE: i32 = 0o440;

/// Returns the volume with the secrets of monitors, and its mount. Pods start without the Secret:
/// it exists once a monitor names a key, and the kubelet updates the files.
#[must_use]
pub(in crate::pool) fn secrets_volume(names: &PoolNames) -> (Volume, VolumeMount) {
    let source = SecretVolumeSource {
        secret_name: Some(names.monitors_secret()),
        default_mode: Some(FILE_MODE),
        optional: Some(true),
        ..SecretVolumeSource::default()
    };
    let name = MONITORS_VOLUME.to_owned();
    let volume = Volume { name, secret: Some(source), ..Volume::default() };
    mount_volume(volume, SECRETS_FOLDER, true)
}

/// Returns what is discovered for a pool; `None` if the pool declares no discovery.
#[must_use]
pub fn discovery_request(pool: &crds::EdgePool) -> Option<DiscoveryRequest> {
    let receiver = pool.spec.settings.receivers.prometheus.as_ref()?;
    let crds::KubernetesDiscovery {
        service_monitors,
        pod_monitors,
        probes,
        scrape_configs,
        annotations,
        interval_seconds,
    } = receiver.kubernetes.as_ref()?;
    let monitors = [
        (MonitorKind::ServiceMonitor, service_monitors),
        (MonitorKind::PodMonitor, pod_monitors),
        (MonitorKind::Probe, probes),
        (MonitorKind::ScrapeConfig, scrape_configs),
    ];
    let monitors = monitors.into_iter().filter_map(|(kind, selection)| {
        let crds::MonitorSelection { selector, namespace_selector } = selection.as_ref()?;
        Some((kind, build_pick(selector, namespace_selector.as_ref())))
    });
    let annotated = annotations.as_ref().map(|annotations| {
        let crds::AnnotatedSelection { selector, namespace_selector, relabel } = annotations;
        let rules = relabel.iter().map(|rule| Rule::from(&scrape::build_rule(rule))).collect();
        (build_pick(selector, namespace_selector.as_ref()), rules)
    });
    Some(DiscoveryRequest {
        monitors: monitors.collect(),
        annotated,
        interval_seconds: *interval_seconds,
    })
}

fn build_pick(of: &crds::LabelSelector, namespaces: Option<&crds::LabelSelector>) -> Pick {
    Pick { selector: build_selector(of), namespaces: namespaces.map(build_selector) }
}

fn build_selector(selector: &crds::LabelSelector) -> Selector {
    let crds::LabelSelector { match_labels, match_expressions } = selector;
    let labels = match_labels.iter().map(|(key, value)| Requirement {
        key: key.clone(),
        holds: Holds::In(vec![value.clone()]),
    });
    let expressions = match_expressions.iter().map(|expression| {
        let crds::LabelRequirement { key, operator, values } = expression;
        let holds = match operator {
            crds::LabelOperator::In => Holds::In(values.clone()),
            crds::LabelOperator::NotIn => Holds::NotIn(values.clone()),
            crds::LabelOperator::Exists => Holds::Exists,
            crds::LabelOperator::DoesNotExist => Holds::Absent,
        };
        Requirement { key: key.clone(), holds }
    });
    Selector(labels.chain(expressions).collect())
}
