//! Tests of what is shown of targets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// Scenario: URLs with queries of each form. Guarantee: names stay, values don't, nor what may be
/// either.
#[test]
fn values_of_a_query_are_not_shown() {
    for (url, shown) in [
        ("http://a:1/metrics", "http://a:1/metrics"),
        ("http://a:1/p?module=x&token=s3cret", "http://a:1/p?module=\u{2026}&token=\u{2026}"),
        ("http://a:1/p?s3cret", "http://a:1/p?\u{2026}"),
        ("http://a:1/p?a=b=c?d&e=", "http://a:1/p?a=\u{2026}&e="),
        ("http://a:1/p?", "http://a:1/p?\u{2026}"),
    ] {
        assert_eq!(without_values(url), shown, "{url}");
    }
}

/// Scenario: an error of a mebibyte. Guarantee: its beginning is kept.
#[test]
fn errors_are_cut() {
    assert_eq!(shown("\u{e9}".repeat(1 << 20)).chars().count(), ERROR_CHARACTERS_MAX);
}
