//! Which targets an edge pool finds by lists, and rules for labels of targets and samples.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A server that answers with a list of targets (JSON), as Prometheus' http_sd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScrapeHttpList {
    /// The list's URL, without credentials. It is asked as the job's targets are.
    #[schemars(length(min = 8, max = 1_024), regex(pattern = r"^https?://[!-~]+$"))]
    pub url: String,
    /// The time from an answer to the next request, 5 to 86,400 seconds.
    #[serde(default = "default_refresh_seconds")]
    #[schemars(range(min = 5, max = 86_400))]
    pub refresh_seconds: u32,
}

/// Prometheus' own.
fn default_refresh_seconds() -> u32 {
    60
}

/// A rule for labels, as Prometheus' relabel_config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelabelRule {
    /// What it does.
    #[serde(default)]
    pub action: RelabelAction,
    /// The labels whose values are its source. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 256)))]
    pub source_labels: Vec<String>,
    /// What stands between their values. Default: a semicolon.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub separator: Option<String>,
    /// What the source, or a label's name, must match as a whole. Default: (.*).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4_096))]
    pub regex: Option<String>,
    /// What a hash of the source is divided by, for hashmod. Default: 0, which hashmod refuses.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(max = 4_294_967_295_u64))]
    pub modulus: u32,
    /// What is written. Default: $1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1_024))]
    pub replacement: Option<String>,
    /// The label that is written. Default: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub target_label: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What a rule does; the names are Prometheus'.
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
    /// Copies labels whose names match to what the replacement says.
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
