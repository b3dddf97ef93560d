//! Asks servers over HTTP: targets, and whoever lists targets. One [`Connector`] holds what a job's
//! settings say about TLS, authorization, proxy and redirects; [`Connector::get`] is one request.
//!
//! A connection may be kept for the next request to the same URL ([`Kept`]).
//!
//! It knows nothing of what is answered but status and `location`. It has no time-out of its own
//! but for tokens: the caller bounds each call, and drops it to give up.
//!
//! # Limits
//! [`REDIRECTS_MAX`] redirects, each to an address that is checked anew, never from `https` to
//! `http`, without authorization and client certificate where the server is another one. The head
//! of an answer has [`link::HEAD_BYTES_MAX`] at most.

mod address;
mod fault;
mod files;
mod kept;
mod link;
mod login;
mod names;
mod oauth2;
mod proxy;
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
pub(super) use kept::{KEPT_BYTES, Kept};
use link::{Dialer, Link};
use login::Login;
pub use names::{HostNames, LOOKUPS_MAX, SLOW_LOOKUPS_MAX};

/// Most redirects that a request follows.
pub(super) const REDIRECTS_MAX: usize = 10;

const AGENT: &str = concat!("millrace-collector/", env!("CARGO_PKG_VERSION"));

/// Asks servers as one job's settings say.
#[derive(Debug)]
pub(super) struct Connector {
    dialer: Dialer,
    login: Login,
    follows_redirects: bool,
    kept: Arc<Semaphore>,
}

/// Status 200, and a body that is to be read. The connection ends with it unless it is kept.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    pub(super) body: Incoming,
    link: Link,
    /// Whether the URL itself was answered, without a redirect.
    is_own: bool,
}

/// Whose server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The one in the settings.
    Named,
    /// One that a redirect points to: nothing of ours is shown to it.
    Other,
}

impl Answer {
    /// Keeps the connection. The body must have been read to its end.
    pub(super) fn keep(self, kept: &Kept) {
        if self.is_own {
            kept.put(self.link);
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
            kept: Arc::clone(&network.kept),
        }
    }

    /// A place for the connection of one URL.
    pub(super) fn place(&self) -> Kept {
        Kept::new(Arc::clone(&self.kept))
    }

    /// Asks for a URL, up to the head of an answer with status 200.
    pub(super) async fn get(
        &self,
        url: &HttpUrl,
        headers: &HeaderMap,
    ) -> Result<Answer, ConnectError> {
        self.get_by(url, headers, None).await
    }

    /// The same, by a connection that was kept if it can be used.
    pub(super) async fn get_by(
        &self,
        url: &HttpUrl,
        headers: &HeaderMap,
        kept: Option<&Kept>,
    ) -> Result<Answer, ConnectError> {
        let mut whose = Whose::Named;
        let mut at = url.clone();
        let mut kept = kept.and_then(Kept::take);
        for hop in 0..=REDIRECTS_MAX {
            let (answer, link) = self.ask(&at, headers, whose, kept.take()).await?;
            let status = answer.status();
            if status == StatusCode::OK {
                let (head, body) = answer.into_parts();
                return Ok(Answer { headers: head.headers, body, link, is_own: hop == 0 });
            }
            let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
            if !is_redirect || !self.follows_redirects {
                return Err(self.status(status, whose).await);
            }
            let next = next(&at, answer.headers())?;
            if !next.has_origin_of(url) {
                // For good: a server that is not ours may not send us back with our credentials.
                whose = Whose::Other;
            }
            at = next;
        }
        Err(ConnectError::Redirects)
    }

    async fn ask(
        &self,
        url: &HttpUrl,
        headers: &HeaderMap,
        whose: Whose,
        kept: Option<Link>,
    ) -> Result<(http::Response<Incoming>, Link), ConnectError> {
        let login = match whose {
            Whose::Named => self.login.header().await?,
            Whose::Other => None,
        };
        let with_headers = |link: &Link| {
            let mut request = request(link, Method::GET, url, Full::default())?;
            let own = request.headers_mut();
            own.extend(headers.clone());
            if let Some(login) = &login {
                own.insert(AUTHORIZATION, login.clone());
            }
            Ok::<_, http::Error>(request)
        };
        if let Some(mut link) = kept
            && self.dialer.fits(&link, url).await?
            && link.sender.ready().await.is_ok()
            // The server may close it just now: it is asked anew then, whatever the fault.
            && let Ok(answer) = link.sender.send_request(with_headers(&link)?).await
        {
            return Ok((answer, link));
        }
        let mut link = self.dialer.link(url, whose).await?;
        let answer = link.sender.send_request(with_headers(&link)?).await?;
        Ok((answer, link))
    }

    /// What to say of a status that is no success.
    async fn status(&self, status: StatusCode, whose: Whose) -> ConnectError {
        let hint = match (status, whose) {
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Whose::Named) => {
                self.login.refused(status).await
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Whose::Other) => {
                "; no authorization is sent to another server than the target"
            }
            (status, _) if status.is_redirection() => {
                "; redirects are not followed: name where it points to, or set followRedirects"
            }
            _ => "",
        };
        ConnectError::Status { status, hint }
    }
}

/// A request in the form that its link takes.
fn request(
    link: &Link,
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

/// Where a redirect points, if it may be followed.
fn next(url: &HttpUrl, headers: &HeaderMap) -> Result<HttpUrl, ConnectError> {
    let location = headers.get(LOCATION).and_then(|it| it.to_str().ok());
    let location = location.ok_or(ConnectError::NoLocation)?;
    let next = url.join(location).map_err(ConnectError::Location)?;
    if url.scheme() == Scheme::Https && next.scheme() == Scheme::Http {
        return Err(ConnectError::Unencrypted);
    }
    Ok(next)
}

#[cfg(test)]
#[path = "../../../tests/unit/prometheus/connect/mod.rs"]
mod tests;
