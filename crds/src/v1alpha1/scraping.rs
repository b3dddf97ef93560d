//! What an edge pool that scrapes reports of its targets. Observations only: nothing here is ever
//! asked for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a pool's targets are, as last observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetsStatus {
    /// Targets that are to be scraped. A server's list of targets counts as one.
    pub total: i32,
    /// Of them those that a pod was given. Others are being handed over, or left out.
    pub shared: i32,
    /// Targets whose last scrape succeeded, those of lists one by one.
    pub up: i32,
    /// Targets whose last scrape failed, likewise.
    pub down: i32,
    /// Targets that no pod is given: all are at the cap, or none is ready.
    pub left_out: i32,
    /// Targets and jobs that can't be shared out; the condition TargetsShared names the first ones.
    pub refused: i32,
    /// Pods that don't tell what they scrape.
    pub silent_pods: i32,
    /// Pods over sharing.podSamplesPerSecondMax.
    pub pods_over_cap: i32,
    /// Pods that the load needs to stay below that cap. Absent without a cap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed_pods: Option<i32>,
    /// Samples per second of all targets, as last measured.
    pub samples_per_second: i64,
    /// When pods were asked. Where nothing but samples changes, this is written once a minute.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub observed_at: Time,
}
