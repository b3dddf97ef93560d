//! Thresholds and randomness, as numbers and digits.

use millrace_processing::sample::{MAX_ADJUSTED_COUNT, Randomness, Threshold};
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

fn digits(threshold: Threshold) -> String {
    String::from_utf8(threshold.to_digits().as_bytes().to_vec()).expect("ASCII")
}

/// Scenario: the specification's table of 1-in-N ratios, at 3, 4 and 5 digits.
/// Guarantee: thresholds and adjusted counts are the table's.
#[test]
fn thresholds_are_those_of_the_specification() {
    let table: [(f64, [&str; 3], [f64; 3]); 13] = [
        (1.0, ["0", "0", "0"], [1.0, 1.0, 1.0]),
        (2.0, ["8", "8", "8"], [2.0, 2.0, 2.0]),
        (
            3.0,
            ["aab", "aaab", "aaaab"],
            [3.000_732_600_732_6, 3.000_045_777_065_69, 3.000_002_861_025_68],
        ),
        (4.0, ["c", "c", "c"], [4.0, 4.0, 4.0]),
        (
            5.0,
            ["ccd", "cccd", "ccccd"],
            [5.001_221_001_221, 5.000_076_295_109_48, 5.000_004_768_376_13],
        ),
        (8.0, ["e", "e", "e"], [8.0, 8.0, 8.0]),
        (
            10.0,
            ["e66", "e666", "e6666"],
            [9.990_243_902_439_02, 9.999_389_685_688_13, 9.999_961_853_172_86],
        ),
        (16.0, ["f", "f", "f"], [16.0, 16.0, 16.0]),
        (
            100.0,
            ["fd71", "fd70a", "fd70a4"],
            [100.054_961_832_061, 99.997_711_234_026_3, 100.000_095_367_523],
        ),
        (
            1e3,
            ["ffbe7", "ffbe77", "ffbe76d"],
            [999.595_805_529_075, 1_000.012_874_769_03, 1_000.001_698_735_26],
        ),
        (
            1e4,
            ["fff972", "fff9724", "fff97247"],
            [9_998.340_882_002_38, 9_999.830_725_674_27, 9_999.993_704_263_36],
        ),
        (
            1e5,
            ["ffff584", "ffff583a", "ffff583a5"],
            [100_013.210_134_128, 99_999.238_556_461, 99_999.966_146_435_9],
        ),
        (
            1e6,
            ["ffffef4", "ffffef39", "ffffef391"],
            [1_001_624.835_820_9, 999_992.385_564_61, 1_000_006.937_469_99],
        ),
    ];
    for (count, thresholds, adjusted) in table {
        for (precision, (wanted, adjusted)) in (3..=5).zip(thresholds.iter().zip(adjusted)) {
            let threshold = Threshold::from_probability(1.0 / count, precision).expect("in range");
            assert_eq!(digits(threshold), *wanted, "1 in {count} at {precision} digits");
            let error = (threshold.adjusted_count() / adjusted - 1.0).abs();
            assert!(error < 1e-12, "1 in {count} at {precision} digits: {error}");
        }
    }
}

/// Scenario: probabilities near 1, near 2^-56, and outside the range.
/// Guarantee: leading digits that are all f or all 0 don't count as precision; what is out of range
/// is refused.
#[test]
fn thresholds_at_the_ends_of_the_range_keep_their_precision() {
    let least = 1.0 / MAX_ADJUSTED_COUNT as f64;
    let power = |exponent: i32| 2_f64.powi(exponent);
    let cases = [
        (least, 3, "ffffffffffffff"),
        (2.0 * least, 3, "fffffffffffffe"),
        (3.0 * least, 3, "fffffffffffffd"),
        (8.0 * least, 3, "fffffffffffff8"),
        (16.0 * least, 3, "fffffffffffff"),
        (1.0 - 0x0456_789a as f64 * power(-28), 6, "45678a"),
        (1.0 - 0x0456_789a as f64 * power(-28), 4, "4568"),
        (1.0 - 0x0456_789a as f64 * power(-28), 1, "4"),
        (1.0 - 0x0456_789a as f64 * power(-40), 5, "00045679"),
        (1.0 - 0x0456_789a as f64 * power(-40), 3, "000456"),
        (1.0 / 3.0, 14, "aaaaaaaaaaaaac"),
        (1.0 / 3.0, 3, "aab"),
        (2.0 / 3.0, 3, "555"),
        (1.0, 1, "0"),
    ];
    for (probability, precision, wanted) in cases {
        let threshold = Threshold::from_probability(probability, precision).expect("in range");
        assert_eq!(digits(threshold), wanted, "{probability} at {precision}");
    }
    for probability in [0.0, -0.5, least / 2.0, 1.000_001, f64::NAN, f64::INFINITY] {
        assert_eq!(Threshold::from_probability(probability, 4), None, "{probability}");
    }
}

/// Scenario: `th` and `rv` as they arrive.
/// Guarantee: 1 to 14 digits are a threshold, exactly 14 are a randomness, in either case; nothing
/// else is.
#[test]
fn digits_are_read_as_the_specification_states() {
    let cases: [(&str, Option<u64>, Option<u64>); 12] = [
        ("0", Some(0), None),
        ("c", Some(0xc0_0000_0000_0000), None),
        ("fd70a4", Some(0xfd_70a4_0000_0000), None),
        ("FD70A4", Some(0xfd_70a4_0000_0000), None),
        ("1000", Some(0x10_0000_0000_0000), None),
        ("abcdefabcdefab", Some(0xab_cdef_abcd_efab), Some(0xab_cdef_abcd_efab)),
        ("00000000000003", Some(3), Some(3)),
        ("", None, None),
        ("100000000000000", None, None),
        ("-1", None, None),
        ("0x1p+3", None, None),
        ("\u{ff11}", None, None),
    ];
    for (text, threshold, randomness) in cases {
        let parsed = Threshold::parse(text.as_bytes()).map(Threshold::value);
        assert_eq!(parsed, threshold, "{text}");
        assert_eq!(Randomness::parse(text.as_bytes()).map(Randomness::value), randomness, "{text}");
    }
}

/// Scenario: the specification's trace randomness: the last 7 bytes of the trace id.
/// Guarantee: the 9 bytes before don't matter; ids that W3C declares invalid have no randomness.
#[test]
fn the_last_seven_bytes_of_a_trace_id_are_its_randomness() {
    let mut id = [0xee; 16];
    id[9..].copy_from_slice(&[0xd2, 0x9d, 0x6a, 0x72, 0x15, 0xce, 0xd0]);
    let expected = Randomness::parse(b"d29d6a7215ced0");
    assert_eq!(Randomness::from_trace_id(&id), expected);
    id[..9].fill(0);
    assert_eq!(Randomness::from_trace_id(&id), expected);
    for invalid in [&[0; 16][..], &[], &[1; 8], &[1; 17]] {
        assert_eq!(Randomness::from_trace_id(invalid), None);
    }
}

/// Scenario: values of an attribute, hashed with a seed.
/// Guarantee: the hash is XXH3's, so that it's the same in every process and version, and its
/// upper bits are spread evenly.
#[test]
fn the_hash_of_a_value_is_stable_and_even() {
    assert_eq!(Randomness::from_bytes(0, b"").value(), 0x2d06_8005_38d3_94c2 >> 8);
    let half = 1 << 55;
    let is_upper = |number: &u32| Randomness::from_bytes(7, &number.to_le_bytes()).value() >= half;
    let upper = (0..10_000).filter(is_upper).count();
    assert!((4_800..=5_200).contains(&upper), "{upper}");
    assert_ne!(Randomness::from_bytes(1, b"pod-7"), Randomness::from_bytes(2, b"pod-7"));
}

proptest! {
    /// Scenario: any threshold and any probability.
    /// Guarantee: digits round-trip, and the probability of a threshold is the requested one within
    /// the precision.
    #[test]
    fn digits_and_probabilities_round_trip(
        value in 0..MAX_ADJUSTED_COUNT,
        exponent in 0.0..55.9_f64,
        precision in 1_u8..=14,
    ) {
        let threshold = Threshold::new(value).expect("in range");
        let written = threshold.to_digits();
        prop_assert_eq!(Threshold::parse(written.as_bytes()), Some(threshold));
        prop_assert!(written.as_bytes().len() == 1 || !written.as_bytes().ends_with(b"0"));
        let probability = 2_f64.powf(-exponent);
        let threshold = Threshold::from_probability(probability, precision).expect("in range");
        let error = (threshold.probability() / probability - 1.0).abs();
        let allowed = 16_f64.powi(1 - i32::from(precision)).max(2_f64.powf(exponent - 56.0));
        prop_assert!(error <= allowed, "{} {} {}", probability, precision, error);
    }
}
