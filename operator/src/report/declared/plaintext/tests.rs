//! Tests of the private parts of `report/declared/plaintext.rs`.

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
    state_exposed_passwords(&mut conditions, Some(&spec.kafka), Some(&spec.clickhouse), None);
    let events = conditions.new_notices();
    let told =
        conditions.find_stated(ConditionType::CredentialsExposed).map(|it| it.message.clone());
    assert_eq!(events.iter().filter(|it| it.warning).count(), usize::from(told.is_some()));
    told
}

/// Scenario: each method of authentication to Kafka and ClickHouse, encrypted and not. Guarantee:
/// it is reported, with one event, exactly where the password itself goes over an unencrypted
/// connection.
#[test]
fn only_a_password_that_can_be_read_is_told() {
    let none = json!({});
    let login = |kind: &str| json!({"type": kind, "username": "u", "passwordSecret": {"name": "u", "key": "password"}});
    let user = json!({"authentication": login("Password")});
    let kafka = |kind: &str| json!({"authentication": login(kind)});
    assert_eq!(told(&none, &none), None);
    assert_eq!(told(&kafka("ScramSha256"), &none), None);
    let plain = kafka("Plain");
    assert!(told(&plain, &none).unwrap().starts_with("kafka.authentication.type Plain"));
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
    let admin = json!({"admin": plain});
    assert!(told(&admin, &none).unwrap().starts_with("kafka.authentication.type Plain"));
    let mut oauth = json!({"authentication": {"type": "OAuthBearer", "clientId": "u",
        "tokenEndpoint": "http://idp/token", "clientSecret": {"name": "u", "key": "secret"}}});
    assert!(told(&oauth, &none).unwrap().contains("the token in plaintext"));
    oauth["tls"] = json!({});
    assert!(told(&oauth, &none).unwrap().contains("tokenEndpoint with http://"));
    oauth["authentication"]["tokenEndpoint"] = "https://idp/token".into();
    assert_eq!(told(&oauth, &none), None);
}

/// Scenario: targets that are sent a token, a password or nothing, encrypted or not; a token server
/// and a proxy without encryption. Guarantee: it is reported with the job's name exactly where
/// credentials go over an unencrypted connection.
#[test]
fn credentials_that_targets_are_sent_are_told() {
    let told = |more: &Value| {
        let mut job = json!({"name": "shop", "targets": ["shop:1"]});
        for (key, value) in more.as_object().into_iter().flatten() {
            job[key] = value.clone();
        }
        let receiver = serde_json::from_value(json!({"jobs": [job]})).unwrap();
        let mut conditions = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
        state_exposed_passwords(&mut conditions, None, None, Some(&receiver));
        conditions.find_stated(ConditionType::CredentialsExposed).map(|it| it.message.clone())
    };
    let user = json!({"credentialsSecret": {"name": "s"}});
    let tokens = |url: &str| json!({"credentialsSecret": {"name": "s"}, "tokenUrl": url});
    let through = |url: &str| {
        let mut tokens = tokens(url);
        tokens["proxy"] = json!({"url": "http://p:1", "credentialsSecret": {"name": "s"}});
        tokens
    };
    for (job, said) in [
        (json!({}), None),
        (json!({"authorization": user}), Some("a token in plaintext")),
        (json!({"basicAuth": user}), Some("the password in plaintext: use https")),
        (json!({"basicAuth": user, "scheme": "https"}), None),
        (json!({"oauth2": tokens("https://t/"), "scheme": "https"}), None),
        (json!({"oauth2": tokens("https://t/")}), Some("a token in plaintext")),
        (json!({"oauth2": tokens("http://t/"), "scheme": "https"}), Some("oauth2.tokenUrl")),
        (json!({"oauth2": through("https://t/"), "scheme": "https"}), Some("oauth2.proxy")),
        (json!({"proxy": {"url": "http://p:1"}}), None),
        (
            json!({"proxy": {"url": "http://p:1", "credentialsSecret": {"name": "s"}}}),
            Some("the proxy receives the password"),
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
