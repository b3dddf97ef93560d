//! The interface between a reader of containers' files and the watch of this node's pods.
//!
//! The reader asks by a file's path, never waits here, and knows no Kubernetes client.

use std::sync::Arc;

/// What is known of a pod. Immutable: a change makes another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// Attributes of the resource, their names all below `k8s.`: labels, annotations, node, owner.
    pub attributes: Vec<(String, String)>,
    /// Whether its logs aren't wanted.
    pub is_off: bool,
}

/// Finds pods. Answers from memory.
pub trait Pods: Send + Sync {
    /// Another number after each change of what [`Pods::find`] may answer.
    fn version(&self) -> u64;

    /// The pod whose directory of logs has this uid, namespace and name; none if it isn't known,
    /// or not by all three.
    fn find(&self, uid: &str, namespace: &str, name: &str) -> Option<Arc<Pod>>;
}
