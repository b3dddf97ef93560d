//! Classifies a server's answer to an insert: the code's row in the table of [error
//! codes](millrace_coordination::error_codes), and whether a materialized view failed behind the
//! table.
//!
//! Pure: headers and the start of a body in, a value out.

use http::{HeaderMap, StatusCode};
pub(crate) use millrace_coordination::error_codes::Class;
use millrace_coordination::error_codes::{Concern, ErrorCode, ErrorOrigin, Reach};
use millrace_pipeline::sink::TOO_LARGE;

/// The maximum characters retained of a server's message. It goes into logs and dead-letter
/// headers.
const MAX_MESSAGE_CHARS: usize = 300;
/// The text that a server adds to the exception of a materialized view, once the table has been
/// written.
const PUSHING_TO_VIEW: &str = "while pushing to view";
/// The code and text with which a server before 25.6 refuses the flattened form of JSON (`Invalid
/// version for Object structure serialization`): no row is at fault, and each would be refused.
const UNKNOWN_FORM: (u32, &str) = (117, "structure serialization");
/// The maximum characters retained of a view's name: a database and a table of 64 each.
const MAX_VIEW_CHARS: usize = 128;

/// How an answer's number of written rows compares with the rows sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Count {
    /// The answer has no number.
    Unsaid,
    /// As many as were sent or more (views write too), or none because the server already has them.
    Complete,
    /// Fewer than were sent.
    Short,
}

/// A classified answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InsertResponse {
    /// The class, which decides what to do.
    pub(crate) class: Class,
    /// ClickHouse's code, if it gave one.
    pub(crate) code: Option<u32>,
    /// How many rows were written.
    pub(crate) count: Count,
    /// The materialized view that failed, empty if its name wasn't found. The table itself already
    /// has the rows.
    pub(crate) view: Option<String>,
    /// The server's message, shortened. It has no rows as long as the server quotes none in insert
    /// errors of the Native format, as it usually does.
    pub(crate) message: String,
}

impl InsertResponse {
    /// Returns the verdict without a complete answer: whether the rows are stored is unknown.
    #[must_use]
    pub(crate) fn no_response(cause: &dyn std::fmt::Display) -> Self {
        Self::without_code(Class::RetrySame, &cause.to_string())
    }

    fn without_code(class: Class, text: &str) -> Self {
        let message = shorten_text(text, MAX_MESSAGE_CHARS);
        Self { class, code: None, count: Count::Unsaid, view: None, message }
    }

    fn of_code(code: u32, text: &str) -> Self {
        let ErrorCode { class, origin, .. } = ErrorCode::from_code(code);
        let class = if is_unknown_form(code, text) { Class::Stop } else { class };
        let count = if class == Class::Done { Count::Complete } else { Count::Unsaid };
        let view = (origin == ErrorOrigin::TableOrView).then(|| view_in_text(text)).flatten();
        let message = shorten_text(text, MAX_MESSAGE_CHARS);
        Self { class, code: Some(code), count, view, message }
    }

    /// Returns the code's row in the table of error codes.
    #[must_use]
    pub(crate) fn error_code(&self) -> Option<ErrorCode> {
        self.code.map(ErrorCode::from_code)
    }

    /// Returns whether the code is about this concern.
    #[must_use]
    pub(crate) fn is_about(&self, concern: Concern) -> bool {
        self.error_code().is_some_and(|code| code.concern == concern)
    }

    /// Returns whether another replica may accept the insert.
    #[must_use]
    pub(crate) fn may_another_replica_help(&self) -> bool {
        self.error_code().is_none_or(|code| code.reach == Reach::ThisServer)
    }

    /// Returns whether this attempt certainly stored nothing.
    #[must_use]
    pub(crate) fn stored_nothing(&self) -> bool {
        self.view.is_none() && self.error_code().is_some_and(ErrorCode::stores_nothing)
    }

    /// Returns the refusal's subject and the action to take, for readiness: short and stable.
    #[must_use]
    pub(crate) fn topic(&self) -> String {
        let Some(code) = self.code else { return "the endpoint refuses inserts".to_owned() };
        if is_unknown_form(code, &self.message) {
            let version = version_in_text(&self.message).unwrap_or("before 25.6");
            return format!(
                "ClickHouse {version} can't read JSON attributes as gateways write them: upgrade \
                 it to 25.6 or later, or set attributes to Map"
            );
        }
        topic_of_concern(ErrorCode::from_code(code).concern).to_owned()
    }

    /// Returns a short name for metrics and the log: the class, except for failures of a view and
    /// of coordination, which somebody else has to repair.
    #[must_use]
    pub(crate) fn label(&self) -> &'static str {
        match self.code {
            _ if self.view.is_some() => "view",
            Some(code) if millrace_coordination::is_code(code) => millrace_coordination::NAME,
            _ => self.class.as_str(),
        }
    }

    /// Returns a reason for a dead letter, from a fixed set.
    #[must_use]
    pub(crate) fn reason(&self) -> &'static str {
        match self.class {
            Class::RefreshSchema => "schema_mismatch",
            Class::SlowDown => TOO_LARGE,
            _ => "refused_by_clickhouse",
        }
    }
}

impl std::fmt::Display for InsertResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) => write!(f, "code {code}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

fn topic_of_concern(concern: Concern) -> &'static str {
    match concern {
        Concern::Table => "unknown table",
        Concern::Database => "unknown database",
        Concern::LogIn => "log-in refused",
        Concern::Access => "access denied",
        Concern::Quota => "quota exceeded",
        Concern::Setting => "a setting is refused",
        Concern::Schema | Concern::Unreadable => "the table does not match",
        _ => "the server refuses inserts",
    }
}

/// Returns whether an exception means that the server doesn't know this form of a column.
fn is_unknown_form(code: u32, text: &str) -> bool {
    let (of_form, words) = UNKNOWN_FORM;
    code == of_form && text.contains(words)
}

/// Returns the version at the end of an exception's text: `(version 25.3.2.39 (official build))`.
fn version_in_text(text: &str) -> Option<&str> {
    let (_, version) = text.rsplit_once("(version ")?;
    version.split([' ', ')']).next()
}

/// Classifies a complete answer to an insert of `sent_rows` rows. `body` is its beginning.
/// `counts_all`: the server counts each row that it has, because this is the first attempt, or
/// because its version counts a repetition's rows too.
#[must_use]
pub(crate) fn classify_response(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    sent_rows: u64,
    counts_all: bool,
) -> InsertResponse {
    let text = String::from_utf8_lossy(body);
    let header_code = headers
        .get("x-clickhouse-exception-code")
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    if let Some(code) = header_code.or_else(|| code_in_text(&text)) {
        return InsertResponse::of_code(code, &text);
    }
    if status.is_success() {
        return classify_success(headers, &text, sent_rows, counts_all);
    }
    let class = match status.as_u16() {
        429 => Class::SlowDown,
        408 | 500..=599 => Class::RetrySame,
        _ => Class::Stop,
    };
    InsertResponse::without_code(class, &format!("http status {status}: {text}"))
}

/// Classifies a success: it must have an empty body and no fewer rows than were sent.
///
/// A server may answer an insert that it recognised as a repetition with no rows; from 26.9 on it
/// counts all of them (`counts_all`), and no rows mean that nothing was stored. To the first insert
/// of a token no rows can mean that at any server. The same bytes again decide it: the server
/// recognises what it stored the first time, and stores the rest.
fn classify_success(
    headers: &HeaderMap,
    text: &str,
    sent_rows: u64,
    counts_all: bool,
) -> InsertResponse {
    if !text.trim().is_empty() {
        let message = format!("unexpected text behind a success: {text}");
        return InsertResponse::without_code(Class::RetrySame, &message);
    }
    match written_rows(headers) {
        None => InsertResponse::without_code(Class::Done, ""),
        // Views write rows of their own, so there may be more.
        Some(written) if written < sent_rows && (written > 0 || counts_all) => {
            let message = format!("the server wrote {written} of {sent_rows} rows");
            InsertResponse {
                count: Count::Short,
                ..InsertResponse::without_code(Class::RetrySame, &message)
            }
        }
        Some(_) => InsertResponse {
            count: Count::Complete,
            ..InsertResponse::without_code(Class::Done, "")
        },
    }
}

/// Parses `written_rows` of the summary header, a JSON object of strings.
fn written_rows(headers: &HeaderMap) -> Option<u64> {
    let summary = headers.get("x-clickhouse-summary")?.to_str().ok()?;
    let (_, rest) = summary.split_once("\"written_rows\"")?;
    let digits = rest.trim_start_matches([':', ' ', '"']);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end)?.parse().ok()
}

/// Parses the code of an exception written into a body: `Code: 60. DB::Exception: ...`, at its
/// start or after what was sent before it happened.
fn code_in_text(text: &str) -> Option<u32> {
    text.match_indices("Code: ").find_map(|(at, found)| {
        let rest = text.get(at + found.len()..)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let code = rest.get(..digits)?.parse().ok()?;
        let behind = rest.get(digits..)?.strip_prefix('.')?;
        // Keeper's exceptions have their own namespace.
        let ours = ["DB::", "Coordination::"];
        ours.iter().any(|it| behind.trim_start().starts_with(it)).then_some(code)
    })
}

/// Returns the view that an exception's text names: `while pushing to view db.name (uuid)`. The
/// first one failed; the others are upstream of it. Servers quote values, which may contain these
/// words too: a quote follows those.
fn view_in_text(text: &str) -> Option<String> {
    let behind = text.match_indices(PUSHING_TO_VIEW);
    let behind = behind.filter_map(|(at, words)| text.get(at + words.len()..));
    let name = behind.filter(|rest| !rest.contains('\'')).map(str::trim_start).next()?;
    let end = name.find(|c: char| c.is_whitespace() || matches!(c, ',' | ':' | '(' | ';'));
    let name = name.get(..end.unwrap_or(name.len()))?.trim_end_matches('.');
    Some(shorten_text(name, MAX_VIEW_CHARS))
}

fn shorten_text(text: &str, max_chars: usize) -> String {
    let plain = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(max_chars).collect()
}

// The path is explicit because the fuzz targets compile this file as a separate module.
#[cfg(test)]
#[path = "response/tests.rs"]
mod tests;
