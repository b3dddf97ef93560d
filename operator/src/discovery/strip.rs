//! From what the API server sends to what is kept: as much as targets are made of. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as slices;
use kube::ResourceExt;
use kube::core::{DynamicObject, ObjectMeta, PartialObjectMeta};
use millrace_monitors::{
    Container, Monitor, MonitorId, MonitorKind, Node, Pod, Port, Service, Slice, SliceEndpoint,
    Texts, kept,
};
use serde_json::Value;

/// The label with the name of a slice's Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A monitor's labels, for selectors, and what it says.
#[derive(Clone, Debug)]
pub(super) struct KeptMonitor {
    pub(super) uid: String,
    pub(super) labels: Texts,
    /// Its generation: a change of its status alone is none.
    generation: Option<i64>,
    pub(super) monitor: std::sync::Arc<Monitor>,
}

impl KeptMonitor {
    /// Whether both say the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.labels == other.labels
            && self.generation.is_some()
            && self.generation == other.generation
    }
}

/// A monitor.
pub(super) fn monitor(kind: MonitorKind, object: &DynamicObject) -> KeptMonitor {
    let ObjectMeta { namespace, name, uid, generation, labels, .. } = object.metadata.clone();
    let id = MonitorId {
        kind,
        namespace: namespace.unwrap_or_default(),
        name: name.unwrap_or_default(),
    };
    let spec = object.data.get("spec").unwrap_or(&Value::Null);
    KeptMonitor {
        uid: uid.unwrap_or_default(),
        labels: kept(labels.as_ref()),
        generation,
        monitor: std::sync::Arc::new(Monitor::new(id, spec)),
    }
}

/// A pod.
pub(super) fn pod(pod: core::Pod) -> Pod {
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
    let ObjectMeta { namespace, name, uid, labels, annotations, owner_references, .. } =
        pod.metadata;
    let mut owners = owner_references.into_iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true));
    Pod {
        namespace: namespace.unwrap_or_default(),
        name: name.unwrap_or_default(),
        uid: uid.unwrap_or_default(),
        ip: status.pod_ip.unwrap_or_default(),
        host_ip: status.host_ip.unwrap_or_default(),
        node: spec.node_name.unwrap_or_default(),
        phase: status.phase.unwrap_or_default(),
        ready: ready.map_or("unknown".to_owned(), |ready| ready.status.to_lowercase()),
        controller: controller.map(|owner| (owner.kind, owner.name)),
        labels: kept(labels.as_ref()),
        annotations: kept(annotations.as_ref()),
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

/// A Service.
pub(super) fn service(service: PartialObjectMeta<core::Service>) -> Service {
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    let ObjectMeta { labels, annotations, .. } = service.metadata;
    Service {
        namespace,
        name,
        labels: kept(labels.as_ref()),
        annotations: kept(annotations.as_ref()),
    }
}

/// An EndpointSlice.
pub(super) fn slice(slice: slices::EndpointSlice) -> Slice {
    let (namespace, name) = (slice.namespace().unwrap_or_default(), slice.name_any());
    let service = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME));
    let service = service.cloned().unwrap_or_default();
    let ports = slice.ports.unwrap_or_default().into_iter().map(|port| Port {
        name: port.name.unwrap_or_default(),
        number: port.port.and_then(|number| u16::try_from(number).ok()),
        protocol: port.protocol.unwrap_or_default(),
        app_protocol: port.app_protocol.unwrap_or_default(),
    });
    Slice {
        namespace,
        name,
        service,
        address_type: slice.address_type,
        ports: ports.collect(),
        endpoints: slice.endpoints.into_iter().map(endpoint).collect(),
    }
}

fn endpoint(endpoint: slices::Endpoint) -> SliceEndpoint {
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

/// A node.
pub(super) fn node(node: PartialObjectMeta<core::Node>) -> Node {
    let name = node.name_any();
    let ObjectMeta { labels, annotations, .. } = node.metadata;
    Node { name, labels: kept(labels.as_ref()), annotations: kept(annotations.as_ref()) }
}

#[cfg(test)]
#[path = "../../tests/unit/discovery/strip.rs"]
mod tests;
