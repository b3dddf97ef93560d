//! Tokens by OAuth 2.0's client credentials (RFC 6749, 4.4): asked for once at a time, kept until
//! shortly before they expire. The server is asked through a proxy of its own, if there is one,
//! never through the job's.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use millrace_config::{HttpUrl, OAuth2, Secret, SecretFile, push_encoded};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::address::Network;
use super::fault::{ConnectError, FileFault, TokenFault};
use super::files::{OnFault, Watched};
use super::link::Dialer;
use super::login::{of_pair, sensitive};
use super::{Whose, request};

/// How long a request for a token may take.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest answer that is read: a token is a header, which servers take up to some 16 KiB.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A token is not used in the last seconds before it expires.
const EARLY: Duration = Duration::from_secs(10);

/// How long a token lasts whose server doesn't say.
const LIFETIME: Duration = Duration::from_secs(300);

/// The longest lifetime that is believed: files may change, servers may forget.
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// A failure stands this long, as does a token that was refused: 1,000 targets ask once together.
const RETRY_PERIOD: Duration = Duration::from_secs(5);

/// Tokens of one job.
#[derive(Debug)]
pub(super) struct Tokens {
    dialer: Dialer,
    settings: OAuth2,
    /// The request but for who asks.
    form: String,
    client: Watched<Client>,
    held: Mutex<Option<Held>>,
}

#[derive(Debug)]
struct Client {
    id: String,
    secret: Secret,
}

#[derive(Debug)]
struct Held {
    client: Arc<Client>,
    outcome: Result<HeaderValue, Arc<TokenFault>>,
    asked: Instant,
    until: Instant,
}

/// Where a request says who asks. Servers must know the first; some know the second alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Header,
    Form,
}

/// What a server made of a request.
enum Outcome {
    Token { header: HeaderValue, lifetime: Duration },
    Refused { status: StatusCode, code: String },
}

impl Tokens {
    pub(super) fn new(settings: &OAuth2, network: &Network) -> Self {
        let OAuth2 {
            client_id: _,
            client_id_file,
            client_secret_file,
            token_url: _,
            scopes,
            endpoint_params,
            tls,
            proxy,
        } = settings;
        let mut form = "grant_type=client_credentials".to_owned();
        if !scopes.is_empty() {
            push_field(&mut form, "scope", &scopes.join(" "));
        }
        for (name, value) in endpoint_params {
            push_field(&mut form, name, value);
        }
        let files = client_id_file.iter().chain([client_secret_file]).cloned().collect();
        Self {
            dialer: Dialer::new(network, tls.as_ref(), proxy.as_ref()),
            settings: settings.clone(),
            form,
            client: Watched::new(files, OnFault::Fail),
            held: Mutex::new(None),
        }
    }

    /// The header with a token that lasts.
    pub(super) async fn header(&self) -> Result<HeaderValue, ConnectError> {
        let settings = self.settings.clone();
        let client = self.client.get(move |read| client(&settings, read)).await?;
        let mut held = self.held.lock().await;
        let lasts =
            |held: &&Held| Arc::ptr_eq(&held.client, &client) && Instant::now() < held.until;
        if let Some(held) = held.as_ref().filter(lasts) {
            return Ok(held.outcome.clone()?);
        }
        let asked = Instant::now();
        let answer = timeout(TOKEN_TIMEOUT, self.ask(&client)).await;
        let (outcome, kept) = match answer {
            Ok(Ok((header, lifetime))) => (Ok(header), lifetime),
            Ok(Err(reason)) => (Err(self.fault(reason)), RETRY_PERIOD),
            Err(_) => {
                let reason = format!("it took longer than {} s", TOKEN_TIMEOUT.as_secs());
                (Err(self.fault(reason)), RETRY_PERIOD)
            }
        };
        let until = Instant::now() + kept;
        *held = Some(Held { client, outcome: outcome.clone(), asked, until });
        Ok(outcome?)
    }

    /// Asks for another token next time, unless this one is new.
    pub(super) async fn forget(&self) {
        let mut held = self.held.lock().await;
        if held.as_ref().is_some_and(|held| held.asked.elapsed() >= RETRY_PERIOD) {
            *held = None;
        }
    }

    fn fault(&self, reason: String) -> Arc<TokenFault> {
        Arc::new(TokenFault { url: self.settings.token_url.clone(), reason })
    }

    async fn ask(&self, client: &Client) -> Result<(HeaderValue, Duration), String> {
        let mut refused = String::new();
        for place in [Place::Header, Place::Form] {
            let outcome = self.ask_by(client, place).await.map_err(|error| error.to_string())?;
            match outcome? {
                Outcome::Token { header, lifetime } => return Ok((header, lifetime)),
                Outcome::Refused { status, code } => {
                    refused = format!(
                        "it answered {status}{code}; see oauth2.clientId, clientSecretFile, scopes \
                         and endpointParams"
                    );
                    if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::BAD_REQUEST) {
                        break;
                    }
                }
            }
        }
        Err(refused)
    }

    async fn ask_by(
        &self,
        client: &Client,
        place: Place,
    ) -> Result<Result<Outcome, String>, ConnectError> {
        let url: &HttpUrl = &self.settings.token_url;
        let mut link = self.dialer.link(url, Whose::Named).await?;
        let mut form = self.form.clone();
        let mut login = None;
        match place {
            Place::Header => {
                let mut pair = String::new();
                push_encoded(&mut pair, &client.id);
                pair.push(':');
                push_encoded(&mut pair, client.secret.expose());
                login = of_pair(&pair);
            }
            Place::Form => {
                push_field(&mut form, "client_id", &client.id);
                push_field(&mut form, "client_secret", client.secret.expose());
            }
        }
        let mut request = request(&link, Method::POST, url, Full::new(Bytes::from(form)))?;
        let headers = request.headers_mut();
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form_type);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(login) = login {
            headers.insert(AUTHORIZATION, login);
        }
        let answer = link.sender.send_request(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        Ok(match body {
            Ok(body) => read(status, &body.to_bytes()),
            Err(error) => Err(format!("its answer can't be read: {error}")),
        })
    }
}

fn client(settings: &OAuth2, read: Vec<Vec<u8>>) -> Result<Client, FileFault> {
    let OAuth2 { client_id, client_id_file, client_secret_file, .. } = settings;
    let mut read = read.into_iter();
    let mut text = |file: &SecretFile| file.text(read.next().unwrap_or_default());
    let id = match client_id_file {
        Some(file) => text(file)?.expose().to_owned(),
        None => client_id.clone().unwrap_or_default(),
    };
    Ok(Client { id, secret: text(client_secret_file)? })
}

fn push_field(form: &mut String, name: &str, value: &str) {
    form.push('&');
    push_encoded(form, name);
    form.push('=');
    push_encoded(form, value);
}

/// Reads an answer. Of a refusal only its code is told: descriptions may repeat what was sent.
fn read(status: StatusCode, body: &[u8]) -> Result<Outcome, String> {
    let answer: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let text = |name: &str| answer.get(name).and_then(Value::as_str);
    if status != StatusCode::OK {
        let code = text("error").filter(|code| is_code(code));
        let code = code.map_or_else(String::new, |code| format!(" ({code})"));
        return Ok(Outcome::Refused { status, code });
    }
    let token = text("access_token").ok_or("its answer has no access_token")?;
    if let Some(other) = text("token_type").filter(|it| !it.eq_ignore_ascii_case("bearer")) {
        let shown = if is_code(other) { other } else { "?" };
        return Err(format!("its token is of the type {shown}: only Bearer is known"));
    }
    let header = sensitive(&format!("Bearer {token}"));
    let header = header.ok_or("its token has characters that no header may have")?;
    let seconds = answer.get("expires_in").and_then(|it| match it {
        Value::String(text) => text.parse().ok(),
        other => other.as_f64().map(|seconds| seconds.max(0.0) as u64),
    });
    let lifetime = seconds.map_or(LIFETIME, Duration::from_secs).min(LIFETIME_MAX);
    // A token of a few seconds is used for half of them.
    let lifetime = lifetime.saturating_sub(EARLY).max(lifetime / 2);
    Ok(Outcome::Token { header, lifetime })
}

fn is_code(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
