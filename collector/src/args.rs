//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Takes telemetry in, and carries it safely to Kafka or ClickHouse.
#[derive(Debug, Parser)]
#[command(name = "millrace-collector")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run with the settings in a file, until SIGTERM or SIGINT.
    Run {
        /// The settings, in YAML.
        #[arg(long)]
        config: PathBuf,
    },
    /// Say whether the settings in a file can be used, and what is wrong with them if not.
    Validate {
        /// The settings, in YAML.
        #[arg(long)]
        config: PathBuf,
    },
    /// Print the version and the allocator compiled in.
    Version,
}
