//! OTLP over HTTP, with bodies in protobuf or JSON: `/v1/traces`, `/v1/logs`, `/v1/metrics`.
//!
//! An answer has its request's format. 500 is never answered, and 413 only for a request that is
//! too large by itself: after both an OTLP client drops its data.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Body;
use millrace_pipeline::publish::Delivered;
use millrace_wire::Signal;
use millrace_wire::decompress::Encoding;
use millrace_wire::framing::{self, Format};

use super::body::Layout;
use super::denied::{Denied, Kind};
use super::reply::Reply;
use super::service::{Framing, Service};
use super::status;

/// A body that is the message, compressed and written as its headers say.
#[derive(Debug, PartialEq, Eq)]
struct WholeBody {
    encoding: Option<Encoding>,
    format: Format,
}

impl Framing for WholeBody {
    const OVERHEAD_BYTES: usize = 0;

    fn message(&self, _: &[u8]) -> Result<Layout, Denied> {
        let Self { encoding, format } = *self;
        Ok(Layout { start: 0, encoding, format })
    }
}

/// A request whose head was read.
pub(crate) struct Call {
    signal: Signal,
    body: WholeBody,
}

impl Call {
    /// Reads a head, or answers it.
    pub(crate) fn read(service: &Service, head: &Parts) -> Result<Self, Box<Response<Reply>>> {
        // Who sends something else is answered in protobuf, the protocol's first form.
        let format = format_of(&head.headers);
        let answer_in = format.unwrap_or(Format::Protobuf);
        let signal = match head.uri.path() {
            "/v1/traces" => Signal::Traces,
            "/v1/logs" => Signal::Logs,
            "/v1/metrics" => Signal::Metrics,
            _ => {
                let message = "write /v1/traces, /v1/logs or /v1/metrics";
                return Err(failure(answer_in, StatusCode::NOT_FOUND, message).into());
            }
        };
        if head.method != Method::POST {
            let mut response =
                failure(answer_in, StatusCode::METHOD_NOT_ALLOWED, "send OTLP by POST");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            return Err(response.into());
        }
        match check_headers(format, &head.headers) {
            Ok(body) => Ok(Self { signal, body }),
            Err(denied) => {
                Err(answer(signal, answer_in, Err(service.unread(signal, denied))).into())
            }
        }
    }

    /// Refuses it for want of room.
    pub(crate) fn refuse(self, service: &Service) -> Response<Reply> {
        let denied = service.unread(self.signal, Denied::full());
        answer(self.signal, self.body.format, Err(denied))
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
        let Self { signal, body: whole } = self;
        let format = whole.format;
        answer(signal, format, service.export(signal, whole, limit_bytes, body).await)
    }
}

/// How a body is written, if that is spoken.
fn format_of(headers: &HeaderMap) -> Option<Format> {
    framing::format_of(headers.get(CONTENT_TYPE)?.to_str().ok()?)
}

/// How to read a body, if its type and compression are spoken.
fn check_headers(format: Option<Format>, headers: &HeaderMap) -> Result<WholeBody, Denied> {
    let unknown = "the body's type is not spoken: send application/x-protobuf or application/json";
    let format = format.ok_or_else(|| Denied::unsupported(unknown))?;
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let encoding = match (encodings.next().map(HeaderValue::to_str), encodings.next()) {
        (None, None) => Ok(None),
        (Some(Ok(name)), None) => framing::content_encoding(name),
        _ => Err(framing::UnknownEncoding),
    };
    let unknown = "the body's compression is not spoken: use gzip, zstd or none";
    let encoding = encoding.map_err(|_| Denied::unsupported(unknown))?;
    Ok(WholeBody { encoding, format })
}

fn answer(signal: Signal, format: Format, result: Result<Delivered, Denied>) -> Response<Reply> {
    let Denied { kind, message } = match result {
        Ok(delivered) => {
            return response(
                format,
                StatusCode::OK,
                match format {
                    Format::Protobuf => status::export_response(&delivered),
                    Format::Json => status::json::export_response(signal, &delivered),
                },
            );
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
    let mut response = failure(format, status, &message);
    if let Some(delay) = delay {
        // The header has whole seconds; rounding up keeps the promise.
        let seconds = delay.as_millis().div_ceil(1000) as u64;
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// OTLP wants a `google.rpc.Status` as the body of each failure.
fn failure(format: Format, status: StatusCode, message: &str) -> Response<Reply> {
    let code = match status {
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => 3,
        StatusCode::TOO_MANY_REQUESTS => 8,
        StatusCode::SERVICE_UNAVAILABLE => 14,
        _ => 12,
    };
    response(
        format,
        status,
        match format {
            Format::Protobuf => status::status(code, message, None),
            Format::Json => status::json::status(code, message),
        },
    )
}

fn response(format: Format, status: StatusCode, body: Vec<u8>) -> Response<Reply> {
    let content_type = match format {
        Format::Protobuf => "application/x-protobuf",
        Format::Json => "application/json",
    };
    let mut response = Response::new(Reply::data(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::{Format, WholeBody, check_headers, format_of};
    use http::HeaderMap;
    use millrace_wire::decompress::Encoding;

    fn read(pairs: &[(&'static str, &str)]) -> Option<WholeBody> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        check_headers(format_of(&headers), &headers).ok()
    }

    /// Scenario: what clients write in their headers. Guarantee: protobuf and JSON in known
    /// compressions only.
    #[test]
    fn only_protobuf_and_json_in_known_compressions_are_read() {
        let protobuf = ("content-type", "application/x-protobuf; charset=x");
        let body = |encoding, format| Some(WholeBody { encoding, format });
        assert_eq!(read(&[protobuf]), body(None, Format::Protobuf));
        let identity = ("content-encoding", "Identity");
        assert_eq!(read(&[protobuf, identity]), body(None, Format::Protobuf));
        let gzip = ("content-encoding", "GZIP");
        assert_eq!(read(&[protobuf, gzip]), body(Some(Encoding::Gzip), Format::Protobuf));
        let json = ("content-type", "Application/JSON;charset=utf-8");
        let zstd = ("content-encoding", "zstd");
        assert_eq!(read(&[json, zstd]), body(Some(Encoding::Zstd), Format::Json));
        assert_eq!(read(&[("content-type", "text/json")]), None);
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[protobuf, ("content-encoding", "br")]), None);
        assert_eq!(read(&[protobuf, gzip, gzip]), None);
    }
}
