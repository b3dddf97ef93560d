//! The Millrace collector: reads its settings, runs as the edge, the gateway or both in one that
//! they describe, and ends in order when it is told to.
//!
//! The work is done by the crates beside this one; here they are only put together. Exit codes: 0
//! when everything that was taken is safe, 1 when something failed on the way, 64 when the settings
//! cannot be used.

mod admin;
mod allocator;
mod args;
mod common;
mod dead_letters;
mod direct;
mod edge;
mod gateway;
mod output;
mod page;
mod pods;
mod process;
mod run;
mod sources;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use millrace_pipeline::failpoint;

fn main() -> ExitCode {
    millrace_librdkafka_clock::link();
    failpoint::hit("start");
    match Args::parse().command {
        Command::Run { config } => run::run(&config),
        Command::Validate { config } => run::validate(&config),
        Command::DeadLetters(command) => dead_letters::run(command),
        Command::Version => run::version(),
    }
}
