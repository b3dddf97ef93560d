//! CPU and memory of silent pods from Kubernetes' metrics API (`metrics.k8s.io`, served by
//! metrics-server and others).
//!
//! It is the fallback where a network policy blocks the pods' admin port. A cluster without that
//! API is normal and no failure: it is tried again after [`ABSENT_SECONDS`]. Judges nothing.
//! Limits: [`ANSWER_SECONDS_MAX`] for all pages of a response.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Client, ResourceExt};
use serde::Deserialize;

use super::CONTAINER;
use crate::error::error_chain;
use crate::ownership::compare::parse_quantity;
use crate::pods::pages;

/// Longest wait, which blocks the pool's reconcile.
const ANSWER_SECONDS_MAX: u64 = 2;
/// Retry interval where the API is missing, or our role may not use it.
const ABSENT_SECONDS: i64 = 600;
/// Retry interval where the API exists and did not answer.
const AWAY_SECONDS: i64 = 60;

/// The measurement of one pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodUsage {
    /// The end of the measured window, in seconds.
    pub at: i64,
    /// Processor time used, in thousandths of a core.
    pub cpu_millicores: f64,
    /// Memory in use (the working set), in bytes.
    pub memory_bytes: u64,
}

/// The measurements of pods, by name.
pub type UsageByPod = BTreeMap<String, PodUsage>;

/// The metrics API, and until when it isn't queried.
#[derive(Debug, Default)]
pub struct MetricsApi {
    silent_until: Mutex<Option<Timestamp>>,
}

#[derive(Deserialize)]
struct MeteredPod {
    timestamp: Timestamp,
    #[serde(default)]
    containers: Vec<ContainerFigures>,
}

#[derive(Deserialize)]
struct ContainerFigures {
    name: String,
    usage: BTreeMap<String, Quantity>,
}

impl MetricsApi {
    /// Returns the measurements of pods that `selector` selects; none where the API is missing.
    pub async fn query_pods(
        &self,
        client: &Client,
        namespace: &str,
        selector: &str,
        now: Timestamp,
    ) -> UsageByPod {
        if self.lock_silence().is_some_and(|until| now < until) {
            return UsageByPod::new();
        }
        let kind = GroupVersionKind::gvk("metrics.k8s.io", "v1beta1", "PodMetrics");
        let resource = ApiResource::from_gvk_with_plural(&kind, "pods");
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let selected = ListParams::default().labels(selector);
        let answer = pages::list_all(&api, selected, |figures| figures);
        let limit = Duration::from_secs(ANSWER_SECONDS_MAX);
        let silent_seconds = match tokio::time::timeout(limit, answer).await {
            Ok(Ok(list)) => return list.iter().filter_map(pod_usage).collect(),
            Ok(Err(kube::Error::Api(refusal))) if [401, 403, 404].contains(&refusal.code) => {
                tracing::debug!(code = refusal.code, "no metrics API: {}", refusal.message);
                ABSENT_SECONDS
            }
            Ok(Err(error)) => {
                tracing::warn!(
                    namespace,
                    "the metrics API does not answer: {}",
                    error_chain(&error)
                );
                AWAY_SECONDS
            }
            Err(_elapsed) => {
                tracing::warn!(namespace, "the metrics API took over {ANSWER_SECONDS_MAX} s");
                AWAY_SECONDS
            }
        };
        *self.lock_silence() = Some(now + SignedDuration::from_secs(silent_seconds));
        UsageByPod::new()
    }

    fn lock_silence(&self) -> std::sync::MutexGuard<'_, Option<Timestamp>> {
        self.silent_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the figures of the collector's container only: its limits don't cover others in the pod.
fn pod_usage(pod: &DynamicObject) -> Option<(String, PodUsage)> {
    let figures: MeteredPod = serde_json::from_value(pod.data.clone()).ok()?;
    let collector = figures.containers.iter().find(|it| it.name == CONTAINER)?;
    let usage = |resource: &str| parse_quantity(&collector.usage.get(resource)?.0);
    let metered = PodUsage {
        at: figures.timestamp.as_second(),
        cpu_millicores: usage("cpu")? * 1e3,
        memory_bytes: usage("memory")? as u64,
    };
    Some((pod.name_any(), metered))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod_metrics(containers: Value) -> DynamicObject {
        let pod = json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
            "metadata": {"name": "p-0"}, "timestamp": "1970-01-01T00:01:00Z", "window": "15s",
            "containers": containers});
        serde_json::from_value(pod).unwrap()
    }

    /// Scenario: a pod as metrics-server reports it, with another container next to the collector;
    /// one whose collector was not measured yet. Guarantee: the collector's figures, or none.
    #[test]
    fn the_collectors_own_figures_are_read() {
        let usage = json!({"cpu": "251832517n", "memory": "131072Ki"});
        let beside = json!({"name": "proxy", "usage": {"cpu": "3", "memory": "1Gi"}});
        let told = pod_usage(&pod_metrics(json!([beside, {"name": "collector", "usage": usage}])));
        let (name, metered) = told.unwrap();
        assert_eq!((name.as_str(), metered.at, metered.memory_bytes), ("p-0", 60, 128 << 20));
        assert!((metered.cpu_millicores - 251.832_517).abs() < 1e-6);
        assert_eq!(pod_usage(&pod_metrics(json!([beside]))), None);
        let half = json!({"name": "collector", "usage": {"cpu": "1"}});
        assert_eq!(pod_usage(&pod_metrics(json!([half]))), None);
    }
}
