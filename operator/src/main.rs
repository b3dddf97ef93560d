//! The Millrace operator's binary: parse, run, pick the exit code.

use std::process::ExitCode;

use clap::Parser;
use millrace_operator::{args::Args, error::chain, run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    millrace_librdkafka_clock::link();
    let args = Args::parse();
    let ended = match args.check {
        true => run::check(&args).map(|leader| output::say(&format!("{leader} leads"))),
        false => run::to_the_end(args),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = chain(&error);
            tracing::error!("{error}");
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// The one place that prints.
mod output {
    /// What was asked for, on standard output.
    #[allow(clippy::print_stdout)]
    pub(crate) fn say(line: &str) {
        println!("{line}");
    }

    /// One line on standard error, for failures before logging starts.
    #[allow(clippy::print_stderr)]
    pub(crate) fn complain(error: &str) {
        eprintln!("millrace-operator: {error}");
    }
}
