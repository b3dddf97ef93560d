//! OTLP over gRPC: the three `Export` calls, each unary, directly over HTTP/2.
//!
//! Written by hand because a request has to stay bytes, and because it has to be decompressed under
//! a cap and off the I/O threads, which a generated server does not offer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Body;
use millrace_pipeline::publish::Delivered;
use millrace_wire::Signal;
use millrace_wire::decompress::Encoding;
use millrace_wire::framing::{self, Format, GRPC_PREFIX_BYTES, percent_encoded};

use super::body::Layout;
use super::denied::{Denied, Kind};
use super::reply::Reply;
use super::service::{Framing, Service};
use super::status;

/// gRPC's codes, as far as they are used here. INTERNAL and UNKNOWN are left out on purpose: they
/// tell an OTLP client to drop its data.
mod code {
    pub(super) const OK: u32 = 0;
    pub(super) const INVALID_ARGUMENT: u32 = 3;
    pub(super) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(super) const UNIMPLEMENTED: u32 = 12;
    pub(super) const UNAVAILABLE: u32 = 14;
}

/// The message of a body, compressed as the header says if its flag is set.
struct LengthPrefixed {
    encoding: Option<Encoding>,
}

impl Framing for LengthPrefixed {
    const OVERHEAD_BYTES: usize = GRPC_PREFIX_BYTES;

    fn message(&self, body: &[u8]) -> Result<Layout, Denied> {
        let encoding = framing::grpc_message(body, self.encoding)
            .map_err(|error| Denied::malformed(error.to_string()))?;
        Ok(Layout { start: GRPC_PREFIX_BYTES, encoding, format: Format::Protobuf })
    }
}

/// A call whose head was read.
pub(crate) struct Call {
    signal: Signal,
    encoding: Option<Encoding>,
}

impl Call {
    /// Reads a head, or answers it.
    pub(crate) fn read(service: &Service, head: &Parts) -> Result<Self, Box<Response<Reply>>> {
        if head.method != Method::POST || !is_grpc(&head.headers) {
            // Not gRPC at all, so HTTP has to say so.
            let mut response = Response::new(Reply::default());
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(response.into());
        }
        let Some(signal) = signal_of(head.uri.path()) else {
            let path = status::shortened(head.uri.path());
            let message = format!("there is no method {path} here");
            return Err(failure(code::UNIMPLEMENTED, &message, None).into());
        };
        match encoding_of(&head.headers) {
            Ok(encoding) => Ok(Self { signal, encoding }),
            Err(denied) => Err(answer(Err(service.unread(signal, denied))).into()),
        }
    }

    /// Refuses it for want of room.
    pub(crate) fn refuse(self, service: &Service) -> Response<Reply> {
        answer(Err(service.unread(self.signal, Denied::full())))
    }

    /// Answers it.
    pub(crate) async fn answer<B>(
        self,
        service: &Service,
        limit_bytes: usize,
        body: B,
    ) -> Response<Reply>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let Self { signal, encoding } = self;
        answer(service.export(signal, LengthPrefixed { encoding }, limit_bytes, body).await)
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

fn encoding_of(headers: &HeaderMap) -> Result<Option<Encoding>, Denied> {
    let Some(value) = headers.get("grpc-encoding") else { return Ok(None) };
    value.to_str().map_err(|_| framing::UnknownEncoding).and_then(framing::grpc_encoding).map_err(
        |_| Denied::unsupported("the message's compression is not spoken: use gzip or zstd"),
    )
}

fn answer(result: Result<Delivered, Denied>) -> Response<Reply> {
    let Denied { kind, message } = match result {
        Ok(delivered) => return success(&delivered),
        Err(denied) => denied,
    };
    let (code, retry_after) = match kind {
        // OTLP knows no code for a request that is too large. RESOURCE_EXHAUSTED without a delay
        // means the same to some clients, but others send again for ever.
        Kind::Malformed | Kind::TooLarge => (code::INVALID_ARGUMENT, None),
        Kind::Unsupported | Kind::Unconfigured => (code::UNIMPLEMENTED, None),
        Kind::Full(delay) => (code::RESOURCE_EXHAUSTED, Some(delay)),
        Kind::Unavailable(delay) => (code::UNAVAILABLE, Some(delay)),
    };
    failure(code, &message, retry_after)
}

fn success(delivered: &Delivered) -> Response<Reply> {
    let message = status::export_response(delivered);
    let mut data = Vec::with_capacity(GRPC_PREFIX_BYTES + message.len());
    data.push(0);
    data.extend_from_slice(&(message.len() as u32).to_be_bytes());
    data.extend_from_slice(&message);
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from(code::OK));
    grpc_response(Reply::with_trailers(data, trailers))
}

/// A call that fails has no message, and its trailers are its headers.
fn failure(code: u32, message: &str, retry_after: Option<std::time::Duration>) -> Response<Reply> {
    let mut response = grpc_response(Reply::default());
    let headers = response.headers_mut();
    headers.insert("grpc-status", HeaderValue::from(code));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity,gzip,zstd"));
    if let Ok(value) = HeaderValue::from_str(&percent_encoded(status::shortened(message))) {
        headers.insert("grpc-message", value);
    }
    let details = STANDARD_NO_PAD.encode(status::status(code, message, retry_after));
    if let Ok(value) = HeaderValue::from_str(&details) {
        headers.insert("grpc-status-details-bin", value);
    }
    response
}

fn grpc_response(body: Reply) -> Response<Reply> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}
