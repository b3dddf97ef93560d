//! The collector's command line, as a library: tests use it to parse the commands that pages show.
//! Everything else belongs to the program (`main.rs`).

pub mod args;
