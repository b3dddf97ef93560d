//! Decides which lines belong to a stack trace, as runtimes and their usual loggers print them.
//!
//! A record is a line and those that continue it, so a trace is one record with the line before it,
//! which is often its message. The rules use no patterns and take no memory for each file. Texts of
//! several lines in an exception's message, and unusual printers, are not recognised: their lines
//! are separate records, and nothing is lost.

use memchr::{memmem, memrchr};

/// The runtime whose stack traces are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceRuntime {
    /// `java.lang.X: ...`, `\tat ...`, `Caused by: ...`; also Kotlin's and Scala's.
    Java,
    /// `Traceback (most recent call last):` to the line with the exception.
    Python,
    /// `panic: ...` and `fatal error: ...` with their goroutines.
    Go,
    /// `Error: ...`, `    at ...`, with the source line before it and the object after it.
    NodeJs,
    /// `thread '...' panicked at ...`, its message and backtrace; chains of `Caused by:`.
    Rust,
}

const TRACEBACK: &[u8] = b"Traceback (most recent call last):";

impl TraceRuntime {
    /// Whether a line continues `record`, the lines before it.
    pub(crate) fn continues_record(self, line: &[u8], record: &[u8]) -> bool {
        if matches!(line.first(), None | Some(b' ' | b'\t')) {
            return true;
        }
        let last = last_line(record);
        match self {
            Self::Java => {
                begins_with_any(line, &[b"Caused by: ", b"Suppressed: "]) || is_java_error(line)
            }
            Self::Python => is_of_python(line, last, record),
            Self::Go => is_of_go(line, last),
            Self::NodeJs => {
                let is_shown = record.ends_with(b"^\n");
                matches!(line, b"}" | b"]")
                    || is_shown && is_node_error(line)
                    || last.is_empty() && line.starts_with(b"Node.js v")
            }
            Self::Rust => is_of_rust(line, last, record),
        }
    }
}

fn is_of_python(line: &[u8], last: &[u8], record: &[u8]) -> bool {
    let between: [&[u8]; 3] = [
        TRACEBACK,
        b"During handling of the above exception, another exception occurred:",
        b"The above exception was the direct cause of the following exception:",
    ];
    // The frame before an exception's line: its source, or its file if there is no source.
    let is_behind_frame = begins_with_any(last, &[b"    ", b"  File \""]);
    between.contains(&line)
        || is_behind_frame && is_python_error(line) && memmem::find(record, TRACEBACK).is_some()
}

fn is_of_go(line: &[u8], last: &[u8]) -> bool {
    // `goroutine 1 [running]:`
    let is_head = |line: &[u8]| {
        line == b"runtime stack:" || line.starts_with(b"goroutine ") && line.ends_with(b"]:")
    };
    // `main.main()`: after a goroutine's head, or the location of the previous call.
    let is_call = !line.starts_with(b"(")
        && line.ends_with(b")")
        && line.split(|byte| *byte == b'(').next().is_some_and(|name| !name.contains(&b' '));
    let is_behind_frame = is_head(last) || begins_with_any(last, &[b"\t", b"..."]);
    last.is_empty() && is_head(line)
        || begins_with_any(last, &[b"panic: ", b"fatal error: "]) && line.starts_with(b"[signal ")
        || is_behind_frame && (is_call || begins_with_any(line, &[b"created by ", b"..."]))
}

fn is_of_rust(line: &[u8], last: &[u8], record: &[u8]) -> bool {
    let panicked = |text: &[u8]| memmem::find(text, b" panicked at ").is_some();
    // The message follows the head; older versions have it in the head.
    let is_message = last.starts_with(b"thread '") && last.ends_with(b":") && panicked(last);
    let is_chain = begins_with_any(line, &[b"Caused by:", b"Location:", b"Stack backtrace:"]);
    let is_note = begins_with_any(line, &[b"stack backtrace:", b"note: "]);
    is_message || last.is_empty() && is_chain || is_note && panicked(record)
}

/// `java.lang.IllegalStateException: ...`, which loggers print below their own line.
fn is_java_error(line: &[u8]) -> bool {
    let name = before_colon(line);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.');
    name.contains(&b'.')
        && name.iter().all(is_name)
        && [&b"Exception"[..], b"Error", b"Throwable"].iter().any(|end| name.ends_with(end))
}

/// `ValueError: ...` or `module.Name`. A word in capitals is a logger's level.
fn is_python_error(line: &[u8]) -> bool {
    let name = before_colon(line);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && name.iter().all(is_name)
        && name.iter().any(u8::is_ascii_lowercase)
}

/// `TypeError: ...`, also with a code as in `Error [ERR_X]: ...`.
fn is_node_error(line: &[u8]) -> bool {
    let name = before_colon(line.strip_prefix(b"Uncaught ").unwrap_or(line));
    let name = name.split(|byte| *byte == b' ').next().unwrap_or_default();
    name.ends_with(b"Error") || name.ends_with(b"Exception")
}

/// Returns a line up to its first `: `, or without a `:` at its end.
fn before_colon(line: &[u8]) -> &[u8] {
    let end = memmem::find(line, b": ").unwrap_or(line.len());
    line[..end].strip_suffix(b":").unwrap_or(&line[..end])
}

fn begins_with_any(line: &[u8], beginnings: &[&[u8]]) -> bool {
    beginnings.iter().any(|beginning| line.starts_with(beginning))
}

fn last_line(record: &[u8]) -> &[u8] {
    &record[memrchr(b'\n', record).map_or(0, |end| end + 1)..]
}

#[cfg(test)]
mod tests;
