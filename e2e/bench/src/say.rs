//! The only place that prints: progress on standard error, figures on standard output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

/// What is going on.
pub(crate) fn progress(text: &str) {
    eprintln!("bench: {text}");
}

/// A figure, as a JSON line.
pub(crate) fn line(json: &str) {
    println!("{json}");
}

/// What went wrong.
pub(crate) fn error(text: &str) {
    eprintln!("bench: error: {text}");
}
