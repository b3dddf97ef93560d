//! The questions themselves, over TCP or TLS.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use futures::future::{BoxFuture, Either, FutureExt, join_all, select};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use millrace_coordination::answer::{self, DIRS, MNTR};
use millrace_coordination::observation::{Report, Server, Silence};
use millrace_ddl::{Tls, is_link_local};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::{ANSWER_BYTES_MAX, Address, Ask, Coordinators, LOOK_MAX, Speaks};
use crate::error::chain;
use crate::outbound::Outbound;

/// The real servers.
#[derive(Clone, Debug)]
pub struct Prober {
    outbound: Outbound,
    look_max: Duration,
}

impl Default for Prober {
    /// Asks any host that isn't link-local.
    fn default() -> Self {
        Self::bounded_by(Outbound::default())
    }
}

/// A connection, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What all questions of one look share.
struct Access<'a> {
    ask: &'a Ask,
    /// Made only where a connection is encrypted.
    tls: Option<Arc<ClientConfig>>,
}

impl Prober {
    /// Asks allowed hosts only, and holds their answers within the budget.
    #[must_use]
    pub fn bounded_by(outbound: Outbound) -> Self {
        Self { outbound, look_max: LOOK_MAX }
    }

    async fn one(&self, address: &Address, access: &Access<'_>) -> Server {
        let look = tokio::time::timeout(self.look_max, self.ask(address, access)).await;
        let late = |_| {
            let seconds = self.look_max.as_secs_f32();
            Err(Silence::Unreachable(format!("no answer in {seconds} s")))
        };
        Server { address: address.text.clone(), said: look.unwrap_or_else(late) }
    }

    async fn ask(&self, address: &Address, access: &Access<'_>) -> Result<Report, Silence> {
        if address.speaks != Speaks::Words {
            // What says whether there is a leader, if it is there: not in older versions.
            let (_, body) = self.get(address, access, "/ready").await?;
            if answer::ready(&body) == Ok(false) {
                return Err(Silence::NotServing);
            }
        }
        let mut report = answer::mntr(&self.command(address, access, MNTR).await?)?;
        if access.ask.disk {
            let text = self.command(address, access, DIRS).await;
            report.disk_bytes = text.and_then(|text| answer::dirs(&text)).ok();
        }
        Ok(report)
    }

    /// The text of a command's answer.
    async fn command(
        &self,
        address: &Address,
        access: &Access<'_>,
        command: &'static str,
    ) -> Result<String, Silence> {
        match address.speaks {
            Speaks::Words => self.word(address, access, command).await,
            Speaks::Http | Speaks::Https => {
                let path = format!("/api/v1/commands/{command}");
                let (status, body) = self.get(address, access, &path).await?;
                answer::enveloped(status, &body, command)
            }
        }
    }

    async fn word(
        &self,
        address: &Address,
        access: &Access<'_>,
        word: &str,
    ) -> Result<String, Silence> {
        let mut stream = self.connect(address, access).await?;
        let _paid = self.outbound.answers.take(ANSWER_BYTES_MAX).await.map_err(unreachable)?;
        stream.write_all(word.as_bytes()).await.map_err(unreachable)?;
        stream.flush().await.map_err(unreachable)?;
        let mut answer = Vec::new();
        let limit = u64::from(ANSWER_BYTES_MAX);
        // The server closes after its answer, and some close TLS without a word.
        if let Err(error) = stream.take(limit + 1).read_to_end(&mut answer).await
            && answer.is_empty()
        {
            return Err(unreachable(error));
        }
        if answer.is_empty() {
            return Err(Silence::Unreachable("it closed the connection without a word".into()));
        }
        if answer.len() > ANSWER_BYTES_MAX as usize {
            return Err(Silence::Foreign);
        }
        String::from_utf8(answer).map_err(|_| Silence::Foreign)
    }

    /// Status and body of a request to the HTTP API.
    async fn get(
        &self,
        address: &Address,
        access: &Access<'_>,
        path: &str,
    ) -> Result<(u16, String), Silence> {
        let stream = self.connect(address, access).await?;
        let _paid = self.outbound.answers.take(ANSWER_BYTES_MAX).await.map_err(unreachable)?;
        let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = made.map_err(|error| unreachable(chain(&error)))?;
        let host = if address.host.contains(':') {
            format!("[{}]:{}", address.host, address.port)
        } else {
            format!("{}:{}", address.host, address.port)
        };
        let mut request = http::Request::get(path).header("host", host);
        if let Some(login) = &access.ask.login {
            let pair = format!("{}:{}", login.username, login.password);
            let pair = base64::engine::general_purpose::STANDARD.encode(pair);
            request = request.header("authorization", format!("Basic {pair}"));
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(unreachable)?;
        let asking = async {
            let answer = sender.send_request(request).await;
            let answer = answer.map_err(|error| unreachable(chain(&error)))?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX as usize).collect().await;
            let body = body.map_err(|_| Silence::Foreign)?.to_bytes();
            String::from_utf8(body.into()).map(|body| (status, body)).map_err(|_| Silence::Foreign)
        };
        // The connection does the work; its end leaves what is already read.
        match select(Box::pin(asking), Box::pin(connection)).await {
            Either::Left((answer, _)) => answer,
            Either::Right((_, asking)) => asking.await,
        }
    }

    async fn connect(
        &self,
        address: &Address,
        access: &Access<'_>,
    ) -> Result<Box<dyn Stream>, Silence> {
        let Address { host, port, .. } = address;
        if let Some(why) = self.outbound.refuses(host) {
            return Err(Silence::Unreachable(why));
        }
        let mut last = Silence::Unreachable("its name resolves to no address".into());
        for resolved in lookup_host((host.as_str(), *port)).await.map_err(unreachable)? {
            if is_link_local(resolved.ip()) {
                last = Silence::Unreachable("it resolves to a link-local address".into());
                continue;
            }
            match TcpStream::connect(resolved).await {
                Ok(stream) => return encrypted(stream, host, access).await,
                Err(error) => last = unreachable(error),
            }
        }
        Err(last)
    }
}

impl Access<'_> {
    fn tls(&self, address: Speaks) -> bool {
        match address {
            Speaks::Words => self.ask.encrypted,
            Speaks::Http => false,
            Speaks::Https => true,
        }
    }
}

async fn encrypted(
    stream: TcpStream,
    host: &str,
    access: &Access<'_>,
) -> Result<Box<dyn Stream>, Silence> {
    let Some(config) = &access.tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(host.to_owned()).map_err(unreachable)?;
    let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| unreachable(chain(&error)))?))
}

fn unreachable(cause: impl std::fmt::Display) -> Silence {
    Silence::Unreachable(cause.to_string())
}

impl Coordinators for Prober {
    fn look<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Vec<Server>> {
        async move {
            let plain = Access { ask, tls: None };
            let is_encrypted = |it: &&Address| plain.tls(it.speaks);
            let tls = match ask.servers.iter().find(is_encrypted) {
                None => Ok(None),
                Some(_) => {
                    let tls = Tls { ca_pem: ask.authority.clone(), identity: None };
                    tls.config().map(|config| Some(Arc::new(config)))
                }
            };
            let secure = match tls {
                Ok(tls) => Access { ask, tls },
                Err(error) => {
                    let said = || Err(Silence::Unreachable(error.to_string()));
                    let silent = |it: &Address| Server { address: it.text.clone(), said: said() };
                    return ask.servers.iter().map(silent).collect();
                }
            };
            let looks = ask.servers.iter().map(|address| {
                let access = if plain.tls(address.speaks) { &secure } else { &plain };
                self.one(address, access)
            });
            join_all(looks).await
        }
        .boxed()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/coordination/probe.rs"]
mod tests;
