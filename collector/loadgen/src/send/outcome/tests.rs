//! Tests of private items of `send/answer.rs`.

use super::*;

fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in list {
        map.insert(*name, value.parse().unwrap());
    }
    map
}

/// Scenario: every code that OTLP names. Guarantee: only those it calls retryable are sent again,
/// and only those that may hide a success count as unclear.
#[test]
fn grpc_codes_are_judged_as_the_specification_says() {
    for code in 0..=16_u16 {
        let map = headers(&[("grpc-status", &code.to_string())]);
        let answer = classify_grpc(StatusCode::OK, &HeaderMap::new(), Some(&map), &[]);
        match code {
            0 => assert_eq!(answer, AttemptOutcome::Accepted),
            1 | 4 | 10 | 11 | 14 | 15 => assert!(matches!(answer, AttemptOutcome::Unclear { .. })),
            _ => assert!(matches!(answer, AttemptOutcome::Refused { .. }), "{code}"),
        }
    }
}

/// Scenario: RESOURCE_EXHAUSTED with RetryInfo of 1.5 s. Guarantee: sent again after it.
#[test]
fn retry_info_is_honoured() {
    // google.rpc.Status { code: 8, details: [Any { RetryInfo { retry_delay: 1.5 s } }] }
    let details = "CAgaNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIKCggIARCAyrXuAQ";
    let map = headers(&[("grpc-status", "8"), ("grpc-status-details-bin", details)]);
    let answer = classify_grpc(StatusCode::OK, &map, None, &[]);
    assert!(
        matches!(answer, AttemptOutcome::Busy { after: Some(after), .. }
        if after == Duration::from_millis(1_500)),
        "{answer:?}"
    );
}

/// Scenario: HTTP answers. Guarantee: 429 is busy, gateway errors are unclear, everything else is
/// final; a partial success is no success.
#[test]
fn http_statuses_are_judged_as_the_specification_says() {
    let after = headers(&[("retry-after", "3")]);
    let answer = |code| classify_http(StatusCode::from_u16(code).unwrap(), &after, &[]);
    assert_eq!(answer(200), AttemptOutcome::Accepted);
    assert!(matches!(answer(429), AttemptOutcome::Busy { after: Some(a), .. } if a.as_secs() == 3));
    for code in [502, 503, 504] {
        assert!(matches!(answer(code), AttemptOutcome::Unclear { after: Some(_), .. }));
    }
    for code in [400, 401, 404, 413, 415, 500, 501] {
        assert!(matches!(answer(code), AttemptOutcome::Refused { .. }), "{code}");
    }
    let partial = [0x0A, 0x02, 0x08, 0x07];
    assert!(matches!(
        classify_http(StatusCode::OK, &after, &partial),
        AttemptOutcome::Refused { .. }
    ));
}

/// Scenario: a proxy cuts the stream or answers itself. Guarantee: unclear, never success.
#[test]
fn an_answer_without_grpc_status_is_no_success() {
    let none = HeaderMap::new();
    assert!(matches!(
        classify_grpc(StatusCode::OK, &none, None, &[]),
        AttemptOutcome::Unclear { .. }
    ));
    assert!(matches!(
        classify_grpc(StatusCode::NOT_FOUND, &none, None, &[]),
        AttemptOutcome::Refused { .. }
    ));
}
