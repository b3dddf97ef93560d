//! The way through a proxy: `CONNECT` for `https`, whole URLs for `http`.
//!
//! A proxy's own address is checked like a target's: a metadata service would answer whole URLs
//! too. Names of targets are resolved by the proxy: only addresses and `localhost` are checked
//! here.

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
use super::link::http;
use super::login::Basic;

#[derive(Debug)]
pub(super) struct ProxyWay {
    url: HttpUrl,
    login: Option<Basic>,
    no_proxy: Vec<NoProxy>,
}

impl ProxyWay {
    pub(super) fn new(settings: &Proxy) -> Self {
        let Proxy { url, basic_auth, no_proxy } = settings;
        Self {
            url: url.clone(),
            login: basic_auth.as_ref().map(Basic::new),
            no_proxy: no_proxy.clone(),
        }
    }

    /// Whether a URL is asked through it.
    pub(super) fn is_for(&self, url: &HttpUrl) -> bool {
        !self.no_proxy.iter().any(|hosts| hosts.holds(url))
    }

    /// What it is told about who asks.
    pub(super) async fn login(&self) -> Result<Option<HeaderValue>, ConnectError> {
        match &self.login {
            Some(login) => Ok(Some(login.header().await?)),
            None => Ok(None),
        }
    }

    pub(super) async fn connect(&self, network: &Network) -> Result<TcpStream, ConnectError> {
        network.connect(self.url.bare_host(), self.url.port()).await
    }

    /// Has it connect to a URL's server.
    pub(super) async fn tunnel(
        &self,
        stream: TcpStream,
        login: Option<HeaderValue>,
        url: &HttpUrl,
    ) -> Result<TokioIo<Upgraded>, ConnectError> {
        let (mut sender, connection) = http().handshake(TokioIo::new(stream)).await?;
        let mut task = JoinSet::new();
        // Ends when the tunnel is handed over; a fault is told to whoever waits for that.
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
                StatusCode::PROXY_AUTHENTICATION_REQUIRED => ": see proxy.basicAuth",
                _ => "",
            };
            let proxy = self.url.authority();
            return Err(ConnectError::Proxy { proxy, status, host: server, hint });
        }
        Ok(TokioIo::new(hyper::upgrade::on(answer).await?))
    }
}
