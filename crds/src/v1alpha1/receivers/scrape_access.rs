//! Access to scraped targets: TLS, credentials, proxies.
//!
//! Never holds a secret, only its name; Secrets are in the object's namespace, and pods read them
//! as files.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::names::{SecretKey, SecretName};
use crate::v1alpha1::connections::authentication::{CaSource, CertificateSecret};
use crate::v1alpha1::connections::secrets::CredentialsRef;
use crate::v1alpha1::rules;

/// The protocol of a target.
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

/// TLS to targets or token servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScrapeTls {
    /// CA of the servers' certificates. Default: the system's CAs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<CaSource>,
    /// Secret with the client certificate. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_secret: Option<CertificateSecret>,
    /// Host name that the server's certificate must have. Default: the target's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[A-Za-z0-9._:-]+$"))]
    pub server_name: Option<String>,
    /// Skip verification of the server's certificate (allows man-in-the-middle attacks).
    #[serde(default)]
    pub insecure_skip_verify: bool,
}

/// A key of a Secret with credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenRef {
    /// Name of the Secret. A change of its content triggers a rollout.
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

/// An Authorization header: type, and credentials from a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScrapeAuthorization {
    /// Authentication scheme; for Basic write basicAuth. Default: Bearer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub r#type: Option<String>,
    /// Secret with the credentials.
    pub credentials_secret: TokenRef,
}

/// HTTP basic authentication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScrapeBasicAuth {
    /// Secret with user name and password.
    pub credentials_secret: CredentialsRef,
}

/// OAuth 2.0 client id and secret in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientRef {
    /// Name of the Secret. A change of its content triggers a rollout.
    pub name: SecretName,
    /// Key with the client id. Default: client-id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_key: Option<SecretKey>,
    /// Key with the client secret. Default: client-secret.
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

/// OAuth 2.0 client credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = token_url_rules)]
pub struct ScrapeOAuth2 {
    /// Secret with client id and client secret.
    pub credentials_secret: ClientRef,
    /// Token URL, http:// or https://.
    #[schemars(length(max = 1_024), regex(pattern = r"^https?://[!-~]+$"))]
    pub token_url: String,
    /// Scopes to request, at most 16. Default: the server's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 256)))]
    pub scopes: Vec<String>,
    /// Additional parameters of the token request, at most 16. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<16, 1_024>)]
    pub endpoint_params: BTreeMap<String, String>,
    /// TLS settings for an https token URL. Default: trusts the system's CAs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ScrapeTls>,
    /// HTTP proxy for tokenUrl; the targets' proxy is not used for it. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ScrapeProxy>,
}

/// An HTTP proxy: CONNECT for https targets, absolute URLs for http ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = proxy_rules)]
pub struct ScrapeProxy {
    /// URL of the proxy, http://host:port. Pods reject loopback and link-local addresses.
    #[schemars(length(max = 270), regex(pattern = r"^http://[!-~]+:[0-9]{1,5}/?$"))]
    pub url: String,
    /// Secret with user name and password for the proxy, sent unencrypted. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret: Option<CredentialsRef>,
    /// Hosts contacted directly, at most 64: a name with its subdomains, .name for its subdomains
    /// only, an address, a network such as 10.0.0.0/8, or *. Default: none.
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

/// At most one kind of credentials.
pub(super) fn login_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "[has(self.authorization), has(self.basicAuth), has(self.oauth2)].filter(g, g).size() <= 1",
        "authorization, basicAuth and oauth2: write one of them at most",
    );
    rules::add_rule(
        schema,
        "!has(self.authorization) || !has(self.authorization.type) \
         || !(self.authorization.type in ['Basic', 'basic', 'BASIC'])",
        "authorization.type is Basic: write basicAuth instead",
    );
}

fn token_url_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "!self.tokenUrl.contains('@')",
        "tokenUrl contains credentials: write them into the Secret of credentialsSecret",
    );
}

fn proxy_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "!self.url.contains('@')",
        "url contains credentials: write them into the Secret of credentialsSecret",
    );
}
