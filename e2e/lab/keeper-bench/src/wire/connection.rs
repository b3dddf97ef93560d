//! A connection with its session: opened, secured, authenticated. Beside it, one request at a time
//! for what prepares and tidies up; the load itself writes and reads the stream directly.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::jute::{Malformed, Reader, put_buffer, put_flag, put_int, put_long};
use super::request::{Request, frame};
use super::{Head, Tls, WATCH_XID, digest};

/// No reply is longer: a list of a million children with names of 60 bytes has 64 MB.
pub(crate) const REPLY_BYTES_MAX: usize = 128 << 20;
/// Xid of the request that tells who we are (`ClientCnxn.AUTHPACKET_XID`).
const AUTH_XID: i32 = -4;
/// A server's challenge and its last word.
const SASL_STEPS_MAX: usize = 3;

/// Who we say we are.
#[derive(Clone)]
pub(crate) enum Auth {
    /// Adds an identity of scheme `digest` to the session.
    Digest { user: String, password: String },
    /// SASL DIGEST-MD5, before anything else.
    Sasl { user: String, password: String },
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (scheme, user) = match self {
            Self::Digest { user, .. } => ("digest", user),
            Self::Sasl { user, .. } => ("sasl", user),
        };
        write!(f, "{scheme}:{user}")
    }
}

/// How servers are reached.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// `HOST:PORT` each; sessions are spread over them.
    pub(crate) servers: Arc<[String]>,
    pub(crate) tls: Option<Tls>,
    pub(crate) auth: Option<Auth>,
    /// What a session asks for; the server may give less or more.
    pub(crate) session_timeout: Duration,
    /// For one request, and for all of the handshake.
    pub(crate) operation_timeout: Duration,
}

/// No session came about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("cannot reach {server}: {cause}; is it running, and is the address right?")]
    Reach { server: String, cause: io::Error },
    #[error("{server} did not answer within {seconds} s")]
    Slow { server: String, seconds: f64 },
    #[error("{server} gave no session: {cause}")]
    Refused { server: String, cause: CallError },
    #[error("{0} is no host name or address that TLS can check")]
    ServerName(String),
    #[error("{server} refused who we are ({auth}): {error}")]
    Auth { server: String, auth: String, error: &'static str },
}

/// One request had no proper reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("no reply within {0:?}")]
    Slow(Duration),
}

/// A stream, with or without TLS.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}

/// A session that is open.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// What the server lets the session be silent for.
    pub(crate) timeout: Duration,
    operation_timeout: Duration,
    out: Vec<u8>,
    reply: Vec<u8>,
    xid: i32,
}

impl Connection {
    /// Opens a session at the `nth` server (counted round).
    pub(crate) async fn open(access: &Access, nth: usize) -> Result<Self, DialError> {
        let server = &access.servers[nth % access.servers.len()];
        let limit = access.operation_timeout;
        tokio::time::timeout(limit, Self::dial(access, server)).await.unwrap_or_else(|_| {
            Err(DialError::Slow { server: server.clone(), seconds: limit.as_secs_f64() })
        })
    }

    async fn dial(access: &Access, server: &str) -> Result<Self, DialError> {
        let reach = |cause| DialError::Reach { server: server.to_owned(), cause };
        let tcp = TcpStream::connect(server).await.map_err(reach)?;
        tcp.set_nodelay(true).map_err(reach)?;
        let stream = match &access.tls {
            None => Stream::Plain(tcp),
            Some(tls) => {
                let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
                let name = tls.server_name.as_deref().unwrap_or(host.trim_matches(['[', ']']));
                let name = ServerName::try_from(name.to_owned())
                    .map_err(|_| DialError::ServerName(name.to_owned()))?;
                Stream::Tls(Box::new(tls.connector.connect(name, tcp).await.map_err(reach)?))
            }
        };
        let mut connection = Self {
            stream,
            timeout: access.session_timeout,
            operation_timeout: access.operation_timeout,
            out: Vec::new(),
            reply: Vec::new(),
            xid: 0,
        };
        let refused = |cause| DialError::Refused { server: server.to_owned(), cause };
        connection.handshake(access.session_timeout).await.map_err(refused)?;
        if let Some(auth) = &access.auth {
            let error = connection.authenticate(auth).await.map_err(refused)?;
            if error != 0 {
                return Err(DialError::Auth {
                    server: server.to_owned(),
                    auth: format!("{auth:?}"),
                    error: super::name(error),
                });
            }
        }
        Ok(connection)
    }

    async fn handshake(&mut self, asked: Duration) -> Result<(), CallError> {
        let mut ask = Vec::new();
        put_int(&mut ask, 0); // the protocol's version
        put_long(&mut ask, 0); // the last transaction seen
        put_int(&mut ask, i32::try_from(asked.as_millis()).unwrap_or(i32::MAX));
        put_long(&mut ask, 0); // no session yet
        put_buffer(&mut ask, &[0; 16]);
        put_flag(&mut ask, false); // a server that only reads won't do
        self.out.clear();
        put_buffer(&mut self.out, &ask);
        self.stream.write_all(&self.out).await?;
        self.stream.flush().await?;
        self.read_frame().await?;
        let mut reader = Reader::new(&self.reply);
        reader.int()?;
        let timeout = reader.int()?;
        // A server that has no leader closes the connection instead.
        self.timeout = Duration::from_millis(u64::try_from(timeout).map_err(|_| Malformed)?);
        Ok(())
    }

    /// The server's error, 0 if it believes us.
    async fn authenticate(&mut self, auth: &Auth) -> Result<i32, CallError> {
        match auth {
            Auth::Digest { user, password } => {
                let secret = format!("{user}:{password}");
                let request = Request::Auth { scheme: "digest", secret: secret.as_bytes() };
                self.send(AUTH_XID, &request).await?;
                self.receive(AUTH_XID).await.map(|(error, _)| error)
            }
            Auth::Sasl { user, password } => {
                let mut token = Vec::new();
                for _ in 0..SASL_STEPS_MAX {
                    let (error, reply) = self.call(&Request::Sasl { token: &token }).await?;
                    if error != 0 {
                        return Ok(error);
                    }
                    let challenge = Reader::new(reply).buffer()?;
                    if challenge.is_empty() || challenge.starts_with(b"rspauth") {
                        return Ok(0);
                    }
                    let nonce = client_nonce();
                    token = digest::answer(challenge, user, password, &nonce).ok_or(Malformed)?;
                }
                Err(Malformed.into())
            }
        }
    }

    /// One request and its reply: the error's number and what follows the head.
    pub(crate) async fn call(&mut self, request: &Request<'_>) -> Result<(i32, &[u8]), CallError> {
        let xid = self.next_xid();
        self.out.clear();
        frame(&mut self.out, xid, request);
        self.finish_call(xid).await
    }

    /// Many requests at once; the error's number of each, in order.
    pub(crate) async fn call_many(
        &mut self,
        requests: &[Request<'_>],
    ) -> Result<Vec<i32>, CallError> {
        self.out.clear();
        let first = self.xid + 1;
        for request in requests {
            let xid = self.next_xid();
            frame(&mut self.out, xid, request);
        }
        let limit = self.operation_timeout;
        tokio::time::timeout(limit, self.stream.write_all(&self.out))
            .await
            .map_err(|_| CallError::Slow(limit))??;
        self.stream.flush().await?;
        let mut errors = Vec::with_capacity(requests.len());
        for xid in first..=self.xid {
            let reply = tokio::time::timeout(limit, self.receive(xid)).await;
            errors.push(reply.map_err(|_| CallError::Slow(limit))??.0);
        }
        Ok(errors)
    }

    fn next_xid(&mut self) -> i32 {
        // It prepares and tidies up: far fewer than 2^31 requests.
        self.xid += 1;
        self.xid
    }

    async fn finish_call(&mut self, xid: i32) -> Result<(i32, &[u8]), CallError> {
        let limit = self.operation_timeout;
        let call = async {
            self.stream.write_all(&self.out).await?;
            self.stream.flush().await?;
            self.receive(xid).await
        };
        tokio::time::timeout(limit, call).await.unwrap_or(Err(CallError::Slow(limit)))
    }

    async fn send(&mut self, xid: i32, request: &Request<'_>) -> Result<(), CallError> {
        self.out.clear();
        frame(&mut self.out, xid, request);
        self.stream.write_all(&self.out).await?;
        Ok(self.stream.flush().await?)
    }

    /// Waits for one request's reply; notifications and pings in between are passed over.
    async fn receive(&mut self, wanted: i32) -> Result<(i32, &[u8]), CallError> {
        loop {
            self.read_frame().await?;
            let head = Head::read(&mut Reader::new(&self.reply))?;
            if head.xid == wanted {
                return Ok((head.error, &self.reply[16..]));
            }
            if head.xid != WATCH_XID && head.xid != super::PING_XID {
                return Err(Malformed.into());
            }
        }
    }

    async fn read_frame(&mut self) -> Result<(), CallError> {
        let length = self.stream.read_i32().await?;
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        if length > REPLY_BYTES_MAX {
            return Err(Malformed.into());
        }
        self.reply.resize(length, 0);
        self.stream.read_exact(&mut self.reply).await?;
        Ok(())
    }

    /// Ends the session, so that the server need not wait for its time to run out.
    pub(crate) async fn close(mut self) {
        // A server that is gone has nothing to be told.
        let _ = self.call(&Request::Close).await;
    }
}

/// Different for each session: the standard library seeds its hashes from the system.
fn client_nonce() -> String {
    use std::hash::{BuildHasher, RandomState};
    let (a, b) = (RandomState::new().hash_one(0), RandomState::new().hash_one(1));
    format!("{a:016x}{b:016x}")
}
