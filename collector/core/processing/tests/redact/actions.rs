//! What replaces a match, and what keys decide.

use millrace_processing::redact::{KeyDecision, RedactScratch, Redaction};
use serde_json::json;

use super::{redact, redactor};

/// Scenario: each action on a text with two matches.
/// Guarantee: the text around the matches stays; a drop removes the value.
#[test]
fn each_action_replaces_the_match_alone() {
    let text = "from 192.0.2.7 to anna@example.com: \u{fc}ber";
    let cases = [
        (json!({}), Some("from **** to ****: \u{fc}ber")),
        (json!({"action": {"mask": {"text": "[x]"}}}), Some("from [x] to [x]: \u{fc}ber")),
        (json!({"action": {"mask": {"text": ""}}}), Some("from  to : \u{fc}ber")),
        (json!({"action": {"mask": {"keepLast": 4}}}), Some("from ****.7 to ****.com: \u{fc}ber")),
        (json!({"action": {"drop": {}}}), None),
        (json!({"setActions": [{"set": "Email", "action": {"drop": {}}}]}), None),
        (
            json!({"setActions": [{"set": "Ipv4", "action": {"mask": {"text": "IP"}}}]}),
            Some("from IP to ****: \u{fc}ber"),
        ),
        (json!({"sets": ["Email"]}), Some("from 192.0.2.7 to ****: \u{fc}ber")),
        (json!({"sets": []}), Some(text)),
    ];
    for (config, expected) in cases {
        let shown = config.to_string();
        assert_eq!(redact(&redactor(config), text).as_deref(), expected, "{shown}");
    }
}

/// Scenario: the same address twice, another one, and another key.
/// Guarantee: equal values have equal hashes of the stated length, which depend on the key.
#[test]
fn hashes_are_equal_for_equal_values_under_one_key() {
    let text = "anna@example.com anna@example.com bob@example.com";
    for (encoding, length) in [("Hex", 8), ("Hex", 43), ("Base64", 8), ("Base64", 43)] {
        let config = json!({"action": {"hash": {"length": length, "encoding": encoding}}});
        let written = redact(&redactor(config.clone()), text).expect("a text");
        let hashes: Vec<&str> = written.split(' ').collect();
        assert_eq!(hashes[0], hashes[1]);
        assert_ne!(hashes[0], hashes[2]);
        assert!(hashes.iter().all(|hash| hash.len() == length), "{written}");
        let config = serde_json::from_value(config).expect("settings");
        let other = millrace_processing::redact::Redactor::compile(&config, Some(&[7; 16]));
        let other = redact(&other.expect("usable settings"), text).expect("a text");
        assert_ne!(other, written);
    }
    // HMAC-SHA256 of the address under the key of these tests, by OpenSSL.
    let config = json!({"action": {"hash": {"length": 43}}});
    assert_eq!(
        redact(&redactor(config), "anna@example.com").as_deref(),
        Some("b4f91fcf9c0343c2df41d24673fe622da415a20647f")
    );
}

/// Scenario: matches that overlap: a JSON web token as a bearer token, an IPv4 address within an
/// IPv6 address, a pattern of the user across an address.
/// Guarantee: they are replaced once, all of their bytes, by the strictest action.
#[test]
fn overlapping_matches_are_replaced_once_by_the_strictest_action() {
    let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.c2lnbmF0dXJlLW9mLXRoaXM";
    let redactor = redactor(json!({
        "action": {"mask": {"text": "", "keepLast": 8}},
        "setActions": [
            {"set": "Jwt", "action": {"mask": {"text": "JWT"}}},
            {"set": "Ipv4", "action": {"mask": {"text": "V4"}}},
        ],
        "patterns": [{"name": "user", "pattern": "user=[a-z]+", "action": {"mask": {"text": "U"}}}],
    }));
    let cases = [
        (format!("Bearer {token}"), "Bearer JWT"),
        ("at ::ffff:192.0.2.128!".to_owned(), "at V4!"),
        ("user=anna@example.com".to_owned(), "U"),
        (format!("Bearer {token} user=x"), "Bearer JWT U"),
    ];
    for (text, expected) in cases {
        assert_eq!(redact(&redactor, &text).as_deref(), Some(expected), "{text}");
    }
}

/// Scenario: matches of 1 to 40 characters, also of several bytes each, with `keepLast`.
/// Guarantee: no more than a quarter of the characters stays, and no character is cut.
#[test]
fn no_more_than_a_quarter_of_a_match_stays() {
    let redactor = redactor(json!({
        "sets": [],
        "action": {"mask": {"text": "*", "keepLast": 8}},
        "patterns": [{"name": "quoted", "pattern": "<[^>]+>"}],
    }));
    for length in 1..40 {
        for character in ["a", "\u{fc}", "\u{4f60}", "\u{1f600}"] {
            let text = format!("<{}>", character.repeat(length));
            let written = redact(&redactor, &text).expect("a text");
            let left = written.chars().count() - 1;
            assert_eq!(left, 8.min((length + 2) / 4), "{text} {written}");
            assert!(text.ends_with(&written[1..]));
        }
    }
}

/// Scenario: lists of keys, with names and patterns.
/// Guarantee: ignored keys take precedence over allowed ones, and those over blocked ones; a
/// blocked value is replaced as a whole.
#[test]
fn keys_decide_in_a_stated_order() {
    let redactor = redactor(json!({
        "ignoredKeys": {"names": ["id", "password.policy"]},
        "allowedKeys": {"names": ["user", "password"], "patterns": ["^http\\."]},
        "blockedKeys": {
            "names": ["password"],
            "patterns": ["(?i)authorization$"],
            "action": {"mask": {"text": "gone"}},
        },
    }));
    let cases = [
        ("id", KeyDecision::Ignore),
        ("password.policy", KeyDecision::Ignore),
        ("user", KeyDecision::Scan),
        ("http.route", KeyDecision::Scan),
        ("http.request.header.Authorization", KeyDecision::Block),
        ("password", KeyDecision::Block),
        ("passwords", KeyDecision::Remove),
        ("xhttp.route", KeyDecision::Remove),
        ("", KeyDecision::Remove),
    ];
    for (key, decision) in cases {
        assert_eq!(redactor.decide_key(key.as_bytes()), decision, "{key}");
    }
    let mut out = b"before ".to_vec();
    assert_eq!(redactor.redact_blocked(b"hunter2", &mut out), Redaction::Changed);
    assert_eq!(out, b"before gone");
}

/// Scenario: no lists of keys.
/// Guarantee: every value is read.
#[test]
fn without_lists_every_value_is_read() {
    let redactor = redactor(json!({}));
    for key in ["", "password", "k\u{e4}se"] {
        assert_eq!(redactor.decide_key(key.as_bytes()), KeyDecision::Scan);
    }
}

/// Scenario: patterns of a user with anchors, classes, alternatives and characters of several
/// bytes.
/// Guarantee: matches are the leftmost, preferring earlier alternatives, as in Go; a match never
/// cuts a character.
#[test]
fn patterns_of_users_match_as_in_go() {
    let cases = [
        (r"order-\d+", "an order-17, order-18.", "an *, *."),
        (r"(?i)password=\S+", "PassWord=hunter2 x", "* x"),
        (r"^\w+", "anna did", "* did"),
        (r"\w+$", "did anna", "did *"),
        (r"\bab\b", "ab abc ab", "* abc *"),
        (r"a|ab", "abab", "*b*b"),
        (r"ab|a", "abaab", "***"),
        (r"x.y", "x\u{fc}y xay", "x\u{fc}y *"),
        (r"x..y", "x\u{fc}y", "*"),
        ("\u{fc}+", "a\u{fc}\u{fc}b", "a*b"),
        (r"x.", "x\u{fc}y", "*y"),
        (r".{1,2}x", "\u{4f60}x", "*"),
        (r"(?s)<.*>", "a<b\nc>d", "a*d"),
        (r"[^a-z]+z", "aABCz", "a*"),
    ];
    for (pattern, text, expected) in cases {
        let redactor = redactor(json!({
            "sets": [],
            "action": {"mask": {"text": "*"}},
            "patterns": [{"name": "own", "pattern": pattern}],
        }));
        assert_eq!(redact(&redactor, text).as_deref(), Some(expected), "{pattern} {text}");
    }
}

/// Scenario: several patterns, of which each matches.
/// Guarantee: each hit carries the detector's index, whose name is the pattern's.
#[test]
fn hits_name_their_detector() {
    let redactor = redactor(json!({
        "sets": ["Email", "Ipv4"],
        "patterns": [
            {"name": "order", "pattern": "order-[0-9]+"},
            {"name": "ssn", "pattern": "\\d{3}-\\d{2}-\\d{4}"},
        ],
    }));
    assert_eq!(redactor.detectors(), ["Email", "Ipv4", "order", "ssn"]);
    let text = "078-05-1120 order-9 192.0.2.1 a@b.de";
    let mut scratch = RedactScratch::default();
    redactor.find(text.as_bytes(), &mut scratch);
    let found: Vec<_> =
        scratch.hits().iter().map(|hit| (hit.detector(), &text[hit.range()])).collect();
    assert_eq!(found, [(3, "078-05-1120"), (2, "order-9"), (1, "192.0.2.1"), (0, "a@b.de")]);
}
