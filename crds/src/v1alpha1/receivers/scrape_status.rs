//! Status of an edge pool's scrape targets. Observations only: no desired state.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The scrape targets of a pool, as last observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetsStatus {
    /// Number of targets to scrape; a target list over HTTP counts as one.
    pub total: i32,
    /// Number of targets assigned to a pod. Others are being handed over or wait.
    pub assigned: i32,
    /// Number of targets whose last scrape succeeded, including each target of lists.
    pub up: i32,
    /// Number of targets whose last scrape failed, including each target of lists.
    pub down: i32,
    /// Number of targets that wait because all pods are at their capacity or none is ready.
    pub waiting: i32,
    /// Number of monitors (ServiceMonitors and others) that are applied completely.
    #[serde(default)]
    pub monitors: i32,
    /// Number of monitors of which a part is not applied; their events name it.
    #[serde(default)]
    pub invalid_monitors: i32,
    /// Number of targets and jobs that can't be assigned; the condition TargetsAssigned names the
    /// first ones.
    pub rejected: i32,
    /// Number of pods that don't report what they scrape.
    pub unreachable_pods: i32,
    /// Number of pods over assignment.maxSamplesPerSecondPerPod.
    pub pods_over_capacity: i32,
    /// Number of pods that the load needs, by assignment.maxSamplesPerSecondPerPod and at most
    /// 10,000 targets per pod. Absent without that maximum if one pod suffices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed_pods: Option<i32>,
    /// Samples per second of all targets, as last measured.
    pub samples_per_second: i64,
    /// Time of the observation. If only samples change, it is written once a minute.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub observed_at: Time,
}
