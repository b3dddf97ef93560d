//! A sample step: which share of spans and log records is retained.
//!
//! Limits: 64 rules, 128 conditions of records that are always retained.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

use crate::v1alpha1::rules;

/// Ratios of spans and log records to retain, consistent by trace id. Data points are never
/// sampled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SampleStep {
    /// Ratio of the records that no rule matches, from 0 to 1.
    pub ratio: SampleRatio,
    /// Conditions in OTTL: records on which any of them is true are always retained, for example
    /// span.status.code == STATUS_CODE_ERROR. At most 128. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::bound_statements)]
    pub keep: Vec<String>,
    /// Other ratios, in order: the first rule that matches a record applies. At most 64. Default:
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub rules: Vec<SampleRule>,
    /// How a ratio applies to records that an SDK or another Collector has sampled: Proportional
    /// (of the records that arrive, this share stays) or Equalizing (the ratio of all samplers
    /// together). Default: Proportional.
    #[serde(default, skip_serializing_if = "SampleMode::is_default")]
    pub mode: SampleMode,
    /// Hexadecimal digits of thresholds, 1 to 14. Default: 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 14))]
    pub precision: Option<u8>,
    /// What happens to spans without randomness, that is without a valid trace id: Keep or Drop.
    /// Default: Keep.
    #[serde(default, skip_serializing_if = "MissingRandomness::is_default")]
    pub missing_randomness: MissingRandomness,
    /// Randomness of log records without a trace id. Default: a hash of the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<LogRandomness>,
}

/// A ratio for some records. All that the rule states must hold for a record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SampleRule {
    /// Name under which records are counted.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The resource's service.name; a `*` at the end matches any further characters. Default:
    /// any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub service: Option<String>,
    /// The resource's k8s.namespace.name, else service.namespace; `*` as in service. Default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub namespace: Option<String>,
    /// Condition in OTTL. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8_192))]
    pub condition: Option<String>,
    /// Ratio, from 0 to 1.
    pub ratio: SampleRatio,
}

/// How a ratio applies to records that were sampled before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SampleMode {
    /// Of the records that arrive.
    #[default]
    Proportional,
    /// Of all samplers together.
    Equalizing,
}

impl SampleMode {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens to spans without randomness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MissingRandomness {
    /// They are retained.
    #[default]
    Keep,
    /// They are dropped.
    Drop,
}

impl MissingRandomness {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Randomness of log records without a trace id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogRandomness {
    /// Attribute whose value is hashed: records with the same value are retained or dropped
    /// together. Default: the complete record is hashed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub attribute: Option<String>,
    /// Seed of the hash. Pools that must agree need the same one. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_u64))]
    pub seed: Option<u32>,
}

/// A ratio from 0 to 1.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(transparent)]
pub struct SampleRatio(pub f64);

impl PartialEq for SampleRatio {
    fn eq(&self, other: &Self) -> bool {
        // Total, also for what a client of this crate may put in.
        self.0.total_cmp(&other.0).is_eq()
    }
}

impl Eq for SampleRatio {}

impl Serialize for SampleRatio {
    /// Writes 0 and 1 as integers: the API server does, and a comparison with what it stores would
    /// find a difference for ever.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            0.0 => serializer.serialize_u64(0),
            1.0 => serializer.serialize_u64(1),
            ratio => serializer.serialize_f64(ratio),
        }
    }
}

impl JsonSchema for SampleRatio {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SampleRatio".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}
