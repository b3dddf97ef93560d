//! The meaning of a server's answer to an insert, and so the next step.
//!
//! The codes are those of ClickHouse's `ErrorCodes.cpp`. Which of them are worth a repetition
//! follows the Kafka Connect sink for ClickHouse where it decides, and the names beyond that. An
//! unlisted code is [`Class::Stop`]: the data stays in Kafka and a person is alarmed, which can be
//! undone; dropping and endless fast retries can't.
//!
//! Pure: headers and the start of a body in, a value out.

use http::{HeaderMap, StatusCode};

/// Most characters kept of a server's message. It goes into logs and dead-letter headers.
const MAX_MESSAGE_CHARS: usize = 300;
/// What a server adds to the exception of a materialized view, once the table has been written.
const PUSHING_TO_VIEW: &str = "while pushing to view";

/// What an answer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The rows are stored.
    Done,
    /// A temporary failure, or an unknown outcome: the same bytes with the same token again.
    RetrySame,
    /// The same, but the server is overloaded: wait longer.
    SlowDown,
    /// The table isn't what the block was made for: a column is missing, or the bytes were read
    /// as other columns. The same bytes again once the table was repaired; salvaged if that
    /// doesn't help.
    RefreshSchema,
    /// Some of the rows can never be stored.
    BadRows,
    /// Nothing can be stored until a person or the operator acts.
    Stop,
}

impl Class {
    /// A short name, for metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::RetrySame => "retry_same",
            Self::SlowDown => "slow_down",
            Self::RefreshSchema => "refresh_schema",
            Self::BadRows => "bad_rows",
            Self::Stop => "stop",
        }
    }
}

/// The number of rows written, by an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Count {
    /// Nothing.
    Unsaid,
    /// As many as were sent or more (views write too), or none because they are there already.
    Whole,
    /// Fewer than were sent.
    Short,
}

/// A classified answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What to do.
    pub class: Class,
    /// ClickHouse's code, if it gave one.
    pub code: Option<u32>,
    /// The number of rows written.
    pub count: Count,
    /// Whether it was a materialized view that failed: the table itself has the rows by then.
    pub is_of_view: bool,
    /// What it said, shortened; never the rows themselves as far as the server keeps to its own
    /// habit of quoting none in insert errors of the Native format.
    pub message: String,
}

impl Verdict {
    /// No answer came, or not a whole one: whether the rows landed is unknown.
    #[must_use]
    pub fn unanswered(cause: &dyn std::fmt::Display) -> Self {
        Self::without_code(Class::RetrySame, &cause.to_string())
    }

    fn without_code(class: Class, text: &str) -> Self {
        let message = shortened(text);
        Self { class, code: None, count: Count::Unsaid, is_of_view: false, message }
    }

    fn of_code(code: u32, text: &str) -> Self {
        let class = class_of_code(code);
        let count = if class == Class::Done { Count::Whole } else { Count::Unsaid };
        let is_of_view = text.contains(PUSHING_TO_VIEW);
        Self { class, code: Some(code), count, is_of_view, message: shortened(text) }
    }

    /// A short name, for metrics and the log: the class, but for failures of coordination, which
    /// are sent again like others and need somebody else to look at them.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self.code {
            Some(code) if millrace_coordination::is_code(code) => millrace_coordination::NAME,
            _ => self.class.as_str(),
        }
    }

    /// A reason for a dead letter, from a fixed set.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.class {
            Class::RefreshSchema => "schema_mismatch",
            Class::SlowDown => "too_much_for_clickhouse",
            _ => "refused_by_clickhouse",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) => write!(f, "code {code}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// What an exception code asks for.
#[must_use]
pub fn class_of_code(code: u32) -> Class {
    match code {
        // INSERT_WAS_DEDUPLICATED: it is there already.
        389 => Class::Done,
        // 3 UNEXPECTED_END_OF_FILE, 107 FILE_DOESNT_EXIST, 159 TIMEOUT_EXCEEDED, 164 READONLY,
        // 203 NO_FREE_CONNECTION, 209 SOCKET_TIMEOUT, 210 NETWORK_ERROR, 225 NO_ZOOKEEPER,
        // 236 ABORTED, 242 TABLE_IS_READ_ONLY, 279 ALL_CONNECTION_TRIES_FAILED,
        // 285 TOO_FEW_LIVE_REPLICAS, 286 UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE,
        // 319 UNKNOWN_STATUS_OF_INSERT, 425 SYSTEM_ERROR, 499 S3_ERROR, 999 KEEPER_EXCEPTION
        3 | 107 | 159 | 164 | 203 | 209 | 210 | 225 | 236 | 242 | 279 | 285 | 286 | 319 | 425
        | 499 | 999 => Class::RetrySame,
        // 202 TOO_MANY_SIMULTANEOUS_QUERIES, 241 MEMORY_LIMIT_EXCEEDED, 243 NOT_ENOUGH_SPACE,
        // 252 TOO_MANY_PARTS, 364 RECEIVED_ERROR_TOO_MANY_REQUESTS, 439 CANNOT_SCHEDULE_TASK
        202 | 241 | 243 | 252 | 364 | 439 => Class::SlowDown,
        // 10 NOT_FOUND_COLUMN_IN_BLOCK, 16 NO_SUCH_COLUMN_IN_TABLE,
        // 20 NUMBER_OF_COLUMNS_DOESNT_MATCH, 33 CANNOT_READ_ALL_DATA, 44 ILLEGAL_COLUMN (of a
        // computed one), 131 TOO_LARGE_STRING_SIZE
        10 | 16 | 20 | 33 | 44 | 131 => Class::RefreshSchema,
        // 6 CANNOT_PARSE_TEXT, 26 CANNOT_PARSE_QUOTED_STRING, 27
        // CANNOT_PARSE_INPUT_ASSERTION_FAILED, 38 CANNOT_PARSE_DATE, 41 CANNOT_PARSE_DATETIME, 53
        // TYPE_MISMATCH, 72 CANNOT_PARSE_NUMBER, 117 INCORRECT_DATA, 128 TOO_LARGE_ARRAY_SIZE, 321
        // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE, 349 CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN, 469
        // VIOLATED_CONSTRAINT
        6 | 26 | 27 | 38 | 41 | 53 | 72 | 117 | 128 | 321 | 349 | 469 => Class::BadRows,
        // 60 UNKNOWN_TABLE, 81 UNKNOWN_DATABASE, 115 UNKNOWN_SETTING, 192 UNKNOWN_USER,
        // 193 WRONG_PASSWORD, 194 REQUIRED_PASSWORD, 201 QUOTA_EXCEEDED,
        // 452 SETTING_CONSTRAINT_VIOLATION, 472 READONLY_SETTING, 497 ACCESS_DENIED,
        // 516 AUTHENTICATION_FAILED, and everything else.
        _ => Class::Stop,
    }
}

/// Whether a code says that values can't be turned into a column's type. Our values always can, so
/// it is the column that was changed; unless the live table is as it should be, and they are odd.
#[must_use]
pub fn is_conversion(code: u32) -> bool {
    // Beside those above: 70 CANNOT_CONVERT_TYPE, 376 CANNOT_PARSE_UUID, 691
    // UNKNOWN_ELEMENT_OF_ENUM
    matches!(code, 6 | 26 | 27 | 38 | 41 | 53 | 70 | 72 | 117 | 321 | 376 | 691)
}

/// Whether a code says that the server has too little memory for the insert (241
/// MEMORY_LIMIT_EXCEEDED): a shorter one may fit.
#[must_use]
pub fn is_for_memory(code: u32) -> bool {
    code == 241
}

/// Whether a code is about the table alone: the server may take inserts into others.
#[must_use]
pub fn is_of_table(code: u32) -> bool {
    // 242 TABLE_IS_READ_ONLY, 252 TOO_MANY_PARTS, 285 TOO_FEW_LIVE_REPLICAS,
    // 286 UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
    matches!(code, 242 | 252 | 285 | 286)
}

/// Whether a code says that the log-in is at fault.
#[must_use]
pub fn is_authentication(code: u32) -> bool {
    matches!(code, 192 | 193 | 194 | 516)
}

/// What a code is about, for readiness: short and stable.
#[must_use]
pub fn topic_of_code(code: Option<u32>) -> &'static str {
    match code {
        Some(60) => "unknown table",
        Some(81) => "unknown database",
        Some(192 | 193 | 194 | 516) => "log-in refused",
        Some(497) => "access denied",
        Some(201) => "quota exceeded",
        Some(115 | 452 | 472) => "a setting is refused",
        Some(10 | 16 | 20 | 33 | 44 | 131) => "the table does not match",
        Some(_) => "the server refuses inserts",
        None => "the endpoint refuses inserts",
    }
}

/// Judges a whole answer to the first insert of `sent_rows` rows under a token from here. `body` is
/// its beginning.
#[must_use]
pub fn judge(status: StatusCode, headers: &HeaderMap, body: &[u8], sent_rows: u64) -> Verdict {
    judge_try(status, headers, body, sent_rows, true)
}

/// Judges a whole answer to a repetition of an insert, which the server may recognise as one.
#[must_use]
pub fn judge_again(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    sent_rows: u64,
) -> Verdict {
    judge_try(status, headers, body, sent_rows, false)
}

fn judge_try(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    sent_rows: u64,
    first: bool,
) -> Verdict {
    let text = String::from_utf8_lossy(body);
    let header_code = headers
        .get("x-clickhouse-exception-code")
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    if let Some(code) = header_code.or_else(|| code_in_text(&text)) {
        return Verdict::of_code(code, &text);
    }
    if status.is_success() {
        return judge_success(headers, &text, sent_rows, first);
    }
    let class = match status.as_u16() {
        429 => Class::SlowDown,
        408 | 500..=599 => Class::RetrySame,
        _ => Class::Stop,
    };
    Verdict::without_code(class, &format!("http status {status}: {text}"))
}

/// A success must have an empty body and no fewer rows than were sent.
///
/// A server answers an insert that it recognised as a repetition with no rows. To the first insert
/// of a token this can also mean that nothing was stored; the same bytes again show which: what was
/// stored the first time is recognised the second time, and the rest is stored.
fn judge_success(headers: &HeaderMap, text: &str, sent_rows: u64, first: bool) -> Verdict {
    if !text.trim().is_empty() {
        let message = format!("unexpected text behind a success: {text}");
        return Verdict::without_code(Class::RetrySame, &message);
    }
    match written_rows(headers) {
        None => Verdict::without_code(Class::Done, ""),
        // Views write rows of their own, so there may be more.
        Some(written) if written < sent_rows && (written > 0 || first) => {
            let message = format!("the server wrote {written} of {sent_rows} rows");
            Verdict { count: Count::Short, ..Verdict::without_code(Class::RetrySame, &message) }
        }
        Some(_) => Verdict { count: Count::Whole, ..Verdict::without_code(Class::Done, "") },
    }
}

/// `written_rows` of the summary header, a JSON object of strings.
fn written_rows(headers: &HeaderMap) -> Option<u64> {
    let summary = headers.get("x-clickhouse-summary")?.to_str().ok()?;
    let (_, rest) = summary.split_once("\"written_rows\"")?;
    let digits = rest.trim_start_matches([':', ' ', '"']);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end)?.parse().ok()
}

/// The code of an exception written into a body: `Code: 60. DB::Exception: ...`, at its start or
/// after what was sent before it happened.
fn code_in_text(text: &str) -> Option<u32> {
    text.match_indices("Code: ").find_map(|(at, found)| {
        let rest = text.get(at + found.len()..)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let code = rest.get(..digits)?.parse().ok()?;
        let behind = rest.get(digits..)?.strip_prefix('.')?;
        // Keeper's exceptions have a namespace of their own.
        let ours = ["DB::", "Coordination::"];
        ours.iter().any(|it| behind.trim_start().starts_with(it)).then_some(code)
    })
}

fn shortened(text: &str) -> String {
    let plain = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(MAX_MESSAGE_CHARS).collect()
}

#[cfg(test)]
#[path = "../../tests/unit/clickhouse/answer.rs"]
mod tests;
