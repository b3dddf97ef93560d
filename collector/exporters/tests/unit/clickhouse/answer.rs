//! Tests of what `clickhouse/answer.rs` keeps to itself.

use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.insert(*name, value.parse().unwrap());
    }
    headers
}

/// Scenario: every code the project has an opinion on. Guarantee: its class.
#[test]
fn every_listed_code_has_its_class() {
    let table: [(Class, &[u32]); 6] = [
        (Class::Done, &[389]),
        (
            Class::RetrySame,
            &[3, 107, 159, 164, 203, 209, 210, 225, 236, 242, 279, 285, 286, 319, 425, 499, 999],
        ),
        (Class::SlowDown, &[202, 241, 243, 252, 364, 439]),
        (Class::RefreshSchema, &[10, 16, 20, 33, 44, 131]),
        (Class::BadRows, &[6, 26, 27, 38, 41, 53, 72, 117, 128, 321, 349, 469]),
        (Class::Stop, &[60, 81, 115, 192, 193, 194, 201, 452, 472, 497, 516, 1, 50, 12_345]),
    ];
    for (class, codes) in table {
        for code in codes {
            let text = format!("Code: {code}. DB::Exception: something");
            let by_body =
                judge(StatusCode::INTERNAL_SERVER_ERROR, &headers(&[]), text.as_bytes(), 1);
            assert_eq!((by_body.class, by_body.code), (class, Some(*code)));
            let header = headers(&[("x-clickhouse-exception-code", &code.to_string())]);
            let by_header = judge(StatusCode::BAD_REQUEST, &header, b"", 1);
            assert_eq!(by_header.class, class, "{code}");
        }
    }
}

/// Scenario: every code of coordination, an outcome that is unknown among them; other failures that
/// are sent again; bad rows. Guarantee: the first have the word that the operator uses, and are sent
/// again as the same bytes all the same; the others have their class.
#[test]
fn failures_of_coordination_have_their_own_word_and_are_sent_again() {
    let judged = |code: u32| Verdict::of_code(code, "Code: 1. DB::Exception: x");
    for code in [225, 242, 285, 286, 319, 999] {
        let verdict = judged(code);
        assert_eq!((verdict.class, verdict.label()), (Class::RetrySame, "coordination"), "{code}");
    }
    for code in 0..2_000 {
        let verdict = judged(code);
        let is_told = verdict.label() == "coordination";
        assert_eq!(is_told, millrace_coordination::is_code(code), "{code}");
        assert!(!is_told || verdict.class == Class::RetrySame, "{code}");
    }
    assert_eq!((judged(159).label(), judged(27).label()), ("retry_same", "bad_rows"));
    assert_eq!(Verdict::unanswered(&"gone").label(), "retry_same");
}

/// Scenario: an exception after the headers went out with 200. Guarantee: it counts.
#[test]
fn a_late_exception_behind_a_success_counts() {
    let body = b"\n__exception__\r\nabcdef\r\nCode: 252. DB::Exception: Too many parts. (NAME)";
    let verdict = judge(StatusCode::OK, &headers(&[]), body, 5);
    assert_eq!((verdict.class, verdict.code), (Class::SlowDown, Some(252)));
    let verdict = judge(StatusCode::OK, &headers(&[]), b"Ok.\nsomething", 5);
    assert_eq!(verdict.class, Class::RetrySame, "a success says nothing");
    let body = b"Code: 999. Coordination::Exception: Session expired";
    let verdict = judge(StatusCode::INTERNAL_SERVER_ERROR, &headers(&[]), body, 5);
    assert_eq!(verdict.code, Some(999));
    // Words that begin like a code hide none that follows.
    let body = b"Code: x, Code: 9\nCode: 60. DB::Exception: Unknown table";
    let verdict = judge(StatusCode::INTERNAL_SERVER_ERROR, &headers(&[]), body, 5);
    assert_eq!((verdict.class, verdict.code), (Class::Stop, Some(60)));
}

/// Scenario: the server counts what it wrote. Guarantee: fewer is not done, more (views) is;
/// none is done only for an insert that may be a repetition.
#[test]
fn fewer_written_rows_than_sent_are_not_done() {
    let judged = |summary: &str, first| {
        let headers = headers(&[("x-clickhouse-summary", summary)]);
        let verdict = judge_try(StatusCode::OK, &headers, b"", 100, first);
        let expected = match (verdict.class, written_rows(&headers)) {
            (Class::Done, Some(_)) => Count::Whole,
            (_, Some(_)) => Count::Short,
            (_, None) => Count::Unsaid,
        };
        assert_eq!(verdict.count, expected, "{summary}");
        verdict.class
    };
    let class = |summary: &str| judged(summary, true);
    assert_eq!(class(r#"{"read_rows":"100","written_rows":"100"}"#), Class::Done);
    assert_eq!(class(r#"{"written_rows":"150","written_bytes":"9"}"#), Class::Done);
    assert_eq!(class(r#"{"written_rows": 0}"#), Class::RetrySame);
    assert_eq!(judged(r#"{"written_rows": 0}"#, false), Class::Done);
    assert_eq!(judged(r#"{"written_rows":"99"}"#, false), Class::RetrySame);
    assert_eq!(class(r#"{"written_rows":"99"}"#), Class::RetrySame);
    assert_eq!(class("nonsense"), Class::Done);
}

/// Scenario: answers of proxies, without a code. Guarantee: passing ones are tried again, the
/// rest stops.
#[test]
fn statuses_without_a_code_are_judged_by_themselves() {
    let class = |status: u16| {
        judge(StatusCode::from_u16(status).unwrap(), &headers(&[]), b"<html>", 1).class
    };
    for status in [408, 500, 502, 503, 504] {
        assert_eq!(class(status), Class::RetrySame, "{status}");
    }
    assert_eq!(class(429), Class::SlowDown);
    for status in [301, 400, 401, 403, 404, 413] {
        assert_eq!(class(status), Class::Stop, "{status}");
    }
}

/// Scenario: a long message with line ends. Guarantee: one short line.
#[test]
fn messages_are_short_and_on_one_line() {
    let text = format!("Code: 60. DB::Exception: {}\n\n", "x\n".repeat(1000));
    let verdict = judge(StatusCode::NOT_FOUND, &headers(&[]), text.as_bytes(), 1);
    assert!(verdict.message.len() <= MAX_MESSAGE_CHARS && !verdict.message.contains('\n'));
}
