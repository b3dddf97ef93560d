//! The objects of a pipeline as a tree: pools with their pods, topics, schemas.

use kube::Resource;
use millrace_crds::{Condition, ConditionStatus};

use crate::facts::{Facts, PodFacts, Role};
use crate::summary::{ReadyState, current_ready};

/// An object and its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceNode {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether it is Ready.
    pub state: ReadyState,
    /// The reason of that, or a pod's state and node.
    pub detail: String,
    /// Its children, by kind and name.
    pub children: Vec<Self>,
}

/// Returns the tree of a pipeline.
#[must_use]
pub fn resource_tree(facts: &Facts) -> ResourceNode {
    macro_rules! node {
        ($object:expr, $pods:expr) => {{
            let status = $object.status.as_ref();
            let conditions = status.map_or(&[][..], |status| &status.conditions);
            object_node($object, conditions, $pods)
        }};
    }
    let pods = |role, name: &Option<String>| {
        let name = name.as_deref().unwrap_or_default();
        facts.pods_of(role, name).map(pod_node).collect::<Vec<_>>()
    };
    let edges = facts.edges.iter().map(|it| node!(it, pods(Role::Edge, &it.metadata.name)));
    let mut children: Vec<ResourceNode> = edges.collect();
    let gateways = facts.gateways.iter();
    children.extend(gateways.map(|it| node!(it, pods(Role::Gateway, &it.metadata.name))));
    children.extend(facts.schemas.iter().map(|it| node!(it, Vec::new())));
    children.extend(facts.topics.iter().map(|it| node!(it, Vec::new())));
    node!(&facts.pipeline, children)
}

fn object_node<K: Resource<DynamicType = ()>>(
    object: &K,
    conditions: &[Condition],
    children: Vec<ResourceNode>,
) -> ResourceNode {
    let meta = object.meta();
    let ready = current_ready(conditions, meta.generation);
    ResourceNode {
        kind: K::kind(&()).into_owned(),
        name: meta.name.clone().unwrap_or_default(),
        state: ready.map_or(ReadyState::Unknown, |it| match it.status {
            ConditionStatus::True => ReadyState::Ready,
            ConditionStatus::False => ReadyState::NotReady,
            ConditionStatus::Unknown => ReadyState::Unknown,
        }),
        detail: ready.map_or("NotObserved".to_owned(), |it| it.reason.clone()),
        children,
    }
}

fn pod_node(pod: &PodFacts) -> ResourceNode {
    let node = pod.node.as_deref().map(|node| format!(" on {node}")).unwrap_or_default();
    ResourceNode {
        kind: "Pod".to_owned(),
        name: pod.name.clone(),
        state: if pod.ready { ReadyState::Ready } else { ReadyState::NotReady },
        detail: format!("{}{node}", pod.state),
        children: Vec::new(),
    }
}
