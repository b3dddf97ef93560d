//! What a bundle has beside the facts: workloads, Services, ConfigMaps, pods and events as they
//! are. Secrets are never asked for.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use millrace_crds::MANAGED_BY;
use serde::Serialize;
use serde_json::Value;

use super::objects::Kind;
use super::{Cluster, of_pools};
use crate::error::chain;
use crate::facts::{Facts, Gap};

/// The operator's own pods.
const OPERATOR: &str = "app.kubernetes.io/name=millrace";

/// An object as it is, with its kind and name.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw {
    /// Its kind, in small letters.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// It.
    pub value: Value,
}

impl Cluster {
    /// The objects of a pipeline's pools, their pods, and events about any of them.
    pub async fn raw(&self, facts: &Facts, gaps: &mut Vec<Gap>) -> Vec<Raw> {
        let place = facts.namespace();
        // What the operator labels its objects with.
        let ours = &format!("app.kubernetes.io/managed-by={MANAGED_BY}");
        let mut all = Vec::new();
        self.add::<Deployment>(&mut all, gaps, place, ours).await;
        self.add::<StatefulSet>(&mut all, gaps, place, ours).await;
        self.add::<DaemonSet>(&mut all, gaps, place, ours).await;
        self.add::<Service>(&mut all, gaps, place, ours).await;
        self.add::<ConfigMap>(&mut all, gaps, place, ours).await;
        self.add::<PodDisruptionBudget>(&mut all, gaps, place, ours).await;
        self.add::<HorizontalPodAutoscaler>(&mut all, gaps, place, "").await;
        self.add::<Pod>(&mut all, gaps, place, &of_pools()).await;
        all.retain(|one| is_of(facts, &one.name));
        let mut events = Vec::new();
        self.add::<Event>(&mut events, gaps, place, "").await;
        events.retain(|one| {
            let about = one.value["involvedObject"]["name"].as_str().unwrap_or_default();
            is_of(facts, about)
        });
        all.extend(events);
        all
    }

    /// Names of the operator's pods.
    pub async fn operator_pods(&self, namespace: &str, gaps: &mut Vec<Gap>) -> Vec<String> {
        let mut pods = Vec::new();
        self.add::<Pod>(&mut pods, gaps, namespace, OPERATOR).await;
        pods.into_iter().map(|pod| pod.name).collect()
    }

    async fn add<K: Kind + Serialize>(
        &self,
        all: &mut Vec<Raw>,
        gaps: &mut Vec<Gap>,
        namespace: &str,
        labels: &str,
    ) {
        match self.list::<K>(Some(namespace), labels).await {
            Ok(found) => all.extend(found.iter().filter_map(raw)),
            Err(error) => gaps.push(Gap {
                what: format!("{} of namespace {namespace}", K::plural(&())),
                why: chain(&error),
            }),
        }
    }
}

/// An object as JSON.
pub fn raw<K: Kind + Serialize>(object: &K) -> Option<Raw> {
    let kind = K::kind(&()).to_lowercase();
    Some(Raw { kind, name: object.name_any(), value: serde_json::to_value(object).ok()? })
}

/// Whether a name is the pipeline's, or begins with one of its objects' names.
fn is_of(facts: &Facts, name: &str) -> bool {
    let pools = facts.edges.iter().map(ResourceExt::name_any);
    let mut names = pools.chain(facts.gateways.iter().map(ResourceExt::name_any));
    let of = |owner: &str| {
        name.strip_prefix(owner).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    of(facts.name()) || names.any(|pool| of(&pool))
}
