//! The sections of what is needed to ask a server over HTTP: TLS, who asks, and by which way.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::secret::SecretFile;
use crate::section::section;
use crate::url::{HttpUrl, NoProxy};

section! {
    /// How a server is asked. Files are read again when they change.
    pub struct HttpAccess {
        /// TLS towards `https://`. Without it the system's authorities are trusted.
        pub tls: Option<HttpTls> = None,
        /// An `authorization` header from a file. Of it, `basicAuth` and `oauth2` one at most.
        pub authorization: Option<Authorization> = None,
        /// A user name and password.
        pub basic_auth: Option<BasicAuth> = None,
        /// A token by OAuth 2.0's client credentials.
        pub oauth2: Option<OAuth2> = None,
        /// The proxy that servers are asked through.
        pub proxy: Option<Proxy> = None,
        /// Whether redirects are followed.
        pub follow_redirects: bool = false,
    }
}

section! {
    /// TLS towards a server. An empty block trusts the system's authorities.
    pub struct HttpTls {
        /// The authorities to trust, in PEM; the system's when absent.
        pub ca_file: Option<SecretFile> = None,
        /// The client's certificate chain, in PEM; goes with `keyFile`.
        pub cert_file: Option<SecretFile> = None,
        /// The client's private key, in PEM; goes with `certFile`.
        pub key_file: Option<SecretFile> = None,
        /// The name that a certificate must have, where it isn't the address's.
        pub server_name: Option<String> = None,
        /// Whether any certificate is taken: whoever is between can read and change everything.
        pub insecure_skip_verify: bool = false,
    }
}

/// An `authorization` header: a word and a file's text.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authorization {
    /// The word before the credentials.
    #[serde(default = "bearer", skip_serializing_if = "is_bearer")]
    #[cfg_attr(feature = "json-schema", schemars(extend("default" = "Bearer")))]
    pub r#type: String,
    /// What follows it.
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
        /// The user name. It or `usernameFile` must be given.
        pub username: Option<String> = None,
        /// The file with the user name.
        pub username_file: Option<SecretFile> = None,
        /// The file with the password; none sends an empty one.
        pub password_file: Option<SecretFile> = None,
    }
}

/// A token by OAuth 2.0's client credentials.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OAuth2 {
    /// The client's name. It or `clientIdFile` must be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The file with the client's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id_file: Option<SecretFile>,
    /// The file with the client's secret.
    pub client_secret_file: SecretFile,
    /// Where tokens are asked for.
    pub token_url: HttpUrl,
    /// What a token is to allow; 64 entries at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Further fields of the request for a token; 64 at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub endpoint_params: BTreeMap<String, String>,
    /// TLS towards `tokenUrl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<HttpTls>,
    /// The proxy that `tokenUrl` is asked through. The targets' isn't used for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
}

/// A proxy: asked to connect (CONNECT) to `https://`, and for `http://` URLs as a whole.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Proxy {
    /// Its address, `http://host:port`.
    pub url: HttpUrl,
    /// Who asks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// Hosts that are asked without it; 64 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_proxy: Vec<NoProxy>,
}
