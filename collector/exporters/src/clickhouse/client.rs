//! Sends one insert as one HTTP request and classifies the answer; also queries system tables.
//!
//! Settings are explicit, so that a server's or a user's defaults can't change an insert:
//! synchronous, deduplicated under our token in views too, answered only at its end.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use millrace_ddl::render::Statement;
use millrace_observe::log::causes;
use millrace_pipeline::body::Body;
use millrace_pipeline::failpoint;
use millrace_pipeline::sink::Insert;

use super::answer::{Verdict, judge, judge_again};
use super::plan::Plan;
use super::settings::{SinkError, SinkSettings};
use super::tables::percent_encoded;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// ClickHouse closes an idle connection after 3 s or more; we let go of it first.
const POOL_IDLE: Duration = Duration::from_secs(2);
/// How long a ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest answer to an insert that is read: it is empty or an error message.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// How long a question may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer to a question: eight tables of 100 columns at 200 bytes are 160 KB, and a
/// type with all the paths a user may fix adds 5 KB to each of a few columns.
const MAX_ROWS_BYTES: usize = 1 << 20;
/// Settings of a question: rows as JSON, and an error never in the middle of them.
const ASK_SETTINGS: &str = "default_format=JSONEachRow&wait_end_of_query=1";
/// Settings of every insert. All are known to servers since 22.8, so none is refused as unknown.
/// `deduplicate_blocks_in_dependent_materialized_views` carries the token into views; from 26.2 it
/// is the server's default. The two sizes make an insert one part, however many blocks it comes in:
/// the rows are the server's default, bytes decide nothing.
const INSERT_SETTINGS: &str = "decompress=1&async_insert=0&wait_end_of_query=1\
    &insert_deduplicate=1&deduplicate_blocks_in_dependent_materialized_views=1\
    &min_insert_block_size_rows=1048449&min_insert_block_size_bytes=0";

const USER: HeaderName = HeaderName::from_static("x-clickhouse-user");
const KEY: HeaderName = HeaderName::from_static("x-clickhouse-key");

/// HTTP with all endpoints.
pub(super) struct HttpClient {
    http: Client<HttpsConnector<HttpConnector>, Full<Body>>,
    settings: SinkSettings,
    /// User name and password as headers, marked sensitive.
    login: RwLock<Option<(HeaderValue, HeaderValue)>>,
}

impl HttpClient {
    pub(super) fn new(settings: SinkSettings) -> Result<Self, SinkError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(settings.tls()?.config()?)
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
    pub(super) fn refresh_login(&self) -> Result<(), SinkError> {
        let fresh = read_login(&self.settings)?;
        // The lock guards one value that is replaced as a whole.
        *self.login.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// How long one insert may take.
    pub(super) fn insert_timeout(&self) -> Duration {
        self.settings.insert_timeout
    }

    pub(super) fn endpoints(&self) -> usize {
        self.settings.endpoints.len()
    }

    /// The endpoints of each shard: they follow each other.
    pub(super) fn replicas(&self) -> usize {
        (self.settings.endpoints.len() / self.settings.shards).max(1)
    }

    pub(super) fn endpoint_name(&self, endpoint: usize) -> &str {
        self.settings.endpoints.get(endpoint).map_or("?", |endpoint| endpoint.authority())
    }

    /// Sends an insert to an endpoint by a plan. Any failure is a verdict.
    pub(super) async fn insert(
        &self,
        endpoint: usize,
        plan: &Plan,
        insert: &Insert,
        token: &str,
        first: bool,
    ) -> Verdict {
        let Some(base) = self.settings.endpoints.get(endpoint) else {
            return Verdict::unanswered(&"no such endpoint");
        };
        let url = format!(
            "{}/?{INSERT_SETTINGS}&insert_deduplication_token={}{}",
            base.as_str(),
            percent_encoded(token),
            plan.parameters(),
        );
        let request = match self.request(&url, insert.block.body.clone()) {
            Ok(request) => request,
            Err(error) => return Verdict::unanswered(&error),
        };
        failpoint::hit("before-insert");
        let exchange = self.exchange(request, MAX_ANSWER_BYTES);
        match tokio::time::timeout(self.settings.insert_timeout, exchange).await {
            Err(_) => Verdict::unanswered(&format!(
                "no answer within {} s",
                self.settings.insert_timeout.as_secs()
            )),
            Ok(Err(cause)) => Verdict::unanswered(&cause),
            Ok(Ok((parts, body))) => {
                let judge = if first { judge } else { judge_again };
                judge(parts.status, &parts.headers, &body, insert.block.rows)
            }
        }
    }

    /// Asks an endpoint for rows, as `JSONEachRow`.
    pub(super) async fn ask(
        &self,
        endpoint: usize,
        statement: &Statement,
    ) -> Result<Bytes, String> {
        self.question(endpoint, statement).await.map_err(|verdict| verdict.to_string())
    }

    /// The same; a failure with the server's code, if it gave one.
    pub(super) async fn question(
        &self,
        endpoint: usize,
        statement: &Statement,
    ) -> Result<Bytes, Verdict> {
        let unanswered = |cause: &dyn std::fmt::Display| Verdict::unanswered(cause);
        let base = self.settings.endpoints.get(endpoint);
        let base = base.ok_or_else(|| unanswered(&"no such endpoint"))?;
        let url = format!("{}/?{ASK_SETTINGS}", base.as_str());
        let request = self.request(&url, statement.sql().to_owned().into_bytes().into());
        let request = request.map_err(|error| unanswered(&error))?;
        let exchange = self.exchange(request, MAX_ROWS_BYTES);
        match tokio::time::timeout(ASK_TIMEOUT, exchange).await {
            Err(_) => Err(unanswered(&format!("no answer within {} s", ASK_TIMEOUT.as_secs()))),
            Ok(Err(cause)) => Err(unanswered(&cause)),
            Ok(Ok((parts, body))) if parts.status == StatusCode::OK => Ok(body),
            Ok(Ok((parts, body))) => Err(judge(parts.status, &parts.headers, &body, 0)),
        }
    }

    /// Whether an endpoint answers at all.
    pub(super) async fn ping(&self, endpoint: usize) -> Result<(), String> {
        let base = self.settings.endpoints.get(endpoint).ok_or("no such endpoint")?;
        let request = Request::get(format!("{}/ping", base.as_str())).body(Full::default());
        let request = request.map_err(|error| error.to_string())?;
        let exchange = self.exchange(request, MAX_ANSWER_BYTES);
        match tokio::time::timeout(PING_TIMEOUT, exchange).await {
            Err(_) => Err(format!("{} does not answer", base.authority())),
            Ok(Err(cause)) => Err(format!("{}: {cause}", base.authority())),
            Ok(Ok((parts, _))) if parts.status == StatusCode::OK => Ok(()),
            Ok(Ok((parts, _))) => Err(format!("{} answers {}", base.authority(), parts.status)),
        }
    }

    fn request(&self, url: &str, body: Body) -> Result<Request<Full<Body>>, http::Error> {
        let mut request = Request::post(url);
        let login = self.login.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((user, key)) = login {
            request = request.header(USER, user).header(KEY, key);
        }
        request.body(Full::new(body))
    }

    async fn exchange(
        &self,
        request: Request<Full<Body>>,
        limit_bytes: usize,
    ) -> Result<(http::response::Parts, Bytes), String> {
        // Questions are posted too, and have longer answers.
        let inserts = request.method() == Method::POST && limit_bytes == MAX_ANSWER_BYTES;
        let response = self.http.request(request).await.map_err(|error| causes(&error))?;
        if inserts {
            failpoint::hit("after-insert-sent");
        }
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, limit_bytes).collect().await;
        let body = body.map_err(|error| format!("the answer broke off: {error}"))?;
        Ok((parts, body.to_bytes()))
    }
}

fn read_login(settings: &SinkSettings) -> Result<Option<(HeaderValue, HeaderValue)>, SinkError> {
    let Some(credentials) = &settings.credentials else { return Ok(None) };
    let header = |secret: millrace_config::Secret| {
        HeaderValue::from_str(secret.expose()).map(|mut value| {
            value.set_sensitive(true);
            value
        })
    };
    let user = header(credentials.username_file.read()?)?;
    let key = header(credentials.password_file.read()?)?;
    Ok(Some((user, key)))
}
