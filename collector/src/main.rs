//! The Millrace collector: reads its settings, runs the edge, the gateway or both in one as they
//! say, and drains when it gets a signal.
//!
//! The crates beside this one do the work; this one connects them. Exit codes: 0 everything taken
//! is safe, 1 something failed, 64 the settings can't be used.

mod admin;
mod allocator;
mod common;
mod dead_letters;
mod direct;
mod edge;
mod export;
mod gateway;
mod output;
mod page;
mod pods;
mod process;
mod rows;
mod run;
mod share;
mod sources;

use std::process::ExitCode;

use clap::Parser;

use millrace_collector::args::{Args, Command};
use millrace_pipeline::failpoint;

fn main() -> ExitCode {
    millrace_librdkafka_clock::link();
    failpoint::hit("start");
    match Args::parse().command {
        Command::Run { config } => run::run(&config),
        Command::Validate { config } => run::validate(&config),
        Command::DeadLetters(command) => dead_letters::run(command),
        Command::Rows(arguments) => rows::run(arguments),
        Command::Version => run::version(),
    }
}
