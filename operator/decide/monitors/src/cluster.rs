//! A cluster's objects, reduced to what meta labels need.
//!
//! # Limits
//! [`OBJECTS_MAX`] objects of each kind. Of an object's labels and annotations [`TEXTS_MAX`] each,
//! with values of [`TEXT_BYTES_MAX`]: longer ones are omitted.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum objects of a kind: Kubernetes' own limit of pods in a cluster. A pod needs some 1 KiB.
pub const OBJECTS_MAX: usize = 150_000;

/// Maximum labels, and maximum annotations, of an object. A pod has some 10 of each.
pub const TEXTS_MAX: usize = 64;

/// The maximum length of an annotation's value: annotations about scraping are short. A label's
/// value has at most 63 bytes.
pub const TEXT_BYTES_MAX: usize = 512;

/// Labels or annotations.
pub type Texts = BTreeMap<String, String>;

/// The node label with a zone's name.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Returns the labels or annotations that are stored.
#[must_use]
pub fn retained_texts(texts: Option<&Texts>) -> Texts {
    let short = texts.into_iter().flatten().filter(|(_, value)| value.len() <= TEXT_BYTES_MAX);
    short.take(TEXTS_MAX).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodObject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its address; empty before it gets one.
    pub ip: String,
    /// Its node's address.
    pub host_ip: String,
    /// Its node's name.
    pub node: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// `true`, `false` or `unknown`.
    pub ready: String,
    /// Kind and name of its controller.
    pub controller: Option<(String, String)>,
    /// Its labels.
    pub labels: Texts,
    /// Its annotations.
    pub annotations: Texts,
    /// Its containers, init containers last.
    pub containers: Vec<Container>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// The runtime's id of the container.
    pub id: String,
    /// Whether it is an init container.
    pub is_init: bool,
    /// Its declared ports.
    pub ports: Vec<Port>,
}

/// A declared port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Its name; empty without one.
    pub name: String,
    /// Its number; `None` in a slice that means all ports.
    pub number: Option<u16>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The application protocol, if a Service declares one.
    pub app_protocol: String,
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceObject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Texts,
    /// Its annotations.
    pub annotations: Texts,
}

/// An EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceObject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The Service that owns it; empty if none.
    pub service: String,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Its endpoints.
    pub endpoints: Vec<SliceEndpoint>,
}

/// One endpoint of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Whether it is ready, if known.
    pub is_ready: Option<bool>,
    /// Whether it serves.
    pub is_serving: Option<bool>,
    /// Whether it is terminating.
    pub is_terminating: Option<bool>,
    /// Its host name.
    pub hostname: String,
    /// Its node.
    pub node: String,
    /// Its zone.
    pub zone: String,
    /// Kind and name of the object behind it.
    pub target: Option<(String, String)>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Texts,
    /// Its annotations.
    pub annotations: Texts,
}

/// Objects of one kind, by namespace and name.
pub type Objects<T> = BTreeMap<String, BTreeMap<String, Arc<T>>>;

/// All objects that discovery reads.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Pods.
    pub pods: Objects<PodObject>,
    /// Services.
    pub services: Objects<ServiceObject>,
    /// EndpointSlices.
    pub slices: Objects<SliceObject>,
    /// Nodes, if they may be read.
    pub nodes: BTreeMap<String, Arc<Node>>,
}

impl Cluster {
    /// Returns a pod by namespace and name.
    #[must_use]
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&PodObject> {
        self.pods.get(namespace)?.get(name).map(|pod| &**pod)
    }

    /// Returns a Service by namespace and name.
    #[must_use]
    pub fn service(&self, namespace: &str, name: &str) -> Option<&ServiceObject> {
        self.services.get(namespace)?.get(name).map(|service| &**service)
    }

    /// Returns the zone of a node, if known.
    #[must_use]
    pub fn zone_of_node(&self, node: &str) -> Option<&str> {
        self.nodes.get(node)?.labels.get(ZONE).map(String::as_str)
    }
}
