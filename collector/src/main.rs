//! The Millrace collector: reads its settings, runs the edge, the gateway or both in one, and
//! drains on a signal.
//!
//! The other crates do the work; this one connects them. Exit codes: 0 everything accepted is safe,
//! 1 something failed, 64 the settings can't be used.

mod admin;
mod allocator;
mod api_server;
mod common;
mod dead_letters;
mod edge;
mod export;
mod gateway;
mod output;
mod page;
mod pods;
mod process;
mod producers;
mod request_memory;
mod rows;
mod rules;
mod run;
mod share;
mod sources;

use std::process::ExitCode;

use clap::Parser;

use millrace_collector::args::{Args, Command};
use millrace_pipeline::failpoint;

fn main() -> ExitCode {
    millrace_librdkafka_clock::link_clock();
    failpoint::hit("start");
    match Args::parse().command {
        Command::Run { config } => run::run(&config),
        Command::Validate { config } => run::validate(&config),
        Command::DeadLetters(command) => dead_letters::run(command),
        Command::Rules(command) => rules::run(command),
        Command::Rows(arguments) => rows::run(arguments),
        Command::Version => run::print_version(),
    }
}
