//! Tests of the private functions of `ttl.rs`.

use super::*;
use proptest::prelude::*;

/// Scenario: usual spellings. Guarantee: each has its usual meaning.
#[test]
fn usual_spellings_are_understood() {
    for (text, seconds) in [
        ("30d", 30 * DAY_SECONDS),
        ("6h", 6 * HOUR_SECONDS),
        ("1d12h", 36 * HOUR_SECONDS),
        ("90 minutes", 90 * MINUTE_SECONDS),
        ("2w", 14 * DAY_SECONDS),
        ("45s", 45),
    ] {
        assert_eq!(Ttl::parse_optional(text).map(|t| t.map(Ttl::seconds)), Ok(Some(seconds)));
    }
    assert_eq!(Ttl::parse_optional("0s"), Ok(None));
    assert_eq!(Ttl::parse_optional("0d"), Ok(None));
}

/// Scenario: texts that are not a span of time, or one beyond the limit. Guarantee: each is
/// refused, none panics or wraps.
#[test]
fn nonsense_is_refused() {
    for text in ["", " ", "30", "d", "-1d", "1.5d", "3x", "1d garbage", "d1", "１d"] {
        assert!(matches!(Ttl::parse_optional(text), Err(TtlError::Malformed(_))), "{text}");
    }
    for text in ["101w99999999d", "99999999999999999999d", "18446744073709551615w"] {
        assert!(matches!(Ttl::parse_optional(text), Err(TtlError::TooLong(_))), "{text}");
    }
}

proptest! {
    /// Guarantee: the displayed text parses back to the same span.
    #[test]
    fn display_round_trips(seconds in 1..=TTL_SECONDS_MAX) {
        let ttl = Ttl::from_seconds(seconds).unwrap();
        prop_assert_eq!(ttl.to_string().parse::<Ttl>(), Ok(ttl));
    }

    /// Guarantee: no text makes the parser panic.
    #[test]
    fn any_text_is_answered(text in "\\PC*") {
        let _ = Ttl::parse_optional(&text);
    }
}
