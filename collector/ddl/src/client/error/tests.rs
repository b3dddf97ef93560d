//! Tests of the private functions of `client/error.rs`.

use super::*;

fn at() -> ServerEndpoint {
    "http://db:8123".parse().unwrap()
}

/// Scenario: exceptions in servers' words. Guarantee: each has its class.
#[test]
fn exceptions_are_classed_by_their_code() {
    for (code, category) in [
        (516, Category::Authentication),
        (192, Category::Authentication),
        (194, Category::Authentication),
        (497, Category::Privilege),
        (164, Category::ReadOnly),
        (242, Category::ReadOnly),
        (81, Category::UnknownDatabase),
        (60, Category::UnknownTable),
        (252, Category::Overloaded),
        (999, Category::KeeperLost),
        (225, Category::KeeperLost),
        (243, Category::DiskFull),
        (201, Category::Quota),
        (62, Category::Server),
    ] {
        let text = format!("Code: {code}. DB::Exception: words. (NAME) (version 26.9.2.1)");
        assert_eq!(classify_response(&text, &at(), "u", None).category(), category, "{code}");
    }
    let text = "Code: 999. Coordination::Exception: Connection loss";
    assert_eq!(classify_response(text, &at(), "u", None).category(), Category::KeeperLost);
    for text in [
        "<html>hello</html>",
        "Code: 60",
        "Code: 60. secret",
        "Code: 60. a secret::Exception: b",
        "Code: x. DB::Exception",
    ] {
        let category = classify_response(text, &at(), "u", None).category();
        let is_bare = text == "Code: 60";
        let expected = if is_bare { Category::UnknownTable } else { Category::Protocol };
        assert_eq!(category, expected, "{text}");
    }
}

/// Scenario: another service's answer; one with words around an exception. Guarantee: only the
/// exception is repeated.
#[test]
fn words_that_are_not_clickhouses_are_not_repeated() {
    let message = classify_response("token=hunter2", &at(), "u", None).to_string();
    assert!(!message.contains("hunter2"), "{message}");
    let text = "hunter2 Code: 60. DB::Exception: Unknown table";
    let message = classify_response(text, &at(), "u", None).to_string();
    assert!(!message.contains("hunter2") && message.contains("Unknown table"), "{message}");
}

/// Scenario: an exception with a very long text. Guarantee: our message stays short.
#[test]
fn long_server_texts_are_shortened() {
    let text = format!("Code: 62. DB::Exception: {}", "é".repeat(10_000));
    assert!(classify_response(&text, &at(), "u", None).to_string().chars().count() < 700);
}
