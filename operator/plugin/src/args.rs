//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use millrace_crds::v1alpha1::Signal;

use crate::load::RECORDS_MAX;

/// The longest time between two readings: a minute of waiting is enough for a screen.
const INTERVAL_SECONDS_MAX: f64 = 60.0;

/// Ask a cluster how its Millrace pipelines are, why, and what to do.
#[derive(Debug, Parser)]
#[command(name = "kubectl-millrace", bin_name = "kubectl millrace", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 healthy or done; 1 not healthy; 2 the command was wrong, or \
                        could not be done."
)]
pub struct Cli {
    /// Where to ask.
    #[command(flatten)]
    pub place: Place,
    /// How to answer.
    #[arg(short, long, global = true, value_enum, default_value_t)]
    pub output: Output,
    /// When to use colours; never where NO_COLOR is set.
    #[arg(long, global = true, value_enum, default_value_t)]
    pub color: Color,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Which cluster and namespace.
#[derive(Args, Clone, Debug, Default)]
pub struct Place {
    /// Namespace; that of the kubeconfig's context when left out.
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// Context of the kubeconfig; its current one when left out.
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// The kubeconfig; KUBECONFIG or ~/.kube/config when left out.
    #[arg(long, global = true)]
    pub kubeconfig: Option<PathBuf>,
}

/// How to answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// One screen: the path of records with rates and lag, what is wrong, why, what to do.
    Status(Status),
    /// Why the gateway pool has its size: the sizing decision and its inputs.
    Why(Named),
    /// How far gateways are behind, by topic and partition.
    Lag(Watched),
    /// Pods with rates, memory and processor time.
    Top(Watched),
    /// Changes of pods: how far they are; hold them, go on, take them back.
    #[command(subcommand)]
    Rollout(Rollout),
    /// What a changed file would do: fields, topics, tables, pods. Nothing is stored.
    Plan(Plan),
    /// An OpenTelemetry Collector's configuration as a TelemetryPipeline, and what became of each
    /// part of it. Needs no cluster.
    Convert(Convert),
    /// Records that could not be stored, by the collector's own tool in a gateway's pod.
    #[command(subcommand)]
    DeadLetters(DeadLetters),
    /// A test record, followed hop by hop to its row.
    Send(Send),
    /// A small seeded load of test records, and whether each is stored once.
    Verify(Verify),
    /// Logs of a pipeline's pods, by role.
    Logs(LogsArgs),
    /// A tar file with everything that support needs, and no secret.
    Bundle(Bundle),
    /// What removing Millrace, or a pipeline, would delete and what it would leave.
    Uninstall(Uninstall),
    /// A completion script.
    Completion(Completion),
    /// The manual page, for `man -l -`.
    Man,
    /// Words that may come next: `kubectl_complete-millrace` asks for them.
    #[command(name = "__complete", hide = true)]
    Complete {
        /// The words so far; the last may be empty.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// A pipeline by name.
#[derive(Args, Clone, Debug)]
pub struct Named {
    /// The TelemetryPipeline; may be left out where the namespace has one.
    pub pipeline: Option<String>,
}

/// A pipeline whose metrics are read twice.
#[derive(Args, Clone, Debug)]
pub struct Watched {
    /// The pipeline.
    #[command(flatten)]
    pub named: Named,
    /// How long.
    #[command(flatten)]
    pub interval: Interval,
}

/// The time between two readings.
#[derive(Args, Clone, Copy, Debug)]
pub struct Interval {
    /// Seconds between two readings of the pods' metrics, for rates: 0 to 60; 0 reads once.
    #[arg(id = "interval", long = "interval", value_name = "SECONDS", default_value = "3",
          value_parser = seconds)]
    pub between: Duration,
}

/// Of `status`.
#[derive(Args, Clone, Debug)]
pub struct Status {
    /// The pipeline; all of the namespace when left out.
    pub pipeline: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "pipeline")]
    pub all_namespaces: bool,
    /// How long.
    #[command(flatten)]
    pub interval: Interval,
}

/// Of `rollout`.
#[derive(Debug, Subcommand)]
pub enum Rollout {
    /// How far each pool's change has come, with the judge's figures.
    Status(Named),
    /// Stop pods from changing, in both directions.
    Pause(Pools),
    /// Go on, after pause or undo.
    Resume(Pools),
    /// Take back what is under way; no change begins until `resume`.
    Undo(Pools),
}

/// The pools of a pipeline.
#[derive(Args, Clone, Debug)]
pub struct Pools {
    /// The pipeline.
    #[command(flatten)]
    pub named: Named,
    /// Only this pool: an EdgePool's or the GatewayPool's name. All when left out.
    #[arg(long)]
    pub pool: Option<String>,
}

/// Of `plan`.
#[derive(Args, Clone, Debug)]
pub struct Plan {
    /// The changed TelemetryPipeline, as YAML or JSON; `-` reads standard input.
    #[arg(short, long)]
    pub filename: String,
    /// Who would apply it: fields that this manager no longer writes are removed.
    #[arg(long, default_value = "kubectl")]
    pub field_manager: String,
}

/// Of `convert`.
#[derive(Args, Clone, Debug)]
pub struct Convert {
    /// A Collector's configuration, or an OpenTelemetryCollector; `-` reads standard input.
    #[arg(short, long)]
    pub filename: String,
    /// The pipeline's name; the object's own, or a placeholder, when left out.
    #[arg(long)]
    pub name: Option<String>,
}

/// Of `dead-letters`: options of the collector's own tool follow.
#[derive(Debug, Subcommand)]
pub enum DeadLetters {
    /// List them, with their causes.
    List(ToolArgs),
    /// Show one: `show 0:5 --signal logs`.
    Show(ToolArgs),
    /// Send them to their topic again: `resend --reason refused_by_clickhouse`, or `--all`.
    Resend(ToolArgs),
}

impl DeadLetters {
    /// The tool's own word, and what follows it.
    #[must_use]
    pub const fn parts(&self) -> (&'static str, &ToolArgs) {
        match self {
            Self::List(args) => ("list", args),
            Self::Show(args) => ("show", args),
            Self::Resend(args) => ("resend", args),
        }
    }
}

/// What is handed to the collector's tool.
#[derive(Args, Clone, Debug)]
pub struct ToolArgs {
    /// The pipeline; may be left out where the namespace has one.
    #[arg(short, long)]
    pub pipeline: Option<String>,
    /// The kubectl that runs it.
    #[arg(long, default_value = "kubectl")]
    pub kubectl: PathBuf,
    /// The tool's own options and places: docs/operations.md#dead-letters.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub rest: Vec<String>,
}

/// Of `send`.
#[derive(Args, Clone, Debug)]
pub struct Send {
    /// The way of the record.
    #[command(flatten)]
    pub way: Way,
    /// Seconds to wait for the row, 1 to 600.
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..=600))]
    pub wait: u32,
}

/// Of `verify`.
#[derive(Args, Clone, Debug)]
pub struct Verify {
    /// The way of the records.
    #[command(flatten)]
    pub way: Way,
    /// How many records, 1 to 10,000; 100 in a request.
    #[arg(long, default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(RECORDS_MAX)))]
    pub records: u32,
    /// What sizes and durations of the records follow from.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Seconds to wait for the rows, 1 to 600.
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u32).range(1..=600))]
    pub wait: u32,
}

/// Where test records go in, as what, and by which program their rows are looked for.
#[derive(Args, Clone, Debug)]
pub struct Way {
    /// The pipeline.
    #[command(flatten)]
    pub named: Named,
    /// What to send: a span, a log record, a point of a gauge. The pipeline's first signal when
    /// left out.
    #[arg(long, value_enum)]
    pub signal: Option<SignalArg>,
    /// Only this EdgePool. All that take the signal when left out.
    #[arg(long)]
    pub pool: Option<String>,
    /// The kubectl that runs the collector's tool in a gateway pod.
    #[arg(long, default_value = "kubectl")]
    pub kubectl: PathBuf,
}

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SignalArg {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Points of a gauge.
    Metrics,
}

impl From<SignalArg> for Signal {
    fn from(arg: SignalArg) -> Self {
        match arg {
            SignalArg::Traces => Self::Traces,
            SignalArg::Logs => Self::Logs,
            SignalArg::Metrics => Self::Metrics,
        }
    }
}

/// Of `logs`.
#[derive(Args, Clone, Debug)]
pub struct LogsArgs {
    /// The pipeline.
    #[command(flatten)]
    pub named: Named,
    /// Only pods of this role.
    #[arg(long, value_enum)]
    pub role: Option<RoleArg>,
    /// Only pods of this pool.
    #[arg(long)]
    pub pool: Option<String>,
    /// Last lines of each pod, 1 to 10,000.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    pub lines: i64,
    /// Of the container before the present one.
    #[arg(long)]
    pub previous: bool,
    /// Only lines of so many last seconds.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(1..))]
    pub since: Option<i64>,
}

/// A role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleArg {
    /// Edge pools.
    Edge,
    /// The gateway pool.
    Gateway,
}

/// Of `bundle`.
#[derive(Args, Clone, Debug)]
pub struct Bundle {
    /// The pipeline.
    #[command(flatten)]
    pub named: Named,
    /// The file; `millrace-NAMESPACE-PIPELINE.tar` when left out.
    #[arg(short, long)]
    pub file: Option<PathBuf>,
    /// Last lines of each pod's log, 0 to 10,000; 0 leaves logs out.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(i64).range(0..=10_000))]
    pub lines: i64,
    /// The operator's namespace, for its log.
    #[arg(long, default_value = "millrace-system")]
    pub operator_namespace: String,
}

/// Of `uninstall`.
#[derive(Args, Clone, Debug)]
pub struct Uninstall {
    /// Only say what would happen. This tool deletes nothing.
    #[arg(long, required = true)]
    pub check: bool,
    /// All namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
}

/// Of `completion`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Completion {
    /// For which shell; `kubectl` gives the script by which `kubectl millrace` itself completes.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// What a completion script is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// For kubectl: save it as `kubectl_complete-millrace` on the PATH.
    Kubectl,
    /// For `kubectl-millrace` in bash.
    Bash,
    /// In zsh.
    Zsh,
    /// In fish.
    Fish,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .trim_end_matches('s')
        .parse()
        .map_err(|_no_number| format!("{text:?} is no number of seconds: write for example 3"))?;
    match (0.0..=INTERVAL_SECONDS_MAX).contains(&number) {
        true => Ok(Duration::from_secs_f64(number)),
        false => Err(format!("write 0 to {INTERVAL_SECONDS_MAX} seconds")),
    }
}
