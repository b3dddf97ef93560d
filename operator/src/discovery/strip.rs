//! Strips objects of the API server to the fields from which targets are built. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as slices;
use kube::ResourceExt;
use kube::core::{DynamicObject, ObjectMeta, PartialObjectMeta};
use millrace_monitors::{
    Container, Monitor, MonitorId, MonitorKind, Node, PodObject, Port, ServiceObject,
    SliceEndpoint, SliceObject, Texts, retained_texts,
};
use serde_json::Value;

use crate::ownership::controller_of;

/// The label with the name of a slice's Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A monitor's labels, for selectors, and its parsed spec.
#[derive(Clone, Debug)]
pub(super) struct CachedMonitor {
    pub(super) uid: String,
    pub(super) labels: Texts,
    /// The monitor's generation, which a change of only its status leaves unchanged.
    generation: Option<i64>,
    pub(super) monitor: std::sync::Arc<Monitor>,
}

impl CachedMonitor {
    /// Returns whether both have the same labels and spec.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.labels == other.labels
            && self.generation.is_some()
            && self.generation == other.generation
    }
}

pub(super) fn strip_monitor(kind: MonitorKind, object: &DynamicObject) -> CachedMonitor {
    let ObjectMeta { namespace, name, uid, generation, labels, .. } = object.metadata.clone();
    let id = MonitorId {
        kind,
        namespace: namespace.unwrap_or_default(),
        name: name.unwrap_or_default(),
    };
    let spec = object.data.get("spec").unwrap_or(&Value::Null);
    CachedMonitor {
        uid: uid.unwrap_or_default(),
        labels: retained_texts(labels.as_ref()),
        generation,
        monitor: std::sync::Arc::new(Monitor::new(id, spec)),
    }
}

pub(super) fn strip_pod(pod: core::Pod) -> PodObject {
    let (spec, status) = (pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
    let conditions = status.conditions.unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    let ids = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let ids: BTreeMap<&str, &str> = ids
        .filter_map(|status| Some((status.name.as_str(), status.container_id.as_deref()?)))
        .collect();
    let container = |container: core::Container, is_init| Container {
        id: ids.get(container.name.as_str()).map(|id| (*id).to_owned()).unwrap_or_default(),
        ports: container.ports.unwrap_or_default().into_iter().map(container_port).collect(),
        image: container.image.unwrap_or_default(),
        name: container.name,
        is_init,
    };
    let init = spec.init_containers.unwrap_or_default();
    let containers = spec.containers.into_iter().map(|it| container(it, false));
    let containers = containers.chain(init.into_iter().map(|it| container(it, true))).collect();
    let controller = controller_of(&pod.metadata);
    let controller = controller.map(|owner| (owner.kind.clone(), owner.name.clone()));
    let ObjectMeta { namespace, name, uid, labels, annotations, .. } = pod.metadata;
    PodObject {
        namespace: namespace.unwrap_or_default(),
        name: name.unwrap_or_default(),
        uid: uid.unwrap_or_default(),
        ip: status.pod_ip.unwrap_or_default(),
        host_ip: status.host_ip.unwrap_or_default(),
        node: spec.node_name.unwrap_or_default(),
        phase: status.phase.unwrap_or_default(),
        ready: ready.map_or("unknown".to_owned(), |ready| ready.status.to_lowercase()),
        controller,
        labels: retained_texts(labels.as_ref()),
        annotations: retained_texts(annotations.as_ref()),
        containers,
    }
}

fn container_port(port: core::ContainerPort) -> Port {
    Port {
        name: port.name.unwrap_or_default(),
        number: u16::try_from(port.container_port).ok(),
        protocol: port.protocol.unwrap_or_default(),
        app_protocol: String::new(),
    }
}

pub(super) fn strip_service(service: PartialObjectMeta<core::Service>) -> ServiceObject {
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    let ObjectMeta { labels, annotations, .. } = service.metadata;
    ServiceObject {
        namespace,
        name,
        labels: retained_texts(labels.as_ref()),
        annotations: retained_texts(annotations.as_ref()),
    }
}

pub(super) fn strip_slice(slice: slices::EndpointSlice) -> SliceObject {
    let (namespace, name) = (slice.namespace().unwrap_or_default(), slice.name_any());
    let service = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME));
    let service = service.cloned().unwrap_or_default();
    let ports = slice.ports.unwrap_or_default().into_iter().map(|port| Port {
        name: port.name.unwrap_or_default(),
        number: port.port.and_then(|number| u16::try_from(number).ok()),
        protocol: port.protocol.unwrap_or_default(),
        app_protocol: port.app_protocol.unwrap_or_default(),
    });
    SliceObject {
        namespace,
        name,
        service,
        address_type: slice.address_type,
        ports: ports.collect(),
        endpoints: slice.endpoints.into_iter().map(strip_endpoint).collect(),
    }
}

fn strip_endpoint(endpoint: slices::Endpoint) -> SliceEndpoint {
    let conditions = endpoint.conditions.unwrap_or_default();
    let target = endpoint.target_ref.unwrap_or_default();
    SliceEndpoint {
        addresses: endpoint.addresses,
        is_ready: conditions.ready,
        is_serving: conditions.serving,
        is_terminating: conditions.terminating,
        hostname: endpoint.hostname.unwrap_or_default(),
        node: endpoint.node_name.unwrap_or_default(),
        zone: endpoint.zone.unwrap_or_default(),
        target: target.kind.zip(target.name),
    }
}

pub(super) fn strip_node(node: PartialObjectMeta<core::Node>) -> Node {
    let name = node.name_any();
    let ObjectMeta { labels, annotations, .. } = node.metadata;
    Node {
        name,
        labels: retained_texts(labels.as_ref()),
        annotations: retained_texts(annotations.as_ref()),
    }
}

#[cfg(test)]
mod tests;
