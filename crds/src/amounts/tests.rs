//! Tests of what `amounts.rs` keeps to itself.

use super::*;

/// Scenario: each unit. Guarantee: the number of seconds is exact, the text is kept.
#[test]
fn a_period_is_counted_in_seconds() {
    for (text, seconds) in [("1s", 1), ("90m", 5_400), ("6h", 21_600), ("30d", 2_592_000)] {
        let period = text.parse::<Period>().unwrap();
        assert_eq!(period.seconds(), seconds);
        assert_eq!(period.to_string(), text);
    }
    for bad in ["", "6", "6 h", "0h", "6w", "-1d", "1h30m", "100000d"] {
        assert!(bad.parse::<Period>().is_err(), "{bad}");
    }
}

/// Scenario: binary and decimal units. Guarantee: bytes as Kubernetes counts them.
#[test]
fn memory_is_counted_in_bytes() {
    for (text, bytes) in [("256Mi", 256 << 20), ("4Gi", 4 << 30), ("1M", 1_000_000), ("7", 7)] {
        assert_eq!(text.parse::<MemoryQuantity>().unwrap().bytes(), bytes);
    }
    for bad in ["", "0", "4GB", "1.5Gi", "4 Gi", "Mi", "999999999999Ti"] {
        assert!(bad.parse::<MemoryQuantity>().is_err(), "{bad}");
    }
}

/// Scenario: cores, fractions and thousandths. Guarantee: thousandths of a core.
#[test]
fn processor_time_is_counted_in_thousandths() {
    for (text, expected) in
        [("1", 1_000), ("0.5", 500), ("0.05", 50), ("1.25", 1_250), ("250m", 250)]
    {
        assert_eq!(text.parse::<CpuQuantity>().unwrap().millicores(), expected);
    }
    for bad in ["", "0", "0.0", "m", "1.2345", "two", "-1"] {
        assert!(bad.parse::<CpuQuantity>().is_err(), "{bad}");
    }
}
