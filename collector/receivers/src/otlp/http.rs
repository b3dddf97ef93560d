//! OTLP over HTTP with protobuf bodies: `/v1/traces`, `/v1/logs`, `/v1/metrics`.
//!
//! 500 is never answered, and 413 only for a request that is too large in itself: both tell an OTLP
//! client to drop its data.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Body;
use millrace_pipeline::publish::Delivered;
use millrace_wire::Signal;
use millrace_wire::decompress::Encoding;

use super::denied::{Denied, Kind};
use super::reply::Reply;
use super::service::{Framing, Service};
use super::status;

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// A body that is the message, compressed as a header says.
struct WholeBody {
    encoding: Option<Encoding>,
}

impl Framing for WholeBody {
    const OVERHEAD_BYTES: usize = 0;

    fn message(&self, _: &[u8]) -> Result<(usize, Option<Encoding>), Denied> {
        Ok((0, self.encoding))
    }
}

/// Answers one request.
pub(crate) async fn handle<B>(
    service: &Service,
    limit_bytes: usize,
    request: Request<B>,
) -> Response<Reply>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (head, body) = request.into_parts();
    let signal = match head.uri.path() {
        "/v1/traces" => Signal::Traces,
        "/v1/logs" => Signal::Logs,
        "/v1/metrics" => Signal::Metrics,
        _ => return failure(StatusCode::NOT_FOUND, "write /v1/traces, /v1/logs or /v1/metrics"),
    };
    if head.method != Method::POST {
        let mut response = failure(StatusCode::METHOD_NOT_ALLOWED, "send OTLP by POST");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    let encoding = match check_headers(&head.headers) {
        Ok(encoding) => encoding,
        Err(denied) => return answer(Err(service.unread(signal, denied))),
    };
    answer(service.export(signal, WholeBody { encoding }, limit_bytes, body).await)
}

/// The compression of a body, if its type and compression are spoken.
fn check_headers(headers: &HeaderMap) -> Result<Option<Encoding>, Denied> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.and_then(|value| value.split(';').next()).map(str::trim);
    if !media_type.is_some_and(|value| value.eq_ignore_ascii_case("application/x-protobuf")) {
        return Err(Denied::unsupported(
            "the body's type is not spoken: send application/x-protobuf",
        ));
    }
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let encoding = match (encodings.next().map(HeaderValue::to_str), encodings.next()) {
        (None, None) => return Ok(None),
        (Some(Ok(name)), None) if name.eq_ignore_ascii_case("identity") => return Ok(None),
        (Some(Ok(name)), None) => Encoding::from_name(&name.to_ascii_lowercase()),
        _ => None,
    };
    let unknown = "the body's compression is not spoken: use gzip, zstd or none";
    encoding.map(Some).ok_or_else(|| Denied::unsupported(unknown))
}

fn answer(result: Result<Delivered, Denied>) -> Response<Reply> {
    let Denied { kind, message } = match result {
        Ok(delivered) => {
            let mut response = Response::new(Reply::data(status::export_response(&delivered)));
            response.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
            return response;
        }
        Err(denied) => denied,
    };
    let (status, delay) = match kind {
        Kind::Malformed => (StatusCode::BAD_REQUEST, None),
        Kind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, None),
        Kind::Unsupported => (StatusCode::UNSUPPORTED_MEDIA_TYPE, None),
        Kind::Unconfigured => (StatusCode::NOT_FOUND, None),
        Kind::Full(delay) => (StatusCode::TOO_MANY_REQUESTS, Some(delay)),
        Kind::Unavailable(delay) => (StatusCode::SERVICE_UNAVAILABLE, Some(delay)),
    };
    let mut response = failure(status, &message);
    if let Some(delay) = delay {
        // The header has whole seconds; rounding up keeps the promise.
        let seconds = delay.as_millis().div_ceil(1000) as u64;
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// OTLP wants a `google.rpc.Status` as the body of each failure.
fn failure(status: StatusCode, message: &str) -> Response<Reply> {
    let code = match status {
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => 3,
        StatusCode::TOO_MANY_REQUESTS => 8,
        StatusCode::SERVICE_UNAVAILABLE => 14,
        _ => 12,
    };
    let mut response = Response::new(Reply::data(status::status(code, message, None)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
    response
}

#[cfg(test)]
mod tests {
    use super::check_headers;
    use http::HeaderMap;
    use millrace_wire::decompress::Encoding;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    /// Scenario: what clients write in their headers. Guarantee: protobuf in known compressions
    /// only.
    #[test]
    fn only_protobuf_in_known_compressions_is_read() {
        let protobuf = ("content-type", "application/x-protobuf; charset=x");
        assert_eq!(check_headers(&headers(&[protobuf])), Ok(None));
        assert_eq!(
            check_headers(&headers(&[protobuf, ("content-encoding", "Identity")])),
            Ok(None)
        );
        let gzip = headers(&[protobuf, ("content-encoding", "GZIP")]);
        assert_eq!(check_headers(&gzip), Ok(Some(Encoding::Gzip)));
        assert!(check_headers(&headers(&[("content-type", "application/json")])).is_err());
        assert!(check_headers(&headers(&[])).is_err());
        assert!(check_headers(&headers(&[protobuf, ("content-encoding", "br")])).is_err());
        let twice =
            headers(&[protobuf, ("content-encoding", "gzip"), ("content-encoding", "gzip")]);
        assert!(check_headers(&twice).is_err());
    }
}
