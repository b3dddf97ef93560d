//! Tests of the private functions of `client/endpoint.rs`.

use super::*;

/// Scenario: addresses as people write them. Guarantee: ports default to ClickHouse's own.
#[test]
fn usual_addresses_are_understood() {
    for (text, shown) in [
        ("http://localhost", "http://localhost:8123"),
        ("https://db.example", "https://db.example:8443"),
        ("http://127.0.0.1:9000/", "http://127.0.0.1:9000"),
        ("http://[::1]:8123", "http://[::1]:8123"),
        ("http://[::1]", "http://[::1]:8123"),
    ] {
        assert_eq!(text.parse::<ServerEndpoint>().unwrap().to_string(), shown);
    }
}

/// Scenario: malformed addresses. Guarantee: they are refused, without repeating a password.
#[test]
fn malformed_addresses_are_refused_without_repeating_a_password() {
    for text in [
        "",
        "localhost:8123",
        "tcp://h:9000",
        "http://",
        "http://:8123",
        "http://h:0",
        "http://h:x",
        "http://h:99999",
        "http://h/path",
        "http://h?query=1",
        "http://h h",
        "http://[::1",
        "http://[nope]:1",
        "http://h:+1",
    ] {
        assert!(text.parse::<ServerEndpoint>().is_err(), "{text}");
    }
    let message = "http://user:hunter2@h:8123".parse::<ServerEndpoint>().unwrap_err().to_string();
    assert!(!message.contains("hunter2"), "{message}");
}

/// Scenario: a log line contains credentials. Guarantee: it does not contain the password.
#[test]
fn a_secret_is_not_printed() {
    let password = Secret::new("hunter2\n");
    assert_eq!(password.reveal(), "hunter2");
    let credentials = UserCredentials::Password { user: "otel".to_owned(), password };
    assert!(!format!("{credentials:?}").contains("hunter2"));
}
