//! Why Kafka refuses a client: the text that an edge and a gateway show in `/readyz`.

use rdkafka::types::RDKafkaErrorCode as Code;

/// Describes an error that waiting doesn't end, by the library's reason: what failed and what to
/// do. `None` for other errors.
#[must_use]
pub fn describe_refusal(code: Code, reason: &str) -> Option<String> {
    let (failure, advice) = match code {
        Code::SSL => (
            "the TLS connection to Kafka failed",
            "check the CA, the host name in the broker's certificate, and that the port expects TLS",
        ),
        Code::Authentication | Code::SaslAuthenticationFailed => (
            "Kafka rejected the credentials",
            "check the user name, the password and the mechanism",
        ),
        _ => return None,
    };
    Some(format!("{failure}: {}; {advice}", strip_times(reason)))
}

/// Removes the time and the number of repetitions, so that a repeated error is the same text.
fn strip_times(reason: &str) -> &str {
    let reason = reason.split(" (after ").next().unwrap_or(reason);
    let reason = reason.split(" (install ").next().unwrap_or(reason);
    reason.trim().trim_end_matches(['.', ':'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the library's reports of a certificate that it doesn't trust, twice, of a
    /// password, and of a broker that is away. Guarantee: the first two are one text with the
    /// remedy, the third names credentials, and the last is no refusal.
    #[test]
    fn a_refusal_has_its_cause_and_a_remedy() {
        let report = |after| {
            let reason = format!(
                "ssl://kafka:9093/bootstrap: SSL handshake failed: certificate verify failed \
                 (after {after}ms in state SSL_HANDSHAKE, 1 identical error(s) suppressed)"
            );
            describe_refusal(Code::SSL, &reason).unwrap()
        };
        assert_eq!(report(3), report(17));
        assert_eq!(
            report(3),
            "the TLS connection to Kafka failed: ssl://kafka:9093/bootstrap: SSL handshake failed: \
             certificate verify failed; check the CA, the host name in the broker's certificate, \
             and that the port expects TLS"
        );
        let denied = describe_refusal(Code::Authentication, "kafka:9093: invalid password.");
        assert!(denied.unwrap().starts_with("Kafka rejected the credentials: kafka:9093: invalid"));
        assert_eq!(describe_refusal(Code::BrokerTransportFailure, "connection refused"), None);
    }
}
