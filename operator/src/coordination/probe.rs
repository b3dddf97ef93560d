//! Queries coordination servers over TCP or TLS.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use futures::future::{BoxFuture, Either, FutureExt, join_all, select};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use millrace_coordination::observation::{KeeperServer, ProbeError, ServerReport};
use millrace_coordination::responses::{self, DIRS, MNTR};
use millrace_ddl::TlsCertificates;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::{ANSWER_BYTES_MAX, Address, Coordinators, PROBE_MAX, ProbeProtocol, ProbeRequest};
use crate::error::error_chain;
use crate::outbound::Outbound;

/// Queries real servers.
#[derive(Clone, Debug)]
pub struct Prober {
    outbound: Outbound,
    probe_max: Duration,
}

impl Default for Prober {
    /// Allows any host that isn't link-local.
    fn default() -> Self {
        Self::bounded_by(Outbound::default())
    }
}

trait ProbeStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ProbeStream for T {}

/// The parts that all queries of one call share.
struct ProbeAccess<'a> {
    request: &'a ProbeRequest,
    /// The TLS configuration, if a connection is encrypted.
    tls: Option<Arc<ClientConfig>>,
}

impl Prober {
    /// Creates a prober that connects to allowed hosts only, and holds their answers within the
    /// budget.
    #[must_use]
    pub fn bounded_by(outbound: Outbound) -> Self {
        Self { outbound, probe_max: PROBE_MAX }
    }

    async fn probe_server(&self, address: &Address, access: &ProbeAccess<'_>) -> KeeperServer {
        let outcome =
            tokio::time::timeout(self.probe_max, self.query_server(address, access)).await;
        let late = |_| {
            let seconds = self.probe_max.as_secs_f32();
            Err(ProbeError::Unreachable(format!("no answer in {seconds} s")))
        };
        KeeperServer { address: address.text.clone(), report: outcome.unwrap_or_else(late) }
    }

    async fn query_server(
        &self,
        address: &Address,
        access: &ProbeAccess<'_>,
    ) -> Result<ServerReport, ProbeError> {
        if address.speaks != ProbeProtocol::FourLetter {
            // `/ready` reports whether there is a leader. Older versions don't have it.
            let (_, body) = self.get(address, access, "/ready").await?;
            if responses::parse_ready(&body) == Ok(false) {
                return Err(ProbeError::NotServing);
            }
        }
        let mut report = responses::parse_mntr(&self.run_command(address, access, MNTR).await?)?;
        if access.request.disk {
            let text = self.run_command(address, access, DIRS).await;
            report.disk_bytes = text.and_then(|text| responses::parse_dirs(&text)).ok();
        }
        Ok(report)
    }

    /// Returns the text of a command's answer.
    async fn run_command(
        &self,
        address: &Address,
        access: &ProbeAccess<'_>,
        command: &'static str,
    ) -> Result<String, ProbeError> {
        match address.speaks {
            ProbeProtocol::FourLetter => self.send_word(address, access, command).await,
            ProbeProtocol::Http | ProbeProtocol::Https => {
                let path = format!("/api/v1/commands/{command}");
                let (status, body) = self.get(address, access, &path).await?;
                responses::unwrap_envelope(status, &body, command)
            }
        }
    }

    async fn send_word(
        &self,
        address: &Address,
        access: &ProbeAccess<'_>,
        word: &str,
    ) -> Result<String, ProbeError> {
        let mut stream = self.connect(address, access).await?;
        let _paid = self.reserve_answer().await?;
        stream.write_all(word.as_bytes()).await.map_err(to_unreachable)?;
        stream.flush().await.map_err(to_unreachable)?;
        let mut answer = Vec::new();
        let limit = u64::from(ANSWER_BYTES_MAX);
        // The server closes after its answer, some without a TLS close notification.
        if let Err(error) = stream.take(limit + 1).read_to_end(&mut answer).await
            && answer.is_empty()
        {
            return Err(to_unreachable(error));
        }
        if answer.is_empty() {
            return Err(ProbeError::Unreachable(
                "it closed the connection without an answer".into(),
            ));
        }
        if answer.len() > ANSWER_BYTES_MAX as usize {
            return Err(ProbeError::Foreign);
        }
        String::from_utf8(answer).map_err(|_| ProbeError::Foreign)
    }

    /// Returns status and body of a request to the HTTP API.
    async fn get(
        &self,
        address: &Address,
        access: &ProbeAccess<'_>,
        path: &str,
    ) -> Result<(u16, String), ProbeError> {
        let stream = self.connect(address, access).await?;
        let _paid = self.reserve_answer().await?;
        let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = made.map_err(|error| to_unreachable(error_chain(&error)))?;
        let host = if address.host.contains(':') {
            format!("[{}]:{}", address.host, address.port)
        } else {
            format!("{}:{}", address.host, address.port)
        };
        let mut request = http::Request::get(path).header("host", host);
        if let Some(login) = &access.request.login {
            let pair = format!("{}:{}", login.username, login.password);
            let pair = base64::engine::general_purpose::STANDARD.encode(pair);
            request = request.header("authorization", format!("Basic {pair}"));
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(to_unreachable)?;
        let asking = async {
            let answer = sender.send_request(request).await;
            let answer = answer.map_err(|error| to_unreachable(error_chain(&error)))?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX as usize).collect().await;
            let body = body.map_err(|_| ProbeError::Foreign)?.to_bytes();
            String::from_utf8(body.into())
                .map(|body| (status, body))
                .map_err(|_| ProbeError::Foreign)
        };
        // The connection future does the I/O; when it ends, data already read remains available.
        match select(Box::pin(asking), Box::pin(connection)).await {
            Either::Left((answer, _)) => answer,
            Either::Right((_, asking)) => asking.await,
        }
    }

    /// Waits until the budget has room for an answer.
    async fn reserve_answer(&self) -> Result<OwnedSemaphorePermit, ProbeError> {
        let budget = &self.outbound.response_budget;
        budget.acquire_bytes(ANSWER_BYTES_MAX).await.map_err(to_unreachable)
    }

    async fn connect(
        &self,
        address: &Address,
        access: &ProbeAccess<'_>,
    ) -> Result<Box<dyn ProbeStream>, ProbeError> {
        let Address { host, port, .. } = address;
        if let Some(why) = self.outbound.refusal_of_host(host) {
            return Err(ProbeError::Unreachable(why));
        }
        let mut last = ProbeError::Unreachable("its name resolves to no address".into());
        for resolved in lookup_host((host.as_str(), *port)).await.map_err(to_unreachable)? {
            if let Some(kind) = self.outbound.addresses.refused_kind(resolved.ip()) {
                last = ProbeError::Unreachable(format!("it resolves to {kind}"));
                continue;
            }
            match TcpStream::connect(resolved).await {
                Ok(stream) => return encrypt_stream(stream, host, access).await,
                Err(error) => last = to_unreachable(error),
            }
        }
        Err(last)
    }
}

impl ProbeAccess<'_> {
    fn uses_tls(&self, address: ProbeProtocol) -> bool {
        match address {
            ProbeProtocol::FourLetter => self.request.encrypted,
            ProbeProtocol::Http => false,
            ProbeProtocol::Https => true,
        }
    }
}

async fn encrypt_stream(
    stream: TcpStream,
    host: &str,
    access: &ProbeAccess<'_>,
) -> Result<Box<dyn ProbeStream>, ProbeError> {
    let Some(config) = &access.tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(host.to_owned()).map_err(to_unreachable)?;
    let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| to_unreachable(error_chain(&error)))?))
}

fn to_unreachable(cause: impl std::fmt::Display) -> ProbeError {
    ProbeError::Unreachable(cause.to_string())
}

impl Coordinators for Prober {
    fn probe_servers<'a>(&'a self, request: &'a ProbeRequest) -> BoxFuture<'a, Vec<KeeperServer>> {
        async move {
            let plain = ProbeAccess { request, tls: None };
            let is_encrypted = |it: &&Address| plain.uses_tls(it.speaks);
            let tls = match request.servers.iter().find(is_encrypted) {
                None => Ok(None),
                Some(_) => {
                    let tls = TlsCertificates { ca_pem: request.authority.clone(), identity: None };
                    tls.client_config().map(|config| Some(Arc::new(config)))
                }
            };
            let secure = match tls {
                Ok(tls) => ProbeAccess { request, tls },
                Err(error) => {
                    let refusal = || Err(ProbeError::Unreachable(error.to_string()));
                    let silent =
                        |it: &Address| KeeperServer { address: it.text.clone(), report: refusal() };
                    return request.servers.iter().map(silent).collect();
                }
            };
            let probes = request.servers.iter().map(|address| {
                let access = if plain.uses_tls(address.speaks) { &secure } else { &plain };
                self.probe_server(address, access)
            });
            join_all(probes).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
