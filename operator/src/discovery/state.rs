//! The state that watches report: the cluster, its monitors, and which kinds are completely known.
//!
//! A change that targets don't depend on (a pod's status, a monitor's) changes nothing here, so
//! [`DiscoveryState::version`] shows whether targets must be computed again. No I/O.
//!
//! # Limits
//! [`OBJECTS_MAX`] objects of a kind; further ones are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_monitors::{
    Cluster, MonitorId, MonitorKind, Node, OBJECTS_MAX, Objects, PodObject, ServiceObject,
    SliceObject, Texts,
};

use super::strip::CachedMonitor;

/// A kind that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watched {
    /// Monitors of a kind.
    Monitors(MonitorKind),
    /// Pods.
    Pods,
    /// Services.
    Services,
    /// EndpointSlices.
    Slices,
    /// Nodes: their zones and labels.
    Nodes,
    /// Namespaces: their labels.
    Namespaces,
}

/// The progress of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchStage {
    /// All objects are read.
    Complete,
    /// The cluster doesn't serve the kind: there are no objects.
    NotServed,
    /// The objects aren't read yet; the reason, if known.
    Waiting(Option<String>),
}

/// One object, as it is stored.
#[derive(Clone, Debug)]
pub(super) enum CachedObject {
    Monitor(MonitorKind, CachedMonitor),
    Pod(PodObject),
    Service(ServiceObject),
    Slice(SliceObject),
    Node(Node),
    Namespace(Texts),
}

/// Namespace and name.
pub(super) type NamespacedName = (String, String);

/// The complete observed state.
#[derive(Debug, Default)]
pub(super) struct DiscoveryState {
    pub(super) cluster: Cluster,
    pub(super) monitors: BTreeMap<MonitorId, CachedMonitor>,
    pub(super) namespaces: BTreeMap<String, Texts>,
    /// The stages of watches, by kind and index of the watch.
    pub(super) stages: BTreeMap<(Watched, usize), WatchStage>,
    /// Changes whenever anything that targets depend on changes.
    pub(super) version: u64,
}

impl DiscoveryState {
    /// Drops a kind that no pool needs any more.
    pub(super) fn remove_kind(&mut self, watched: Watched) {
        self.version += 1;
        self.stages.retain(|(kind, _), _| *kind != watched);
        match watched {
            Watched::Monitors(kind) => self.monitors.retain(|id, _| id.kind != kind),
            Watched::Pods => self.cluster.pods.clear(),
            Watched::Services => self.cluster.services.clear(),
            Watched::Slices => self.cluster.slices.clear(),
            Watched::Nodes => self.cluster.nodes.clear(),
            Watched::Namespaces => self.namespaces.clear(),
        }
    }

    pub(super) fn set_stage(&mut self, watched: Watched, scope: usize, stage: WatchStage) {
        if self.stages.get(&(watched, scope)) != Some(&stage) {
            self.version += 1;
            self.stages.insert((watched, scope), stage);
        }
    }

    pub(super) fn put_object(&mut self, (namespace, name): NamespacedName, object: CachedObject) {
        let Cluster { pods, services, slices, nodes } = &mut self.cluster;
        let has_changed = match object {
            CachedObject::Pod(pod) => put_into(pods, (namespace, name), pod),
            CachedObject::Service(service) => put_into(services, (namespace, name), service),
            CachedObject::Slice(slice) => put_into(slices, (namespace, name), slice),
            CachedObject::Node(node) => put_unless(nodes, name, Arc::new(node), PartialEq::eq),
            CachedObject::Namespace(labels) => {
                put_unless(&mut self.namespaces, name, labels, PartialEq::eq)
            }
            CachedObject::Monitor(kind, monitor) => {
                let id = MonitorId { kind, namespace, name };
                put_unless(&mut self.monitors, id, monitor, CachedMonitor::is_like)
            }
        };
        self.version += u64::from(has_changed);
    }

    pub(super) fn remove(&mut self, watched: Watched, (namespace, name): &NamespacedName) {
        self.version += 1;
        match watched {
            Watched::Monitors(kind) => {
                let (namespace, name) = (namespace.clone(), name.clone());
                self.monitors.remove(&MonitorId { kind, namespace, name });
            }
            Watched::Pods => remove(&mut self.cluster.pods, namespace, name),
            Watched::Services => remove(&mut self.cluster.services, namespace, name),
            Watched::Slices => remove(&mut self.cluster.slices, namespace, name),
            Watched::Nodes => drop(self.cluster.nodes.remove(name)),
            Watched::Namespaces => drop(self.namespaces.remove(name)),
        }
    }

    /// Drops all objects of a kind that are missing from a complete list, in one namespace or in
    /// all.
    pub(super) fn finish_list(
        &mut self,
        watched: Watched,
        within: Option<&str>,
        listed: &BTreeSet<NamespacedName>,
    ) {
        let known: Vec<NamespacedName> = match watched {
            Watched::Monitors(kind) => {
                let own = self.monitors.keys().filter(|id| id.kind == kind);
                own.map(|id| (id.namespace.clone(), id.name.clone())).collect()
            }
            Watched::Pods => object_paths(&self.cluster.pods),
            Watched::Services => object_paths(&self.cluster.services),
            Watched::Slices => object_paths(&self.cluster.slices),
            Watched::Nodes => self.cluster.nodes.keys().map(|name| cluster_path(name)).collect(),
            Watched::Namespaces => self.namespaces.keys().map(|name| cluster_path(name)).collect(),
        };
        for path in known {
            let is_within = within.is_none_or(|namespace| path.0 == namespace);
            if is_within && !listed.contains(&path) {
                self.remove(watched, &path);
            }
        }
    }
}

fn cluster_path(name: &str) -> NamespacedName {
    (String::new(), name.to_owned())
}

fn object_paths<T>(objects: &Objects<T>) -> Vec<NamespacedName> {
    let all = objects.iter();
    all.flat_map(|(namespace, of)| of.keys().map(|name| (namespace.clone(), name.clone())))
        .collect()
}

/// Stores an object, unless the stored one is like it or there are too many; returns whether it
/// did.
fn put_unless<K: Ord, T>(
    objects: &mut BTreeMap<K, T>,
    key: K,
    object: T,
    is_like: impl Fn(&T, &T) -> bool,
) -> bool {
    let may_put = match objects.get(&key) {
        Some(known) => !is_like(known, &object),
        None => objects.len() < OBJECTS_MAX,
    };
    if may_put {
        objects.insert(key, object);
    }
    may_put
}

fn put_into<T: PartialEq>(
    objects: &mut Objects<T>,
    (namespace, name): NamespacedName,
    object: T,
) -> bool {
    let may_put = match objects.get(&namespace).and_then(|of| of.get(&name)) {
        Some(known) => **known != object,
        None => objects.values().map(BTreeMap::len).sum::<usize>() < OBJECTS_MAX,
    };
    if may_put {
        objects.entry(namespace).or_default().insert(name, Arc::new(object));
    }
    may_put
}

fn remove<T>(objects: &mut Objects<T>, namespace: &str, name: &str) {
    if let Some(of) = objects.get_mut(namespace) {
        of.remove(name);
        if of.is_empty() {
            objects.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests;
