//! OTLP over HTTP, with bodies in protobuf or JSON: `/v1/traces`, `/v1/logs`, `/v1/metrics`.
//!
//! An answer has its request's format. 500 is never answered, and 413 only for a single request
//! that is too large: after both an OTLP client drops its data.

use std::net::IpAddr;

use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use millrace_pipeline::publish::DeliveryReceipt;
use millrace_pipeline::telemetry::RefusalReason;
use millrace_wire::Signal;
use millrace_wire::decompress::ContentEncoding;
use millrace_wire::framing::{self, MessageFormat};

use crate::answers::denied::{Denial, code};
use crate::answers::reply::ResponseBody;
use crate::answers::status;
use crate::requests::service::{Call, Framing, OtlpService};

/// Reads a call's head, or returns its answer.
pub(crate) fn read_call(
    service: &OtlpService,
    head: &Parts,
    client: IpAddr,
    limit_bytes: usize,
) -> Result<Call, Box<Response<ResponseBody>>> {
    // Other content types are answered in protobuf, the protocol's first format.
    let format = format_of(&head.headers);
    let answer_in = format.unwrap_or(MessageFormat::Protobuf);
    let signal = match head.uri.path() {
        "/v1/traces" => Signal::Traces,
        "/v1/logs" => Signal::Logs,
        "/v1/metrics" => Signal::Metrics,
        _ => {
            let message = "use /v1/traces, /v1/logs or /v1/metrics";
            let code = code::UNIMPLEMENTED;
            return Err(failure_response(answer_in, StatusCode::NOT_FOUND, code, message).into());
        }
    };
    if head.method != Method::POST {
        let (status, code) = (StatusCode::METHOD_NOT_ALLOWED, code::UNIMPLEMENTED);
        let mut response = failure_response(answer_in, status, code, "send OTLP with POST");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return Err(response.into());
    }
    let (format, encoding) = check_headers(format, &head.headers).map_err(|denied| {
        build_response(signal, answer_in, Err(service.count_denied(signal, denied)))
    })?;
    let framing = Framing::Http(format);
    Ok(Call { signal, framing, encoding, limit_bytes, client_timeout: None, client })
}

/// Returns the body's format, if it is supported.
fn format_of(headers: &HeaderMap) -> Option<MessageFormat> {
    framing::format_of(headers.get(CONTENT_TYPE)?.to_str().ok()?)
}

/// Returns a body's format and compression, if they are supported.
fn check_headers(
    format: Option<MessageFormat>,
    headers: &HeaderMap,
) -> Result<(MessageFormat, Option<ContentEncoding>), Denial> {
    let unsupported = |message| Denial::new(RefusalReason::Unsupported, message);
    let unknown = "unsupported content type: send application/x-protobuf or application/json";
    let format = format.ok_or_else(|| unsupported(unknown))?;
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let encoding = match (encodings.next().map(HeaderValue::to_str), encodings.next()) {
        (None, None) => Ok(None),
        (Some(Ok(name)), None) => framing::content_encoding(name),
        _ => Err(framing::UnknownEncoding),
    };
    let unknown = "unsupported content encoding: use gzip, zstd or none";
    Ok((format, encoding.map_err(|_| unsupported(unknown))?))
}

/// Returns a call's answer.
pub(crate) fn build_response(
    signal: Signal,
    format: MessageFormat,
    result: Result<DeliveryReceipt, Denial>,
) -> Response<ResponseBody> {
    let denied = match (result, format) {
        (Ok(delivered), MessageFormat::Protobuf) => {
            return http_response(format, StatusCode::OK, status::export_response(&delivered));
        }
        (Ok(delivered), MessageFormat::Json) => {
            let body = status::json::export_response(signal, &delivered);
            return http_response(format, StatusCode::OK, body);
        }
        (Err(denied), _) => denied,
    };
    let status = match (denied.reason, denied.code()) {
        (RefusalReason::TooLarge, _) => StatusCode::PAYLOAD_TOO_LARGE,
        (RefusalReason::Unsupported, _) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        (_, code::INVALID_ARGUMENT) => StatusCode::BAD_REQUEST,
        (_, code::UNIMPLEMENTED) => StatusCode::NOT_FOUND,
        (_, code::RESOURCE_EXHAUSTED) => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = failure_response(format, status, denied.code(), &denied.message);
    if let Some(delay) = denied.retry_after() {
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
    code: u32,
    message: &str,
) -> Response<ResponseBody> {
    let body = match format {
        MessageFormat::Protobuf => status::encode_status(code, message, None),
        MessageFormat::Json => status::json::encode_status(code, message),
    };
    http_response(format, status, body)
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
    use super::{ContentEncoding, MessageFormat, check_headers, format_of};
    use http::HeaderMap;

    fn read(pairs: &[(&'static str, &str)]) -> Option<(MessageFormat, Option<ContentEncoding>)> {
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
        let body = |encoding, format| Some((format, encoding));
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
