//! OTLP over gRPC: the three `Export` calls, each unary, directly over HTTP/2.
//!
//! It is written by hand because a request has to stay bytes, and has to be decompressed under a
//! cap and off the I/O threads. Generated servers don't offer that.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use millrace_pipeline::publish::DeliveryReceipt;
use millrace_pipeline::telemetry::RefusalReason;
use millrace_wire::Signal;
use millrace_wire::decompress::ContentEncoding;
use millrace_wire::framing::{self, GRPC_PREFIX_BYTES, percent_encoded};

use crate::answers::denied::{Denial, code};
use crate::answers::reply::ResponseBody;
use crate::answers::status;
use crate::requests::deadline::parse_grpc_timeout;
use crate::requests::service::{Call, Framing, OtlpService};

/// Reads a call's head, or returns its answer.
pub(crate) fn read_call(
    service: &OtlpService,
    head: &Parts,
    client: IpAddr,
    limit_bytes: usize,
) -> Result<Call, Box<Response<ResponseBody>>> {
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
    let encoding = encoding_of(&head.headers)
        .map_err(|denied| build_response(Err(service.count_denied(signal, denied))))?;
    let client_timeout = timeout_of(&head.headers);
    Ok(Call { signal, framing: Framing::Grpc, encoding, limit_bytes, client_timeout, client })
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
    let unknown = "unsupported message compression: use gzip or zstd";
    value
        .to_str()
        .map_err(|_| framing::UnknownEncoding)
        .and_then(framing::grpc_encoding)
        .map_err(|_| Denial::new(RefusalReason::Unsupported, unknown))
}

/// Reads the client's timeout. A client with an unreadable `grpc-timeout` is answered like one
/// without.
fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    parse_grpc_timeout(headers.get("grpc-timeout")?.to_str().ok()?)
}

/// Returns a call's answer.
pub(crate) fn build_response(result: Result<DeliveryReceipt, Denial>) -> Response<ResponseBody> {
    match result {
        Ok(delivered) => success_response(&delivered),
        Err(denied) => failure_response(denied.code(), &denied.message, denied.retry_after()),
    }
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
