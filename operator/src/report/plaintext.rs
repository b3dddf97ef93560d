//! Passwords sent in plaintext: reported by a condition and an event, not refused. Pure.

use millrace_crds::v1alpha1::{ClickHouseTarget, KafkaConnection, SaslMechanism};
use millrace_crds::{ConditionType, Reason};

use crate::report::conditions::Conditions;

/// States `PasswordExposed` for a spec that sends a password in plaintext; otherwise nothing.
pub fn state(
    conditions: &mut Conditions,
    kafka: Option<&KafkaConnection>,
    clickhouse: Option<&ClickHouseTarget>,
) {
    let told = [kafka.and_then(to_kafka), clickhouse.and_then(to_clickhouse)];
    let told: Vec<&str> = told.into_iter().flatten().collect();
    if told.is_empty() {
        conditions.drop(ConditionType::PasswordExposed);
    } else {
        let message = told.join("; ");
        conditions.holds(ConditionType::PasswordExposed, Reason::ConnectionUnencrypted, message);
    }
}

/// SCRAM proves knowledge of the password without sending it.
fn to_kafka(kafka: &KafkaConnection) -> Option<&'static str> {
    let KafkaConnection { bootstrap_servers: _, tls, sasl } = kafka;
    let sends = sasl.as_ref().is_some_and(|it| it.mechanism == SaslMechanism::Plain);
    (sends && tls.is_none()).then_some(
        "kafka.sasl with PLAIN sends the password as it is: set kafka.tls, or use SCRAM-SHA-512",
    )
}

fn to_clickhouse(target: &ClickHouseTarget) -> Option<&'static str> {
    let is_plain = target.endpoints.iter().any(|it| it.as_str().starts_with("http://"));
    (target.credentials_secret_ref.is_some() && is_plain)
        .then_some("clickhouse.endpoints with http:// are sent the password as it is: use https://")
}

#[cfg(test)]
#[path = "../../tests/unit/report/plaintext.rs"]
mod tests;
