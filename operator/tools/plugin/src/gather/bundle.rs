//! Reads a bundle's content other than the facts: unchanged workloads, Services, ConfigMaps, pods
//! and events. Secrets are never requested.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use millrace_crds::MANAGED_BY;
use serde::Serialize;
use serde_json::Value;

use super::objects::NamespacedKind;
use super::{Cluster, of_pools};
use crate::error::error_chain;
use crate::facts::{Facts, Gap};

/// The operator's own pods. Their name label is the user's choice (`nameOverride`).
const OPERATOR: &str = "app.kubernetes.io/part-of=millrace,app.kubernetes.io/component=operator";

/// An unchanged object, with its kind and name.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw {
    /// Its kind, in lower case.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The object.
    pub value: Value,
}

impl Cluster {
    /// Returns the objects of a pipeline's pools, their pods, and events about any of them.
    pub async fn raw_objects(&self, facts: &Facts, gaps: &mut Vec<Gap>) -> Vec<Raw> {
        let namespace = facts.namespace();
        // The operator's label on its objects.
        let ours = &format!("app.kubernetes.io/managed-by={MANAGED_BY}");
        let mut all = Vec::new();
        self.list_raw::<Deployment>(&mut all, gaps, namespace, ours).await;
        self.list_raw::<StatefulSet>(&mut all, gaps, namespace, ours).await;
        self.list_raw::<DaemonSet>(&mut all, gaps, namespace, ours).await;
        self.list_raw::<Service>(&mut all, gaps, namespace, ours).await;
        self.list_raw::<ConfigMap>(&mut all, gaps, namespace, ours).await;
        self.list_raw::<PodDisruptionBudget>(&mut all, gaps, namespace, ours).await;
        self.list_raw::<HorizontalPodAutoscaler>(&mut all, gaps, namespace, "").await;
        self.list_raw::<Pod>(&mut all, gaps, namespace, &of_pools()).await;
        all.retain(|one| is_of(facts, &one.name));
        let mut events = Vec::new();
        self.list_raw::<Event>(&mut events, gaps, namespace, "").await;
        events.retain(|one| {
            let about = one.value["involvedObject"]["name"].as_str().unwrap_or_default();
            is_of(facts, about)
        });
        all.extend(events);
        all
    }

    /// Returns the names of the operator's pods.
    pub async fn operator_pods(&self, namespace: &str, gaps: &mut Vec<Gap>) -> Vec<String> {
        let mut pods = Vec::new();
        self.list_raw::<Pod>(&mut pods, gaps, namespace, OPERATOR).await;
        pods.into_iter().map(|pod| pod.name).collect()
    }

    async fn list_raw<K: NamespacedKind + Serialize>(
        &self,
        all: &mut Vec<Raw>,
        gaps: &mut Vec<Gap>,
        namespace: &str,
        labels: &str,
    ) {
        match self.list::<K>(Some(namespace), labels).await {
            Ok(found) => all.extend(found.iter().filter_map(to_raw)),
            Err(error) => gaps.push(Gap {
                what: format!("{} of namespace {namespace}", K::plural(&())),
                why: error_chain(&error),
            }),
        }
    }
}

/// Returns an object as JSON.
pub fn to_raw<K: NamespacedKind + Serialize>(object: &K) -> Option<Raw> {
    let kind = K::kind(&()).to_lowercase();
    Some(Raw { kind, name: object.name_any(), value: serde_json::to_value(object).ok()? })
}

/// Returns whether a name is the pipeline's, or begins with one of its objects' names.
fn is_of(facts: &Facts, name: &str) -> bool {
    let pools = facts.edges.iter().map(ResourceExt::name_any);
    let mut names = pools.chain(facts.gateways.iter().map(ResourceExt::name_any));
    let of = |owner: &str| {
        name.strip_prefix(owner).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    of(facts.name()) || names.any(|pool| of(&pool))
}
