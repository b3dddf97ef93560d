//! Prints answers to a person at a terminal; no other module prints. A running collector writes
//! only its log.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fmt::Display;

/// Prints an answer.
pub(crate) fn print_output(text: impl Display) {
    println!("{text}");
}

/// Prints a complaint.
pub(crate) fn print_error(text: impl Display) {
    eprintln!("{text}");
}
