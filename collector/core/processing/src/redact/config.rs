//! The settings of a `redact` step.

use serde::{Deserialize, Serialize};

/// The settings of a `redact` step.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RedactConfig {
    /// The ready sets. Absent: all of them.
    pub sets: Option<Vec<ReadySet>>,
    /// Patterns of one's own.
    pub patterns: Vec<PatternConfig>,
    /// What happens to a match. Absent: a mask of four stars.
    pub action: ActionConfig,
    /// What happens to the matches of single ready sets instead.
    pub set_actions: Vec<SetActionConfig>,
    /// The file with the key of hashes: 16 bytes or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_key_file: Option<String>,
    /// Keys whose values are neither read nor removed. This list takes precedence.
    pub ignored_keys: KeyListConfig,
    /// If present, attributes with any other key are removed.
    pub allowed_keys: Option<KeyListConfig>,
    /// Keys whose entire values are redacted, whatever they contain.
    pub blocked_keys: BlockedKeysConfig,
}

/// A ready set of patterns.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ReadySet {
    /// E-mail addresses, also with `%40`.
    Email,
    /// The token after `Bearer`.
    Bearer,
    /// The credentials after `Basic`: base64 of a name, a colon and a password.
    Basic,
    /// JSON web tokens.
    Jwt,
    /// Payment card numbers of 14 to 19 digits, with a known issuer's beginning and Luhn's digit.
    Card,
    /// IBANs of the registry's countries, with the right length and check digits.
    Iban,
    /// Private keys in PEM, also truncated ones.
    PrivateKey,
    /// Keys of AWS, Azure, GitHub, Google Cloud, Slack and Stripe.
    CloudKey,
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
}

impl ReadySet {
    /// All ready sets.
    pub const ALL: [Self; 10] = [
        Self::Email,
        Self::Bearer,
        Self::Basic,
        Self::Jwt,
        Self::Card,
        Self::Iban,
        Self::PrivateKey,
        Self::CloudKey,
        Self::Ipv4,
        Self::Ipv6,
    ];

    /// The name in settings and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Email => "Email",
            Self::Bearer => "Bearer",
            Self::Basic => "Basic",
            Self::Jwt => "Jwt",
            Self::Card => "Card",
            Self::Iban => "Iban",
            Self::PrivateKey => "PrivateKey",
            Self::CloudKey => "CloudKey",
            Self::Ipv4 => "Ipv4",
            Self::Ipv6 => "Ipv6",
        }
    }
}

/// What happens to the matches of a ready set.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetActionConfig {
    /// The ready set.
    pub set: ReadySet,
    /// What happens to its matches.
    pub action: ActionConfig,
}

/// A pattern of one's own.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatternConfig {
    /// The name under which matches are counted.
    pub name: String,
    /// A regular expression. Its classes (`\d`, `\w`, `\b`) are ASCII's, as in Go.
    pub pattern: String,
    /// What happens to a match. Absent: the step's action.
    #[serde(default)]
    pub action: Option<ActionConfig>,
}

/// What happens to a match: exactly one of the fields.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionConfig {
    /// A fixed text replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<MaskConfig>,
    /// HMAC-SHA256 of the match replaces it: equal values stay equal, and nobody without the key
    /// can compute or test them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<HashConfig>,
    /// The entire value that contains it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop: Option<DropConfig>,
}

impl Default for ActionConfig {
    fn default() -> Self {
        Self { mask: Some(MaskConfig::default()), hash: None, drop: None }
    }
}

/// A text that replaces matches.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MaskConfig {
    /// The text, 32 bytes at most.
    pub text: String,
    /// How many of the match's last characters stay after the text, from 0 to 8, and never more
    /// than a quarter of the match.
    pub keep_last: u8,
}

impl Default for MaskConfig {
    fn default() -> Self {
        Self { text: "****".to_owned(), keep_last: 0 }
    }
}

/// A keyed hash that replaces matches.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HashConfig {
    /// How many characters of the encoded hash stay, from 8 to 43.
    pub length: u8,
    /// The encoding.
    pub encoding: HashEncoding,
}

impl Default for HashConfig {
    fn default() -> Self {
        Self { length: 16, encoding: HashEncoding::default() }
    }
}

/// The removal of values. It has no settings.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DropConfig {}

/// The encoding of a hash.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HashEncoding {
    /// Lower-case hexadecimal digits, 4 bits each.
    #[default]
    Hex,
    /// The URL-safe alphabet of base64, 6 bits each.
    Base64,
}

/// A list of attribute keys.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KeyListConfig {
    /// Complete keys.
    pub names: Vec<String>,
    /// Regular expressions; a match anywhere in the key suffices.
    pub patterns: Vec<String>,
}

/// Keys whose entire values are redacted.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BlockedKeysConfig {
    /// Complete keys.
    pub names: Vec<String>,
    /// Regular expressions; a match anywhere in the key suffices.
    pub patterns: Vec<String>,
    /// What happens to the values. Absent: the step's action.
    pub action: Option<ActionConfig>,
}
