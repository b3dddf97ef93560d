//! OTLP over gRPC: the three `Export` calls, each unary, spoken directly over HTTP/2.
//!
//! Written by hand because a request has to stay bytes, and because its compression has to be
//! undone under a cap and off the I/O threads, which a generated server does not offer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Body;
use millrace_pipeline::publish::Delivered;
use millrace_wire::Signal;
use millrace_wire::decompress::Encoding;

use super::denied::{Denied, Kind};
use super::reply::Reply;
use super::service::{Format, Framing, Layout, Service};
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

/// One byte of flags and four of length before each message.
const PREFIX_BYTES: usize = 5;

/// The message of a body, compressed as the header says if its flag is set.
struct LengthPrefixed {
    encoding: Option<Encoding>,
}

impl Framing for LengthPrefixed {
    const OVERHEAD_BYTES: usize = PREFIX_BYTES;

    fn message(&self, body: &[u8]) -> Result<Layout, Denied> {
        let layout = |encoding| Layout { start: PREFIX_BYTES, encoding, format: Format::Protobuf };
        let Some((&[flag, a, b, c, d], message)) = body.split_first_chunk::<PREFIX_BYTES>() else {
            return Err(Denied::malformed("the call holds no message"));
        };
        if u32::from_be_bytes([a, b, c, d]) as usize != message.len() {
            return Err(Denied::malformed("the call does not hold exactly one message"));
        }
        match (flag, self.encoding) {
            (0, _) => Ok(layout(None)),
            (1, Some(encoding)) => Ok(layout(Some(encoding))),
            (1, None) => Err(Denied::malformed("a compressed message without grpc-encoding")),
            _ => Err(Denied::malformed("a message flag that gRPC does not know")),
        }
    }
}

/// Answers one call.
pub(crate) async fn handle<B>(
    service: &Service,
    limit_bytes: usize,
    request: Request<B>,
) -> Response<Reply>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (head, body) = request.into_parts();
    if head.method != Method::POST || !is_grpc(&head.headers) {
        // Not gRPC at all, so HTTP has to say so.
        let mut response = Response::new(Reply::default());
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return response;
    }
    let Some(signal) = signal_of(head.uri.path()) else {
        let path = status::shortened(head.uri.path());
        return failure(code::UNIMPLEMENTED, &format!("there is no method {path} here"), None);
    };
    let encoding = match encoding_of(&head.headers) {
        Ok(encoding) => encoding,
        Err(denied) => return answer(Err(service.unread(signal, denied))),
    };
    answer(service.export(signal, LengthPrefixed { encoding }, limit_bytes, body).await)
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| {
        let value = value.split(';').next().unwrap_or_default().trim();
        value == "application/grpc" || value == "application/grpc+proto"
    })
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
    match value.to_str() {
        Ok("identity") => Ok(None),
        Ok(name) => Encoding::from_name(name).map(Some).ok_or(()),
        Err(_) => Err(()),
    }
    .map_err(|()| Denied::unsupported("the message's compression is not spoken: use gzip or zstd"))
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
    let mut data = Vec::with_capacity(PREFIX_BYTES + message.len());
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

/// gRPC's encoding of `grpc-message`: all but printable ASCII, and the percent sign itself.
fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        if (0x20..0x7f).contains(&byte) && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                encoded.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::{Format, Framing, Layout, LengthPrefixed, percent_encoded};
    use millrace_wire::decompress::Encoding;

    /// Scenario: framings right and wrong. Guarantee: exactly one message, its flag understood.
    #[test]
    fn a_call_holds_exactly_one_message() {
        let plain = LengthPrefixed { encoding: None };
        let gzip = LengthPrefixed { encoding: Some(Encoding::Gzip) };
        let layout = |encoding| Ok(Layout { start: 5, encoding, format: Format::Protobuf });
        assert_eq!(plain.message(&[0, 0, 0, 0, 2, 7, 7]), layout(None));
        assert_eq!(plain.message(&[0, 0, 0, 0, 0]), layout(None));
        assert_eq!(gzip.message(&[1, 0, 0, 0, 1, 7]), layout(Some(Encoding::Gzip)));
        assert_eq!(gzip.message(&[0, 0, 0, 0, 1, 7]), layout(None));
        for bad in [&[][..], &[0, 0, 0], &[0, 0, 0, 0, 3, 7], &[0, 0, 0, 0, 0, 0], &[2, 0, 0, 0, 0]]
        {
            assert!(gzip.message(bad).is_err(), "{bad:?}");
        }
        assert!(plain.message(&[1, 0, 0, 0, 0]).is_err());
    }

    /// Scenario: a message with characters that a header can't hold. Guarantee: none is left.
    #[test]
    fn messages_are_safe_in_a_header() {
        assert_eq!(percent_encoded("50% of `ä`\n"), "50%25 of `%C3%A4`%0A");
    }
}
