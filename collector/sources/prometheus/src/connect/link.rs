//! Opens one HTTP connection: direct or through a proxy, encrypted or not.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderValue;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use millrace_config::{HttpTls, HttpUrl, Proxy, Scheme};
use rustls::ClientConfig;
use tokio::task::JoinSet;

use super::ServerOrigin;
use super::address::Network;
use super::fault::ConnectError;
use super::proxy::ProxyRoute;
use super::stream::{BoxStream, http_builder};
use super::tls::TlsDialer;

/// Opens connections according to the settings.
#[derive(Debug)]
pub(super) struct Dialer {
    network: Network,
    tls: TlsDialer,
    proxy: Option<ProxyRoute>,
}

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub(super) struct HttpConnection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    /// The proxy that receives the requests; `None` for a direct connection or a tunnel.
    pub(super) through: Option<ForwardProxy>,
    /// Whether the connection goes directly to the server.
    pub(super) is_unproxied: bool,
    pub(super) since: Instant,
    /// Its TLS configuration; `None` without encryption.
    config: Option<Arc<ClientConfig>>,
    _connection: JoinSet<()>,
}

/// A proxy that receives complete URLs.
#[derive(Debug)]
pub(super) struct ForwardProxy {
    pub(super) login: Option<HeaderValue>,
}

impl Dialer {
    pub(super) fn new(network: &Network, tls: Option<&HttpTls>, proxy: Option<&Proxy>) -> Self {
        Self {
            network: network.clone(),
            tls: TlsDialer::new(tls, &network.roots),
            proxy: proxy.map(ProxyRoute::new),
        }
    }

    /// Opens a connection to a URL's server.
    pub(super) async fn open_link(
        &self,
        url: &HttpUrl,
        whose: ServerOrigin,
    ) -> Result<HttpConnection, ConnectError> {
        let proxy = self.proxy.as_ref().filter(|proxy| proxy.is_for(url));
        let mut through = None;
        let stream: BoxStream = match (proxy, url.scheme()) {
            (None, _) => Box::new(self.network.connect_host(url.bare_host(), url.port()).await?),
            (Some(proxy), scheme) => {
                self.network.check_name(url.bare_host())?;
                let login = proxy.login_header().await?;
                let stream = proxy.connect_proxy(&self.network).await?;
                match scheme {
                    Scheme::Http => {
                        through = Some(ForwardProxy { login });
                        Box::new(stream)
                    }
                    Scheme::Https => Box::new(proxy.open_tunnel(stream, login, url).await?),
                }
            }
        };
        let config = self.tls_config(url, whose).await?;
        let stream: BoxStream = match &config {
            None => stream,
            Some(config) => {
                Box::new(self.tls.encrypt_stream(stream, url, whose, Arc::clone(config)).await?)
            }
        };
        let (sender, connection) = http_builder().handshake(TokioIo::new(stream)).await?;
        let mut task = JoinSet::new();
        // The caller that waits for the response or its body gets the connection's error.
        task.spawn(async { drop(connection.await) });
        let (is_straight, since) = (proxy.is_none(), Instant::now());
        Ok(HttpConnection {
            sender,
            through,
            is_unproxied: is_straight,
            since,
            config,
            _connection: task,
        })
    }

    /// Whether a new connection would have the same TLS configuration as this one.
    pub(super) async fn matches_link(
        &self,
        link: &HttpConnection,
        url: &HttpUrl,
    ) -> Result<bool, ConnectError> {
        Ok(match (&self.tls_config(url, ServerOrigin::Configured).await?, &link.config) {
            (None, None) => true,
            (Some(new), Some(old)) => Arc::ptr_eq(new, old),
            _ => false,
        })
    }

    async fn tls_config(
        &self,
        url: &HttpUrl,
        whose: ServerOrigin,
    ) -> Result<Option<Arc<ClientConfig>>, ConnectError> {
        match url.scheme() {
            Scheme::Http => Ok(None),
            Scheme::Https => Ok(Some(self.tls.client_config(whose).await?)),
        }
    }
}
