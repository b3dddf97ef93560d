//! Computes when a request has to be answered. Pure: times are passed in.
//!
//! A client that gave up sends its records again, whatever became of the first copy. So the
//! receiver answers earlier, with a code that makes the client wait and retry.

use std::time::Duration;

/// The maximum number of digits of a `grpc-timeout`, by gRPC's specification.
const MAX_TIMEOUT_DIGITS: usize = 8;

/// How much earlier than a client's timeout the answer is sent, as a divisor of the timeout, and
/// its bounds. It covers the network time of the request and the answer.
const MARGIN_DIVISOR: u32 = 10;
const MIN_MARGIN: Duration = Duration::from_millis(100);
const MAX_MARGIN: Duration = Duration::from_secs(1);

/// The time limits of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResponseTimes {
    /// For clients that state no timeout, from the end of their body on.
    pub(crate) usual: Duration,
    /// For all clients, from the headers on.
    pub(crate) longest: Duration,
}

impl ResponseTimes {
    /// Returns how long the body may take to arrive, for a client's timeout or none.
    pub(crate) fn of_body(self, client_timeout: Option<Duration>) -> Duration {
        let time = client_timeout.map(|timeout| timeout - response_margin(timeout));
        time.unwrap_or(self.longest).min(self.longest)
    }

    /// Returns how long the complete request may take when its body took `body`.
    pub(crate) fn of_request(self, client_timeout: Option<Duration>, body: Duration) -> Duration {
        let longest = self.of_body(client_timeout);
        if client_timeout.is_some() { longest } else { (body + self.usual).min(longest) }
    }
}

/// Returns the margin before a timeout: at most half of it.
fn response_margin(timeout: Duration) -> Duration {
    (timeout / MARGIN_DIVISOR).clamp(MIN_MARGIN, MAX_MARGIN).min(timeout / 2)
}

/// Parses a `grpc-timeout`: up to eight digits and a unit. Anything else returns `None`.
pub(crate) fn parse_grpc_timeout(value: &str) -> Option<Duration> {
    let (index, unit) = value.char_indices().next_back()?;
    let digits = &value[..index];
    if digits.len() > MAX_TIMEOUT_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(count * 3600),
        'M' => Duration::from_secs(count * 60),
        'S' => Duration::from_secs(count),
        'm' => Duration::from_millis(count),
        'u' => Duration::from_micros(count),
        'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
