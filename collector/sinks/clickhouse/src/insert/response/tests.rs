//! Tests of `answer.rs`.

use millrace_coordination::error_codes::ERROR_CODES;

use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.insert(*name, value.parse().unwrap());
    }
    headers
}

/// Scenario: every code that the project classifies. Guarantee: its class.
#[test]
fn every_listed_code_has_its_class() {
    let table: [(Class, &[u32]); 6] = [
        (Class::Done, &[389]),
        (
            Class::RetrySame,
            &[3, 107, 159, 203, 209, 210, 225, 236, 242, 279, 285, 286, 319, 394, 425, 499, 999],
        ),
        (Class::SlowDown, &[202, 241, 243, 252, 364, 439]),
        (Class::RefreshSchema, &[10, 16, 20, 33, 44, 131]),
        (Class::BadRows, &[6, 26, 27, 38, 41, 53, 72, 117, 128, 321, 349, 469]),
        (Class::Stop, &[60, 81, 115, 164, 192, 193, 194, 201, 452, 472, 497, 516, 1, 50, 12_345]),
    ];
    for (class, codes) in table {
        for code in codes {
            let text = format!("Code: {code}. DB::Exception: something");
            let by_body = classify_response(
                StatusCode::INTERNAL_SERVER_ERROR,
                &headers(&[]),
                text.as_bytes(),
                1,
                true,
            );
            assert_eq!((by_body.class, by_body.code), (class, Some(*code)));
            let header = headers(&[("x-clickhouse-exception-code", &code.to_string())]);
            let by_header = classify_response(StatusCode::BAD_REQUEST, &header, b"", 1, true);
            assert_eq!(by_header.class, class, "{code}");
        }
    }
}

/// Scenario: every code of coordination, including one with an unknown outcome; other failures that
/// are retried; bad rows. Guarantee: the first have the label that the operator uses, and are also
/// retried with the same bytes; the others have their class.
#[test]
fn failures_of_coordination_have_their_own_word_and_are_sent_again() {
    let judged = |code: u32| InsertResponse::of_code(code, "Code: 1. DB::Exception: x");
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
    assert_eq!(InsertResponse::no_response(&"gone").label(), "retry_same");
}

/// Scenario: a server before 25.6 gets JSON attributes, whose form it doesn't know; a row that it
/// refuses with the same code. Guarantee: the first stops and names the server's version and the
/// setting, as every record would become a dead letter; the second is a bad row.
#[test]
fn a_server_that_cannot_read_json_stops_inserts_and_costs_no_record() {
    let text = "Code: 117. DB::Exception: Invalid version for Object structure serialization.: \
                While executing Native. (INCORRECT_DATA) (version 25.3.2.39 (official build))";
    let verdict = InsertResponse::of_code(117, text);
    assert_eq!((verdict.class, verdict.label()), (Class::Stop, "stop"));
    let topic = verdict.topic();
    for words in ["ClickHouse 25.3.2.39 ", "25.6 or later", "attributes to Map"] {
        assert!(topic.contains(words), "{words}: {topic}");
    }
    let row = InsertResponse::of_code(
        117,
        "Code: 117. DB::Exception: Cannot parse JSON. (INCORRECT_DATA)",
    );
    assert_eq!((row.class, row.topic().as_str()), (Class::BadRows, "the server refuses inserts"));
}

/// Scenario: an exception after the headers were sent with 200. Guarantee: it counts.
#[test]
fn a_late_exception_behind_a_success_counts() {
    let body = b"\n__exception__\r\nabcdef\r\nCode: 252. DB::Exception: Too many parts. (NAME)";
    let verdict = classify_response(StatusCode::OK, &headers(&[]), body, 5, true);
    assert_eq!((verdict.class, verdict.code), (Class::SlowDown, Some(252)));
    let verdict = classify_response(StatusCode::OK, &headers(&[]), b"Ok.\nsomething", 5, true);
    assert_eq!(verdict.class, Class::RetrySame, "a success says nothing");
    let body = b"Code: 999. Coordination::Exception: Session expired";
    let verdict =
        classify_response(StatusCode::INTERNAL_SERVER_ERROR, &headers(&[]), body, 5, true);
    assert_eq!(verdict.code, Some(999));
    // Text that begins like a code doesn't hide a code that follows.
    let body = b"Code: x, Code: 9\nCode: 60. DB::Exception: Unknown table";
    let verdict =
        classify_response(StatusCode::INTERNAL_SERVER_ERROR, &headers(&[]), body, 5, true);
    assert_eq!((verdict.class, verdict.code), (Class::Stop, Some(60)));
}

/// Scenario: the server counts the rows that it wrote. Guarantee: fewer is not done, more (views)
/// is; none is done only for a repetition at a server that may not count its rows.
#[test]
fn fewer_written_rows_than_sent_are_not_done() {
    let judged = |summary: &str, counts_all| {
        let headers = headers(&[("x-clickhouse-summary", summary)]);
        let verdict = classify_response(StatusCode::OK, &headers, b"", 100, counts_all);
        let expected = match (verdict.class, written_rows(&headers)) {
            (Class::Done, Some(_)) => Count::Complete,
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

/// Scenario: answers of proxies, without a code. Guarantee: temporary ones are retried, the others
/// stop.
#[test]
fn statuses_without_a_code_are_judged_by_themselves() {
    let class = |status: u16| {
        classify_response(StatusCode::from_u16(status).unwrap(), &headers(&[]), b"<html>", 1, true)
            .class
    };
    for status in [408, 500, 502, 503, 504] {
        assert_eq!(class(status), Class::RetrySame, "{status}");
    }
    assert_eq!(class(429), Class::SlowDown);
    for status in [301, 400, 401, 403, 404, 413] {
        assert_eq!(class(status), Class::Stop, "{status}");
    }
}

/// Scenario: a long message with line breaks. Guarantee: one short line.
#[test]
fn messages_are_short_and_on_one_line() {
    let text = format!("Code: 60. DB::Exception: {}\n\n", "x\n".repeat(1000));
    let verdict = classify_response(StatusCode::NOT_FOUND, &headers(&[]), text.as_bytes(), 1, true);
    assert!(verdict.message.len() <= MAX_MESSAGE_CHARS && !verdict.message.contains('\n'));
}

/// Scenario: each code of the table, from the table itself and from a view behind it, in the
/// wording of several server releases. Guarantee: a view's failure is recognised by its name, has
/// its own label and never counts as nothing stored; a log-in or a setting is refused before any
/// view.
#[test]
fn a_view_that_fails_is_named() {
    for row in ERROR_CODES {
        let text =
            format!("Code: {}. DB::Exception: no ({}) (version 26.9.2.1)", row.code, row.name);
        let own = InsertResponse::of_code(row.code, &text);
        assert_eq!((own.class, &own.view), (row.class, &None));
        assert_eq!(own.stored_nothing(), row.stores_nothing(), "{row:?}");
        for behind in [
            ": while pushing to view otel.slow_spans (6ed5b5b3-0f8f-4a50-8f0f-1f3d6f7e7c11). (X)",
            ": while pushing to view otel.slow_spans. (X)",
            ": while pushing to view otel.slow_spans, e.what() = DB::Exception",
            ": while pushing to view otel.slow_spans: while pushing to view otel.first. (X)",
            ": while pushing to view otel.slow_spans",
        ] {
            let text = format!("Code: {}. DB::Exception: {}{behind}", row.code, "y ".repeat(400));
            let verdict = InsertResponse::of_code(row.code, &text);
            if row.origin == ErrorOrigin::TableOnly {
                assert_eq!(verdict.view, None, "{row:?}");
                continue;
            }
            assert_eq!(verdict.view.as_deref(), Some("otel.slow_spans"), "{behind}");
            assert_eq!((verdict.label(), verdict.stored_nothing()), ("view", false), "{row:?}");
        }
    }
    let text = "Code: 6. DB::Exception: Cannot parse string ': while pushing to view v. (X)' as \
                UInt64: while converting source column. (CANNOT_PARSE_TEXT)";
    assert_eq!(InsertResponse::of_code(6, text).view, None, "a client's words");
}
