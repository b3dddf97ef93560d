//! Tests of what `text.rs` keeps to itself.

use super::*;
use proptest::prelude::*;

proptest! {
    /// Any double reads back as it was; without an exponent it is as long as the standard
    /// library writes it (of two as short and as near, the two may choose differently).
    #[test]
    fn any_double_reads_back(bits in any::<u64>(), scale in 0_i32..40) {
        for number in [f64::from_bits(bits), (bits as f64 / 7.0) * 10_f64.powi(-scale)] {
            let mut out = Vec::new();
            double(number, &mut out);
            let text = String::from_utf8(out).unwrap();
            if number.is_finite() {
                prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits());
                if !text.contains('e') {
                    prop_assert_eq!(text.len(), format!("{number}").len(), "{}", text);
                }
            }
        }
    }
}

/// Doubles are written as Go's encoder writes them, which the Collector's exporter uses.
#[test]
fn doubles_are_short_and_take_exponents_like_gos() {
    for (number, text) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (2.0, "2"),
        (1.5, "1.5"),
        (-0.1, "-0.1"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (-1.25e300, "-1.25e+300"),
        (1e-6, "0.000001"),
        (-1.25e-6, "-0.00000125"),
        (1.2345678901234568e20, "123456789012345680000"),
        (1e16, "10000000000000000"),
        // Its value ends in .625: the even one of two neighbours.
        (-199_802_832_433_536.63, "-199802832433536.62"),
        (1e-7, "1e-7"),
        (5e-324, "5e-324"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "+Inf"),
        (f64::NEG_INFINITY, "-Inf"),
    ] {
        let mut out = Vec::new();
        double(number, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}

/// The vectors of RFC 4648.
#[test]
fn base64_is_standard_with_padding() {
    for (bytes, text) in
        [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
    {
        let mut out = Vec::new();
        base64(bytes.as_bytes(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
    let mut out = Vec::new();
    base64(&[0xfb, 0xff], &mut out);
    assert_eq!(out, b"+/8=");
}

/// What JSON demands to be escaped is, and nothing else.
#[test]
fn json_strings_escape_what_they_must() {
    let mut out = Vec::new();
    quoted("a\"\\\n\u{1}<ü>".as_bytes(), &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), "\"a\\\"\\\\\\n\\u0001<ü>\"");
}
