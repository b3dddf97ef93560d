//! A small async client for schema work: runs rendered statements, one at a time, on the first
//! endpoint that answers. It accepts no SQL text, only [`Statement`]s, which `render` alone builds.
//! Every statement may run twice, so moving to the next endpoint is safe.

mod endpoint;
mod error;
mod limits;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clickhouse::query::BytesCursor;
use clickhouse::{Client as Http, RowOwned, RowRead};

pub use endpoint::{CERTIFICATE_HEADER, EndpointError, Secret, ServerEndpoint, UserCredentials};
pub use error::{Category, ClientError, describe_transport_error, error_chain};
use limits::LastStatus;
pub use limits::{AddressRule, Budget, ClientLimits, RefusedAddresses};
pub use tls::{ClientIdentity, TlsCertificates};

use crate::render::Statement;

/// How long to wait for a TCP connection: three SYN retransmissions (1 + 2 + 4 s), no more.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(7);

/// How long to wait for one statement. Metadata changes take milliseconds; a server busy with
/// merges or replicated DDL may take tens of seconds.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The options of a [`DdlClient`].
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Servers, in the order to try; at least one.
    pub endpoints: Vec<ServerEndpoint>,
    /// The user to authenticate as.
    pub credentials: UserCredentials,
    /// Certificates for HTTPS endpoints.
    pub tls: TlsCertificates,
    /// The limit of one statement, for connection and answer together.
    pub statement_timeout: Duration,
    /// Limits on answers and addresses.
    pub limits: ClientLimits,
}

impl ClientOptions {
    /// Returns default credentials, certificates and limits for these endpoints.
    #[must_use]
    pub fn new(endpoints: Vec<ServerEndpoint>) -> Self {
        Self {
            endpoints,
            credentials: UserCredentials::default(),
            tls: TlsCertificates::default(),
            statement_timeout: STATEMENT_TIMEOUT,
            limits: ClientLimits::default(),
        }
    }
}

/// Runs statements on ClickHouse. Cheap to clone.
#[derive(Clone)]
pub struct DdlClient {
    servers: Arc<[ServerConnection]>,
    /// The index of the server that answered last: the next request tries it first.
    preferred: Arc<AtomicUsize>,
    user: Arc<str>,
    statement_timeout: Duration,
}

#[derive(Clone)]
struct ServerConnection {
    endpoint: ServerEndpoint,
    http: Http,
    status: LastStatus,
}

impl DdlClient {
    /// Creates the client, without connecting.
    ///
    /// # Errors
    /// [`ClientError::Setup`]: no endpoint, or certificates that cannot be read.
    pub fn new(options: ClientOptions) -> Result<Self, ClientError> {
        let ClientOptions { endpoints, credentials, tls, statement_timeout, limits } = options;
        if endpoints.is_empty() {
            return Err(ClientError::Setup("no endpoint is given".to_owned()));
        }
        let (tls, connect) = (tls.client_config()?, CONNECT_TIMEOUT.min(statement_timeout));
        let server = |endpoint: ServerEndpoint| {
            let status = LastStatus::default();
            let http = tls::http_client(tls.clone(), connect, &limits, status.clone())
                .with_url(endpoint.to_string())
                .with_product_info("millrace-ddl", env!("CARGO_PKG_VERSION"));
            let http = credentials.authenticate(http);
            ServerConnection { endpoint, http, status }
        };
        let servers = endpoints.into_iter().map(server).collect();
        Ok(Self {
            servers,
            preferred: Arc::new(AtomicUsize::new(0)),
            user: credentials.user().into(),
            statement_timeout,
        })
    }

    /// Returns one client per endpoint, for work on each server separately.
    #[must_use]
    pub fn per_endpoint(&self) -> Vec<Self> {
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

    /// Returns the endpoint that is tried first.
    #[must_use]
    pub fn endpoint(&self) -> &ServerEndpoint {
        let at = self.preferred.load(Ordering::Relaxed) % self.servers.len();
        &self.servers[at].endpoint
    }

    /// Returns the client's user.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Runs a statement that returns no rows.
    ///
    /// # Errors
    /// The last endpoint's error, if all failed.
    pub async fn execute(&self, statement: &Statement) -> Result<(), ClientError> {
        self.on_any(|http| to_query(http, statement).execute()).await
    }

    /// Runs a query and returns all its rows; for answers of bounded size (system tables, counts).
    ///
    /// # Errors
    /// The last endpoint's error, if none answered.
    pub async fn fetch<T>(&self, statement: &Statement) -> Result<Vec<T>, ClientError>
    where
        T: RowOwned + RowRead,
    {
        self.on_any(|http| to_query(http, statement).fetch_all::<T>()).await
    }

    /// Runs a query and streams its answer in pieces, in the named format. The limit of one
    /// statement applies to each piece, not to the complete answer.
    ///
    /// # Errors
    /// The last endpoint's error, if none answered.
    pub async fn stream(
        &self,
        statement: &Statement,
        format: &str,
    ) -> Result<ResponseStream, ClientError> {
        let first = |http: &Http| {
            let cursor = to_query(http, statement).fetch_bytes(format);
            async move {
                let mut cursor = cursor?;
                let first = cursor.next().await?;
                Ok((cursor, first))
            }
        };
        let (cursor, first) = self.on_any(first).await?;
        Ok(ResponseStream {
            cursor,
            first,
            endpoint: self.endpoint().clone(),
            user: Arc::clone(&self.user),
            piece_timeout: self.statement_timeout,
        })
    }

    /// Tries the servers in turn, starting with the one that answered last. The future of `query`
    /// borrows nothing of a server, so that callers on several threads may hold it.
    async fn on_any<T, Asking>(&self, query: impl Fn(&Http) -> Asking) -> Result<T, ClientError>
    where
        Asking: Future<Output = clickhouse::error::Result<T>>,
    {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut last = ClientError::Setup("no endpoint is given".to_owned());
        for attempt in 0..self.servers.len() {
            let at = (first + attempt) % self.servers.len();
            let ServerConnection { endpoint, http, status } = &self.servers[at];
            let error = match tokio::time::timeout(self.statement_timeout, query(http)).await {
                Ok(Ok(answer)) => {
                    self.preferred.store(at, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Err(error)) => error::classify_error(error, endpoint, &self.user, status.get()),
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

/// Returns the statement as a request, with its settings in the URL.
fn to_query(http: &Http, statement: &Statement) -> clickhouse::query::Query {
    let mut query = http.query_raw(statement.sql());
    for (name, value) in statement.settings() {
        query = query.with_setting(*name, value.as_str());
    }
    query
}

/// A long answer, in pieces.
pub struct ResponseStream {
    cursor: BytesCursor,
    first: Option<bytes::Bytes>,
    endpoint: ServerEndpoint,
    user: Arc<str>,
    piece_timeout: Duration,
}

impl ResponseStream {
    /// Returns the next piece; `None` at the end. Pieces end anywhere.
    ///
    /// # Errors
    /// The connection broke, the server failed half-way, or no piece came in time.
    pub async fn next(&mut self) -> Result<Option<bytes::Bytes>, ClientError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        match tokio::time::timeout(self.piece_timeout, self.cursor.next()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => Err(error::classify_error(error, &self.endpoint, &self.user, None)),
            Err(_) => Err(ClientError::Timeout {
                endpoint: self.endpoint.clone(),
                waited: self.piece_timeout,
            }),
        }
    }
}
