//! Tests of the private functions of `decimal.rs`.

use super::*;
use proptest::prelude::*;

fn text_of(number: f64) -> String {
    format_double(number, |text| String::from_utf8(text.to_vec()).unwrap())
}

/// Returns the same text without shortcuts: zmij's digits, formatted one by one.
fn reference(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "NaN".into()
        } else {
            format!("{number:+}").replace("inf", "Inf")
        };
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(number);
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text.strip_suffix(".0").unwrap_or(text).to_owned();
    };
    let sign = if number < 0.0 { "-" } else { "" };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    match exponent.parse::<i32>().unwrap() {
        power @ -6..0 => format!("{sign}0.{}{digits}", "0".repeat((-power - 1) as usize)),
        power @ 0..=20 => format!("{sign}{digits:0<width$}", width = power as usize + 1),
        power => format!("{mantissa}e{power:+}"),
    }
}

/// Returns doubles of all kinds: any bits, whole ones, and those around the exponents at which the
/// text changes its form.
fn doubles() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        any::<i64>().prop_map(|whole| whole as f64),
        (-20_000_000_000_000_000_i64..20_000_000_000_000_000).prop_map(|whole| whole as f64),
        (-1_000_000_000_i64..1_000_000_000).prop_map(|thousandths| thousandths as f64 / 1000.0),
        (any::<i64>(), -40_i32..5)
            .prop_map(|(whole, power)| whole as f64 / 7.0 * 10_f64.powi(power)),
        (-999_i64..1000, -8_i32..24).prop_map(|(whole, power)| whole as f64 * 10_f64.powi(power)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// Guarantee: any double has the same text as without shortcuts, and reads back unchanged;
    /// without an exponent it is as long as the standard library's (of two texts equally short and
    /// near, the two may choose differently).
    #[test]
    fn any_double_reads_back(number in doubles()) {
        let text = text_of(number);
        prop_assert_eq!(&text, &reference(number));
        if number.is_finite() {
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits());
            if !text.contains('e') {
                prop_assert_eq!(text.len(), format!("{number}").len(), "{}", text);
            }
        }
    }

    /// Guarantee: a short whole number has the standard library's text; others are reported as not
    /// short.
    #[test]
    fn short_numbers_have_their_digits(number in prop_oneof![
        any::<i64>(), -10_i64..1000, 0..200_000_000_i64,
    ]) {
        match format_short(number) {
            Some((piece, len)) => {
                prop_assert_eq!(std::str::from_utf8(&piece[..len]).unwrap(), number.to_string());
            }
            None => prop_assert!(!(0..100_000_000).contains(&number)),
        }
    }
}

/// Guarantee: truth values have their texts.
#[test]
fn truth_values_have_their_texts() {
    for value in [true, false] {
        let (piece, len) = format_bool(value);
        assert_eq!(std::str::from_utf8(&piece[..len]).unwrap(), value.to_string());
    }
}

/// Guarantee: doubles have the text of Go's encoder, which the Collector's exporter uses.
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
        (9_007_199_254_740_991.0, "9007199254740991"),
        (9_007_199_254_740_992.0, "9007199254740992"),
        (-9_007_199_254_740_994.0, "-9007199254740994"),
        (1e18, "1000000000000000000"),
        (1.5e18, "1500000000000000000"),
        (-1_234_567_890_123_456_800.0, "-1234567890123456800"),
        (9.223_372_036_854_776e18, "9223372036854776000"),
        // Its value ends in .625: the result is the even one of two neighbours.
        (-199_802_832_433_536.63, "-199802832433536.62"),
        (1e-7, "1e-7"),
        (5e-324, "5e-324"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "+Inf"),
        (f64::NEG_INFINITY, "-Inf"),
    ] {
        assert_eq!(text_of(number), text);
    }
}
