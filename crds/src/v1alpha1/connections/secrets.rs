//! References to Secrets that kinds share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{SecretKey, SecretName};

/// A key of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret. A change of its content triggers a rollout.
    pub name: SecretName,
    /// Name of the key in the Secret.
    pub key: SecretKey,
}

/// A user name and a password in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialsRef {
    /// Name of the Secret. A change of its content triggers a rollout.
    pub name: SecretName,
    /// Key that holds the user name. Default: username.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username_key: Option<SecretKey>,
    /// Key that holds the password. Default: password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_key: Option<SecretKey>,
}

impl CredentialsRef {
    /// Key of the user name, the default filled in.
    pub fn username_key(&self) -> &str {
        self.username_key.as_ref().map_or("username", SecretKey::as_str)
    }

    /// Key of the password, the default filled in.
    pub fn password_key(&self) -> &str {
        self.password_key.as_ref().map_or("password", SecretKey::as_str)
    }
}
