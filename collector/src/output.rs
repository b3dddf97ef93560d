//! The only place that prints: answers to a person at a terminal. A running collector writes only
//! its log.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fmt::Display;

/// An answer.
pub(crate) fn answer(text: impl Display) {
    println!("{text}");
}

/// A complaint.
pub(crate) fn complaint(text: impl Display) {
    eprintln!("{text}");
}
