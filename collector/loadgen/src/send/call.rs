//! One call over HTTP: sends a body, reads the complete answer under a size limit and a time limit.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use millrace_ddl::{ClientError, TlsCertificates, error_chain};
use millrace_wire::Signal;

use super::outcome::{AttemptOutcome, classify_grpc, classify_http};
use super::target::{LoadTarget, OtlpProtocol, RequestCompression};

/// Answers are a few bytes; a refusal may contain a page of text.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Maximum time to open a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of pings on a silent HTTP/2 connection, and the time for their answer: a server that
/// was killed with its machine is noticed in 15 s.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// One connection's caller; with HTTP/1.1 one connection per call in flight. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Caller {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    uri: Uri,
    protocol: OtlpProtocol,
    compression: RequestCompression,
    timeout: Duration,
}

impl Caller {
    pub(crate) fn new(
        target: &LoadTarget,
        signal: Signal,
        compression: RequestCompression,
        tls: &TlsCertificates,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let builder =
            HttpsConnectorBuilder::new().with_tls_config(tls.client_config()?).https_or_http();
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).timer(TokioTimer::new());
        let client = match target.protocol() {
            OtlpProtocol::Grpc => client
                .http2_only(true)
                .http2_adaptive_window(true)
                .http2_keep_alive_interval(PING_EVERY)
                .http2_keep_alive_timeout(PING_TIMEOUT)
                .build(builder.enable_http2().wrap_connector(tcp)),
            OtlpProtocol::Http => client.build(builder.enable_http1().wrap_connector(tcp)),
        };
        let (uri, protocol) = (target.export_uri(signal), target.protocol());
        Ok(Self { client, uri, protocol, compression, timeout })
    }

    /// Sends a body once and classifies the answer.
    pub(crate) async fn call(&self, body: Bytes) -> AttemptOutcome {
        let request = match self.build_request(body) {
            Ok(request) => request,
            Err(error) => return AttemptOutcome::Refused { words: error.to_string() },
        };
        match tokio::time::timeout(self.timeout, self.send_request(request)).await {
            Ok(answer) => answer,
            Err(_) => AttemptOutcome::Unclear {
                after: None,
                words: format!("no answer within {} s", self.timeout.as_secs_f32()),
            },
        }
    }

    fn build_request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::builder().method(Method::POST).uri(self.uri.clone());
        let encoding = self.compression.encoding().map(HeaderValue::from_static);
        request = match self.protocol {
            OtlpProtocol::Grpc => request
                .header(header::CONTENT_TYPE, "application/grpc")
                .header(header::TE, "trailers"),
            OtlpProtocol::Http => request.header(header::CONTENT_TYPE, "application/x-protobuf"),
        };
        if let Some(encoding) = encoding {
            let name = match self.protocol {
                OtlpProtocol::Grpc => "grpc-encoding",
                OtlpProtocol::Http => "content-encoding",
            };
            request = request.header(name, encoding);
        }
        request.body(Full::new(body))
    }

    async fn send_request(&self, request: Request<Full<Bytes>>) -> AttemptOutcome {
        let response = match self.client.request(request).await {
            Ok(response) => response,
            Err(error) if error.is_connect() => {
                return AttemptOutcome::Unsent { words: error_chain(&error) };
            }
            Err(error) => {
                return AttemptOutcome::Unclear { after: None, words: error_chain(&error) };
            }
        };
        let (parts, body) = response.into_parts();
        let body = match Limited::<Incoming>::new(body, ANSWER_BYTES_MAX).collect().await {
            Ok(body) => body,
            // The status alone decides an HTTP answer; a gRPC one is in the trailers.
            Err(error) => return AttemptOutcome::Unclear { after: None, words: error.to_string() },
        };
        let trailers = body.trailers().cloned();
        let bytes = body.to_bytes();
        match self.protocol {
            OtlpProtocol::Http => classify_http(parts.status, &parts.headers, &bytes),
            OtlpProtocol::Grpc => {
                classify_grpc(parts.status, &parts.headers, trailers.as_ref(), &bytes)
            }
        }
    }
}
