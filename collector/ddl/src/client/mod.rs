//! A small async client for schema work: runs rendered statements, one at a time, against the first
//! endpoint that answers. It takes no SQL text, only [`Statement`]s, which `render` alone makes.
//! Every statement we render can be run twice, which is what makes moving to the next endpoint
//! safe.

mod endpoint;
mod error;
mod limits;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clickhouse::query::BytesCursor;
use clickhouse::{Client as Http, RowOwned, RowRead};

pub use endpoint::{Credentials, Endpoint, EndpointError, Secret};
pub use error::{Category, ClientError, chain};
use limits::LastStatus;
pub use limits::{Budget, Limits, is_link_local};
pub use tls::{Identity, Tls};

use crate::render::Statement;

/// How long to wait for a TCP connection: three SYN retransmissions (1 + 2 + 4 s), no more.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(7);

/// How long to wait for one statement. Metadata changes take milliseconds; a server busy with
/// merges or replicated DDL may take tens of seconds.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// What a [`Client`] is made from.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Servers, in the order to try; at least one.
    pub endpoints: Vec<Endpoint>,
    /// As whom to ask.
    pub credentials: Credentials,
    /// Certificates for HTTPS endpoints.
    pub tls: Tls,
    /// Limit of one statement, connection and answer together.
    pub statement_timeout: Duration,
    /// What is taken from a server, and where it may be.
    pub limits: Limits,
}

impl ClientOptions {
    /// Default credentials, certificates and limits for these endpoints.
    #[must_use]
    pub fn new(endpoints: Vec<Endpoint>) -> Self {
        Self {
            endpoints,
            credentials: Credentials::default(),
            tls: Tls::default(),
            statement_timeout: STATEMENT_TIMEOUT,
            limits: Limits::default(),
        }
    }
}

/// Runs statements on ClickHouse. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    servers: Arc<[Server]>,
    /// Index of the server that answered last: asked first next time.
    preferred: Arc<AtomicUsize>,
    user: Arc<str>,
    statement_timeout: Duration,
}

#[derive(Clone)]
struct Server {
    endpoint: Endpoint,
    http: Http,
    status: LastStatus,
}

impl Client {
    /// Makes the client. Nothing is connected yet.
    ///
    /// # Errors
    /// [`ClientError::Setup`]: no endpoint, or certificates that cannot be read.
    pub fn new(options: ClientOptions) -> Result<Self, ClientError> {
        let ClientOptions { endpoints, credentials, tls, statement_timeout, limits } = options;
        let Credentials { user, password } = credentials;
        if endpoints.is_empty() {
            return Err(ClientError::Setup("no endpoint is given".to_owned()));
        }
        let (tls, connect) = (tls.config()?, CONNECT_TIMEOUT.min(statement_timeout));
        let server = |endpoint: Endpoint| {
            let status = LastStatus::default();
            let http = tls::http(tls.clone(), connect, &limits, status.clone())
                .with_url(endpoint.to_string())
                .with_user(user.as_str())
                .with_password(password.reveal())
                .with_product_info("millrace-ddl", env!("CARGO_PKG_VERSION"));
            Server { endpoint, http, status }
        };
        let servers = endpoints.into_iter().map(server).collect();
        Ok(Self {
            servers,
            preferred: Arc::new(AtomicUsize::new(0)),
            user: user.into(),
            statement_timeout,
        })
    }

    /// One client per endpoint, for what must be done on each server by itself.
    #[must_use]
    pub fn each(&self) -> Vec<Self> {
        self.servers
            .iter()
            .map(|server| Self {
                servers: Arc::new([server.clone()]),
                preferred: Arc::new(AtomicUsize::new(0)),
                user: Arc::clone(&self.user),
                statement_timeout: self.statement_timeout,
            })
            .collect()
    }

    /// The endpoint that is asked first.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        let at = self.preferred.load(Ordering::Relaxed) % self.servers.len();
        &self.servers[at].endpoint
    }

    /// The user it asks as.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Runs a statement that answers no rows.
    ///
    /// # Errors
    /// The last endpoint's error, when none of them did it.
    pub async fn execute(&self, statement: &Statement) -> Result<(), ClientError> {
        self.on_any(|http| with(http, statement).execute()).await
    }

    /// Runs a query and returns all its rows; for answers of bounded size (system tables, counts).
    ///
    /// # Errors
    /// The last endpoint's error, when none of them answered.
    pub async fn fetch<T>(&self, statement: &Statement) -> Result<Vec<T>, ClientError>
    where
        T: RowOwned + RowRead,
    {
        self.on_any(|http| with(http, statement).fetch_all::<T>()).await
    }

    /// Runs a query and hands over its answer piece by piece, in the named format. The limit of one
    /// statement holds for each piece, not for the whole.
    ///
    /// # Errors
    /// The last endpoint's error, when none of them answered.
    pub async fn stream(&self, statement: &Statement, format: &str) -> Result<Stream, ClientError> {
        let first = |http: &Http| {
            let cursor = with(http, statement).fetch_bytes(format);
            async move {
                let mut cursor = cursor?;
                let first = cursor.next().await?;
                Ok((cursor, first))
            }
        };
        let (cursor, first) = self.on_any(first).await?;
        Ok(Stream {
            cursor,
            first,
            endpoint: self.endpoint().clone(),
            user: Arc::clone(&self.user),
            piece_timeout: self.statement_timeout,
        })
    }

    /// Tries the servers in turn, the one that answered last first. What asks borrows nothing of a
    /// server, so that callers on several threads may hold the whole conversation.
    async fn on_any<T, Asking>(&self, ask: impl Fn(&Http) -> Asking) -> Result<T, ClientError>
    where
        Asking: Future<Output = clickhouse::error::Result<T>>,
    {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut last = ClientError::Setup("no endpoint is given".to_owned());
        for turn in 0..self.servers.len() {
            let at = (first + turn) % self.servers.len();
            let Server { endpoint, http, status } = &self.servers[at];
            let error = match tokio::time::timeout(self.statement_timeout, ask(http)).await {
                Ok(Ok(answer)) => {
                    self.preferred.store(at, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Err(error)) => error::classify(error, endpoint, &self.user, status.get()),
                Err(_) => ClientError::Timeout {
                    endpoint: endpoint.clone(),
                    waited: self.statement_timeout,
                },
            };
            if !error.is_endpoint_fault() {
                return Err(error);
            }
            last = error;
        }
        Err(last)
    }
}

/// The statement as a request, its settings in the URL.
fn with(http: &Http, statement: &Statement) -> clickhouse::query::Query {
    let mut query = http.query_raw(statement.sql());
    for (name, value) in statement.settings() {
        query = query.with_setting(*name, value.as_str());
    }
    query
}

/// A long answer, piece by piece.
pub struct Stream {
    cursor: BytesCursor,
    first: Option<bytes::Bytes>,
    endpoint: Endpoint,
    user: Arc<str>,
    piece_timeout: Duration,
}

impl Stream {
    /// The next piece; `None` at the end. Pieces are cut anywhere.
    ///
    /// # Errors
    /// The connection broke, the server failed half-way, or no piece came in time.
    pub async fn next(&mut self) -> Result<Option<bytes::Bytes>, ClientError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        match tokio::time::timeout(self.piece_timeout, self.cursor.next()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => Err(error::classify(error, &self.endpoint, &self.user, None)),
            Err(_) => Err(ClientError::Timeout {
                endpoint: self.endpoint.clone(),
                waited: self.piece_timeout,
            }),
        }
    }
}
