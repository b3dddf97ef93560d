//! The Millrace operator's binary: parse, run, pick the exit code.

use std::process::ExitCode;

use clap::Parser;
use millrace_operator::{args::Args, error::chain, run};

/// Reconciles wait for answers more than they compute; two threads also bound the allocator's
/// arenas.
const WORKER_THREADS: usize = 2;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(run::run(args)).map_err(|error| chain(&error)),
        Err(error) => Err(format!("failed to start the async runtime: {error}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// The one place that prints.
mod output {
    /// One line on standard error, for failures before logging starts.
    #[allow(clippy::print_stderr)]
    pub(crate) fn complain(error: &str) {
        eprintln!("millrace-operator: {error}");
    }
}
