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
    state(&mut conditions, Some(&spec.kafka), Some(&spec.clickhouse), None);
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

/// Scenario: targets that are sent a token, a password or nothing, encrypted or not; a token server
/// and a proxy without encryption. Guarantee: told with the job's name exactly where credentials go
/// over a connection that is not encrypted.
#[test]
fn credentials_that_targets_are_sent_are_told() {
    let told = |more: &Value| {
        let mut job = json!({"name": "shop", "targets": ["shop:1"]});
        for (key, value) in more.as_object().into_iter().flatten() {
            job[key] = value.clone();
        }
        let receiver = serde_json::from_value(json!({"jobs": [job]})).unwrap();
        let mut conditions = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
        state(&mut conditions, None, None, Some(&receiver));
        conditions.stated(ConditionType::PasswordExposed).map(|it| it.message.clone())
    };
    let user = json!({"credentialsSecretRef": {"name": "s"}});
    let tokens = |url: &str| json!({"clientSecretRef": {"name": "s"}, "tokenUrl": url});
    let through = |url: &str| {
        let mut tokens = tokens(url);
        tokens["proxy"] = json!({"url": "http://p:1", "credentialsSecretRef": {"name": "s"}});
        tokens
    };
    for (job, said) in [
        (json!({}), None),
        (json!({"authorization": user}), Some("a token as it is")),
        (json!({"basicAuth": user}), Some("the password as it is: use https")),
        (json!({"basicAuth": user, "scheme": "https"}), None),
        (json!({"oauth2": tokens("https://t/"), "scheme": "https"}), None),
        (json!({"oauth2": tokens("https://t/")}), Some("a token as it is")),
        (json!({"oauth2": tokens("http://t/"), "scheme": "https"}), Some("oauth2.tokenUrl")),
        (json!({"oauth2": through("https://t/"), "scheme": "https"}), Some("oauth2.proxy")),
        (json!({"proxy": {"url": "http://p:1"}}), None),
        (
            json!({"proxy": {"url": "http://p:1", "credentialsSecretRef": {"name": "s"}}}),
            Some("goes to the proxy as it is"),
        ),
    ] {
        let message = told(&job);
        assert_eq!(message.is_some(), said.is_some(), "{job}: {message:?}");
        if let (Some(message), Some(said)) = (message, said) {
            assert!(message.starts_with("receivers.prometheus.jobs: shop: "), "{message}");
            assert!(message.contains(said), "{message}");
        }
    }
}
