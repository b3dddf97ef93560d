//! Tests of numbers in text, compared with the standard library.

use super::{parse_float, parse_leading, parse_millis, parse_seconds, put_bound};

/// Scenario: numbers are short and long, as exporters write them, with all signs and exponents.
/// Guarantee: each is the nearest double, as the standard library parses it.
#[test]
fn a_value_is_the_nearest_double() {
    for text in [
        "0",
        "-0",
        "1",
        "+1",
        "12345.67",
        ".5",
        "5.",
        "1.7641234e+09",
        "1e-07",
        "0.1",
        "1e22",
        "1e23",
        "123456789012345",
        "1234567890123456",
        "0.30000000000000004",
        "4.9e-324",
        "1.7976931348623157e+308",
        "9007199254740993",
        "0.000000000000000000000001",
        "Inf",
        "+Inf",
        "-inf",
        "1e+1",
        "00012",
        "3.000000000000000000000",
    ] {
        let expected: f64 = text.parse().unwrap();
        assert_eq!(
            parse_float(text.as_bytes()).map(f64::to_bits),
            Some(expected.to_bits()),
            "{text}"
        );
        for behind in ["", " 17", "\t"] {
            let found = parse_leading(format!("{text}{behind}").as_bytes());
            let found = found.map(|(value, length)| (value.to_bits(), length));
            assert_eq!(found, Some((expected.to_bits(), text.len())), "{text}{behind}");
        }
    }
    assert!(parse_float(b"NaN").unwrap().is_nan());
}

/// Scenario: texts are not numbers. Guarantee: each is refused.
#[test]
fn what_is_no_number_is_not_read() {
    for text in [
        "", "1e999", "-1e400", "-", ".", "e5", "1e", "1e+", "0x10", "1_000", "1 ", "one", "1.2.3",
        "--1",
    ] {
        assert_eq!(parse_float(text.as_bytes()), None, "{text}");
    }
}

/// Scenario: random doubles are written as shortest texts and with fewer digits. Guarantee: they
/// are parsed as by the standard library.
#[test]
fn values_are_read_as_the_standard_library_does() {
    proptest::proptest!(|(bits: u64, digits in 0_usize..20)| {
        let value = f64::from_bits(bits);
        proptest::prop_assume!(value.is_finite());
        for text in [format!("{value}"), format!("{value:e}"), format!("{value:.digits$e}")] {
            let expected: f64 = text.parse().unwrap();
            proptest::prop_assert_eq!(parse_float(text.as_bytes()), Some(expected), "{}", text);
        }
    });
}

/// Scenario: times have both formats. Guarantee: nanoseconds are exact or clamped.
#[test]
fn times_are_exact() {
    assert_eq!(parse_millis(b"1764000000123"), Some(1_764_000_000_123_000_000));
    assert_eq!(parse_millis(b"-1"), Some(-1_000_000));
    assert_eq!(parse_millis(b"9223372036854775807"), Some(i64::MAX));
    assert_eq!(parse_millis(b"1.5"), None);
    assert_eq!(parse_seconds(b"1764000000.123456789"), Some(1_764_000_000_123_456_789));
    assert_eq!(parse_seconds(b"1764000000.1234567891"), Some(1_764_000_000_123_456_789));
    assert_eq!(parse_seconds(b"1764000000"), Some(1_764_000_000_000_000_000));
    assert_eq!(parse_seconds(b"1.764e9"), Some(1_764_000_000_000_000_000));
    assert_eq!(parse_seconds(b"99999999999"), Some(i64::MAX));
    assert_eq!(parse_seconds(b"NaN"), None);
    assert_eq!(parse_seconds(b"x"), None);
}

/// Scenario: bounds of buckets are short and long, also near the limits of exponents. Guarantee:
/// they are written as by Prometheus, and parsed as the same number.
#[test]
fn bounds_are_written_as_prometheus_does() {
    for (bound, expected) in [
        (0.0, "0.0"),
        (1.0, "1.0"),
        (-1.0, "-1.0"),
        (0.005, "0.005"),
        (2.5, "2.5"),
        (0.0001, "0.0001"),
        (0.000_025, "2.5e-05"),
        (100_000.0, "100000.0"),
        (999_999.5, "999999.5"),
        (1e6, "1e+06"),
        (1_234_567.0, "1.234567e+06"),
        (1e300, "1e+300"),
        (f64::INFINITY, "+Inf"),
        (f64::NEG_INFINITY, "-Inf"),
        (f64::NAN, "NaN"),
    ] {
        let mut out = Vec::new();
        put_bound(&mut out, bound);
        assert_eq!(String::from_utf8(out.clone()).unwrap(), expected);
        assert_eq!(parse_float(&out).unwrap().to_bits(), bound.to_bits(), "{expected}");
    }
}
