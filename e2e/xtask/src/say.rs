//! The only place that prints: progress on standard error, results on standard output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

/// A step begins.
pub(crate) fn step(text: &str) {
    eprintln!("==> {text}");
}

/// A result line.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// What went wrong.
pub(crate) fn error(text: &str) {
    eprintln!("error: {text}");
}
