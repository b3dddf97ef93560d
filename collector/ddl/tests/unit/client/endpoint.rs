//! Tests of what `client/endpoint.rs` keeps to itself.

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
        assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), shown);
    }
}

/// Scenario: malformed addresses. Guarantee: refused, and a password in one is not repeated.
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
        assert!(text.parse::<Endpoint>().is_err(), "{text}");
    }
    let message = "http://user:hunter2@h:8123".parse::<Endpoint>().unwrap_err().to_string();
    assert!(!message.contains("hunter2"), "{message}");
}

/// Scenario: credentials end up in a log line. Guarantee: the password does not.
#[test]
fn a_secret_is_not_printed() {
    let credentials = Credentials { user: "otel".to_owned(), password: Secret::new("hunter2\n") };
    assert_eq!(credentials.password.reveal(), "hunter2");
    assert!(!format!("{credentials:?}").contains("hunter2"));
}
