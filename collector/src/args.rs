//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use millrace_config::{BootstrapServer, GroupId, TopicName};
use millrace_dead_letters::{PartitionOffset, PartitionRange};
use millrace_sink_clickhouse::{RunId, TEST_RECORDS_MAX};
use millrace_wire::Signal;

/// Receives telemetry and delivers it to Kafka or ClickHouse.
#[derive(Debug, Parser)]
#[command(name = "millrace-collector")]
pub struct Args {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommand.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run with the settings in a file until SIGTERM or SIGINT.
    Run {
        /// File with the settings, in YAML.
        #[arg(long)]
        config: PathBuf,
    },
    /// Check the settings in a file and print all errors.
    Validate {
        /// File with the settings, in YAML.
        #[arg(long)]
        config: PathBuf,
    },
    /// List, show and resend dead letters.
    #[command(subcommand)]
    DeadLetters(DeadLetterCommand),
    /// Test the rules in a settings file.
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Count the rows of test records in ClickHouse until all exist. Used by `kubectl millrace
    /// send` and `verify`.
    Rows(Rows),
    /// Print the version and the allocator compiled in.
    Version,
}

/// Actions on rules.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// Run the rules on sample records, and print each record before and after each step that
    /// changes it. Nothing is sent. Hashes are made with a key of zeros.
    Test {
        /// File with the settings, in YAML.
        #[arg(long)]
        config: PathBuf,
        /// File with OTLP requests in JSON: one, or one after the other.
        #[arg(long, value_name = "FILE")]
        records: PathBuf,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
}

/// Test records to count. Prints a line of JSON for each query.
#[derive(Debug, clap::Args)]
pub struct Rows {
    /// Settings of a gateway, for servers, credentials and tables.
    #[arg(long)]
    pub config: PathBuf,
    /// Signal of the test records: traces, logs or metrics.
    #[arg(long)]
    pub signal: Signal,
    /// Run ID of the test records: 16 lower-case hex digits.
    #[arg(long)]
    pub run: RunId,
    /// Start of the run, in seconds since 1970.
    #[arg(long, value_name = "SECONDS")]
    pub since: u32,
    /// Number of test records, 1 to 10,000.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(TEST_RECORDS_MAX)))]
    pub expect: u32,
    /// Maximum time to wait for all records, in seconds, 0 to 900; 0 queries once.
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=900))]
    pub wait: u32,
}

/// Actions on dead letters.
#[derive(Debug, Subcommand)]
pub enum DeadLetterCommand {
    /// List dead letters, one per line, and totals by reason.
    List {
        /// The dead-letter topics.
        #[command(flatten)]
        topics: DeadLetterTopics,
        /// The selected dead letters.
        #[command(flatten)]
        which: WhichDeadLetters,
        /// Maximum number of lines for each topic: the newest dead letters. The totals count all.
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Show one dead letter: its headers, and its records as OTLP in JSON.
    Show {
        /// Position of the dead letter: PARTITION:OFFSET, as printed by `list`.
        #[arg(value_name = "POSITION")]
        place: PartitionOffset,
        /// The dead-letter topics.
        #[command(flatten)]
        topics: DeadLetterTopics,
        /// Signal of the dead letter: traces, logs or metrics.
        #[arg(long)]
        signal: Option<Signal>,
        /// New file for the record's bytes.
        #[arg(long, value_name = "FILE")]
        save: Option<PathBuf>,
    },
    /// Send dead letters back to their source topic, unchanged. Sent dead letters are marked in the
    /// dead-letter topic and skipped by later runs.
    Resend {
        /// Positions of dead letters, as PARTITION:OFFSET or PARTITION:FIRST-LAST. With several
        /// topics, add --signal.
        #[arg(value_name = "POSITIONS")]
        places: Vec<PartitionRange>,
        /// The dead-letter topics.
        #[command(flatten)]
        topics: DeadLetterTopics,
        /// The selected dead letters.
        #[command(flatten)]
        which: WhichDeadLetters,
        /// Select all dead letters. Without it, select by position, --reason, --since or --signal.
        #[arg(long)]
        all: bool,
        /// Destination topic instead of the source topic.
        #[arg(long, value_name = "TOPIC")]
        to: Option<TopicName>,
        /// Print the dead letters that would be sent, without sending them.
        #[arg(long)]
        dry_run: bool,
        /// Also send dead letters that were sent before.
        #[arg(long)]
        again: bool,
        /// Maximum number of dead letters to send.
        #[arg(long)]
        limit: Option<u64>,
    },
}

/// The dead-letter topics.
#[derive(Debug, clap::Args)]
pub struct DeadLetterTopics {
    /// Settings file of a collector, for the connection and the topics.
    #[arg(long, required_unless_present = "brokers")]
    pub config: Option<PathBuf>,
    /// Brokers as HOST:PORT, without TLS and authentication; use --config for these.
    #[arg(long, value_delimiter = ',', conflicts_with = "config", requires = "topic")]
    pub brokers: Vec<BootstrapServer>,
    /// Dead-letter topics, instead of those in the settings.
    #[arg(long, value_delimiter = ',')]
    pub topic: Vec<TopicName>,
    /// Consumer group to read as, if the brokers require one. Nothing is committed in it.
    #[arg(long)]
    pub group: Option<GroupId>,
}

/// The selected dead letters.
#[derive(Debug, clap::Args)]
pub struct WhichDeadLetters {
    /// Only dead letters with this reason; can be repeated.
    #[arg(long)]
    pub reason: Vec<String>,
    /// Only dead letters at most this old: a time, or an age, as in 90m or 2d.
    #[arg(long)]
    pub since: Option<String>,
    /// Only dead letters of this signal: traces, logs or metrics.
    #[arg(long)]
    pub signal: Option<Signal>,
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// Columns.
    Text,
    /// A JSON object a line.
    Json,
}
