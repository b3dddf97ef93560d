//! Target lists over HTTP, and relabeling rules for targets and samples.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A server that returns a target list (JSON), as Prometheus' http_sd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScrapeHttpList {
    /// URL of the list, without credentials; requested with the job's TLS settings, credentials and
    /// proxy.
    #[schemars(length(min = 8, max = 1_024), regex(pattern = r"^https?://[!-~]+$"))]
    pub url: String,
    /// Refresh interval, 5 to 86,400 seconds.
    #[serde(default = "default_refresh_seconds")]
    #[schemars(range(min = 5, max = 86_400))]
    pub refresh_seconds: u32,
}

/// Prometheus' default.
fn default_refresh_seconds() -> u32 {
    60
}

/// A relabeling rule, as Prometheus' relabel_config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelabelRule {
    /// Action of the rule.
    #[serde(default)]
    pub action: RelabelAction,
    /// Labels whose values, joined by separator, are the source; at most 16. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 256)))]
    pub source_labels: Vec<String>,
    /// Separator between the values of sourceLabels. Default: a semicolon.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub separator: Option<String>,
    /// Regular expression that the complete source, or label name, must match. Default: (.*).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4_096))]
    pub regex: Option<String>,
    /// Modulus of the source's hash, 1 to 4,294,967,295; required with hashmod. Default: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(max = 4_294_967_295_u64))]
    pub modulus: u32,
    /// Value to write, with groups of regex as $1 or ${name}. Default: $1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1_024))]
    pub replacement: Option<String>,
    /// Label that the rule writes; required with replace, hashmod, lowercase, uppercase, keepequal
    /// and dropequal. Default: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub target_label: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The actions of rules, with Prometheus' names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RelabelAction {
    /// Sets the target label to the replacement where the source matches.
    #[default]
    Replace,
    /// Drops what doesn't match.
    Keep,
    /// Drops what matches.
    Drop,
    /// Drops where source and target label differ.
    KeepEqual,
    /// Drops where they are the same.
    DropEqual,
    /// Sets the target label to a hash of the source.
    HashMod,
    /// Copies labels whose names match to the names that the replacement gives.
    LabelMap,
    /// Removes labels whose names match.
    LabelDrop,
    /// Removes labels whose names don't match.
    LabelKeep,
    /// Sets the target label to the source in lower case.
    Lowercase,
    /// Sets the target label to the source in upper case.
    Uppercase,
}
