//! The Millrace operator's binary: parses the command line, runs, and chooses the exit code.

use std::process::ExitCode;

use clap::Parser;
use millrace_operator::{args::Args, error::error_chain, run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    millrace_librdkafka_clock::link_clock();
    let args = Args::parse();
    let ended = match args.check {
        true => {
            run::check_leader(&args).map(|leader| output::print_line(&format!("{leader} leads")))
        }
        false => run::run_blocking(args),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = error_chain(&error);
            tracing::error!("{error}");
            output::print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// The only module that prints.
mod output {
    /// Prints a requested result on standard output.
    #[allow(clippy::print_stdout)]
    pub(crate) fn print_line(line: &str) {
        println!("{line}");
    }

    /// Prints one line on standard error, for failures before logging starts.
    #[allow(clippy::print_stderr)]
    pub(crate) fn print_error(error: &str) {
        eprintln!("millrace-operator: {error}");
    }
}
