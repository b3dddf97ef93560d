//! Rollouts of gateway pools: settings and status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rollout of a changed image, allocator or configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSettings {
    /// Canary: replace a few pods first and compare them with the others. Default: replace pods one
    /// by one, without a comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanarySettings>,
    /// Roll back automatically if new pods don't start, crash, or perform worse. If false, the
    /// rollout stops and waits for a user.
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

/// Settings of a canary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanarySettings {
    /// Number of canary pods, 1 to 100. In a pool without other pods, they are compared with their
    /// own past.
    #[serde(default = "CanarySettings::default_pods")]
    #[schemars(range(min = 1, max = 100))]
    pub pods: u32,
    /// Time of the comparison, 10 to 86400 seconds; up to three times as long while the canary pods
    /// have received fewer than 10,000 records.
    #[serde(default = "CanarySettings::default_judge_seconds")]
    #[schemars(range(min = 10, max = 86_400))]
    pub analysis_seconds: u32,
}

impl CanarySettings {
    fn default_pods() -> u32 {
        1
    }

    fn default_judge_seconds() -> u32 {
        300
    }
}

/// A user's action on a pool's rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutAction {
    /// No pod is replaced; the analysis restarts afterwards.
    Pause,
    /// Pods return to the previous image and configuration, and no rollout begins.
    Abort,
}

impl RolloutAction {
    /// The value in the spec.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "Pause",
            Self::Abort => "Abort",
        }
    }
}

/// The stages of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutStage {
    /// No rollout: all pods run, or will run, the desired image and configuration.
    Stable,
    /// Not begun: waits for the tables' revision, or for the trial pod that validates the
    /// configuration.
    Waiting,
    /// The first pods get the change.
    Canary,
    /// The new pods are compared with the others.
    Analyzing,
    /// More pods get the change.
    Promoting,
    /// Paused by spec.rolloutAction.
    Paused,
    /// All pods return to the previous image and configuration.
    RollingBack,
    /// All pods run the previous image and configuration; the change is not retried until the spec
    /// changes.
    RolledBack,
    /// The same, because of spec.rolloutAction.
    Aborted,
}

impl RolloutStage {
    /// The word in a status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stable => "Stable",
            Self::Waiting => "Waiting",
            Self::Canary => "Canary",
            Self::Analyzing => "Analyzing",
            Self::Promoting => "Promoting",
            Self::Paused => "Paused",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
            Self::Aborted => "Aborted",
        }
    }
}

/// The current or last rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Stage of the rollout.
    pub stage: RolloutStage,
    /// Stage in which the rollout was paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<RolloutStage>,
    /// Start of the stage.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Time,
    /// Reason in CamelCase.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// Message with details.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Previous image and configuration, which a rollback restores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<RolloutUnit>,
    /// New image and configuration, or the current ones.
    pub after: RolloutUnit,
    /// Number of pods that may have the change, from the highest ordinal down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<i32>,
    /// Digest of the spec; another digest is another attempt.
    #[schemars(length(max = 64))]
    pub digest: String,
    /// Attempts since all pods last ran the same image and configuration.
    #[serde(default)]
    pub attempts: i32,
    /// Figures of the comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<RolloutReport>,
}

/// What pods run: image, configuration and tables' revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutUnit {
    /// Image.
    #[schemars(length(max = 512))]
    pub image: String,
    /// Memory allocator of the image.
    #[schemars(length(max = 32))]
    pub allocator: String,
    /// ConfigMap with the configuration; its name ends in the hash of its content.
    #[schemars(length(max = 253))]
    pub config_map: String,
    /// Revision of the tables when the rollout began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub schema_revision: Option<String>,
    /// Digests of the image that pods run. More than one means that the tag was moved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), inner(length(max = 160)))]
    pub image_digests: Vec<String>,
}

/// Figures of new and old pods during the comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutReport {
    /// Passed, TooFewRecords, NotCompared (no canary), or the reason of the fault.
    #[schemars(length(max = 63))]
    pub verdict: String,
    /// Figures of pods without the change. Absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<RolloutFigures>,
    /// Figures of pods with the change. Absent if none was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<RolloutFigures>,
}

/// Figures of several pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutFigures {
    /// Number of pods.
    pub pods: i32,
    /// Records received.
    pub records: i64,
    /// Records per CPU-second. Absent with too few records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records_per_cpu_second: Option<i64>,
    /// Mean CPU use of a pod, in thousandths of a core.
    pub cpu_millicores: i64,
    /// Largest resident memory of a pod, in bytes.
    pub memory_bytes: i64,
}
