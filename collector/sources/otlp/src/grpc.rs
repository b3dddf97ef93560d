//! OTLP over gRPC: the three `Export` calls, each unary, directly over HTTP/2.
//!
//! It is written by hand because a request has to stay bytes, and has to be decompressed under a
//! cap and off the I/O threads. Generated servers don't offer that.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Body;
use millrace_pipeline::publish::DeliveryReceipt;
use millrace_wire::Signal;
use millrace_wire::decompress::ContentEncoding;
use millrace_wire::framing::{self, GRPC_PREFIX_BYTES, MessageFormat, percent_encoded};

use super::body::MessageLayout;
use super::deadline::parse_grpc_timeout;
use super::denied::{Denial, DenialKind};
use super::reply::ResponseBody;
use super::service::{Framing, OtlpService, RequestHead};
use super::status;

/// The gRPC codes that are used. INTERNAL and UNKNOWN are excluded on purpose: they make an OTLP
/// client drop its data.
mod code {
    pub(super) const OK: u32 = 0;
    pub(super) const INVALID_ARGUMENT: u32 = 3;
    pub(super) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(super) const UNIMPLEMENTED: u32 = 12;
    pub(super) const UNAVAILABLE: u32 = 14;
}

/// The message of a body, compressed as the header states if its flag is set.
struct LengthPrefixed {
    encoding: Option<ContentEncoding>,
}

impl Framing for LengthPrefixed {
    const OVERHEAD_BYTES: usize = GRPC_PREFIX_BYTES;

    fn locate_message(&self, body: &[u8]) -> Result<MessageLayout, Denial> {
        let encoding = framing::grpc_message(body, self.encoding)
            .map_err(|error| Denial::malformed(error.to_string()))?;
        Ok(MessageLayout { start: GRPC_PREFIX_BYTES, encoding, format: MessageFormat::Protobuf })
    }
}

/// A call whose head was read.
pub(crate) struct Call {
    signal: Signal,
    encoding: Option<ContentEncoding>,
    /// The client's timeout, if it states one.
    timeout: Option<Duration>,
    client: IpAddr,
}

impl Call {
    /// Reads a head, or returns its answer.
    pub(crate) fn read(
        service: &OtlpService,
        head: &Parts,
        client: IpAddr,
    ) -> Result<Self, Box<Response<ResponseBody>>> {
        if head.method != Method::POST || !is_grpc(&head.headers) {
            // The request isn't gRPC, so the answer is an HTTP status.
            let mut response = Response::new(ResponseBody::default());
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(response.into());
        }
        let Some(signal) = signal_of(head.uri.path()) else {
            let path = status::truncate_message(head.uri.path());
            let message = format!("unknown method {path}");
            return Err(failure_response(code::UNIMPLEMENTED, &message, None).into());
        };
        match encoding_of(&head.headers) {
            Ok(encoding) => {
                let timeout = timeout_of(&head.headers);
                Ok(Self { signal, encoding, timeout, client })
            }
            Err(denied) => Err(build_response(Err(service.count_denied(signal, denied))).into()),
        }
    }

    /// Refuses the call for lack of budget.
    pub(crate) fn refuse_call(self, service: &OtlpService) -> Response<ResponseBody> {
        build_response(Err(service.count_denied(self.signal, Denial::full())))
    }

    /// Answers the call.
    pub(crate) async fn handle_call<B>(
        self,
        service: &OtlpService,
        limit_bytes: usize,
        body: B,
    ) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let Self { signal, encoding, timeout: client_timeout, client } = self;
        let framing = LengthPrefixed { encoding };
        let head = RequestHead { signal, framing, limit_bytes, client_timeout, client };
        build_response(service.export(head, body).await)
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(framing::is_grpc)
}

fn signal_of(path: &str) -> Option<Signal> {
    match path {
        "/opentelemetry.proto.collector.trace.v1.TraceService/Export" => Some(Signal::Traces),
        "/opentelemetry.proto.collector.logs.v1.LogsService/Export" => Some(Signal::Logs),
        "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export" => Some(Signal::Metrics),
        _ => None,
    }
}

fn encoding_of(headers: &HeaderMap) -> Result<Option<ContentEncoding>, Denial> {
    let Some(value) = headers.get("grpc-encoding") else { return Ok(None) };
    value
        .to_str()
        .map_err(|_| framing::UnknownEncoding)
        .and_then(framing::grpc_encoding)
        .map_err(|_| Denial::unsupported("unsupported message compression: use gzip or zstd"))
}

/// Reads the client's timeout. A client with an unreadable `grpc-timeout` is answered like one
/// without.
fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    parse_grpc_timeout(headers.get("grpc-timeout")?.to_str().ok()?)
}

fn build_response(result: Result<DeliveryReceipt, Denial>) -> Response<ResponseBody> {
    let Denial { kind, message } = match result {
        Ok(delivered) => return success_response(&delivered),
        Err(denied) => denied,
    };
    let (code, retry_after) = match kind {
        // OTLP has no code for a request that is too large. Some clients treat RESOURCE_EXHAUSTED
        // without a delay that way, but others retry for ever.
        DenialKind::Malformed | DenialKind::TooLarge => (code::INVALID_ARGUMENT, None),
        DenialKind::Unsupported | DenialKind::Unconfigured => (code::UNIMPLEMENTED, None),
        DenialKind::Full(delay) => (code::RESOURCE_EXHAUSTED, Some(delay)),
        DenialKind::Unavailable(delay) => (code::UNAVAILABLE, Some(delay)),
    };
    failure_response(code, &message, retry_after)
}

fn success_response(delivered: &DeliveryReceipt) -> Response<ResponseBody> {
    let message = status::export_response(delivered);
    let mut data = Vec::with_capacity(GRPC_PREFIX_BYTES + message.len());
    data.push(0);
    data.extend_from_slice(&(message.len() as u32).to_be_bytes());
    data.extend_from_slice(&message);
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from(code::OK));
    grpc_response(ResponseBody::with_trailers(data, trailers))
}

/// Builds the answer of a failed call: it has no message, and its trailers are its headers.
fn failure_response(
    code: u32,
    message: &str,
    retry_after: Option<Duration>,
) -> Response<ResponseBody> {
    let mut response = grpc_response(ResponseBody::default());
    let headers = response.headers_mut();
    headers.insert("grpc-status", HeaderValue::from(code));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity,gzip,zstd"));
    if let Ok(value) = HeaderValue::from_str(&percent_encoded(status::truncate_message(message))) {
        headers.insert("grpc-message", value);
    }
    let details = STANDARD_NO_PAD.encode(status::encode_status(code, message, retry_after));
    if let Ok(value) = HeaderValue::from_str(&details) {
        headers.insert("grpc-status-details-bin", value);
    }
    response
}

fn grpc_response(body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}
