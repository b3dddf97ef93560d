//! The Millrace collector: reads its settings, runs the edge, the gateway or both in one, and
//! drains on a signal.
//!
//! The other crates do the work; this one connects them. Exit codes: 0 everything accepted is safe,
//! 1 something failed, 64 the settings can't be used.

mod admin;
mod commands;
mod common;
mod edge;
mod gateway;
mod process;

use std::process::ExitCode;

use clap::Parser;

use millrace_collector::args::{Args, Command};
use millrace_pipeline::failpoint;

fn main() -> ExitCode {
    millrace_librdkafka_clock::link_clock();
    failpoint::hit("start");
    match Args::parse().command {
        Command::Run { config } => commands::run::run(&config),
        Command::Validate { config } => commands::run::validate(&config),
        Command::DeadLetters(command) => commands::dead_letters::run(command),
        Command::Rules(command) => commands::rules::run(command),
        Command::Rows(arguments) => commands::rows::run(arguments),
        Command::Version => commands::run::print_version(),
    }
}
