//! The sections of settings for requests to a server over HTTP: TLS, credentials and proxy.

#[cfg(test)]
pub(crate) mod arbitrary;
mod check;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::section::section;
use crate::values::secret::SecretFile;
use crate::values::url::{HttpUrl, NoProxy};

section! {
    /// How an HTTP server is accessed. Files are read again when they change.
    pub struct HttpAccess {
        /// TLS for `https://`. Without it, the system's CA certificates are trusted.
        pub tls: Option<HttpTls> = None,
        /// `Authorization` header from a file. Only one of `authorization`, `basicAuth` and
        /// `oauth2` can be set.
        pub authorization: Option<Authorization> = None,
        /// User name and password.
        pub basic_auth: Option<BasicAuth> = None,
        /// Token from OAuth 2.0 client credentials.
        pub oauth2: Option<OAuth2> = None,
        /// Proxy for connections to the servers.
        pub proxy: Option<Proxy> = None,
        /// Whether redirects are followed.
        pub follow_redirects: bool = false,
    }
}

section! {
    /// TLS to a server. An empty block trusts the system's CA certificates.
    pub struct HttpTls {
        /// Trusted CA certificates in PEM; the system's when absent.
        pub ca_file: Option<SecretFile> = None,
        /// Client certificate chain in PEM; requires `keyFile`.
        pub cert_file: Option<SecretFile> = None,
        /// Private key of the client in PEM; requires `certFile`.
        pub key_file: Option<SecretFile> = None,
        /// Expected name in the server's certificate, if it isn't the address.
        pub server_name: Option<String> = None,
        /// Whether to skip verification of the server's certificate (allows man-in-the-middle).
        pub insecure_skip_verify: bool = false,
    }
}

/// `Authorization` header: a scheme and the text of a file.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authorization {
    /// Authorization scheme.
    #[serde(default = "bearer", skip_serializing_if = "is_bearer")]
    #[cfg_attr(feature = "json-schema", schemars(extend("default" = "Bearer")))]
    pub r#type: String,
    /// File with the credentials after the scheme.
    pub credentials_file: SecretFile,
}

fn bearer() -> String {
    "Bearer".to_owned()
}

fn is_bearer(text: &str) -> bool {
    text == "Bearer"
}

section! {
    /// A user name, as text or from a file, and a password.
    pub struct BasicAuth {
        /// User name. Either it or `usernameFile` is required.
        pub username: Option<String> = None,
        /// File with the user name.
        pub username_file: Option<SecretFile> = None,
        /// File with the password; empty when absent.
        pub password_file: Option<SecretFile> = None,
    }
}

/// Token from OAuth 2.0 client credentials.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OAuth2 {
    /// Client ID. Either it or `clientIdFile` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// File with the client ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id_file: Option<SecretFile>,
    /// File with the client secret.
    pub client_secret_file: SecretFile,
    /// URL of the token endpoint.
    pub token_url: HttpUrl,
    /// Scopes of the token; at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Additional parameters of the token request; at most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub endpoint_params: BTreeMap<String, String>,
    /// TLS to `tokenUrl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<HttpTls>,
    /// Proxy for `tokenUrl`. The proxy of the targets is not used for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
}

/// HTTP proxy. It receives CONNECT requests for `https://`, and complete requests for `http://`
/// URLs.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Proxy {
    /// Address of the proxy, `http://host:port`.
    pub url: HttpUrl,
    /// User name and password for the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// Hosts that are contacted directly; at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_proxy: Vec<NoProxy>,
}
