//! Requests a token of OAuth 2.0 client credentials.

use std::time::Instant;

use http::Request;
use http_body_util::Full;
use millrace_oauth::{TokenExchange, begin_form};

use crate::access_token::AccessToken;
use crate::http_client::{HttpClient, limit_time};
use crate::settings::OAuthSettings;

/// Requests a token; the error names the endpoint and what to check.
pub(crate) async fn fetch_token(settings: &OAuthSettings) -> Result<AccessToken, String> {
    let outcome = limit_time(request_token(settings)).await;
    outcome.map_err(|reason| format!("token endpoint {}: {reason}", settings.token_endpoint))
}

async fn request_token(settings: &OAuthSettings) -> Result<AccessToken, String> {
    let http = HttpClient::new(settings.ca.as_ref())?;
    let secret = settings.client_secret.read().map_err(|error| error.to_string())?;
    let form = begin_form(settings.scope.as_deref(), []);
    let mut exchange = TokenExchange::new(&form, &settings.client_id, &secret);
    while let Some(parts) = exchange.next_request() {
        let requested_at = Instant::now();
        let request = Request::post(settings.token_endpoint.to_string());
        let mut request = request.body(Full::new(parts.form)).map_err(|error| error.to_string())?;
        request.headers_mut().extend(parts.headers);
        let (status, body) = http.send(request).await?;
        let Some(token) = exchange.accept_response(status, &body)? else { continue };
        return Ok(AccessToken {
            value: token.value,
            principal: settings.client_id.clone(),
            expires_at: requested_at + token.lifetime,
            lifetime: token.lifetime,
        });
    }
    Err(exchange.into_refusal("clientId, clientSecret and scope of authentication"))
}
