//! Who asks: the `authorization` header, made of files.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode};
use millrace_config::{Authorization, BasicAuth, HttpAccess, SecretFile};

use super::address::Network;
use super::fault::{ConnectError, FileFault};
use super::files::{OnFault, Watched};
use super::oauth2::Tokens;

/// Who asks.
#[derive(Debug)]
pub(super) enum Login {
    Nobody,
    Credentials(Credentials),
    Basic(Basic),
    Token(Box<Tokens>),
}

impl Login {
    pub(super) fn new(access: &HttpAccess, network: &Network) -> Self {
        let HttpAccess { authorization, basic_auth, oauth2, .. } = access;
        match (authorization, basic_auth, oauth2) {
            (Some(authorization), _, _) => Self::Credentials(Credentials::new(authorization)),
            (None, Some(basic), _) => Self::Basic(Basic::new(basic)),
            (None, None, Some(oauth2)) => Self::Token(Box::new(Tokens::new(oauth2, network))),
            (None, None, None) => Self::Nobody,
        }
    }

    /// The header, if there is to be one.
    pub(super) async fn header(&self) -> Result<Option<HeaderValue>, ConnectError> {
        Ok(Some(match self {
            Self::Nobody => return Ok(None),
            Self::Credentials(credentials) => credentials.header().await?,
            Self::Basic(basic) => basic.header().await?,
            Self::Token(tokens) => tokens.header().await?,
        }))
    }

    /// Notes that a server refused it. What to say about that.
    pub(super) async fn refused(&self, status: StatusCode) -> &'static str {
        match self {
            Self::Nobody => {
                ": no authorization is set; set authorization, basicAuth, oauth2, or tls.certFile"
            }
            Self::Credentials(_) => ": it refuses what authorization.credentialsFile holds",
            Self::Basic(_) => ": it refuses the user name and password of basicAuth",
            Self::Token(tokens) => {
                if status == StatusCode::UNAUTHORIZED {
                    tokens.forget().await;
                }
                ": it refuses the token that oauth2 got; see oauth2.scopes and endpointParams"
            }
        }
    }
}

/// A word and a file's text.
#[derive(Debug)]
pub(super) struct Credentials {
    word: String,
    file: SecretFile,
    header: Watched<HeaderValue>,
}

impl Credentials {
    fn new(settings: &Authorization) -> Self {
        let Authorization { r#type, credentials_file } = settings;
        let header = Watched::new(vec![credentials_file.clone()], OnFault::Fail);
        Self { word: r#type.clone(), file: credentials_file.clone(), header }
    }

    async fn header(&self) -> Result<HeaderValue, ConnectError> {
        let (word, file) = (self.word.clone(), self.file.clone());
        let header = self.header.get(move |read| {
            let secret = file.text(read.into_iter().next().unwrap_or_default())?;
            let text = format!("{word} {}", secret.expose());
            sensitive(&text).ok_or(FileFault::NoHeader(file))
        });
        Ok(HeaderValue::clone(&*header.await?))
    }
}

/// A user name and a password.
#[derive(Debug)]
pub(super) struct Basic {
    settings: BasicAuth,
    header: Watched<HeaderValue>,
}

impl Basic {
    pub(super) fn new(settings: &BasicAuth) -> Self {
        let BasicAuth { username: _, username_file, password_file } = settings;
        let files = [username_file, password_file].into_iter().flatten().cloned().collect();
        Self { settings: settings.clone(), header: Watched::new(files, OnFault::Fail) }
    }

    pub(super) async fn header(&self) -> Result<HeaderValue, ConnectError> {
        let settings = self.settings.clone();
        let header = self.header.get(move |read| basic(&settings, read));
        Ok(HeaderValue::clone(&*header.await?))
    }
}

fn basic(settings: &BasicAuth, read: Vec<Vec<u8>>) -> Result<HeaderValue, FileFault> {
    let BasicAuth { username, username_file, password_file } = settings;
    let mut read = read.into_iter();
    let mut text = username.clone().unwrap_or_default();
    if let Some(file) = username_file {
        text = file.text(read.next().unwrap_or_default())?.expose().to_owned();
        if text.contains(':') {
            return Err(FileFault::Colon(file.clone()));
        }
    }
    text.push(':');
    if let Some(file) = password_file {
        text.push_str(file.text(read.next().unwrap_or_default())?.expose());
    }
    // Base 64 is always a header's text.
    Ok(of_pair(&text).unwrap_or_else(|| HeaderValue::from_static("Basic")))
}

/// `Basic`, of a name, a colon and a password.
pub(super) fn of_pair(pair: &str) -> Option<HeaderValue> {
    sensitive(&format!("Basic {}", STANDARD.encode(pair)))
}

/// A header that doesn't print.
pub(super) fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
