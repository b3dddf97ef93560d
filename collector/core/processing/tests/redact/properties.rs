//! Properties of redaction over generated texts.

use std::sync::LazyLock;

use millrace_processing::redact::{REPLACEMENT_BYTES_MAX, RedactScratch, Redaction, Redactor};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::json;

use super::redactor;

/// Text of letters and punctuation that no detector reads from: no digit, `@`, `:` or `%`, and no
/// beginning of a token.
fn harmless() -> impl Strategy<Value = String> {
    "[b-df-hk-z ,;()\\[\\]\"'<>!?\u{e4}\u{4f60}\u{1f600}\\n-]{0,90}"
}

fn digits_with(check: impl Fn(&str) -> String, prefix: &str, length: usize) -> String {
    let digits: String = prefix.chars().cycle().take(length).collect();
    check(&digits)
}

fn luhn(digits: &str) -> String {
    let value = |(index, digit): (usize, char)| {
        let value = digit.to_digit(10).unwrap_or_default() << ((index + 1) & 1);
        if value > 9 { value - 9 } else { value }
    };
    let sum: u32 = digits.chars().rev().enumerate().map(value).sum();
    format!("{digits}{}", (10 - sum % 10) % 10)
}

fn iban(digits: &str) -> String {
    // DE is 1314.
    let value = format!("{digits}131400")
        .bytes()
        .fold(0_u32, |rest, byte| (rest * 10 + u32::from(byte - b'0')) % 97);
    format!("DE{:02}{digits}", 98 - value)
}

/// A secret of each set: the text to plant, and the part of it that may not appear in the output.
fn secret() -> impl Strategy<Value = (String, String)> {
    let same = |text: String| (text.clone(), text);
    prop_oneof![
        "[a-z][a-z0-9._+]{0,20}[a-z0-9]@[a-z]{2,9}\\.(com|org|de|co\\.uk)".prop_map(same),
        "[A-Za-z0-9._~+/-]{10,50}7".prop_map(|token| (format!("Bearer {token}"), token)),
        "dXNlcjpwYXNzd29y[A-Za-z0-9]{4,40}".prop_map(|token| (format!("basic {token}"), token)),
        "eyJ[A-Za-z0-9_-]{20,60}\\.eyJ[A-Za-z0-9_-]{20,60}\\.[A-Za-z0-9_-]{20,60}".prop_map(same),
        "[0-9]{9,13}"
            .prop_map(move |digits| { same(digits_with(luhn, &format!("4{digits}"), 15)) }),
        "[0-9]{18}".prop_map(move |digits| same(digits_with(iban, &digits, 18))),
        "[A-Za-z0-9+/]{64}".prop_map(|line| {
            (format!("-----BEGIN EC PRIVATE KEY-----\n{line}\n-----END EC PRIVATE KEY-----"), line)
        }),
        "A[KS]IA[A-Z2-7]{16}".prop_map(same),
        "ghp_[A-Za-z0-9]{36}".prop_map(same),
        "sk_live_[A-Za-z0-9]{24}".prop_map(same),
        any::<std::net::Ipv4Addr>().prop_map(move |address| same(address.to_string())),
        any::<[u16; 8]>().prop_map(move |groups| {
            same(groups.map(|group| format!("{:x}", group | 0x100)).join(":"))
        }),
    ]
}

/// What is before a secret in a log line.
fn before() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just(" "),
        Just("\""),
        Just("="),
        Just("("),
        Just(","),
        Just("\n"),
        Just("\u{4f60}")
    ]
}

/// What is after a secret. An equals sign isn't among them: it may belong to a token.
fn after() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(" "), Just("\""), Just(")"), Just(","), Just("\n"), Just("\u{4f60}")]
}

/// Compiled once: it takes longer than a case.
static ALL_SETS: LazyLock<Redactor> = LazyLock::new(|| {
    redactor(json!({
        "patterns": [
            {"name": "order", "pattern": "order-[a-z]+"},
            {"name": "tail", "pattern": "pw: .+"},
        ],
    }))
});

proptest! {
    /// Scenario: secrets of all sets at any position of harmless text.
    /// Guarantee: none of them is in the output, which is UTF-8 and contains the text around them.
    #[test]
    fn no_planted_secret_is_in_the_output(
        first in harmless(),
        planted in proptest::collection::vec((before(), secret(), after(), harmless()), 1..4),
    ) {
        let redactor = &*ALL_SETS;
        let mut text = first.clone();
        for (before, (secret, _), after, tail) in &planted {
            text.push_str(before);
            text.push_str(secret);
            text.push_str(after);
            text.push_str(tail);
        }
        let mut out = b"arena ".to_vec();
        let mut scratch = RedactScratch::default();
        let redaction = redactor.redact(text.as_bytes(), &mut scratch, &mut out);
        prop_assert_eq!(redaction, Redaction::Changed);
        let written = String::from_utf8(out).expect("UTF-8");
        for (_, (_, secret), _, tail) in &planted {
            prop_assert!(!written.contains(secret.as_str()), "{} in {}", secret, written);
            prop_assert!(written.contains(tail.trim_matches(['-', ' ', '\n', '"', ','])));
        }
        let head = format!("arena {first}");
        prop_assert!(written.starts_with(&head));
    }

    /// Scenario: text without any secret.
    /// Guarantee: nothing is found and nothing is written.
    #[test]
    fn harmless_text_is_unchanged(text in harmless()) {
        let mut out = Vec::new();
        let mut scratch = RedactScratch::default();
        let redaction = ALL_SETS.redact(text.as_bytes(), &mut scratch, &mut out);
        prop_assert_eq!((redaction, out.len(), scratch.hits().len()), (Redaction::Unchanged, 0, 0));
    }

    /// Scenario: any text, of characters that detectors read from.
    /// Guarantee: hits are in order, separate, between characters; the output is the text with each
    /// hit replaced, UTF-8, and bounded.
    #[test]
    fn any_text_is_rewritten_at_its_hits_alone(
        text in "([0-9a-f.:@%4 \u{fc}\u{4f60}-]|eyJ|AKIA|Bearer |4111|DE89|::|pw: |order-){0,60}",
    ) {
        let redactor = &*ALL_SETS;
        let mut out = Vec::new();
        let mut scratch = RedactScratch::default();
        let redaction = redactor.redact(text.as_bytes(), &mut scratch, &mut out);
        let mut expected = String::new();
        let mut copied = 0;
        for hit in scratch.hits() {
            let range = hit.range();
            prop_assert!(copied <= range.start && range.start < range.end);
            prop_assert!(text.is_char_boundary(range.start) && text.is_char_boundary(range.end));
            expected.push_str(&text[copied..range.start]);
            expected.push_str("****");
            copied = range.end;
        }
        expected.push_str(&text[copied..]);
        if redaction == Redaction::Changed {
            prop_assert!(out.len() <= text.len() + REPLACEMENT_BYTES_MAX * scratch.hits().len());
            prop_assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
        } else {
            prop_assert!(scratch.hits().is_empty());
        }
    }

    /// Scenario: any bytes.
    /// Guarantee: reading ends, and hits are in order within the bytes.
    #[test]
    fn any_bytes_are_read(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        last in 0_u8..9,
    ) {
        let redactor = redactor(json!({
            "action": {"mask": {"keepLast": last.min(8)}},
            "patterns": [{"name": "any", "pattern": "\\d.+x"}],
        }));
        let mut out = Vec::new();
        let mut scratch = RedactScratch::default();
        redactor.redact(&bytes, &mut scratch, &mut out);
        let mut end = 0;
        for hit in scratch.hits() {
            prop_assert!(hit.range().start >= end && hit.range().end <= bytes.len());
            end = hit.range().end;
        }
        prop_assert!(out.len() <= bytes.len() + REPLACEMENT_BYTES_MAX * scratch.hits().len());
    }
}
