//! Meta labels: the labels of a discovered target before rules are applied, with the names of
//! Prometheus' discovery in Kubernetes (roles `pod`, `endpoints` and `endpointslice`).
//!
//! Only labels that a rule can see are created: an object has some fifty.

use millrace_scrape::relabel::LabelSet;

use crate::cluster::{
    Cluster, Container, PodObject, Port, ServiceObject, SliceEndpoint, SliceObject, Texts,
};
use crate::monitor::endpoint::{EndpointSource, VisibleLabels};
use crate::monitor::rules::sanitize_name;
use crate::selector::Namespaces;

/// Receives a target: its labels, and its zone if known.
pub(crate) type Emit<'a> = dyn FnMut(&mut LabelSet, Option<&str>) + 'a;

/// Finds targets.
pub(crate) struct Finder<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) sees: &'a VisibleLabels,
    /// Namespaces that the pool may access.
    pub(crate) reach: &'a Namespaces,
    pub(crate) labels: &'a mut LabelSet,
}

impl Finder<'_> {
    /// Emits all targets of a source.
    pub(crate) fn find_targets(&mut self, source: &EndpointSource, emit: &mut Emit<'_>) {
        match source {
            EndpointSource::Pods { namespaces, selector, with_node } => {
                let cluster = self.cluster;
                let pods = namespaces.select_objects(&cluster.pods);
                for pod in pods.filter(|pod| selector.selects(&pod.labels)) {
                    if self.reach.has_namespace(&pod.namespace) {
                        self.emit_pod(pod, *with_node, emit);
                    }
                }
            }
            EndpointSource::Services { namespaces, selector, with_node } => {
                let (cluster, none) = (self.cluster, ServiceObject::default());
                for slice in namespaces.select_objects(&cluster.slices) {
                    let service = cluster.service(&slice.namespace, &slice.service);
                    let service = service.unwrap_or(&none);
                    if selector.selects(&service.labels)
                        && self.reach.has_namespace(&slice.namespace)
                    {
                        self.emit_slice(slice, service, *with_node, emit);
                    }
                }
            }
            EndpointSource::Static(groups) => {
                for (address, group) in groups.iter().flat_map(|(addresses, labels)| {
                    addresses.iter().map(move |address| (address, labels))
                }) {
                    self.begin_target(address);
                    for (name, value) in group.iter().filter(|(name, _)| *name != ADDRESS) {
                        self.labels.push(name, value);
                    }
                    emit(self.labels, None);
                }
            }
            EndpointSource::Several(sources) => {
                for source in sources {
                    self.find_targets(source, emit);
                }
            }
        }
    }

    /// Emits the targets of a pod: one per port of its containers, and one per container without
    /// ports.
    pub(crate) fn emit_pod(&mut self, pod: &PodObject, with_node: bool, emit: &mut Emit<'_>) {
        if pod.ip.is_empty() {
            return;
        }
        let zone = self.cluster.zone_of_node(&pod.node);
        for container in &pod.containers {
            let ports = container.ports.iter().map(Some);
            let none = container.ports.is_empty().then_some(None);
            for port in ports.chain(none) {
                self.begin_target(&join_host_port(&pod.ip, port.and_then(|port| port.number)));
                self.put_pod(pod, with_node);
                self.put_label("__meta_kubernetes_namespace", &pod.namespace);
                self.put_container(container, port);
                self.put_label("__meta_kubernetes_pod_container_id", &container.id);
                let is_init = text_of(Some(container.is_init));
                self.put_label("__meta_kubernetes_pod_container_init", is_init);
                emit(self.labels, zone);
            }
        }
    }

    /// Emits the targets of a slice: its endpoints' addresses with its ports; then, of pods among
    /// them, ports that the slice doesn't have.
    pub(crate) fn emit_slice(
        &mut self,
        slice: &SliceObject,
        service: &ServiceObject,
        with_node: bool,
        emit: &mut Emit<'_>,
    ) {
        for endpoint in &slice.endpoints {
            let pod = endpoint.target.as_ref().filter(|(kind, _)| kind == "Pod");
            let pod = pod.and_then(|(_, name)| self.cluster.pod(&slice.namespace, name));
            let zone = Some(endpoint.zone.as_str()).filter(|zone| !zone.is_empty());
            let zone = zone.or_else(|| self.cluster.zone_of_node(&endpoint.node));
            for port in &slice.ports {
                for address in &endpoint.addresses {
                    self.begin_target(&join_host_port(address, port.number));
                    self.put_slice(slice, service);
                    self.put_endpoint(endpoint, port);
                    if with_node {
                        self.put_node(&endpoint.node);
                    }
                    if let Some(pod) = pod {
                        self.put_pod(pod, false);
                        let of_port = pod.containers.iter().find_map(|container| {
                            let mut ports = container.ports.iter();
                            let port = ports.find(|own| own.number == port.number)?;
                            (!container.is_init).then_some((container, port))
                        });
                        if let Some((container, port)) = of_port.filter(|_| port.number.is_some()) {
                            self.put_container(container, Some(port));
                        }
                    }
                    emit(self.labels, zone);
                }
            }
            let Some(pod) = pod.filter(|pod| !pod.ip.is_empty()) else { continue };
            for container in pod.containers.iter().filter(|container| !container.is_init) {
                for port in &container.ports {
                    if slice.ports.iter().any(|known| known.number == port.number) {
                        continue;
                    }
                    self.begin_target(&join_host_port(&pod.ip, port.number));
                    self.put_slice(slice, service);
                    self.put_pod(pod, false);
                    self.put_container(container, Some(port));
                    emit(self.labels, zone);
                }
            }
        }
    }

    fn begin_target(&mut self, address: &str) {
        self.labels.clear();
        self.labels.push(ADDRESS, address);
    }

    fn put_label(&mut self, name: &str, value: &str) {
        if self.sees.includes(name) {
            self.labels.push(name, value);
        }
    }

    /// Adds labels or annotations. If two sanitized names are equal, the first one stays.
    fn put_texts(&mut self, kind: &str, what: &str, texts: &Texts) {
        for (name, value) in texts {
            let name = sanitize_name(name);
            for (middle, value) in [("", value.as_str()), ("present", "true")] {
                let name = format!("__meta_kubernetes_{kind}_{what}{middle}_{name}");
                if self.sees.includes(&name) && self.labels.get(&name).is_empty() {
                    self.labels.push(&name, value);
                }
            }
        }
    }

    fn put_pod(&mut self, pod: &PodObject, with_node: bool) {
        for (name, value) in [
            ("__meta_kubernetes_pod_name", &pod.name),
            ("__meta_kubernetes_pod_ip", &pod.ip),
            ("__meta_kubernetes_pod_host_ip", &pod.host_ip),
            ("__meta_kubernetes_pod_node_name", &pod.node),
            ("__meta_kubernetes_pod_phase", &pod.phase),
            ("__meta_kubernetes_pod_ready", &pod.ready),
            ("__meta_kubernetes_pod_uid", &pod.uid),
        ] {
            self.put_label(name, value);
        }
        if let Some((kind, name)) = &pod.controller {
            self.put_label("__meta_kubernetes_pod_controller_kind", kind);
            self.put_label("__meta_kubernetes_pod_controller_name", name);
        }
        self.put_texts("pod", "label", &pod.labels);
        self.put_texts("pod", "annotation", &pod.annotations);
        if with_node {
            self.put_node(&pod.node);
        }
    }

    fn put_container(&mut self, container: &Container, port: Option<&Port>) {
        self.put_label("__meta_kubernetes_pod_container_name", &container.name);
        self.put_label("__meta_kubernetes_pod_container_image", &container.image);
        let Some(port) = port else { return };
        self.put_label("__meta_kubernetes_pod_container_port_name", &port.name);
        self.put_label("__meta_kubernetes_pod_container_port_number", &port_text(port.number));
        self.put_label("__meta_kubernetes_pod_container_port_protocol", &port.protocol);
    }

    /// Adds the labels of both roles.
    fn put_slice(&mut self, slice: &SliceObject, service: &ServiceObject) {
        for (name, value) in [
            ("__meta_kubernetes_namespace", &slice.namespace),
            ("__meta_kubernetes_endpoints_name", &slice.service),
            ("__meta_kubernetes_endpointslice_name", &slice.name),
            ("__meta_kubernetes_endpointslice_address_type", &slice.address_type),
            ("__meta_kubernetes_service_name", &service.name),
        ] {
            self.put_label(name, value);
        }
        self.put_texts("service", "label", &service.labels);
        self.put_texts("service", "annotation", &service.annotations);
    }

    fn put_endpoint(&mut self, endpoint: &SliceEndpoint, port: &Port) {
        for (name, value) in [
            ("port_name", port.name.as_str()),
            ("port_protocol", &port.protocol),
            ("port_app_protocol", &port.app_protocol),
        ] {
            self.put_label(&format!("__meta_kubernetes_endpoint_{name}"), value);
            self.put_label(&format!("__meta_kubernetes_endpointslice_{name}"), value);
        }
        let (ready, serving) = (text_of(endpoint.is_ready), text_of(endpoint.is_serving));
        for (name, value) in [
            ("__meta_kubernetes_endpointslice_port", port_text(port.number).as_str()),
            ("__meta_kubernetes_endpoint_ready", ready),
            ("__meta_kubernetes_endpoint_hostname", &endpoint.hostname),
            ("__meta_kubernetes_endpoint_node_name", &endpoint.node),
            ("__meta_kubernetes_endpointslice_endpoint_conditions_ready", ready),
            ("__meta_kubernetes_endpointslice_endpoint_conditions_serving", serving),
            (
                "__meta_kubernetes_endpointslice_endpoint_conditions_terminating",
                text_of(endpoint.is_terminating),
            ),
            ("__meta_kubernetes_endpointslice_endpoint_hostname", &endpoint.hostname),
            ("__meta_kubernetes_endpointslice_endpoint_node_name", &endpoint.node),
            ("__meta_kubernetes_endpointslice_endpoint_zone", &endpoint.zone),
        ] {
            self.put_label(name, value);
        }
        if let Some((kind, name)) = &endpoint.target {
            for role in ["endpoint", "endpointslice"] {
                self.put_label(&format!("__meta_kubernetes_{role}_address_target_kind"), kind);
                self.put_label(&format!("__meta_kubernetes_{role}_address_target_name"), name);
            }
        }
    }

    fn put_node(&mut self, name: &str) {
        let Some(node) = self.cluster.nodes.get(name) else { return };
        self.put_label("__meta_kubernetes_node_name", &node.name);
        self.put_texts("node", "label", &node.labels);
        self.put_texts("node", "annotation", &node.annotations);
    }
}

/// The label that has a target's address.
pub(crate) const ADDRESS: &str = "__address__";

fn text_of(flag: Option<bool>) -> &'static str {
    match flag {
        Some(true) => "true",
        Some(false) => "false",
        None => "",
    }
}

fn port_text(port: Option<u16>) -> String {
    port.map(|port| port.to_string()).unwrap_or_default()
}

/// Joins an address and its port, with IPv6 in brackets.
fn join_host_port(host: &str, port: Option<u16>) -> String {
    match port {
        Some(port) if host.contains(':') => format!("[{host}]:{port}"),
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
