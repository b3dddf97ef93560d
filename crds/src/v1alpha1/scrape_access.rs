//! How scraped targets are asked: TLS, who asks, and by which way.
//!
//! Never holds a secret, only its name; Secrets are in the object's namespace, and pods read them
//! as files.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::connection::{CaRef, CredentialsRef, SecretRef};
use super::rules;
use crate::names::{SecretKey, SecretName};

/// How a target is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScrapeScheme {
    /// Without encryption.
    #[default]
    Http,
    /// Over TLS.
    Https,
}

impl ScrapeScheme {
    pub(super) fn is_http(&self) -> bool {
        *self == Self::Http
    }
}

/// Encryption towards targets, or towards a server that gives tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScrapeTls {
    /// The authority that signed the servers' certificates. Default: the system's authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<CaRef>,
    /// A Secret of type kubernetes.io/tls (keys tls.crt and tls.key) to show to the servers.
    /// Default: no client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate_secret_ref: Option<SecretRef>,
    /// The name that a server's certificate must have. Default: the host that is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[A-Za-z0-9._:-]+$"))]
    pub server_name: Option<String>,
    /// Take any certificate: whoever is between can read and change everything.
    #[serde(default)]
    pub insecure_skip_verify: bool,
}

/// A key of a Secret with credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenRef {
    /// Name of the Secret. A change of its content rolls the pods that use it.
    pub name: SecretName,
    /// Key that holds the credentials. Default: token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<SecretKey>,
}

impl TokenRef {
    /// Key of the credentials, the default filled in.
    pub fn key(&self) -> &str {
        self.key.as_ref().map_or("token", SecretKey::as_str)
    }
}

/// An authorization header: a word and what a Secret holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScrapeAuthorization {
    /// The word before the credentials. Not Basic: write basicAuth. Default: Bearer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub r#type: Option<String>,
    /// The credentials.
    pub credentials_secret_ref: TokenRef,
}

/// A user name and password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScrapeBasicAuth {
    /// The Secret with user name and password.
    pub credentials_secret_ref: CredentialsRef,
}

/// A client's name and secret in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientRef {
    /// Name of the Secret. A change of its content rolls the pods that use it.
    pub name: SecretName,
    /// Key that holds the client's name. Default: client-id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_key: Option<SecretKey>,
    /// Key that holds the client's secret. Default: client-secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<SecretKey>,
}

impl ClientRef {
    /// Key of the client's name, the default filled in.
    pub fn id_key(&self) -> &str {
        self.id_key.as_ref().map_or("client-id", SecretKey::as_str)
    }

    /// Key of the client's secret, the default filled in.
    pub fn secret_key(&self) -> &str {
        self.secret_key.as_ref().map_or("client-secret", SecretKey::as_str)
    }
}

/// A token by OAuth 2.0's client credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = token_url_rules)]
pub struct ScrapeOAuth2 {
    /// The Secret with the client's name and secret.
    pub client_secret_ref: ClientRef,
    /// Where tokens are asked for, http:// or https://.
    #[schemars(length(max = 1_024), regex(pattern = r"^https?://[!-~]+$"))]
    pub token_url: String,
    /// What a token is to allow, at most 16. Default: what the server gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 256)))]
    pub scopes: Vec<String>,
    /// Further fields of the request for a token, at most 16. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<16, 1_024>)]
    pub endpoint_params: BTreeMap<String, String>,
    /// Settings for an https:// token URL. Default: the system's authorities are trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ScrapeTls>,
    /// The proxy that tokenUrl is asked through; the targets' isn't used for it. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ScrapeProxy>,
}

/// A proxy: it connects to https targets, and is sent whole URLs of http ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = proxy_rules)]
pub struct ScrapeProxy {
    /// Its address, http://host:port. Loopback and link-local addresses are refused by the pods.
    #[schemars(length(max = 270), regex(pattern = r"^http://[!-~]+:[0-9]{1,5}/?$"))]
    pub url: String,
    /// The Secret with user name and password for the proxy. They go to it unencrypted. Default:
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<CredentialsRef>,
    /// Hosts that are asked without it, at most 64: a name (its subdomains are meant too), .name
    /// for its subdomains alone, an address, a network as in 10.0.0.0/8, or *. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 260)))]
    pub no_proxy: Vec<String>,
}

/// Limits parameters of a query: 16 names with 8 values each.
pub(super) fn params(schema: &mut Schema) {
    schema.insert("maxProperties".to_owned(), json!(16));
    let value = json!({"type": "string", "maxLength": 256});
    let values = json!({"type": "array", "maxItems": 8, "items": value});
    schema.insert("additionalProperties".to_owned(), values);
}

/// One way at most to say who asks.
pub(super) fn login_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "[has(self.authorization), has(self.basicAuth), has(self.oauth2)].filter(g, g).size() <= 1",
        "authorization, basicAuth and oauth2: write one of them at most",
    );
    rules::rule(
        schema,
        "!has(self.authorization) || !has(self.authorization.type) \
         || !(self.authorization.type in ['Basic', 'basic', 'BASIC'])",
        "authorization.type is Basic: write basicAuth instead",
    );
}

fn token_url_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "!self.tokenUrl.contains('@')",
        "tokenUrl has credentials: they go into clientSecretRef",
    );
}

fn proxy_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "!self.url.contains('@')",
        "url has credentials: they go into credentialsSecretRef",
    );
}
