//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use millrace_config::{BootstrapServer, GroupId, TopicName};
use millrace_dead_letters::{Place, Places};
use millrace_wire::Signal;

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
    /// Look at what could not be stored, and send it again.
    #[command(subcommand)]
    DeadLetters(DeadLetters),
    /// Print the version and the allocator compiled in.
    Version,
}

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetters {
    /// One line for each letter, and sums by reason.
    List {
        #[command(flatten)]
        topics: DeadLetterTopics,
        #[command(flatten)]
        which: WhichDeadLetters,
        /// Lines for each topic at most: the newest letters. The sums count all.
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// How to write it.
        #[arg(long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// One letter taken apart: its headers, and its records as OTLP in JSON.
    Show {
        /// Where it lies: PARTITION:OFFSET, as `list` says.
        place: Place,
        #[command(flatten)]
        topics: DeadLetterTopics,
        /// Take the one of this signal, or read it as that: traces, logs or metrics.
        #[arg(long)]
        signal: Option<Signal>,
        /// Write the record's bytes to a new file.
        #[arg(long, value_name = "FILE")]
        save: Option<PathBuf>,
    },
    /// Send letters back to the topic they came from, as they were. What was sent is marked in the
    /// dead-letter topic, and passed over the next time.
    Resend {
        /// Letters, as PARTITION:OFFSET or PARTITION:FIRST-LAST. With several topics add --signal.
        places: Vec<Places>,
        #[command(flatten)]
        topics: DeadLetterTopics,
        #[command(flatten)]
        which: WhichDeadLetters,
        /// All letters; without it places, --reason, --since or --signal must say which.
        #[arg(long)]
        all: bool,
        /// To this topic.
        #[arg(long, value_name = "TOPIC")]
        to: Option<TopicName>,
        /// Only say what would be sent.
        #[arg(long)]
        dry_run: bool,
        /// Also what was sent before.
        #[arg(long)]
        again: bool,
        /// So many at most.
        #[arg(long)]
        limit: Option<u64>,
    },
}

/// Where letters lie.
#[derive(Debug, clap::Args)]
pub(crate) struct DeadLetterTopics {
    /// A collector's settings: the connection and the topics are taken from it.
    #[arg(long, required_unless_present = "brokers")]
    pub(crate) config: Option<PathBuf>,
    /// Brokers as HOST:PORT, without TLS and log-in; with them, write settings and use --config.
    #[arg(long, value_delimiter = ',', conflicts_with = "config", requires = "topic")]
    pub(crate) brokers: Vec<BootstrapServer>,
    /// Dead-letter topics, instead of those of the settings.
    #[arg(long, value_delimiter = ',')]
    pub(crate) topic: Vec<TopicName>,
    /// The consumer group to read as, where brokers ask for one. Nothing is committed in it.
    #[arg(long)]
    pub(crate) group: Option<GroupId>,
}

/// Which letters are meant.
#[derive(Debug, clap::Args)]
pub(crate) struct WhichDeadLetters {
    /// Those with this reason; may be given several times.
    #[arg(long)]
    pub(crate) reason: Vec<String>,
    /// Those whose record is as old at most: a time, or how long ago, as in 90m or 2d.
    #[arg(long)]
    pub(crate) since: Option<String>,
    /// Those of this signal: traces, logs or metrics.
    #[arg(long)]
    pub(crate) signal: Option<Signal>,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// Columns.
    Text,
    /// A JSON object a line.
    Json,
}
