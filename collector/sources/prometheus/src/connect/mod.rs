//! Sends HTTP requests to targets and to servers of target lists. One [`Connector`] holds a job's
//! settings of TLS, authorization, proxy and redirects; [`Connector::get`] sends one request.
//!
//! A connection may be retained for the next request to the same URL ([`IdleSlot`]).
//!
//! It reads nothing of a response but status and `location`. Only token requests have a time-out
//! here: the caller bounds every other call, and drops it to cancel it.
//!
//! # Limits
//! It follows [`REDIRECTS_MAX`] redirects, checks each address, never goes from `https` to `http`,
//! and sends neither authorization nor client certificate to another server. The head of a response
//! has [`stream::HEAD_BYTES_MAX`] at most.

mod address;
mod fault;
mod files;
mod idle_connections;
mod link;
mod login;
mod names;
mod proxy;
mod stream;
mod tls;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderMap, LOCATION, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use millrace_config::{HttpAccess, HttpUrl, Scheme};
use tokio::sync::Semaphore;

pub(super) use address::Network;
pub(super) use fault::ConnectError;
pub(super) use idle_connections::{IDLE_BYTES, IdleSlot};
use link::{Dialer, HttpConnection};
use login::Login;
pub use names::{HostNames, LOOKUPS_MAX, SLOW_LOOKUPS_MAX};

/// The most redirects that a request follows.
pub(super) const REDIRECTS_MAX: usize = 10;

const AGENT: &str = concat!("millrace-collector/", env!("CARGO_PKG_VERSION"));

/// Sends requests with one job's settings.
#[derive(Debug)]
pub(super) struct Connector {
    dialer: Dialer,
    login: Login,
    follows_redirects: bool,
    idle_permits: Arc<Semaphore>,
}

/// A response with status 200, whose body has yet to be read. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct HttpResponse {
    pub(super) headers: HeaderMap,
    pub(super) body: Incoming,
    link: HttpConnection,
    /// Whether the URL itself answered, without a redirect.
    is_unredirected: bool,
}

/// The origin of a server's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerOrigin {
    /// The settings name the server.
    Configured,
    /// A redirect points to the server: it receives no credentials.
    Redirected,
}

impl HttpResponse {
    /// Retains the connection. The body must have been read to its end.
    pub(super) fn retain_connection(self, idle_slot: &IdleSlot) {
        if self.is_unredirected {
            idle_slot.retain_link(self.link);
        }
    }
}

impl Connector {
    pub(super) fn new(access: &HttpAccess, network: &Network) -> Self {
        let HttpAccess { tls, proxy, follow_redirects, .. } = access;
        Self {
            dialer: Dialer::new(network, tls.as_ref(), proxy.as_ref()),
            login: Login::new(access, network),
            follows_redirects: *follow_redirects,
            idle_permits: Arc::clone(&network.idle_permits),
        }
    }

    /// Returns a slot for the idle connection of one URL.
    pub(super) fn idle_slot(&self) -> IdleSlot {
        IdleSlot::new(Arc::clone(&self.idle_permits))
    }

    /// Requests a URL, and returns after the head of a response with status 200.
    pub(super) async fn get(
        &self,
        url: &HttpUrl,
        headers: &HeaderMap,
    ) -> Result<HttpResponse, ConnectError> {
        self.get_reusing(url, headers, None).await
    }

    /// The same as [`get`](Self::get), over the idle connection if it can be used.
    pub(super) async fn get_reusing(
        &self,
        url: &HttpUrl,
        headers: &HeaderMap,
        idle_slot: Option<&IdleSlot>,
    ) -> Result<HttpResponse, ConnectError> {
        let mut whose = ServerOrigin::Configured;
        let mut at = url.clone();
        let mut idle_link = idle_slot.and_then(IdleSlot::take_link);
        for hop in 0..=REDIRECTS_MAX {
            let (answer, link) = self.send_request(&at, headers, whose, idle_link.take()).await?;
            let status = answer.status();
            if status == StatusCode::OK {
                let (head, body) = answer.into_parts();
                return Ok(HttpResponse {
                    headers: head.headers,
                    body,
                    link,
                    is_unredirected: hop == 0,
                });
            }
            let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
            if !is_redirect || !self.follows_redirects {
                return Err(self.status_error(status, whose).await);
            }
            let next = redirect_target(&at, answer.headers())?;
            if !next.has_origin_of(url) {
                // This is final: another server must not redirect us back with our credentials.
                whose = ServerOrigin::Redirected;
            }
            at = next;
        }
        Err(ConnectError::Redirects)
    }

    async fn send_request(
        &self,
        url: &HttpUrl,
        headers: &HeaderMap,
        whose: ServerOrigin,
        idle_link: Option<HttpConnection>,
    ) -> Result<(http::Response<Incoming>, HttpConnection), ConnectError> {
        let login = match whose {
            ServerOrigin::Configured => self.login.auth_header().await?,
            ServerOrigin::Redirected => None,
        };
        let with_headers = |link: &HttpConnection| {
            let mut request = build_request(link, Method::GET, url, Full::default())?;
            let own = request.headers_mut();
            own.extend(headers.clone());
            if let Some(login) = &login {
                own.insert(AUTHORIZATION, login.clone());
            }
            Ok::<_, http::Error>(request)
        };
        if let Some(mut link) = idle_link
            && self.dialer.matches_link(&link, url).await?
            && link.sender.ready().await.is_ok()
            // The server may be closing it: after any error the request is sent over a new one.
            && let Ok(answer) = link.sender.send_request(with_headers(&link)?).await
        {
            return Ok((answer, link));
        }
        let mut link = self.dialer.open_link(url, whose).await?;
        let answer = link.sender.send_request(with_headers(&link)?).await?;
        Ok((answer, link))
    }

    /// Returns the error for a status other than success, with a hint.
    async fn status_error(&self, status_error: StatusCode, whose: ServerOrigin) -> ConnectError {
        let hint = match (status_error, whose) {
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, ServerOrigin::Configured) => {
                self.login.handle_refusal(status_error).await
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, ServerOrigin::Redirected) => {
                "; credentials are sent only to the target itself"
            }
            (status, _) if status.is_redirection() => {
                "; redirects are not followed: use their destination, or set followRedirects"
            }
            _ => "",
        };
        ConnectError::Status { status: status_error, hint }
    }
}

/// Builds a request in the form that the link requires.
fn build_request(
    link: &HttpConnection,
    method: Method,
    url: &HttpUrl,
    body: Full<Bytes>,
) -> Result<Request<Full<Bytes>>, http::Error> {
    let mut request = Request::builder().method(method);
    request = match &link.through {
        Some(through) => {
            let request = request.uri(url.to_string());
            match &through.login {
                Some(login) => request.header(PROXY_AUTHORIZATION, login),
                None => request,
            }
        }
        None => request.uri(url.path_and_query()),
    };
    request.header(HOST, url.authority()).header(USER_AGENT, AGENT).body(body)
}

/// Returns the URL that a redirect points to, if it may be followed.
fn redirect_target(url: &HttpUrl, headers: &HeaderMap) -> Result<HttpUrl, ConnectError> {
    let location = headers.get(LOCATION).and_then(|it| it.to_str().ok());
    let location = location.ok_or(ConnectError::NoLocation)?;
    let next = url.join(location).map_err(ConnectError::Location)?;
    if url.scheme() == Scheme::Https && next.scheme() == Scheme::Http {
        return Err(ConnectError::Unencrypted);
    }
    Ok(next)
}

#[cfg(test)]
mod tests;
