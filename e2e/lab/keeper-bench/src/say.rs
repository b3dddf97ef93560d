//! The only place that prints: progress on standard error, figures on standard output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

/// What is going on.
pub(crate) fn progress(text: &str) {
    eprintln!("keeper-bench: {text}");
}

/// A line of results.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// What went wrong.
pub(crate) fn error(text: &str) {
    eprintln!("keeper-bench: error: {text}");
}
