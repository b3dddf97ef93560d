//! The only place that prints: progress on standard error, results on standard output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::{Stderr, stderr};

use millrace_stack::progress::Timed;

/// Progress of the local stack, with the time since now.
pub(crate) fn progress() -> Timed<Stderr> {
    Timed::new(stderr())
}

/// A step begins.
pub(crate) fn step(text: &str) {
    eprintln!("==> {text}");
}

/// A line of a program's own progress.
pub(crate) fn progress_line(text: &str) {
    eprintln!("{text}");
}

/// A result line.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// What went wrong.
pub(crate) fn error(text: &str) {
    eprintln!("error: {text}");
}
