//! A redact step: what it finds, and what it does with it.
//!
//! Limits: 64 patterns of 1,024 characters, 256 names and 64 patterns in a list of keys.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::v1alpha1::connections::secrets::SecretKeyRef;
use crate::v1alpha1::rules;

/// Secrets and personal data to find in texts, and lists of attribute keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = redact_rules)]
pub struct RedactStep {
    /// Ready sets to find. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10))]
    pub sets: Option<Vec<ReadySet>>,
    /// Patterns of your own, at most 64. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub patterns: Vec<RedactPattern>,
    /// What happens to a match. Default: a mask of four stars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<RedactAction>,
    /// Other actions for single ready sets. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 10),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["set"])
    )]
    pub set_actions: Vec<SetAction>,
    /// Secret key with the key of hashes, at least 16 bytes; required if an action is hash. Pools
    /// with the same key write equal hashes for equal values. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_key_secret: Option<SecretKeyRef>,
    /// Attributes whose values are neither searched nor removed; takes precedence over
    /// allowedKeys and blockedKeys. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored_keys: Option<KeyList>,
    /// If written, attributes with any other key are removed. Default: no attribute is removed for
    /// its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_keys: Option<KeyList>,
    /// Attributes whose values are redacted completely, whatever they contain. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_keys: Option<BlockedKeys>,
}

fn redact_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "has(self.hashKeySecret) || !((has(self.action) && has(self.action.hash)) \
         || (has(self.patterns) && self.patterns.exists(it, has(it.action) \
         && has(it.action.hash))) \
         || (has(self.setActions) && self.setActions.exists(it, has(it.action.hash))) \
         || (has(self.blockedKeys) && has(self.blockedKeys.action) \
         && has(self.blockedKeys.action.hash)))",
        "a hash needs a key: write hashKeySecret, or another action",
    );
}

/// A ready set of patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReadySet {
    /// E-mail addresses.
    Email,
    /// Tokens after Bearer.
    Bearer,
    /// Credentials after Basic.
    Basic,
    /// JSON web tokens.
    Jwt,
    /// Card numbers, with their check digit.
    Card,
    /// IBANs, with their check digits.
    Iban,
    /// Private keys in PEM.
    PrivateKey,
    /// Access keys of clouds and code hosts.
    CloudKey,
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
}

/// A pattern of the user's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedactPattern {
    /// Name under which matches are counted.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Regular expression, with Go's syntax. It must not match the empty text.
    #[schemars(length(min = 1, max = 1_024))]
    pub pattern: String,
    /// What happens to a match. Default: the step's action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<RedactAction>,
}

/// An action for a ready set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetAction {
    /// The ready set.
    pub set: ReadySet,
    /// What happens to its matches.
    pub action: RedactAction,
}

/// What happens to a match: exactly one of mask, hash and drop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = action_rules)]
pub struct RedactAction {
    /// A fixed text replaces it. An empty object writes four stars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<MaskAction>,
    /// HMAC-SHA256 of the match replaces it: equal values stay equal, and nobody without the key
    /// can compute them. Needs hashKeySecret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<HashAction>,
    /// The value that contains it is removed: an empty object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop: Option<DropAction>,
}

fn action_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "(has(self.mask) ? 1 : 0) + (has(self.hash) ? 1 : 0) + (has(self.drop) ? 1 : 0) == 1",
        "write exactly one of mask, hash and drop, for example mask: {}",
    );
}

/// A fixed text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaskAction {
    /// The text, at most 32 bytes. Default: ****.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub text: Option<String>,
    /// How many of the last characters stay after the text, 0 to 8, and never more than a quarter
    /// of the match. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 8))]
    pub keep_last: Option<u8>,
}

/// A keyed hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HashAction {
    /// Characters of the hash, 8 to 43. Default: 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 8, max = 43))]
    pub length: Option<u8>,
    /// Encoding: Hex (4 bits a character) or Base64 (6 bits, with the URL-safe alphabet). Default:
    /// Hex.
    #[serde(default, skip_serializing_if = "HashEncoding::is_default")]
    pub encoding: HashEncoding,
}

/// The encoding of a hash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HashEncoding {
    /// Lower-case hexadecimal digits.
    #[default]
    Hex,
    /// The URL-safe alphabet of base64.
    Base64,
}

impl HashEncoding {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Removal of the value. It has no settings: `drop: {}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DropAction {}

/// A list of attribute keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyList {
    /// Complete keys, at most 256. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 256)))]
    pub names: Vec<String>,
    /// Regular expressions that match anywhere in the key, at most 64. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 1_024)))]
    pub patterns: Vec<String>,
}

/// Keys whose values are redacted completely.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedKeys {
    /// The keys.
    #[serde(flatten)]
    pub keys: KeyList,
    /// What happens to the values. Default: the step's action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<RedactAction>,
}
