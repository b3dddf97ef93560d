//! OTLP over HTTP, with bodies in protobuf or JSON: `/v1/traces`, `/v1/logs`, `/v1/metrics`.
//!
//! An answer has its request's format. 500 is never answered, and 413 only for a single request
//! that is too large: after both an OTLP client drops its data.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Body;
use millrace_pipeline::publish::DeliveryReceipt;
use millrace_wire::Signal;
use millrace_wire::decompress::ContentEncoding;
use millrace_wire::framing::{self, MessageFormat};

use super::body::MessageLayout;
use super::denied::{Denial, DenialKind};
use super::reply::ResponseBody;
use super::service::{Framing, OtlpService, RequestHead};
use super::status;

/// A body that is the message, compressed and encoded as its headers state.
#[derive(Debug, PartialEq, Eq)]
struct PlainBody {
    encoding: Option<ContentEncoding>,
    format: MessageFormat,
}

impl Framing for PlainBody {
    const OVERHEAD_BYTES: usize = 0;

    fn locate_message(&self, _: &[u8]) -> Result<MessageLayout, Denial> {
        let Self { encoding, format } = *self;
        Ok(MessageLayout { start: 0, encoding, format })
    }
}

/// A request whose head was read.
pub(crate) struct Call {
    signal: Signal,
    body: PlainBody,
    client: IpAddr,
}

impl Call {
    /// Reads a head, or returns its answer.
    pub(crate) fn read(
        service: &OtlpService,
        head: &Parts,
        client: IpAddr,
    ) -> Result<Self, Box<Response<ResponseBody>>> {
        // Other content types are answered in protobuf, the protocol's first format.
        let format = format_of(&head.headers);
        let answer_in = format.unwrap_or(MessageFormat::Protobuf);
        let signal = match head.uri.path() {
            "/v1/traces" => Signal::Traces,
            "/v1/logs" => Signal::Logs,
            "/v1/metrics" => Signal::Metrics,
            _ => {
                let message = "use /v1/traces, /v1/logs or /v1/metrics";
                return Err(failure_response(answer_in, StatusCode::NOT_FOUND, message).into());
            }
        };
        if head.method != Method::POST {
            let mut response =
                failure_response(answer_in, StatusCode::METHOD_NOT_ALLOWED, "send OTLP with POST");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            return Err(response.into());
        }
        match check_headers(format, &head.headers) {
            Ok(body) => Ok(Self { signal, body, client }),
            Err(denied) => {
                Err(build_response(signal, answer_in, Err(service.count_denied(signal, denied)))
                    .into())
            }
        }
    }

    /// Refuses the call for lack of budget.
    pub(crate) fn refuse_call(self, service: &OtlpService) -> Response<ResponseBody> {
        let denied = service.count_denied(self.signal, Denial::full());
        build_response(self.signal, self.body.format, Err(denied))
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
        let Self { signal, body: framing, client } = self;
        let format = framing.format;
        // HTTP clients state no timeout.
        let head = RequestHead { signal, framing, limit_bytes, client_timeout: None, client };
        build_response(signal, format, service.export(head, body).await)
    }
}

/// Returns the body's format, if it is supported.
fn format_of(headers: &HeaderMap) -> Option<MessageFormat> {
    framing::format_of(headers.get(CONTENT_TYPE)?.to_str().ok()?)
}

/// Returns how to read a body, if its type and compression are supported.
fn check_headers(format: Option<MessageFormat>, headers: &HeaderMap) -> Result<PlainBody, Denial> {
    let unknown = "unsupported content type: send application/x-protobuf or application/json";
    let format = format.ok_or_else(|| Denial::unsupported(unknown))?;
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let encoding = match (encodings.next().map(HeaderValue::to_str), encodings.next()) {
        (None, None) => Ok(None),
        (Some(Ok(name)), None) => framing::content_encoding(name),
        _ => Err(framing::UnknownEncoding),
    };
    let unknown = "unsupported content encoding: use gzip, zstd or none";
    let encoding = encoding.map_err(|_| Denial::unsupported(unknown))?;
    Ok(PlainBody { encoding, format })
}

fn build_response(
    signal: Signal,
    format: MessageFormat,
    result: Result<DeliveryReceipt, Denial>,
) -> Response<ResponseBody> {
    let Denial { kind, message } = match result {
        Ok(delivered) => {
            return http_response(
                format,
                StatusCode::OK,
                match format {
                    MessageFormat::Protobuf => status::export_response(&delivered),
                    MessageFormat::Json => status::json::export_response(signal, &delivered),
                },
            );
        }
        Err(denied) => denied,
    };
    let (status, delay) = match kind {
        DenialKind::Malformed => (StatusCode::BAD_REQUEST, None),
        DenialKind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, None),
        DenialKind::Unsupported => (StatusCode::UNSUPPORTED_MEDIA_TYPE, None),
        DenialKind::Unconfigured => (StatusCode::NOT_FOUND, None),
        DenialKind::Full(delay) => (StatusCode::TOO_MANY_REQUESTS, Some(delay)),
        DenialKind::Unavailable(delay) => (StatusCode::SERVICE_UNAVAILABLE, Some(delay)),
    };
    let mut response = failure_response(format, status, &message);
    if let Some(delay) = delay {
        // The header has whole seconds; rounding up never shortens the delay.
        let seconds = delay.as_millis().div_ceil(1000) as u64;
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Builds a failure. OTLP requires a `google.rpc.Status` as its body.
fn failure_response(
    format: MessageFormat,
    status: StatusCode,
    message: &str,
) -> Response<ResponseBody> {
    let code = match status {
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => 3,
        StatusCode::TOO_MANY_REQUESTS => 8,
        StatusCode::SERVICE_UNAVAILABLE => 14,
        _ => 12,
    };
    http_response(
        format,
        status,
        match format {
            MessageFormat::Protobuf => status::encode_status(code, message, None),
            MessageFormat::Json => status::json::encode_status(code, message),
        },
    )
}

fn http_response(
    format: MessageFormat,
    status: StatusCode,
    body: Vec<u8>,
) -> Response<ResponseBody> {
    let content_type = match format {
        MessageFormat::Protobuf => "application/x-protobuf",
        MessageFormat::Json => "application/json",
    };
    let mut response = Response::new(ResponseBody::from_data(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::{MessageFormat, PlainBody, check_headers, format_of};
    use http::HeaderMap;
    use millrace_wire::decompress::ContentEncoding;

    fn read(pairs: &[(&'static str, &str)]) -> Option<PlainBody> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        check_headers(format_of(&headers), &headers).ok()
    }

    /// Scenario: the headers that clients write. Guarantee: only protobuf and JSON in known
    /// compressions are accepted.
    #[test]
    fn only_protobuf_and_json_in_known_compressions_are_read() {
        let protobuf = ("content-type", "application/x-protobuf; charset=x");
        let body = |encoding, format| Some(PlainBody { encoding, format });
        assert_eq!(read(&[protobuf]), body(None, MessageFormat::Protobuf));
        let identity = ("content-encoding", "Identity");
        assert_eq!(read(&[protobuf, identity]), body(None, MessageFormat::Protobuf));
        let gzip = ("content-encoding", "GZIP");
        assert_eq!(
            read(&[protobuf, gzip]),
            body(Some(ContentEncoding::Gzip), MessageFormat::Protobuf)
        );
        let json = ("content-type", "Application/JSON;charset=utf-8");
        let zstd = ("content-encoding", "zstd");
        assert_eq!(read(&[json, zstd]), body(Some(ContentEncoding::Zstd), MessageFormat::Json));
        assert_eq!(read(&[("content-type", "text/json")]), None);
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[protobuf, ("content-encoding", "br")]), None);
        assert_eq!(read(&[protobuf, gzip, gzip]), None);
    }
}
