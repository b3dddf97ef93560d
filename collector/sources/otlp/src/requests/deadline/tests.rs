//! Tests of `deadline.rs`.

use std::time::Duration;

use super::{ResponseTimes, parse_grpc_timeout};

/// Scenario: the values that clients write into `grpc-timeout`. Guarantee: only gRPC's form is
/// parsed, with each unit.
#[test]
fn a_grpc_timeout_has_up_to_eight_digits_and_a_unit() {
    let cases = [
        ("5S", Some(Duration::from_secs(5))),
        ("4999m", Some(Duration::from_millis(4999))),
        ("9999851u", Some(Duration::from_micros(9_999_851))),
        ("99999999n", Some(Duration::from_nanos(99_999_999))),
        ("2M", Some(Duration::from_secs(120))),
        ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
        ("0S", Some(Duration::ZERO)),
        ("", None),
        ("S", None),
        ("5", None),
        ("5s", None),
        ("-5S", None),
        ("+5S", None),
        ("1.5S", None),
        ("123456789m", None),
        ("5\u{df}", None),
    ];
    for (value, expected) in cases {
        assert_eq!(parse_grpc_timeout(value), expected, "{value:?}");
    }
}

/// Scenario: clients with and without a timeout, whose bodies take different times. Guarantee: a
/// client that states its timeout is answered before it gives up, by at least a tenth of it up to a
/// second; others at the answer time from the body's end on; none later than the settings allow.
#[test]
fn an_answer_comes_before_its_client_gives_up() {
    let times = ResponseTimes { usual: Duration::from_secs(9), longest: Duration::from_secs(30) };
    let cases = [
        (None, 0, 9_000, 30_000),
        (None, 8_000, 17_000, 30_000),
        (None, 25_000, 30_000, 30_000),
        (Some(10_000), 0, 9_000, 9_000),
        (Some(10_000), 8_000, 9_000, 9_000),
        (Some(5_000), 0, 4_500, 4_500),
        (Some(1_000), 0, 900, 900),
        (Some(500), 0, 400, 400),
        (Some(100), 0, 50, 50),
        (Some(0), 0, 0, 0),
        (Some(20_000), 0, 19_000, 19_000),
        (Some(60_000), 0, 30_000, 30_000),
    ];
    for (timeout, body, answer, longest_body) in cases {
        let client = timeout.map(Duration::from_millis);
        let time = times.of_request(client, Duration::from_millis(body));
        assert_eq!(time, Duration::from_millis(answer), "{timeout:?} {body}");
        assert_eq!(times.of_body(client), Duration::from_millis(longest_body), "{timeout:?}");
    }
    let short = ResponseTimes { longest: Duration::from_secs(3), ..times };
    assert_eq!(short.of_request(None, Duration::ZERO), Duration::from_secs(3));
}
