//! What watches have told: the cluster, its monitors, and which of it is known whole.
//!
//! A change that targets don't depend on (a pod's status, a monitor's) changes nothing here, so
//! [`State::version`] says whether there is anything to work out again. No I/O.
//!
//! # Limits
//! [`OBJECTS_MAX`] objects of a kind; what is over is passed over, and counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_monitors::{
    Cluster, MonitorId, MonitorKind, Node, OBJECTS_MAX, Objects, Pod, Service, Slice, Texts,
};

use super::strip::KeptMonitor;

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

/// How far a watch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// All is read.
    Whole,
    /// The cluster doesn't serve the kind: there is none.
    NotServed,
    /// It isn't read yet, and why if that is known.
    Waiting(Option<String>),
}

/// One object, as it is kept.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    Monitor(MonitorKind, KeptMonitor),
    Pod(Pod),
    Service(Service),
    Slice(Slice),
    Node(Node),
    Namespace(Texts),
}

/// Namespace and name.
pub(super) type Path = (String, String);

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) cluster: Cluster,
    pub(super) monitors: BTreeMap<MonitorId, KeptMonitor>,
    pub(super) namespaces: BTreeMap<String, Texts>,
    /// By kind and place.
    pub(super) stages: BTreeMap<(Watched, usize), Stage>,
    /// Changes with whatever targets depend on.
    pub(super) version: u64,
    /// Objects that were passed over.
    pub(super) over: u64,
}

impl State {
    /// Forgets a kind that nobody asks for any more.
    pub(super) fn forget(&mut self, watched: Watched) {
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

    /// Sets how far a watch is.
    pub(super) fn stage(&mut self, watched: Watched, place: usize, stage: Stage) {
        if self.stages.get(&(watched, place)) != Some(&stage) {
            self.version += 1;
            self.stages.insert((watched, place), stage);
        }
    }

    /// Keeps an object as it is now.
    pub(super) fn put(&mut self, (namespace, name): Path, kept: Kept) {
        let Cluster { pods, services, slices, nodes } = &mut self.cluster;
        let done = match kept {
            Kept::Pod(pod) => put(pods, (namespace, name), pod),
            Kept::Service(service) => put(services, (namespace, name), service),
            Kept::Slice(slice) => put(slices, (namespace, name), slice),
            Kept::Node(node) => {
                let is_full = nodes.len() >= OBJECTS_MAX && !nodes.contains_key(&name);
                match nodes.get(&name) {
                    Some(known) if **known == node => Put::Same,
                    _ if is_full => Put::Over,
                    _ => {
                        nodes.insert(name, Arc::new(node));
                        Put::Changed
                    }
                }
            }
            Kept::Namespace(labels) => match self.namespaces.get(&name) {
                Some(known) if *known == labels => Put::Same,
                _ => {
                    self.namespaces.insert(name, labels);
                    Put::Changed
                }
            },
            Kept::Monitor(kind, monitor) => {
                let id = MonitorId { kind, namespace, name };
                match self.monitors.get(&id) {
                    Some(known) if known.is_like(&monitor) => Put::Same,
                    None if self.monitors.len() >= OBJECTS_MAX => Put::Over,
                    _ => {
                        self.monitors.insert(id, monitor);
                        Put::Changed
                    }
                }
            }
        };
        self.version += u64::from(done == Put::Changed);
        self.over += u64::from(done == Put::Over);
    }

    /// Drops an object.
    pub(super) fn remove(&mut self, watched: Watched, (namespace, name): &Path) {
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

    /// Drops all objects of a kind that a whole list did not have, in one namespace or in all.
    pub(super) fn settle(&mut self, watched: Watched, within: Option<&str>, seen: &BTreeSet<Path>) {
        let known: Vec<Path> = match watched {
            Watched::Monitors(kind) => {
                let own = self.monitors.keys().filter(|id| id.kind == kind);
                own.map(|id| (id.namespace.clone(), id.name.clone())).collect()
            }
            Watched::Pods => paths(&self.cluster.pods),
            Watched::Services => paths(&self.cluster.services),
            Watched::Slices => paths(&self.cluster.slices),
            Watched::Nodes => self.cluster.nodes.keys().map(|name| cluster_path(name)).collect(),
            Watched::Namespaces => self.namespaces.keys().map(|name| cluster_path(name)).collect(),
        };
        for path in known {
            let is_within = within.is_none_or(|namespace| path.0 == namespace);
            if is_within && !seen.contains(&path) {
                self.remove(watched, &path);
            }
        }
    }
}

fn cluster_path(name: &str) -> Path {
    (String::new(), name.to_owned())
}

fn paths<T>(objects: &Objects<T>) -> Vec<Path> {
    let all = objects.iter();
    all.flat_map(|(namespace, of)| of.keys().map(|name| (namespace.clone(), name.clone())))
        .collect()
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Put {
    Same,
    Changed,
    Over,
}

fn put<T: PartialEq>(objects: &mut Objects<T>, (namespace, name): Path, object: T) -> Put {
    let known = objects.get(&namespace).and_then(|of| of.get(&name));
    match known {
        Some(known) if **known == object => return Put::Same,
        None if objects.values().map(BTreeMap::len).sum::<usize>() >= OBJECTS_MAX => {
            return Put::Over;
        }
        _ => {}
    }
    objects.entry(namespace).or_default().insert(name, Arc::new(object));
    Put::Changed
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
#[path = "../../tests/unit/discovery/state.rs"]
mod tests;
