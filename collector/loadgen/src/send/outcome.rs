//! Classifies a server's answer to a request by the rules of the OTLP specification: accepted, to
//! be sent again, or to be dropped; and, for the check, whether the server may have accepted it
//! without an answer.

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::proto::{rejected_records, retry_delay};

/// Maximum retained length of a refusal.
const WORDS_CHARS_MAX: usize = 200;

/// The outcome of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    /// The server accepted all records.
    Accepted,
    /// The request must not be sent again: refused completely, or in part.
    Refused { words: String },
    /// The server reports that it did not accept the request; send it again.
    Busy { after: Option<Duration>, words: String },
    /// The server may have accepted it; send it again.
    Unclear { after: Option<Duration>, words: String },
    /// It was never sent: no connection.
    Unsent { words: String },
}

fn shorten_message(text: &str) -> String {
    text.chars().take(WORDS_CHARS_MAX).collect()
}

fn outcome_of_rejected(rejected: u64) -> AttemptOutcome {
    match rejected {
        0 => AttemptOutcome::Accepted,
        some => AttemptOutcome::Refused {
            words: format!("{some} records of the request were rejected"),
        },
    }
}

/// Classifies an OTLP/HTTP answer.
pub(crate) fn classify_http(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> AttemptOutcome {
    let after = headers
        .get(http::header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok())
        .map(Duration::from_secs);
    let words = || shorten_message(&format!("HTTP {status}"));
    match status {
        StatusCode::OK => outcome_of_rejected(rejected_records(body)),
        StatusCode::TOO_MANY_REQUESTS => AttemptOutcome::Busy { after, words: words() },
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            AttemptOutcome::Unclear { after, words: words() }
        }
        _ => AttemptOutcome::Refused { words: words() },
    }
}

/// Status codes of gRPC that OTLP names.
const OK: u16 = 0;
const CANCELLED: u16 = 1;
const DEADLINE_EXCEEDED: u16 = 4;
const RESOURCE_EXHAUSTED: u16 = 8;
const ABORTED: u16 = 10;
const OUT_OF_RANGE: u16 = 11;
const UNAVAILABLE: u16 = 14;
const DATA_LOSS: u16 = 15;

/// Classifies an OTLP/gRPC answer: HTTP status, headers, message frames and trailers.
pub(crate) fn classify_grpc(
    status: StatusCode,
    headers: &HeaderMap,
    trailers: Option<&HeaderMap>,
    body: &[u8],
) -> AttemptOutcome {
    // A headers-only answer has its status there.
    let trailers = trailers.filter(|map| map.contains_key("grpc-status")).unwrap_or(headers);
    let code = trailers.get("grpc-status").and_then(|value| value.to_str().ok()?.parse().ok());
    let Some(code): Option<u16> = code else {
        return without_grpc_status(status);
    };
    let message = trailers.get("grpc-message").and_then(|value| value.to_str().ok());
    let words = shorten_message(&format!("gRPC status {code} {}", message.unwrap_or_default()));
    let details = trailers
        .get("grpc-status-details-bin")
        .and_then(|value| from_base64(value.as_bytes()))
        .unwrap_or_default();
    let after = retry_delay(&details);
    match code {
        OK => outcome_of_rejected(rejected_records(body.get(5..).unwrap_or_default())),
        RESOURCE_EXHAUSTED if after.is_some() => AttemptOutcome::Busy { after, words },
        CANCELLED | DEADLINE_EXCEEDED | ABORTED | OUT_OF_RANGE | UNAVAILABLE | DATA_LOSS => {
            AttemptOutcome::Unclear { after, words }
        }
        _ => AttemptOutcome::Refused { words },
    }
}

/// Classifies an answer of a proxy, or a stream that ended early.
fn without_grpc_status(status: StatusCode) -> AttemptOutcome {
    let words = shorten_message(&format!("HTTP {status} without a gRPC status"));
    match status {
        StatusCode::OK
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => AttemptOutcome::Unclear { after: None, words },
        _ => AttemptOutcome::Refused { words },
    }
}

/// Decodes plain base64 (RFC 4648), padded or not, as gRPC's binary headers use it.
fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.iter().copied().filter(|byte| *byte != b'=');
    let (mut bytes, mut bits, mut pending) = (Vec::with_capacity(text.len()), 0_u32, 0_u32);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        pending += 6;
        if pending >= 8 {
            pending -= 8;
            bytes.push((bits >> pending) as u8);
            bits &= (1 << pending) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
