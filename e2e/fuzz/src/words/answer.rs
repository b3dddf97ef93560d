//! What a ClickHouse server, or a proxy before it, answers to an insert.
//!
//! An input is a status (two bytes), the rows that were sent (one byte), a code for the exception
//! header (two bytes, 0 for none), the written rows of the summary (one byte, 255 for no summary),
//! a line of summary text of its own, and the body.

use http::{HeaderMap, HeaderValue, StatusCode};

use millrace_coordination::error_codes::{Concern, ErrorCode};

use crate::judged::{Class, InsertResponse, classify_response};

/// Most characters kept of a server's words.
const MESSAGE_CHARS_MAX: usize = 300;
/// The exception of an insert that was recognised as a repetition.
const DEDUPLICATED: u32 = 389;

/// An answer.
pub fn clickhouse(data: &[u8]) {
    let Some((&[a, b, sent, c, d, written], rest)) = data.split_first_chunk::<6>() else { return };
    let status = StatusCode::from_u16(100 + u16::from_be_bytes([a, b]) % 500);
    let Ok(status) = status else { return };
    let (sent, code) = (u64::from(sent), u32::from(u16::from_be_bytes([c, d])));
    let (summary, body) = match rest.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (&rest[..0], rest),
    };
    let mut headers = HeaderMap::new();
    if code > 0 {
        headers.insert("x-clickhouse-exception-code", HeaderValue::from(code));
    }
    let own = format!(r#"{{"read_rows":"7","written_rows":"{written}","written_bytes":"9"}}"#);
    let text = if summary.is_empty() { own.as_bytes() } else { summary };
    if written < 255
        && let Ok(value) = HeaderValue::from_bytes(text)
    {
        headers.insert("x-clickhouse-summary", value);
    }
    let first = classify_response(status, &headers, body, sent, true);
    let again = classify_response(status, &headers, body, sent, false);
    for verdict in [&first, &again] {
        holds(verdict, status, body);
    }
    if code > 0 {
        assert_eq!(
            (first.code, first.class),
            (Some(code), ErrorCode::from_code(code).class),
            "the header's"
        );
    } else if first.code.is_none() && status.is_success() && summary.is_empty() && written < 255 {
        let enough = u64::from(written) >= sent;
        let said = body.iter().any(|byte| !byte.is_ascii_whitespace());
        let is_done = first.class == Class::Done;
        assert!(!is_done || enough, "{written} of {sent} rows are done");
        assert!(is_done || said || !enough, "all rows are written and it is not done");
    }
    // A repetition may find its rows there already; that is the only difference.
    if first != again {
        assert_eq!((first.class, again.class), (Class::RetrySame, Class::Done));
    }
    an_exception_at_the_end_counts(status, &headers, body, sent, &first);
}

fn holds(verdict: &InsertResponse, status: StatusCode, body: &[u8]) {
    let InsertResponse { class, code, count: _, view: _, message } = verdict;
    assert!(message.chars().count() <= MESSAGE_CHARS_MAX, "{message:?}");
    assert!(!message.contains(char::is_control), "{message:?} is more than a line");
    assert!(!class.as_str().is_empty() && !verdict.reason().is_empty());
    assert!(!verdict.topic().is_empty());
    match code {
        Some(code) => {
            assert_eq!(*class, ErrorCode::from_code(*code).class);
            let refused = verdict.is_about(Concern::LogIn);
            assert_eq!(refused, verdict.topic() == "log-in refused", "{code}");
            assert!(!refused || *class == Class::Stop, "{code}");
        }
        None if status.is_success() => {
            assert!(matches!(class, Class::Done | Class::RetrySame), "{verdict:?}");
        }
        None => assert_ne!(*class, Class::Done, "done with {status}"),
    }
    if *class == Class::Done && *code != Some(DEDUPLICATED) {
        let text = String::from_utf8_lossy(body);
        assert!(status.is_success() && text.trim().is_empty(), "done with {text:?}");
    }
}

/// An exception after whatever a body says is seen, unless there was another one before it.
fn an_exception_at_the_end_counts(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    sent: u64,
    verdict: &InsertResponse,
) {
    let late = [body, b"\nCode: 252. DB::Exception: Too many parts. (TOO_MANY_PARTS)\n"].concat();
    let found = classify_response(status, headers, &late, sent, true);
    let code = verdict.code.unwrap_or(252);
    assert_eq!(
        (found.class, found.code),
        (ErrorCode::from_code(code).class, Some(code)),
        "a late exception"
    );
}
