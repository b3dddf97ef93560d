//! Connects through a proxy: `CONNECT` for `https`, complete URLs for `http`.
//!
//! A proxy's own address is checked like a target's: a metadata service would also answer complete
//! URLs. The proxy resolves the names of targets: here only their addresses and `localhost` are
//! checked.

use bytes::Bytes;
use http::header::{HOST, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::Empty;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use millrace_config::{HttpUrl, NoProxy, Proxy};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::AGENT;
use super::address::Network;
use super::fault::ConnectError;
use super::login::basic_auth::Basic;
use super::stream::http_builder;

#[derive(Debug)]
pub(super) struct ProxyRoute {
    url: HttpUrl,
    login: Option<Basic>,
    no_proxy: Vec<NoProxy>,
}

impl ProxyRoute {
    pub(super) fn new(settings: &Proxy) -> Self {
        let Proxy { url, basic_auth, no_proxy } = settings;
        Self {
            url: url.clone(),
            login: basic_auth.as_ref().map(Basic::new),
            no_proxy: no_proxy.clone(),
        }
    }

    /// Whether requests for a URL use this proxy.
    pub(super) fn is_for(&self, url: &HttpUrl) -> bool {
        !self.no_proxy.iter().any(|hosts| hosts.matches_url(url))
    }

    /// Returns the header that authenticates with the proxy.
    pub(super) async fn login_header(&self) -> Result<Option<HeaderValue>, ConnectError> {
        match &self.login {
            Some(login) => Ok(Some(login.auth_header().await?)),
            None => Ok(None),
        }
    }

    pub(super) async fn connect_proxy(&self, network: &Network) -> Result<TcpStream, ConnectError> {
        network.connect_host(self.url.bare_host(), self.url.port()).await
    }

    /// Opens a tunnel to a URL's server.
    pub(super) async fn open_tunnel(
        &self,
        stream: TcpStream,
        login: Option<HeaderValue>,
        url: &HttpUrl,
    ) -> Result<TokioIo<Upgraded>, ConnectError> {
        let (mut sender, connection) = http_builder().handshake(TokioIo::new(stream)).await?;
        let mut task = JoinSet::new();
        // This task ends when the tunnel is handed over; the caller that waits for that gets its
        // error.
        task.spawn(async { drop(connection.with_upgrades().await) });
        let server = format!("{}:{}", url.host(), url.port());
        let mut request = Request::builder()
            .method(Method::CONNECT)
            .uri(&server)
            .header(HOST, &server)
            .header(USER_AGENT, AGENT);
        if let Some(login) = login {
            request = request.header(PROXY_AUTHORIZATION, login);
        }
        let answer = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let status = answer.status();
        if !status.is_success() {
            let hint = match status {
                StatusCode::PROXY_AUTHENTICATION_REQUIRED => ": check proxy.basicAuth",
                _ => "",
            };
            let proxy = self.url.authority();
            return Err(ConnectError::Proxy { proxy, status, host: server, hint });
        }
        Ok(TokioIo::new(hyper::upgrade::on(answer).await?))
    }
}
