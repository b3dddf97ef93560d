//! The only place that prints: progress on standard error, outcomes on standard output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

/// What is going on.
pub fn progress(text: &str) {
    eprintln!("keeper-faults: {text}");
}

/// An outcome, as a JSON line.
pub fn line(json: &str) {
    println!("{json}");
}
