//! What both pools say about their pods: resources, whatever else a pod may have, who may evict
//! them and who may connect to them.
//!
//! A pod's own fields are not described here: the operator checks them against Kubernetes' types.
//! Limits: 32 labels, 32 annotations; the operator limits the whole template.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::rules;
use crate::amounts::{CpuQuantity, MemoryQuantity};

/// Memory and processor time of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Memory of one pod. The collector's byte budget is a part of the limit, so more memory
    /// buffers more. Default: 256Mi requested, 1Gi limit.
    #[serde(default)]
    pub memory: MemoryRange,
    /// Processor time of one pod. Default: 250m requested, no limit.
    #[serde(default)]
    pub cpu: CpuRange,
}

/// From the memory requested to the limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = min_not_above_max)]
pub struct MemoryRange {
    /// Memory requested, for example 256Mi: the scheduler keeps it free for the pod.
    /// Default: 256Mi, or max when that is less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<MemoryQuantity>,
    /// Memory limit, for example 4Gi: the kernel kills a pod above it. Default: 1Gi, or min when
    /// that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<MemoryQuantity>,
}

impl MemoryRange {
    /// Memory requested when nothing is said, in bytes: 256 MiB.
    pub const DEFAULT_MIN_BYTES: u64 = 256 << 20;

    /// Memory limit when nothing is said, in bytes: 1 GiB.
    pub const DEFAULT_MAX_BYTES: u64 = 1 << 30;

    /// Memory requested and memory limit in bytes, defaults filled in; the first is never above
    /// the second.
    pub fn bytes(&self) -> (u64, u64) {
        let min = self.min.as_ref().map(MemoryQuantity::bytes);
        let max = self.max.as_ref().map(MemoryQuantity::bytes);
        match (min, max) {
            (Some(min), Some(max)) => (min, max.max(min)),
            (Some(min), None) => (min, Self::DEFAULT_MAX_BYTES.max(min)),
            (None, Some(max)) => (Self::DEFAULT_MIN_BYTES.min(max), max),
            (None, None) => (Self::DEFAULT_MIN_BYTES, Self::DEFAULT_MAX_BYTES),
        }
    }
}

/// From the processor time requested to the limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = min_not_above_max)]
pub struct CpuRange {
    /// Processor time requested, for example "1" or 500m. Default: 250m, or max when that is less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<CpuQuantity>,
    /// Processor time limit, for example "4": above it the pod is throttled. It also sets the
    /// number of worker threads. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<CpuQuantity>,
}

impl CpuRange {
    /// Processor time requested when nothing is said, in thousandths of a core.
    pub const DEFAULT_MIN_MILLICORES: u64 = 250;

    /// Processor time requested, and the limit if there is one, in thousandths of a core.
    pub fn millicores(&self) -> (u64, Option<u64>) {
        let max = self.max.as_ref().map(CpuQuantity::millicores);
        let ceiling = max.unwrap_or(u64::MAX);
        let min = self.min.as_ref().map_or(Self::DEFAULT_MIN_MILLICORES, CpuQuantity::millicores);
        (min.min(ceiling), max)
    }
}

fn min_not_above_max(schema: &mut Schema) {
    rules::rule(
        schema,
        "!has(self.min) || !has(self.max) || !isQuantity(self.min) || !isQuantity(self.max) \
         || quantity(self.min).compareTo(quantity(self.max)) <= 0",
        "min is above max: write a min that is at most max",
    );
}

/// Additions to the operator's pod template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplate {
    /// Labels and annotations of the pods.
    #[serde(default)]
    pub metadata: ExtraMetadata,
    /// Fields of a Kubernetes PodSpec. The collector's container is named collector; its env,
    /// envFrom, imagePullPolicy, securityContext and volumeMounts may be set. Other containers may
    /// be added. Default: none.
    #[serde(default)]
    #[schemars(schema_with = "any_fields")]
    pub spec: Map<String, Value>,
}

/// Labels and annotations beside the operator's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraMetadata {
    /// More labels; the operator's own can't be replaced. At most 32. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<32, 63>)]
    pub labels: BTreeMap<String, String>,
    /// More annotations. At most 32. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<32, 4_096>)]
    pub annotations: BTreeMap<String, String>,
}

/// With a PodSpec's own schema, twice, a pipeline's definition would nearly reach what `kubectl
/// apply` can keep, even without descriptions: the operator checks the fields instead.
fn any_fields(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// How many pods of a pool may be evicted at once, for example when nodes are drained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionBudgetSettings {
    /// Whether the operator makes a PodDisruptionBudget. A pool in mode DaemonSet never has one:
    /// evictions ignore its pods.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Pods that may be unavailable at once, 1 to 1000.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000))]
    pub max_unavailable: u32,
}

impl Default for DisruptionBudgetSettings {
    fn default() -> Self {
        Self { enabled: yes(), max_unavailable: one() }
    }
}

/// The NetworkPolicy of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicySettings {
    /// Whether the operator makes a NetworkPolicy that allows only the ports that the pods need.
    #[serde(default = "yes")]
    pub enabled: bool,
}

impl Default for NetworkPolicySettings {
    fn default() -> Self {
        Self { enabled: yes() }
    }
}

pub(super) fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: one end of a range only. Guarantee: the default of the other end follows it.
    #[test]
    fn a_missing_end_of_a_range_never_crosses_the_other() {
        let range = |min: Option<&str>, max: Option<&str>| MemoryRange {
            min: min.map(|text| text.parse().unwrap()),
            max: max.map(|text| text.parse().unwrap()),
        };
        assert_eq!(range(None, None).bytes(), (256 << 20, 1 << 30));
        assert_eq!(range(Some("2Gi"), None).bytes(), (2 << 30, 2 << 30));
        assert_eq!(range(None, Some("128Mi")).bytes(), (128 << 20, 128 << 20));
        let cpu = CpuRange { min: None, max: Some("100m".parse().unwrap()) };
        assert_eq!(cpu.millicores(), (100, Some(100)));
        assert_eq!(CpuRange::default().millicores(), (250, None));
    }
}
