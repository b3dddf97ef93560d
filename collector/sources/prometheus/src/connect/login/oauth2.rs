//! Fetches tokens with OAuth 2.0's client credentials (RFC 6749, 4.4): one request at a time,
//! cached until shortly before expiry. Requests use the proxy of `oauth2`, if one is set, never the
//! job's.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{Method, StatusCode};
use millrace_config::{OAuth2, Secret, SecretFile};
use millrace_oauth::{TokenExchange, TokenRequest, begin_form, read_response};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::basic_auth::sensitive_value;
use crate::connect::address::Network;
use crate::connect::fault::{ConnectError, FileFault, TokenFault};
use crate::connect::files::{FileValue, OnFault};
use crate::connect::link::Dialer;
use crate::connect::{ServerOrigin, build_request};

/// The time-out of a token request.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);

/// A token is not used in the last seconds before it expires.
const EARLY: Duration = Duration::from_secs(10);

/// How long a failure is cached and a refused token is used: 1,000 targets share one request.
const RETRY_PERIOD: Duration = Duration::from_secs(5);

/// The tokens of one job.
#[derive(Debug)]
pub(in crate::connect) struct Tokens {
    dialer: Dialer,
    settings: OAuth2,
    /// The request's form without the client's credentials.
    form: String,
    client: FileValue<OAuthClient>,
    cached: Mutex<Option<CachedToken>>,
}

#[derive(Debug)]
struct OAuthClient {
    id: String,
    secret: Secret,
}

#[derive(Debug)]
struct CachedToken {
    client: Arc<OAuthClient>,
    outcome: Result<HeaderValue, Arc<TokenFault>>,
    requested_at: Instant,
    until: Instant,
}

impl Tokens {
    pub(in crate::connect) fn new(settings: &OAuth2, network: &Network) -> Self {
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
        let scope = (!scopes.is_empty()).then(|| scopes.join(" "));
        let parameters = endpoint_params.iter().map(|(name, value)| (&**name, &**value));
        let form = begin_form(scope.as_deref(), parameters);
        let files = client_id_file.iter().chain([client_secret_file]).cloned().collect();
        Self {
            dialer: Dialer::new(network, tls.as_ref(), proxy.as_ref()),
            settings: settings.clone(),
            form,
            client: FileValue::new(files, OnFault::Fail),
            cached: Mutex::new(None),
        }
    }

    /// Returns the header with a valid token.
    pub(in crate::connect) async fn auth_header(&self) -> Result<HeaderValue, ConnectError> {
        let settings = self.settings.clone();
        let client = self.client.get(move |read| build_client(&settings, read)).await?;
        let mut held = self.cached.lock().await;
        let lasts =
            |held: &&CachedToken| Arc::ptr_eq(&held.client, &client) && Instant::now() < held.until;
        if let Some(held) = held.as_ref().filter(lasts) {
            return Ok(held.outcome.clone()?);
        }
        let requested_at = Instant::now();
        let answer = timeout(TOKEN_TIMEOUT, self.request_token(&client)).await;
        let (outcome, lifetime) = match answer {
            Ok(Ok((header, lifetime))) => (Ok(header), lifetime),
            Ok(Err(reason)) => (Err(self.token_fault(reason)), RETRY_PERIOD),
            Err(_) => {
                let reason = format!("no complete answer within {} s", TOKEN_TIMEOUT.as_secs());
                (Err(self.token_fault(reason)), RETRY_PERIOD)
            }
        };
        let until = Instant::now() + lifetime;
        *held = Some(CachedToken { client, outcome: outcome.clone(), requested_at, until });
        Ok(outcome?)
    }

    /// Discards the token, unless it is new.
    pub(super) async fn discard_token(&self) {
        let mut held = self.cached.lock().await;
        if held.as_ref().is_some_and(|held| held.requested_at.elapsed() >= RETRY_PERIOD) {
            *held = None;
        }
    }

    fn token_fault(&self, reason: String) -> Arc<TokenFault> {
        Arc::new(TokenFault { url: self.settings.token_url.clone(), reason })
    }

    async fn request_token(&self, client: &OAuthClient) -> Result<(HeaderValue, Duration), String> {
        let mut exchange = TokenExchange::new(&self.form, &client.id, client.secret.expose());
        while let Some(request) = exchange.next_request() {
            let (status, body) = self.send_request(request).await?;
            let Some(token) = exchange.accept_response(status, &body)? else { continue };
            let header = sensitive_value(&format!("Bearer {}", token.value));
            let header = header.ok_or("its token is not a valid header value")?;
            // A token that lasts a few seconds is used for half of them.
            let lifetime = token.lifetime.saturating_sub(EARLY).max(token.lifetime / 2);
            return Ok((header, lifetime));
        }
        Err(exchange.into_refusal("oauth2.clientId, clientSecretFile, scopes and endpointParams"))
    }

    async fn send_request(&self, token: TokenRequest) -> Result<(StatusCode, Bytes), String> {
        let to_text = |error: ConnectError| error.to_string();
        let url = &self.settings.token_url;
        let link = self.dialer.open_link(url, ServerOrigin::Configured).await;
        let mut link = link.map_err(to_text)?;
        let request = build_request(&link, Method::POST, url, token.form.into());
        let mut request = request.map_err(|error| to_text(error.into()))?;
        request.headers_mut().extend(token.headers);
        let response = link.sender.send_request(request).await;
        read_response(response.map_err(|error| to_text(error.into()))?).await
    }
}

fn build_client(settings: &OAuth2, read: Vec<Vec<u8>>) -> Result<OAuthClient, FileFault> {
    let OAuth2 { client_id, client_id_file, client_secret_file, .. } = settings;
    let mut read = read.into_iter();
    let mut text = |file: &SecretFile| file.secret_from(read.next().unwrap_or_default());
    let id = match client_id_file {
        Some(file) => text(file)?.expose().to_owned(),
        None => client_id.clone().unwrap_or_default(),
    };
    Ok(OAuthClient { id, secret: text(client_secret_file)? })
}
