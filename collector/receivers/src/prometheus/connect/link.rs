//! One connection, ready for requests: straight or through a proxy, encrypted or not.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderValue;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use millrace_config::{HttpTls, HttpUrl, Proxy, Scheme};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use super::Whose;
use super::address::Network;
use super::fault::ConnectError;
use super::proxy::ProxyWay;
use super::tls::Tls;

/// The longest head of an answer, and what is read of a body at once.
pub(super) const HEAD_BYTES_MAX: usize = 32 * 1024;

/// What bytes go over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) type BoxStream = Box<dyn Stream>;

/// Makes connections as settings say.
#[derive(Debug)]
pub(super) struct Dialer {
    network: Network,
    tls: Tls,
    proxy: Option<ProxyWay>,
}

/// A connection. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) sender: SendRequest<Full<Bytes>>,
    /// The proxy that reads the requests themselves.
    pub(super) through: Option<Through>,
    /// Whether no proxy is between.
    pub(super) is_straight: bool,
    pub(super) since: Instant,
    /// What it is encrypted with.
    config: Option<Arc<ClientConfig>>,
    _connection: JoinSet<()>,
}

/// A proxy that is told whole URLs.
#[derive(Debug)]
pub(super) struct Through {
    pub(super) login: Option<HeaderValue>,
}

impl Dialer {
    pub(super) fn new(network: &Network, tls: Option<&HttpTls>, proxy: Option<&Proxy>) -> Self {
        Self {
            network: network.clone(),
            tls: Tls::new(tls, &network.roots),
            proxy: proxy.map(ProxyWay::new),
        }
    }

    /// A connection for requests to a URL's server.
    pub(super) async fn link(&self, url: &HttpUrl, whose: Whose) -> Result<Link, ConnectError> {
        let proxy = self.proxy.as_ref().filter(|proxy| proxy.is_for(url));
        let mut through = None;
        let stream: BoxStream = match (proxy, url.scheme()) {
            (None, _) => Box::new(self.network.connect(url.bare_host(), url.port()).await?),
            (Some(proxy), scheme) => {
                self.network.check_name(url.bare_host())?;
                let login = proxy.login().await?;
                let stream = proxy.connect(&self.network).await?;
                match scheme {
                    Scheme::Http => {
                        through = Some(Through { login });
                        Box::new(stream)
                    }
                    Scheme::Https => Box::new(proxy.tunnel(stream, login, url).await?),
                }
            }
        };
        let config = self.config(url, whose).await?;
        let stream: BoxStream = match &config {
            None => stream,
            Some(config) => Box::new(self.tls.wrap(stream, url, whose, Arc::clone(config)).await?),
        };
        let (sender, connection) = http().handshake(TokioIo::new(stream)).await?;
        let mut task = JoinSet::new();
        // A fault of the connection is told to whoever waits for the answer or its body.
        task.spawn(async { drop(connection.await) });
        let (is_straight, since) = (proxy.is_none(), Instant::now());
        Ok(Link { sender, through, is_straight, since, config, _connection: task })
    }

    /// Whether a new connection would be encrypted as this one is.
    pub(super) async fn fits(&self, link: &Link, url: &HttpUrl) -> Result<bool, ConnectError> {
        Ok(match (&self.config(url, Whose::Named).await?, &link.config) {
            (None, None) => true,
            (Some(new), Some(old)) => Arc::ptr_eq(new, old),
            _ => false,
        })
    }

    async fn config(
        &self,
        url: &HttpUrl,
        whose: Whose,
    ) -> Result<Option<Arc<ClientConfig>>, ConnectError> {
        match url.scheme() {
            Scheme::Http => Ok(None),
            Scheme::Https => Ok(Some(self.tls.config(whose).await?)),
        }
    }
}

/// HTTP with bounds.
pub(super) fn http() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    builder
}

impl std::fmt::Debug for dyn Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stream")
    }
}
