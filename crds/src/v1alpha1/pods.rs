//! What both pools say about their pods: resources, placement, labels.
//!
//! A small part of a pod's spec on purpose: the security context, probes and volumes are the
//! operator's. Limits: 32 of each map, 16 tolerations.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::rules;
use crate::amounts::{CpuQuantity, MemoryQuantity};
use crate::names::{LabelKey, PriorityClassName};

/// Memory and processor time of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Memory of one pod. The collector's byte budget is a part of the limit, so more memory
    /// buffers more; it is never exceeded. Default: 256Mi requested, 1Gi limit.
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
    /// Memory limit, for example 4Gi: a pod above it is ended by the kernel. Default: 1Gi, or min
    /// when that is more.
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
    /// Processor time limit, for example "4": above it the pod is slowed down, not ended. It also
    /// sets the number of worker threads. Default: no limit.
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

/// Where pods run and what they are called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSettings {
    /// Labels a node must have. At most 32. Default: any node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<32, 63>)]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the pods put up with. At most 16. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub tolerations: Vec<Toleration>,
    /// PriorityClass of the pods: pods of lower priority are moved away for them. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<PriorityClassName>,
    /// More labels for the pods; the operator's own can't be replaced. At most 32. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<32, 63>)]
    pub labels: BTreeMap<String, String>,
    /// More annotations for the pods. At most 32. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<32, 4_096>)]
    pub annotations: BTreeMap<String, String>,
}

/// A taint that pods put up with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// The taint's key. Default: every taint (then operator must be Exists).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<LabelKey>,
    /// Exists, or Equal to compare the value. Default: Equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Exists", "Equal"]))]
    pub operator: Option<String>,
    /// The taint's value, for Equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// NoSchedule, PreferNoSchedule or NoExecute. Default: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["NoSchedule", "PreferNoSchedule", "NoExecute"]))]
    pub effect: Option<String>,
    /// How long a NoExecute taint is put up with, in seconds. Default: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 31_536_000))]
    pub toleration_seconds: Option<i64>,
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
