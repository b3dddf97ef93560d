//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use millrace_config::{BootstrapServer, GroupId, TopicName};
use millrace_dead_letters::{Place, Places};
use millrace_exporters::clickhouse::{RunId, TEST_RECORDS_MAX};
use millrace_wire::Signal;

/// Receives telemetry and delivers it to Kafka or ClickHouse.
#[derive(Debug, Parser)]
#[command(name = "millrace-collector")]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run with the settings in a file, until SIGTERM or SIGINT.
    Run {
        /// The settings, in YAML.
        #[arg(long)]
        config: PathBuf,
    },
    /// Check the settings in a file, and print what is wrong with them.
    Validate {
        /// The settings, in YAML.
        #[arg(long)]
        config: PathBuf,
    },
    /// Show dead letters, and send them again.
    #[command(subcommand)]
    DeadLetters(DeadLetters),
    /// Look for the rows of test records in ClickHouse, until all are there. `kubectl millrace
    /// send` and `verify` use it.
    Rows(Rows),
    /// Print the version and the allocator compiled in.
    Version,
}

/// Which test records to look for. Prints a line of JSON for each look.
#[derive(Debug, clap::Args)]
pub struct Rows {
    /// The settings of a gateway, for servers, log-in and tables.
    #[arg(long)]
    pub config: PathBuf,
    /// Their signal: traces, logs or metrics.
    #[arg(long)]
    pub signal: Signal,
    /// Their run: 16 lower-case hex digits.
    #[arg(long)]
    pub run: RunId,
    /// When the run began, in seconds since 1970.
    #[arg(long, value_name = "SECONDS")]
    pub since: u32,
    /// How many there are, 1 to 10,000: numbers from 1 on.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(TEST_RECORDS_MAX)))]
    pub expect: u32,
    /// How long to look until all are there, in seconds, 0 to 900; 0 looks once.
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=900))]
    pub wait: u32,
}

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub enum DeadLetters {
    /// One line for each dead letter, and sums by reason.
    List {
        /// Where they are.
        #[command(flatten)]
        topics: DeadLetterTopics,
        /// Which of them.
        #[command(flatten)]
        which: WhichDeadLetters,
        /// Lines for each topic at most: the newest dead letters. The sums count all.
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// One dead letter: its headers, and its records as OTLP in JSON.
    Show {
        /// Its place: PARTITION:OFFSET, as `list` prints it.
        place: Place,
        /// Where they are.
        #[command(flatten)]
        topics: DeadLetterTopics,
        /// Its signal: traces, logs or metrics.
        #[arg(long)]
        signal: Option<Signal>,
        /// Write the record's bytes to a new file.
        #[arg(long, value_name = "FILE")]
        save: Option<PathBuf>,
    },
    /// Send dead letters back to their source topic, unchanged. Sent ones are marked in the
    /// dead-letter topic, and skipped the next time.
    Resend {
        /// Dead letters, as PARTITION:OFFSET or PARTITION:FIRST-LAST. With several topics add
        /// --signal.
        places: Vec<Places>,
        /// Where they are.
        #[command(flatten)]
        topics: DeadLetterTopics,
        /// Which of them.
        #[command(flatten)]
        which: WhichDeadLetters,
        /// All dead letters; without it, select them by places, --reason, --since or --signal.
        #[arg(long)]
        all: bool,
        /// Send to this topic instead.
        #[arg(long, value_name = "TOPIC")]
        to: Option<TopicName>,
        /// Only print what would be sent.
        #[arg(long)]
        dry_run: bool,
        /// Also send those sent before.
        #[arg(long)]
        again: bool,
        /// Send at most this many.
        #[arg(long)]
        limit: Option<u64>,
    },
}

/// Where dead letters are.
#[derive(Debug, clap::Args)]
pub struct DeadLetterTopics {
    /// A collector's settings, for the connection and the topics.
    #[arg(long, required_unless_present = "brokers")]
    pub config: Option<PathBuf>,
    /// Brokers as HOST:PORT, without TLS and log-in; for these use --config.
    #[arg(long, value_delimiter = ',', conflicts_with = "config", requires = "topic")]
    pub brokers: Vec<BootstrapServer>,
    /// Dead-letter topics, instead of those of the settings.
    #[arg(long, value_delimiter = ',')]
    pub topic: Vec<TopicName>,
    /// The consumer group to read as, where brokers ask for one. Nothing is committed in it.
    #[arg(long)]
    pub group: Option<GroupId>,
}

/// Which dead letters are selected.
#[derive(Debug, clap::Args)]
pub struct WhichDeadLetters {
    /// Those with this reason; may be given several times.
    #[arg(long)]
    pub reason: Vec<String>,
    /// Those whose record is not older: a time, or an age, as in 90m or 2d.
    #[arg(long)]
    pub since: Option<String>,
    /// Those of this signal: traces, logs or metrics.
    #[arg(long)]
    pub signal: Option<Signal>,
}

/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// Columns.
    Text,
    /// A JSON object a line.
    Json,
}
