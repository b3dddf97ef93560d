//! Developer tasks: what the Makefile targets call. Parses, dispatches and picks the exit code;
//! each task has its own file. Nothing here is linked into what users run.

mod check;
mod say;
mod shell;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Millrace's developer tasks.
#[derive(Debug, Parser)]
#[command(name = "xtask", about, disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Structure rules, formatting, lints, generated files and dependency policy.
    Check,
    /// Structure rules alone: crate walls, file heads and lengths, forbidden text.
    Structure,
}

fn main() -> ExitCode {
    let Args { task } = Args::parse();
    let outcome = match task {
        Task::Check => check::run(),
        Task::Structure => check::structure(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
