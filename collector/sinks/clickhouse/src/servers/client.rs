//! Sends one insert as one HTTP request and classifies the answer; also queries system tables.
//!
//! Settings are explicit, so that a server's or a user's defaults can't change an insert: it is
//! synchronous, deduplicated under our token in views too, and answered only at its end.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use millrace_config::{Credentials, HttpEndpoint};
use millrace_ddl::describe_transport_error;
use millrace_ddl::render::Statement;
use millrace_pipeline::body::InsertBody;
use millrace_pipeline::failpoint;
use millrace_pipeline::sink::Insert;

use crate::insert::plan::InsertPlan;
use crate::insert::response::{InsertResponse, classify_response};
use crate::settings::{SinkError, SinkSettings, client_tls};
use crate::tables::percent_encoded;

/// The time limit for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an idle connection is reused. ClickHouse closes one after 3 s or more; the client
/// closes it first.
const POOL_IDLE: Duration = Duration::from_secs(2);
/// The time limit of a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// The bytes of an answer to an insert that are retained: it is empty or an error message, which
/// may quote a value of any length.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// The time limit of a query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer to a query: eight tables of 100 columns at 200 bytes are 160 KB, and a type
/// with all the paths a user may fix adds 5 KB to each of a few columns.
const MAX_ROWS_BYTES: usize = 1 << 20;
/// The settings of a query: rows as JSON, and an error never in the middle of them.
const QUERY_SETTINGS: &str = "default_format=JSONEachRow&wait_end_of_query=1";
/// The settings of every insert. Servers since 22.8 know all of them, so none is refused as
/// unknown. `deduplicate_blocks_in_dependent_materialized_views` carries the token into views; from
/// 26.2 it is the server's default. The two sizes make an insert one part, however many blocks it
/// comes in: the rows are the server's default, and bytes have no effect. The overflow mode is
/// explicit because with `break` in a user's profile a server stores nothing of an insert that
/// exceeds `max_execution_time`, and answers success with all rows counted (observed with 26.9).
const INSERT_SETTINGS: &str = "decompress=1&async_insert=0&wait_end_of_query=1\
    &insert_deduplicate=1&deduplicate_blocks_in_dependent_materialized_views=1\
    &min_insert_block_size_rows=1048449&min_insert_block_size_bytes=0\
    &timeout_overflow_mode=throw";

const USER: HeaderName = HeaderName::from_static("x-clickhouse-user");
const KEY: HeaderName = HeaderName::from_static("x-clickhouse-key");
const CERTIFICATE: HeaderName = HeaderName::from_static(millrace_ddl::CERTIFICATE_HEADER);

/// A header of a request that authenticates it.
type LoginHeader = (HeaderName, HeaderValue);

/// The HTTP client of all endpoints.
pub(crate) struct HttpClient {
    http: Client<HttpsConnector<HttpConnector>, Full<InsertBody>>,
    settings: SinkSettings,
    /// The credentials' headers, marked sensitive.
    login: RwLock<Vec<LoginHeader>>,
}

impl HttpClient {
    pub(crate) fn new(settings: SinkSettings) -> Result<Self, SinkError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(client_tls(settings.tls.as_ref())?.client_config()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .build(connector);
        let login = RwLock::new(read_login(&settings)?);
        Ok(Self { http, settings, login })
    }

    /// Reads the log-in's files again: secrets rotate under a running process.
    pub(crate) fn refresh_login(&self) -> Result<(), SinkError> {
        let fresh = read_login(&self.settings)?;
        // The lock guards one value that is only replaced as a unit.
        *self.login.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// Returns the time limit of one insert.
    pub(crate) fn insert_timeout(&self) -> Duration {
        self.settings.insert_timeout
    }

    pub(crate) fn endpoint_count(&self) -> usize {
        self.settings.endpoints.len()
    }

    /// Returns the number of endpoints per shard. A shard's endpoints are consecutive.
    pub(crate) fn replica_count(&self) -> usize {
        (self.settings.endpoints.len() / self.settings.shards).max(1)
    }

    pub(crate) fn endpoint_name(&self, endpoint: usize) -> &str {
        self.endpoint(endpoint).authority()
    }

    /// Returns an endpoint by its position: all positions follow from the number of endpoints.
    fn endpoint(&self, endpoint: usize) -> &HttpEndpoint {
        &self.settings.endpoints[endpoint]
    }

    /// Sends an insert to an endpoint by a plan. Any failure is a verdict.
    pub(crate) async fn insert(
        &self,
        endpoint: usize,
        plan: &InsertPlan,
        insert: &Insert,
        token: &str,
        first: bool,
    ) -> InsertResponse {
        let url = format!(
            "{}/?{INSERT_SETTINGS}&insert_deduplication_token={}{}",
            self.endpoint(endpoint).as_str(),
            percent_encoded(token),
            plan.parameters(),
        );
        let request = match self.build_request(&url, insert.block.body.clone()) {
            Ok(request) => request,
            Err(error) => return InsertResponse::no_response(&error),
        };
        failpoint::hit("before-insert");
        match self.send_request(request, MAX_ANSWER_BYTES, self.settings.insert_timeout).await {
            Err(cause) => InsertResponse::no_response(&cause),
            Ok((parts, body)) => {
                failpoint::hit("after-insert-sent");
                let (status, headers, rows) = (parts.status, &parts.headers, insert.block.rows);
                let counts_all = first || plan.counts_repetitions();
                classify_response(status, headers, &body, rows, counts_all)
            }
        }
    }

    /// Queries an endpoint for rows, as `JSONEachRow`. A failure has the server's code, if it gave
    /// one.
    pub(crate) async fn run_query(
        &self,
        endpoint: usize,
        statement: &Statement,
    ) -> Result<Bytes, InsertResponse> {
        let unanswered = |cause: &dyn std::fmt::Display| InsertResponse::no_response(cause);
        let url = format!("{}/?{QUERY_SETTINGS}", self.endpoint(endpoint).as_str());
        let request = self.build_request(&url, statement.sql().to_owned().into_bytes().into());
        let request = request.map_err(|error| unanswered(&error))?;
        match self.send_request(request, MAX_ROWS_BYTES, QUERY_TIMEOUT).await {
            Err(cause) => Err(unanswered(&cause)),
            Ok((_, body)) if body.len() >= MAX_ROWS_BYTES => {
                Err(unanswered(&"the answer is too long"))
            }
            Ok((parts, body)) if parts.status == StatusCode::OK => Ok(body),
            Ok((parts, body)) => {
                Err(classify_response(parts.status, &parts.headers, &body, 0, true))
            }
        }
    }

    /// Checks whether an endpoint answers at all.
    pub(crate) async fn ping(&self, endpoint: usize) -> Result<(), String> {
        let base = self.endpoint(endpoint);
        let request = Request::get(format!("{}/ping", base.as_str())).body(Full::default());
        let request = request.map_err(|error| error.to_string())?;
        match self.send_request(request, MAX_ANSWER_BYTES, PING_TIMEOUT).await {
            Err(cause) => Err(format!("{}: {cause}", base.authority())),
            Ok((parts, _)) if parts.status == StatusCode::OK => Ok(()),
            Ok((parts, _)) => Err(format!("{} answers {}", base.authority(), parts.status)),
        }
    }

    fn build_request(
        &self,
        url: &str,
        body: InsertBody,
    ) -> Result<Request<Full<InsertBody>>, http::Error> {
        let mut request = Request::post(url);
        let login = self.login.read().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, value) in login {
            request = request.header(name, value);
        }
        request.body(Full::new(body))
    }

    /// Sends a request and reads its answer, within `time`. Of an answer that is longer than
    /// `limit_bytes`, so many bytes of its beginning and its end are returned.
    async fn send_request(
        &self,
        request: Request<Full<InsertBody>>,
        limit_bytes: usize,
        time: Duration,
    ) -> Result<(http::response::Parts, Bytes), String> {
        let exchange = async {
            let response = self.http.request(request).await;
            let response = response.map_err(|error| describe_transport_error(&error))?;
            let (parts, mut body) = response.into_parts();
            let mut answer = BytesMut::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| format!("the answer broke off: {error}"))?;
                answer.extend_from_slice(&frame.into_data().unwrap_or_default());
                omit_middle(&mut answer, limit_bytes);
            }
            Ok((parts, answer.freeze()))
        };
        let answered = tokio::time::timeout(time, exchange).await;
        answered.unwrap_or_else(|_| Err(format!("no answer within {} s", time.as_secs())))
    }
}

/// Shortens a text to `limit_bytes` (an even number): an exception has its code at the beginning,
/// and at the end the view that failed.
fn omit_middle(text: &mut BytesMut, limit_bytes: usize) {
    if text.len() > limit_bytes {
        let end = text.split_off(text.len() - limit_bytes / 2);
        text.truncate(limit_bytes / 2);
        text.extend_from_slice(&end);
    }
}

fn read_login(settings: &SinkSettings) -> Result<Vec<LoginHeader>, SinkError> {
    let Some(credentials) = &settings.credentials else { return Ok(Vec::new()) };
    let Credentials { username, username_file, password_file, token_file } = credentials;
    let sensitive = |text: &str| {
        HeaderValue::from_str(text).map(|mut value| {
            value.set_sensitive(true);
            value
        })
    };
    if let Some(file) = token_file {
        let bearer = format!("Bearer {}", file.read()?.expose());
        return Ok(vec![(AUTHORIZATION, sensitive(&bearer)?)]);
    }
    let user = match username_file {
        Some(file) => sensitive(file.read()?.expose())?,
        None => sensitive(username.as_deref().unwrap_or_default())?,
    };
    let proof = match password_file {
        Some(file) => (KEY, sensitive(file.read()?.expose())?),
        None => (CERTIFICATE, HeaderValue::from_static("on")),
    };
    Ok(vec![(USER, user), proof])
}
