//! Tests of the targets' status.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// Scenario: URLs have queries of each form. Guarantee: names are shown; values, and pairs that may
/// be values, are not.
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

/// Scenario: an error has a mebibyte. Guarantee: only its beginning is stored.
#[test]
fn errors_are_cut() {
    assert_eq!(truncate_error("\u{e9}".repeat(1 << 20)).chars().count(), ERROR_CHARACTERS_MAX);
}
