//! Builds the `authorization` header from files.

pub(super) mod basic_auth;
mod oauth2;

use http::{HeaderValue, StatusCode};
use millrace_config::{Authorization, HttpAccess, SecretFile};

use super::address::Network;
use super::fault::{ConnectError, FileFault};
use super::files::{FileValue, OnFault};
use super::login::basic_auth::{Basic, sensitive_value};
use super::login::oauth2::Tokens;

/// The client's authorization.
#[derive(Debug)]
pub(super) enum Login {
    Nobody,
    Credentials(AuthorizationFile),
    Basic(Basic),
    Token(Box<Tokens>),
}

impl Login {
    pub(super) fn new(access: &HttpAccess, network: &Network) -> Self {
        let HttpAccess { authorization, basic_auth, oauth2, .. } = access;
        match (authorization, basic_auth, oauth2) {
            (Some(authorization), _, _) => Self::Credentials(AuthorizationFile::new(authorization)),
            (None, Some(basic), _) => Self::Basic(Basic::new(basic)),
            (None, None, Some(oauth2)) => Self::Token(Box::new(Tokens::new(oauth2, network))),
            (None, None, None) => Self::Nobody,
        }
    }

    /// Returns the header; `None` without authorization.
    pub(super) async fn auth_header(&self) -> Result<Option<HeaderValue>, ConnectError> {
        Ok(Some(match self {
            Self::Nobody => return Ok(None),
            Self::Credentials(credentials) => credentials.auth_header().await?,
            Self::Basic(basic) => basic.auth_header().await?,
            Self::Token(tokens) => tokens.auth_header().await?,
        }))
    }

    /// Handles a server's refusal of the header, and returns a hint for the message.
    pub(super) async fn handle_refusal(&self, status: StatusCode) -> &'static str {
        match self {
            Self::Nobody => {
                ": no authorization is set; set authorization, basicAuth, oauth2, or tls.certFile"
            }
            Self::Credentials(_) => ": it refused the credentials in authorization.credentialsFile",
            Self::Basic(_) => ": it refused the user name and password of basicAuth",
            Self::Token(tokens) => {
                if status == StatusCode::UNAUTHORIZED {
                    tokens.discard_token().await;
                }
                ": it refused the token of oauth2; check oauth2.scopes and endpointParams"
            }
        }
    }
}

/// An authorization scheme and a file with the credentials.
#[derive(Debug)]
pub(super) struct AuthorizationFile {
    scheme: String,
    file: SecretFile,
    header: FileValue<HeaderValue>,
}

impl AuthorizationFile {
    fn new(settings: &Authorization) -> Self {
        let Authorization { r#type, credentials_file } = settings;
        let header = FileValue::new(vec![credentials_file.clone()], OnFault::Fail);
        Self { scheme: r#type.clone(), file: credentials_file.clone(), header }
    }

    async fn auth_header(&self) -> Result<HeaderValue, ConnectError> {
        let (word, file) = (self.scheme.clone(), self.file.clone());
        let header = self.header.get(move |read| {
            let secret = file.secret_from(read.into_iter().next().unwrap_or_default())?;
            let text = format!("{word} {}", secret.expose());
            sensitive_value(&text).ok_or(FileFault::NoHeader(file))
        });
        Ok(HeaderValue::clone(&*header.await?))
    }
}
