//! What a server's answer means for a request, by the rules of the OTLP specification: taken, to be
//! sent again, or to be dropped; and, for the judge, whether it may have been taken unanswered.

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::proto::{rejected_records, retry_delay};

/// Longest text of a refusal that is kept.
const WORDS_CHARS_MAX: usize = 200;

/// What became of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// All records were taken.
    Taken,
    /// Must not be sent again: refused whole, or in part.
    Refused { words: String },
    /// Was not taken, send again: the server says so.
    Busy { after: Option<Duration>, words: String },
    /// May or may not have been taken; send again.
    Unclear { after: Option<Duration>, words: String },
    /// Never left: no connection.
    Unsent { words: String },
}

fn words(text: &str) -> String {
    text.chars().take(WORDS_CHARS_MAX).collect()
}

fn taken(rejected: u64) -> Answer {
    match rejected {
        0 => Answer::Taken,
        some => Answer::Refused { words: format!("{some} records of the request were rejected") },
    }
}

/// Judges an OTLP/HTTP answer.
pub(crate) fn of_http(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Answer {
    let after = headers
        .get(http::header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok())
        .map(Duration::from_secs);
    let words = || words(&format!("HTTP {status}"));
    match status {
        StatusCode::OK => taken(rejected_records(body)),
        StatusCode::TOO_MANY_REQUESTS => Answer::Busy { after, words: words() },
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            Answer::Unclear { after, words: words() }
        }
        _ => Answer::Refused { words: words() },
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

/// Judges an OTLP/gRPC answer: HTTP status, headers, message frames and trailers.
pub(crate) fn of_grpc(
    status: StatusCode,
    headers: &HeaderMap,
    trailers: Option<&HeaderMap>,
    body: &[u8],
) -> Answer {
    // An answer of headers alone carries its status there.
    let trailers = trailers.filter(|map| map.contains_key("grpc-status")).unwrap_or(headers);
    let code = trailers.get("grpc-status").and_then(|value| value.to_str().ok()?.parse().ok());
    let Some(code): Option<u16> = code else {
        return without_grpc_status(status);
    };
    let message = trailers.get("grpc-message").and_then(|value| value.to_str().ok());
    let words = words(&format!("gRPC status {code} {}", message.unwrap_or_default()));
    let details = trailers
        .get("grpc-status-details-bin")
        .and_then(|value| from_base64(value.as_bytes()))
        .unwrap_or_default();
    let after = retry_delay(&details);
    match code {
        OK => taken(rejected_records(body.get(5..).unwrap_or_default())),
        RESOURCE_EXHAUSTED if after.is_some() => Answer::Busy { after, words },
        CANCELLED | DEADLINE_EXCEEDED | ABORTED | OUT_OF_RANGE | UNAVAILABLE | DATA_LOSS => {
            Answer::Unclear { after, words }
        }
        _ => Answer::Refused { words },
    }
}

/// A proxy answered, or the stream ended early.
fn without_grpc_status(status: StatusCode) -> Answer {
    let words = words(&format!("HTTP {status} without a gRPC status"));
    match status {
        StatusCode::OK
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Answer::Unclear { after: None, words },
        _ => Answer::Refused { words },
    }
}

/// Plain base64 (RFC 4648), padded or not, as gRPC's binary headers use it.
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
#[path = "../../tests/unit/send/answer.rs"]
mod tests;
