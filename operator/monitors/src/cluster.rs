//! What is kept of a cluster's objects: as much as meta labels need, no more.
//!
//! # Limits
//! [`OBJECTS_MAX`] objects of each kind. Of an object's labels and annotations [`TEXTS_MAX`] each,
//! with values of [`TEXT_BYTES_MAX`]: longer ones are left out.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Most objects of a kind: Kubernetes' own limit of pods in a cluster. A pod takes some 1 KiB.
pub const OBJECTS_MAX: usize = 150_000;

/// Most labels, and most annotations, of an object. A pod has some 10 of each.
pub const TEXTS_MAX: usize = 64;

/// The longest value of an annotation: those that say how something is scraped are short. A label's
/// is at most 63 bytes.
pub const TEXT_BYTES_MAX: usize = 512;

/// Labels or annotations.
pub type Texts = BTreeMap<String, String>;

/// The node label with a zone's name.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Of labels or annotations what is kept.
#[must_use]
pub fn kept(texts: Option<&Texts>) -> Texts {
    let short = texts.into_iter().flatten().filter(|(_, value)| value.len() <= TEXT_BYTES_MAX);
    short.take(TEXTS_MAX).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its address; empty before it has one.
    pub ip: String,
    /// Its node's address.
    pub host_ip: String,
    /// Its node's name.
    pub node: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// `true`, `false` or `unknown`.
    pub ready: String,
    /// Kind and name of what made it.
    pub controller: Option<(String, String)>,
    /// Its labels.
    pub labels: Texts,
    /// Its annotations.
    pub annotations: Texts,
    /// Its containers, those for the start last.
    pub containers: Vec<Container>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// Its runtime's id.
    pub id: String,
    /// Whether it runs at the start alone.
    pub is_init: bool,
    /// Its declared ports.
    pub ports: Vec<Port>,
}

/// A declared port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its number. None in a slice that stands for all ports.
    pub number: Option<u16>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// What is spoken on it, if a Service says that.
    pub app_protocol: String,
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
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
pub struct Slice {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The Service that it belongs to; empty if none.
    pub service: String,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// Its ports.
    pub ports: Vec<Port>,
    /// What answers there.
    pub endpoints: Vec<SliceEndpoint>,
}

/// One endpoint of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Whether it is ready, if that is known.
    pub is_ready: Option<bool>,
    /// Whether it serves.
    pub is_serving: Option<bool>,
    /// Whether it ends.
    pub is_terminating: Option<bool>,
    /// Its host name.
    pub hostname: String,
    /// Its node.
    pub node: String,
    /// Its zone.
    pub zone: String,
    /// Kind and name of what it stands for.
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

/// All objects that targets are made of.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Pods.
    pub pods: Objects<Pod>,
    /// Services.
    pub services: Objects<Service>,
    /// EndpointSlices.
    pub slices: Objects<Slice>,
    /// Nodes, if they may be read.
    pub nodes: BTreeMap<String, Arc<Node>>,
}

impl Cluster {
    /// A pod by namespace and name.
    #[must_use]
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.pods.get(namespace)?.get(name).map(|pod| &**pod)
    }

    /// A Service by namespace and name.
    #[must_use]
    pub fn service(&self, namespace: &str, name: &str) -> Option<&Service> {
        self.services.get(namespace)?.get(name).map(|service| &**service)
    }

    /// The zone of a node, if it is known.
    #[must_use]
    pub fn zone(&self, node: &str) -> Option<&str> {
        self.nodes.get(node)?.labels.get(ZONE).map(String::as_str)
    }
}
