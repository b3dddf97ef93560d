//! How a change of image or configuration reaches the gateways' pods, and how far it has come.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a change of image, allocator or configuration reaches the gateways' pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSettings {
    /// Try the change on a few pods first and compare them with the others. Default: pods are
    /// replaced one by one, each of which must become ready, without a comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanarySettings>,
    /// Roll back when new pods don't start, crash, or perform worse. If false, the rollout stops
    /// there and waits for a person.
    #[serde(default = "yes")]
    pub auto_rollback: bool,
}

impl Default for RolloutSettings {
    fn default() -> Self {
        Self { canary: None, auto_rollback: yes() }
    }
}

fn yes() -> bool {
    true
}

/// A change tried on a few pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanarySettings {
    /// Number of pods that get the change first, 1 to 100. In a pool without other pods, all get it
    /// and are compared with their own past.
    #[serde(default = "CanarySettings::default_pods")]
    #[schemars(range(min = 1, max = 100))]
    pub pods: u32,
    /// How long they are compared, 10 to 86400 seconds; up to three times that while they have
    /// fewer than 10000 records.
    #[serde(default = "CanarySettings::default_judge_seconds")]
    #[schemars(range(min = 10, max = 86_400))]
    pub judge_seconds: u32,
}

impl CanarySettings {
    fn default_pods() -> u32 {
        1
    }

    fn default_judge_seconds() -> u32 {
        300
    }
}

/// How far a change has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutStage {
    /// No rollout: all pods run, or will run, the spec's unit.
    Stable,
    /// Not begun: waits for the tables' revision, or for the trial pod that checks the
    /// configuration.
    Waiting,
    /// The first pods get the change.
    Canary,
    /// They are compared.
    Judging,
    /// More pods get it.
    Promoting,
    /// Paused by annotation.
    Paused,
    /// All pods return to the earlier unit.
    RollingBack,
    /// All pods have the earlier unit; the change is not retried until the spec changes.
    RolledBack,
    /// All pods have the earlier unit because of the annotation; not retried either.
    Aborted,
}

impl RolloutStage {
    /// The word in a status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stable => "Stable",
            Self::Waiting => "Waiting",
            Self::Canary => "Canary",
            Self::Judging => "Judging",
            Self::Promoting => "Promoting",
            Self::Paused => "Paused",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
            Self::Aborted => "Aborted",
        }
    }
}

/// The rollout under way, or the last one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// How far it has come.
    pub stage: RolloutStage,
    /// The stage that is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<RolloutStage>,
    /// Since when.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Time,
    /// Why, as one stable word.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// Why, as a message.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// The earlier unit, which a rollback restores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<RolloutUnit>,
    /// The new unit, or the one that runs.
    pub after: RolloutUnit,
    /// Pods that may have the change by now, from the highest number down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<i32>,
    /// Identifies the spec: another digest is another attempt.
    #[schemars(length(max = 64))]
    pub digest: String,
    /// Attempts since all pods last ran the same unit.
    #[serde(default)]
    pub attempts: i32,
    /// Figures of new and old pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<RolloutReport>,
}

/// What pods run: a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutUnit {
    /// The image.
    #[schemars(length(max = 512))]
    pub image: String,
    /// The allocator it is built with.
    #[schemars(length(max = 32))]
    pub allocator: String,
    /// The ConfigMap with the configuration; its name ends in the hash of its content.
    #[schemars(length(max = 253))]
    pub config_map: String,
    /// The revision of the tables when the change began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub schema_revision: Option<String>,
    /// Digests of the image that pods run. More than one: its tag moved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), inner(length(max = 160)))]
    pub image_digests: Vec<String>,
}

/// Figures of new and old pods during the comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutReport {
    /// Passed, TooFewRecords, NotCompared (there was no canary), or the fault's stable word.
    #[schemars(length(max = 63))]
    pub verdict: String,
    /// Pods of the earlier unit. Absent when there was nothing to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<RolloutFigures>,
    /// Pods with the change. Absent when none was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<RolloutFigures>,
}

/// Sums of several pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutFigures {
    /// Pods.
    pub pods: i32,
    /// Records they took.
    pub records: i64,
    /// Records per second of processor time. Absent when there were too few.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records_per_cpu_second: Option<i64>,
    /// Processor time of one pod on average, in thousandths of a core.
    pub cpu_millicores: i64,
    /// The largest resident memory of one, in bytes.
    pub memory_bytes: i64,
}
