//! The collector's command line, as a library: tests read by it what pages tell people to type. All
//! else is the program's own (`main.rs`).

pub mod args;
