//! Tests of durations.

use super::*;

/// Guarantee: texts from the tests of Prometheus' own parser are accepted and refused as there.
#[test]
fn times_are_read_as_prometheus_reads_them() {
    for (written, seconds) in
        [("0", 0.0), ("0s", 0.0), ("324ms", 0.324), ("3s", 3.0), ("5m", 300.0), ("1h", 3600.0)]
    {
        assert_eq!(parse_duration(written), Some(Duration::from_secs_f64(seconds)), "{written}");
    }
    assert_eq!(parse_duration("4d1h30m3s20ms"), Some(Duration::from_millis(351_003_020)));
    assert_eq!(parse_duration("1w3y"), None);
    for wrong in ["", "1", "1y1m1d", "-1w", "1.5d", "d", "294y", "1s1s", "300y", "1 s", "s1"] {
        assert_eq!(parse_duration(wrong), None, "{wrong}");
    }
}

/// Guarantee: parsing and rendering return the original text.
#[test]
fn times_are_written_as_prometheus_writes_them() {
    for written in ["0s", "15s", "1m30s", "1m", "1h", "500ms", "1d1h", "2w", "1y", "8d"] {
        let time = parse_duration(written).unwrap();
        assert_eq!(render_duration(time), written);
    }
}
