//! OAuth 2.0 client credentials (RFC 6749, 4.4): token requests and their responses.
//!
//! The caller sends each request of a [`TokenExchange`] over its own HTTP client, with its own time
//! limits. No more than [`RESPONSE_BYTES_MAX`] of a response is read.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use millrace_config::push_encoded;
use serde_json::Value;

/// The longest response that is read: a token is a header, of which servers accept up to some 16
/// KiB.
pub const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// The lifetime of a token if the provider states none.
const LIFETIME: Duration = Duration::from_secs(300);

/// The longest lifetime that is used: files may change, providers may forget.
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// A bearer token. It has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken {
    /// The token itself: visible ASCII.
    pub value: String,
    /// How long it is valid, at most a day.
    pub lifetime: Duration,
}

/// The next request to the token endpoint, a POST.
pub struct TokenRequest {
    /// Headers, of which the credentials are marked as sensitive.
    pub headers: HeaderMap,
    /// The body.
    pub form: Bytes,
}

/// The part of a request that carries the client's credentials. Providers must support the header;
/// some support only the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CredentialPlacement {
    Header,
    Form,
}

/// The requests for one token: a second one follows if the provider may accept the credentials in
/// another part of it.
pub struct TokenExchange<'a> {
    form: &'a str,
    client_id: &'a str,
    client_secret: &'a str,
    next: Option<CredentialPlacement>,
    refusal: String,
}

impl<'a> TokenExchange<'a> {
    /// Begins an exchange with a form of [`begin_form`].
    #[must_use]
    pub fn new(form: &'a str, client_id: &'a str, client_secret: &'a str) -> Self {
        let next = Some(CredentialPlacement::Header);
        Self { form, client_id, client_secret, next, refusal: String::new() }
    }

    /// Returns the next request; `None` if the provider has refused the client.
    pub fn next_request(&mut self) -> Option<TokenRequest> {
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, form_type);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let mut form = self.form.to_owned();
        match self.next? {
            CredentialPlacement::Header => {
                let mut pair = String::new();
                push_encoded(&mut pair, self.client_id);
                pair.push(':');
                push_encoded(&mut pair, self.client_secret);
                // Base 64 is always a valid header value.
                let login = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)));
                headers.extend(login.ok().map(|mut login| {
                    login.set_sensitive(true);
                    (AUTHORIZATION, login)
                }));
            }
            CredentialPlacement::Form => {
                push_field(&mut form, "client_id", self.client_id);
                push_field(&mut form, "client_secret", self.client_secret);
            }
        }
        Some(TokenRequest { headers, form: form.into() })
    }

    /// Returns the token of a response; `None` if it is a refusal.
    ///
    /// # Errors
    /// When a successful response has no usable token.
    pub fn accept_response(
        &mut self,
        status: StatusCode,
        body: &[u8],
    ) -> Result<Option<BearerToken>, String> {
        let code = match parse_response(status, body)? {
            TokenResponse::Token(token) => return Ok(Some(token)),
            TokenResponse::Refused(code) => code,
        };
        self.refusal = format!("it answered {status}{code}");
        let may_accept_form = matches!(status.as_u16(), 400 | 401);
        let was_header = self.next == Some(CredentialPlacement::Header);
        self.next = (was_header && may_accept_form).then_some(CredentialPlacement::Form);
        Ok(None)
    }

    /// Returns the message of a refused client; `settings` names what to check.
    #[must_use]
    pub fn into_refusal(self, settings: &str) -> String {
        format!("{}; check {settings}", self.refusal)
    }
}

/// Reads a response to its end.
///
/// # Errors
/// When the connection fails or the body is longer than [`RESPONSE_BYTES_MAX`].
pub async fn read_response<B>(response: Response<B>) -> Result<(StatusCode, Bytes), String>
where
    B: BodyExt,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = response.into_parts();
    let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
    let body = body.map_err(|error| format!("cannot read the answer: {error}"))?;
    Ok((head.status, body.to_bytes()))
}

/// Returns a request's form without the client's credentials.
#[must_use]
pub fn begin_form<'a>(
    scope: Option<&'a str>,
    parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut form = "grant_type=client_credentials".to_owned();
    let scope = scope.map(|scope| ("scope", scope));
    for (name, value) in scope.into_iter().chain(parameters) {
        push_field(&mut form, name, value);
    }
    form
}

fn push_field(form: &mut String, name: &str, value: &str) {
    form.push('&');
    push_encoded(form, name);
    form.push('=');
    push_encoded(form, value);
}

enum TokenResponse {
    Token(BearerToken),
    /// No token; OAuth's code in brackets with a space before it, or nothing.
    Refused(String),
}

/// Parses a response. A refusal's description is not shown: it may repeat the credentials.
fn parse_response(status: StatusCode, body: &[u8]) -> Result<TokenResponse, String> {
    let answer: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let text = |name: &str| answer.get(name).and_then(Value::as_str);
    if status != StatusCode::OK {
        let code = text("error").filter(|code| is_code(code));
        let code = code.map_or_else(String::new, |code| format!(" ({code})"));
        return Ok(TokenResponse::Refused(code));
    }
    let token = text("access_token").ok_or("its answer has no access_token")?;
    if let Some(other) = text("token_type").filter(|it| !it.eq_ignore_ascii_case("bearer")) {
        let shown = if is_code(other) { other } else { "?" };
        return Err(format!("unsupported token type {shown}: only Bearer is supported"));
    }
    if token.is_empty() || !token.bytes().all(|byte| (b'!'..=b'~').contains(&byte)) {
        return Err("its token has characters that are not allowed in a header".to_owned());
    }
    let seconds = answer.get("expires_in").and_then(|it| match it {
        Value::String(text) => text.parse().ok(),
        other => other.as_f64().map(|seconds| seconds.max(0.0) as u64),
    });
    let lifetime = seconds.map_or(LIFETIME, Duration::from_secs).min(LIFETIME_MAX);
    Ok(TokenResponse::Token(BearerToken { value: token.to_owned(), lifetime }))
}

fn is_code(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: credentials with characters that forms and headers reserve, and a provider that
    /// refuses the header. Guarantee: the header comes first, then the form, both encoded; a third
    /// request is never made, and the refusal names the last answer.
    #[test]
    fn credentials_are_encoded_in_both_placements() {
        let form = begin_form(Some("kafka read"), [("audience", "a&b")]);
        assert_eq!(form, "grant_type=client_credentials&scope=kafka%20read&audience=a%26b");
        let mut exchange = TokenExchange::new(&form, "edge", "p:w&");
        let first = exchange.next_request().unwrap();
        assert_eq!(
            (&first.headers[AUTHORIZATION], &first.form[..]),
            (&HeaderValue::from_static("Basic ZWRnZTpwJTNBdyUyNg=="), form.as_bytes())
        );
        let refuse = |exchange: &mut TokenExchange<'_>, status| {
            assert!(exchange.accept_response(status, b"{}").unwrap().is_none());
        };
        refuse(&mut exchange, StatusCode::BAD_REQUEST);
        let second = exchange.next_request().unwrap();
        assert!(!second.headers.contains_key(AUTHORIZATION));
        assert!(second.form.ends_with(b"&client_id=edge&client_secret=p%3Aw%26"));
        refuse(&mut exchange, StatusCode::UNAUTHORIZED);
        assert!(exchange.next_request().is_none());
        let refusal = exchange.into_refusal("clientId");
        assert_eq!(refusal, "it answered 401 Unauthorized; check clientId");
        let mut forbidden = TokenExchange::new(&form, "edge", "pw");
        refuse(&mut forbidden, StatusCode::FORBIDDEN);
        assert!(forbidden.next_request().is_none());
    }

    /// Scenario: responses of providers, good and bad. Guarantee: a token with its lifetime, a
    /// refusal with OAuth's code alone, or the reason why the token can't be used.
    #[test]
    fn responses_are_tokens_refusals_or_faults() {
        let parse = |body: &str| {
            TokenExchange::new("", "", "").accept_response(StatusCode::OK, body.as_bytes())
        };
        for (body, seconds) in [
            (r#"{"access_token": "t", "expires_in": 60}"#, 60),
            (r#"{"access_token": "t", "expires_in": "60"}"#, 60),
            (r#"{"access_token": "t"}"#, 300),
            (r#"{"access_token": "t", "expires_in": 1e9}"#, 24 * 3600),
        ] {
            let token = parse(body).unwrap().unwrap();
            assert_eq!((token.value.as_str(), token.lifetime.as_secs()), ("t", seconds), "{body}");
        }
        let mut refused = TokenExchange::new("", "", "");
        let body = br#"{"error": "invalid_client", "error_description": "s3cret"}"#;
        assert!(refused.accept_response(StatusCode::FORBIDDEN, body).unwrap().is_none());
        let refusal = refused.into_refusal("scope");
        assert_eq!(refusal, "it answered 403 Forbidden (invalid_client); check scope");
        for body in ["", "{}", r#"{"access_token": "a b"}"#] {
            assert!(parse(body).is_err(), "{body}");
        }
        assert!(parse(r#"{"access_token": "t", "token_type": "mac"}"#).is_err());
    }
}
