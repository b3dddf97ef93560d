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
mod tests {
    use super::*;
    use jiff::Timestamp;
    use millrace_crds::v1alpha1::GatewayPoolSpec;
    use serde_json::{Value, json};

    fn told(kafka: &Value, clickhouse: &Value) -> Option<String> {
        let mut spec = json!({"signals": {"traces": {}},
            "kafka": {"bootstrapServers": ["k:9092"]},
            "clickhouse": {"endpoints": ["http://c:8123"]}});
        for (part, more) in [("kafka", kafka), ("clickhouse", clickhouse)] {
            for (key, value) in more.as_object().into_iter().flatten() {
                spec[part][key] = value.clone();
            }
        }
        let spec: GatewayPoolSpec = serde_json::from_value(spec).unwrap();
        let mut conditions = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
        state(&mut conditions, Some(&spec.kafka), Some(&spec.clickhouse));
        let events = conditions.notices();
        let told = conditions.stated(ConditionType::PasswordExposed).map(|it| it.message.clone());
        assert_eq!(events.iter().filter(|it| it.warning).count(), usize::from(told.is_some()));
        told
    }

    /// Scenario: each way to sign in to either, encrypted and not. Guarantee: told, with one event,
    /// exactly where the password itself goes over a connection that is not encrypted.
    #[test]
    fn only_a_password_that_can_be_read_is_told() {
        let none = json!({});
        let user = json!({"credentialsSecretRef": {"name": "u"}});
        let sasl = |mechanism: &str| {
            let mut sasl = user.clone();
            sasl["mechanism"] = mechanism.into();
            json!({"sasl": sasl})
        };
        assert_eq!(told(&none, &none), None);
        assert_eq!(told(&sasl("SCRAM-SHA-256"), &none), None);
        let plain = sasl("PLAIN");
        assert!(told(&plain, &none).unwrap().starts_with("kafka.sasl with PLAIN"));
        let mut encrypted = plain.clone();
        encrypted["tls"] = json!({});
        assert_eq!(told(&encrypted, &none), None);
        assert!(told(&none, &user).unwrap().starts_with("clickhouse.endpoints"));
        let mut encrypted = user.clone();
        encrypted["endpoints"] = json!(["https://c:8443"]);
        assert_eq!(told(&none, &encrypted), None);
        encrypted["endpoints"] = json!(["https://c:8443", "http://d:8123"]);
        assert!(told(&none, &encrypted).is_some());
        assert!(told(&plain, &user).unwrap().contains("; "));
    }
}
