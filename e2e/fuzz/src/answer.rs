//! What a ClickHouse server, or a proxy before it, answers to an insert.
//!
//! An input is a status (two bytes), the rows that were sent (one byte), a code for the exception
//! header (two bytes, 0 for none), the written rows of the summary (one byte, 255 for no summary),
//! a line of summary text of its own, and the body.

use http::{HeaderMap, HeaderValue, StatusCode};

use crate::judged::{
    Class, Verdict, class_of_code, is_authentication, judge, judge_again, topic_of_code,
};

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
    let first = judge(status, &headers, body, sent);
    let again = judge_again(status, &headers, body, sent);
    for verdict in [&first, &again] {
        holds(verdict, status, body);
    }
    if code > 0 {
        assert_eq!((first.code, first.class), (Some(code), class_of_code(code)), "the header's");
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

fn holds(verdict: &Verdict, status: StatusCode, body: &[u8]) {
    let Verdict { class, code, count: _, is_of_view: _, message } = verdict;
    assert!(message.chars().count() <= MESSAGE_CHARS_MAX, "{message:?}");
    assert!(!message.contains(char::is_control), "{message:?} is more than a line");
    assert!(!class.as_str().is_empty() && !verdict.reason().is_empty());
    assert!(!topic_of_code(*code).is_empty());
    match code {
        Some(code) => {
            assert_eq!(*class, class_of_code(*code));
            let refused = is_authentication(*code);
            assert_eq!(refused, topic_of_code(Some(*code)) == "log-in refused", "{code}");
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
    verdict: &Verdict,
) {
    let late = [body, b"\nCode: 252. DB::Exception: Too many parts. (TOO_MANY_PARTS)\n"].concat();
    let found = judge(status, headers, &late, sent);
    let code = verdict.code.unwrap_or(252);
    assert_eq!((found.class, found.code), (class_of_code(code), Some(code)), "a late exception");
}
