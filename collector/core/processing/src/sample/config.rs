//! The settings of a `sample` step.

use serde::{Deserialize, Serialize};

/// The settings of a `sample` step. It applies to spans and log records; data points are passed on.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SampleConfig {
    /// The ratio of records that no rule matches, from 0 to 1.
    pub ratio: Ratio,
    /// OTTL conditions: records on which any of them is true are always sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
    /// The rules in order, after `keep`; the first that matches a record applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleConfig>,
    /// How a ratio applies to records that were sampled before.
    #[serde(default)]
    pub mode: Mode,
    /// The significant hexadecimal digits of thresholds, from 1 to 14. The default is 4, as
    /// OpenTelemetry recommends.
    #[serde(default = "default_precision")]
    pub precision: u8,
    /// What happens to spans without randomness.
    #[serde(default)]
    pub missing_randomness: MissingRandomness,
    /// The source of randomness of log records without a trace id.
    #[serde(default)]
    pub logs: LogRandomness,
}

/// A ratio, as a number.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ratio(pub f64);

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Ratio {}

fn default_precision() -> u8 {
    4
}

/// How a ratio applies to records that were sampled before.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// The ratio multiplies what earlier samplers applied: of the records that arrive, this share
    /// is sampled.
    #[default]
    Proportional,
    /// The ratio is that of all samplers together: records which earlier ones sampled at a lower
    /// ratio pass unchanged.
    Equalizing,
}

/// What happens to spans without randomness: neither `rv` nor a valid trace id.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MissingRandomness {
    /// They are sampled, and count once.
    #[default]
    Keep,
    /// They are dropped.
    Drop,
}

/// The source of randomness of log records without a trace id.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LogRandomness {
    /// The attribute whose value is hashed: records with the same value are sampled or dropped
    /// together. Records without it, and all if it is absent here, have the hash of their complete
    /// content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
    /// The seed of the hash, from 0 to 4294967295. Processes of one tier need the same one.
    pub seed: u32,
}

/// One rule. All that it states must hold for a record.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleConfig {
    /// The name under which records are counted.
    pub name: String,
    /// The resource's `service.name`; a `*` at the end matches any further characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The resource's `k8s.namespace.name`, else `service.namespace`; `*` as in `service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// An OTTL condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The ratio, from 0 to 1; 1 keeps every record.
    pub ratio: Ratio,
}
