//! Pod settings of both kinds of pools: resources, pod template, disruption budget, network policy.
//!
//! The schema does not describe a pod's own fields: the operator checks them against Kubernetes'
//! types. Limits: 32 labels, 32 annotations; the operator limits the complete template.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::tuning::any_fields;
use crate::amounts::{CpuQuantity, MemoryQuantity};
use crate::v1alpha1::rules;

/// Requests and limits of one pod, as in a Kubernetes container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requests_within_limits)]
pub struct Resources {
    /// Memory and CPU reserved for one pod.
    #[serde(default)]
    pub requests: ResourceRequests,
    /// Memory and CPU that one pod may use.
    #[serde(default)]
    pub limits: ResourceLimits,
}

/// Memory and CPU reserved for one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequests {
    /// Memory request, for example 256Mi. Default: 256Mi, or the limit if that is less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryQuantity>,
    /// CPU request, for example "1" or 500m. Default: 250m, or the limit if that is less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuQuantity>,
}

/// Memory and CPU that one pod may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceLimits {
    /// Memory limit, for example 4Gi; a pod above it is OOM-killed. The collector's byte budget is
    /// a share of it, so more memory buffers more records. Default: 1Gi, or the request if that is
    /// more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryQuantity>,
    /// CPU limit, for example "4"; a pod at its limit is throttled. It also sets the number of
    /// worker threads. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuQuantity>,
}

impl Resources {
    /// Default memory request, in bytes: 256 MiB.
    pub const DEFAULT_MEMORY_REQUEST_BYTES: u64 = 256 << 20;

    /// Default memory limit, in bytes: 1 GiB.
    pub const DEFAULT_MEMORY_LIMIT_BYTES: u64 = 1 << 30;

    /// Default CPU request, in thousandths of a core.
    pub const DEFAULT_CPU_REQUEST_MILLICORES: u64 = 250;

    /// Memory request and limit in bytes, defaults filled in; the first is never above the second.
    pub fn memory_bytes(&self) -> (u64, u64) {
        let request = self.requests.memory.as_ref().map(MemoryQuantity::bytes);
        let limit = self.limits.memory.as_ref().map(MemoryQuantity::bytes);
        let (least, most) = (Self::DEFAULT_MEMORY_REQUEST_BYTES, Self::DEFAULT_MEMORY_LIMIT_BYTES);
        match (request, limit) {
            (Some(request), Some(limit)) => (request, limit.max(request)),
            (Some(request), None) => (request, most.max(request)),
            (None, Some(limit)) => (least.min(limit), limit),
            (None, None) => (least, most),
        }
    }

    /// CPU request, and the limit if set, in thousandths of a core.
    pub fn cpu_millicores(&self) -> (u64, Option<u64>) {
        let limit = self.limits.cpu.as_ref().map(CpuQuantity::millicores);
        let request = self.requests.cpu.as_ref().map(CpuQuantity::millicores);
        let request = request.unwrap_or(Self::DEFAULT_CPU_REQUEST_MILLICORES);
        (request.min(limit.unwrap_or(u64::MAX)), limit)
    }
}

fn requests_within_limits(schema: &mut Schema) {
    for name in ["memory", "cpu"] {
        let (request, has_request) = rules::nested_field("self", &["requests", name]);
        let (limit, has_limit) = rules::nested_field("self", &["limits", name]);
        rules::add_rule(
            schema,
            &format!(
                "!({has_request}) || !({has_limit}) || !isQuantity({request}) \
                 || !isQuantity({limit}) || quantity({request}).compareTo(quantity({limit})) <= 0"
            ),
            &format!(
                "requests.{name} is above limits.{name}: write a request that is at most the limit"
            ),
        );
    }
}

/// Additions to the operator's pod template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplate {
    /// Labels and annotations of the pods.
    #[serde(default)]
    pub metadata: ExtraMetadata,
    /// Fields of a Kubernetes PodSpec. Of the container collector, env, envFrom, imagePullPolicy,
    /// securityContext and volumeMounts may be set; other containers may be added. Default: none.
    #[serde(default)]
    #[schemars(schema_with = "any_fields")]
    pub spec: Map<String, Value>,
}

/// Additional labels and annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraMetadata {
    /// Additional labels, at most 32; the operator's own can't be replaced. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<32, 63>)]
    pub labels: BTreeMap<String, String>,
    /// Additional annotations, at most 32. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<32, 4_096>)]
    pub annotations: BTreeMap<String, String>,
}

/// PodDisruptionBudget of a pool: limits evictions, for example when nodes are drained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = budget_rules)]
pub struct DisruptionBudgetSettings {
    /// Whether the operator creates a PodDisruptionBudget; never in mode DaemonSet, whose pods are
    /// not evicted.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Maximum number of unavailable pods, 1 to 1000, or their percentage, for example 10%.
    /// Default: 1, without minAvailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pods_unavailable")]
    pub max_unavailable: Option<IntOrString>,
    /// Minimum number of available pods, 1 to 1000, or their percentage up to 99%. As many as the
    /// pool has pods would block every eviction. Excludes maxUnavailable. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pods_available")]
    pub min_available: Option<IntOrString>,
}

impl Default for DisruptionBudgetSettings {
    fn default() -> Self {
        Self { enabled: yes(), max_unavailable: None, min_available: None }
    }
}

fn budget_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "!has(self.maxUnavailable) || !has(self.minAvailable)",
        "maxUnavailable and minAvailable exclude each other: write one of them",
    );
}

fn pods_unavailable(_: &mut SchemaGenerator) -> Schema {
    pods_or_percentage("^([1-9][0-9]?|100)%$")
}

fn pods_available(_: &mut SchemaGenerator) -> Schema {
    pods_or_percentage("^[1-9][0-9]?%$")
}

/// A number of pods or a percentage, as in a PodDisruptionBudget.
fn pods_or_percentage(percentage: &str) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "minimum": 1,
        "maximum": 1_000,
        "maxLength": 4,
        "pattern": percentage,
    })
}

/// The pods' ServiceAccount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountSettings {
    /// Labels and annotations, for example of a cloud's identities.
    #[serde(flatten)]
    pub metadata: ExtraMetadata,
}

impl ServiceAccountSettings {
    pub(in crate::v1alpha1) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The NetworkPolicy of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicySettings {
    /// Whether the operator creates a NetworkPolicy that allows only the ports that the pods need.
    #[serde(default = "yes")]
    pub enabled: bool,
}

impl Default for NetworkPolicySettings {
    fn default() -> Self {
        Self { enabled: yes() }
    }
}

pub(in crate::v1alpha1) fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: only a request or only a limit is declared. Guarantee: the default of the other
    /// follows it.
    #[test]
    fn a_default_request_never_exceeds_the_limit() {
        let memory = |request: Option<&str>, limit: Option<&str>| {
            let mut resources = Resources::default();
            resources.requests.memory = request.map(|text| text.parse().unwrap());
            resources.limits.memory = limit.map(|text| text.parse().unwrap());
            resources.memory_bytes()
        };
        assert_eq!(memory(None, None), (256 << 20, 1 << 30));
        assert_eq!(memory(Some("2Gi"), None), (2 << 30, 2 << 30));
        assert_eq!(memory(None, Some("128Mi")), (128 << 20, 128 << 20));
        let mut resources = Resources::default();
        assert_eq!(resources.cpu_millicores(), (250, None));
        resources.limits.cpu = Some("100m".parse().unwrap());
        assert_eq!(resources.cpu_millicores(), (100, Some(100)));
    }
}
