//! `kubectl-millrace`: parses the command line, runs the command, prints the answer, sets the exit
//! code.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use jiff::Timestamp;
use millrace_plugin::args::{Cli, Color, Output};
use millrace_plugin::command::{self, CommandOutput, CommandSession};
use millrace_plugin::error::Error;
use millrace_plugin::gather::Cluster;
use millrace_plugin::render::Palette;

/// The pipeline is not healthy.
const UNHEALTHY: u8 = 1;
/// The command failed. Clap's own code for an invalid command line is the same.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(&cli)),
        Err(error) => Err(Error::Impossible(format!("cannot start the async runtime: {error}"))),
    };
    match done {
        Ok(answer) => {
            let text = match cli.output {
                Output::Text => answer.text,
                // Output that another program already formatted, or that only a shell reads.
                Output::Json if answer.json.is_null() => answer.text,
                Output::Json => format!("{:#}\n", answer.json),
            };
            let printed = output::print_answer(&text);
            if cli.output == Output::Text {
                output::print_aside(&answer.aside);
            }
            match (printed, answer.healthy) {
                (false, _) => ExitCode::from(FAILED),
                (true, true) => ExitCode::SUCCESS,
                (true, false) => ExitCode::from(UNHEALTHY),
            }
        }
        Err(error) => {
            output::print_error(&error.to_string());
            ExitCode::from(FAILED)
        }
    }
}

async fn run(cli: &Cli) -> Result<CommandOutput, Error> {
    if let Some(answer) = command::without_cluster(cli) {
        return answer;
    }
    let cluster = Cluster::connect(&cli.cluster).await?;
    let palette = Palette { colours: should_color(cli.color) };
    // The keys of a new hasher are random: no other run gets the same number.
    let run = || RandomState::new().hash_one(0_u8);
    let progress = output::print_error;
    command::run(&CommandSession { cluster, palette, now: Timestamp::now, run, progress }, cli)
        .await
}

fn should_color(color: Color) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => std::io::stdout().is_terminal() && !refused,
    }
}

/// The only module that prints.
mod output {
    use std::io::Write;

    /// Prints the answer; a reader that closed the pipe (`| head`) is no failure.
    pub(crate) fn print_answer(text: &str) -> bool {
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => true,
            Err(error) => error.kind() == std::io::ErrorKind::BrokenPipe,
        }
    }

    /// Prints lines on standard error, next to the answer.
    pub(crate) fn print_aside(text: &str) {
        // An error is ignored: this isn't the answer.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    /// Prints one line on standard error.
    #[allow(clippy::print_stderr)]
    pub(crate) fn print_error(error: &str) {
        eprintln!("kubectl millrace: {}", millrace_plugin::render::sanitize_text(error));
    }
}
