//! Tests of what `report/plaintext.rs` keeps to itself.

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
