//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use millrace_crds::v1alpha1::Signal;

use crate::load::RECORDS_MAX;

/// The longest time between two readings: a minute of waiting is enough for a screen.
const INTERVAL_SECONDS_MAX: f64 = 60.0;

/// Shows the state of Millrace pipelines, the causes of problems, and what to do.
#[derive(Debug, Parser)]
#[command(name = "kubectl-millrace", bin_name = "kubectl millrace", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 healthy or done; 1 not healthy; 2 invalid command, or the command \
                  failed."
)]
pub struct Cli {
    /// Cluster and namespace.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Output format.
    #[arg(short, long, global = true, value_enum, default_value_t)]
    pub output: Output,
    /// When to use colors; never if NO_COLOR is set.
    #[arg(long, global = true, value_enum, default_value_t)]
    pub color: Color,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Which cluster and namespace.
#[derive(Args, Clone, Debug, Default)]
pub struct ClusterArgs {
    /// Namespace. Default: that of the kubeconfig's context.
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// Context of the kubeconfig. Default: the current one.
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// The kubeconfig. Default: KUBECONFIG or ~/.kube/config.
    #[arg(long, global = true)]
    pub kubeconfig: Option<PathBuf>,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// When to use colors.
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

/// The command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Status on one screen: path of records with rates and lag, problems, causes and remedies.
    Status(StatusArgs),
    /// Why the gateway pool has its size: the sizing decision and its inputs.
    Why(Named),
    /// Lag of gateways by topic and partition.
    Lag(Watched),
    /// Pods with rates, memory and CPU.
    Top(Watched),
    /// Rollouts: show, pause, resume, roll back.
    #[command(subcommand)]
    Rollout(Rollout),
    /// Preview the effects of a changed file on fields, topics, tables and pods (dry run).
    Plan(PlanArgs),
    /// Convert an OpenTelemetry Collector's configuration to a TelemetryPipeline, with a report on
    /// each setting. Needs no cluster.
    Convert(Convert),
    /// Rules of a pipeline: test them on sample records. Needs no cluster.
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Effective spec: each field with its value, or the default that applies.
    ExplainDefaults(ExplainDefaults),
    /// Dead letters: list, show, resend (runs the collector's tool in a gateway pod).
    #[command(subcommand)]
    DeadLetters(DeadLetterCommand),
    /// Send a test record and follow it to its row.
    Send(Send),
    /// Send a seeded load of test records and check that each is stored once.
    Verify(Verify),
    /// Logs of a pipeline's pods, by role.
    Logs(LogsArgs),
    /// Write a tar file for support, without secrets.
    Bundle(Bundle),
    /// Report what removing Millrace or a pipeline would delete and retain.
    Uninstall(Uninstall),
    /// A completion script.
    Completion(Completion),
    /// The manual page, for `man -l -`.
    Man,
    /// Completion candidates, for `kubectl_complete-millrace`.
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
    /// The TelemetryPipeline; optional if the namespace has only one.
    pub pipeline: Option<String>,
}

/// A pipeline whose metrics are read twice.
#[derive(Args, Clone, Debug)]
pub struct Watched {
    /// The pipeline.
    #[command(flatten)]
    pub named: Named,
    /// The interval.
    #[command(flatten)]
    pub interval: Interval,
}

/// The time between two readings.
#[derive(Args, Clone, Copy, Debug)]
pub struct Interval {
    /// Seconds between two readings of the pods' metrics, for rates: 0 to 60; 0 reads once.
    #[arg(id = "interval", long = "interval", value_name = "SECONDS", default_value = "3",
          value_parser = parse_seconds)]
    pub between: Duration,
}

/// Of `status`.
#[derive(Args, Clone, Debug)]
pub struct StatusArgs {
    /// The pipeline. Default: all of the namespace.
    pub pipeline: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "pipeline")]
    pub all_namespaces: bool,
    /// The interval.
    #[command(flatten)]
    pub interval: Interval,
}

/// Of `rollout`.
#[derive(Debug, Subcommand)]
pub enum Rollout {
    /// Progress of each pool's rollout, with the figures of the analysis.
    Status(Named),
    /// Pause: no pod is replaced.
    Pause(Pools),
    /// Resume after pause or undo.
    Resume(Pools),
    /// Roll back the current rollout; no rollout begins until `resume`.
    Undo(Pools),
}

/// The pools of a pipeline.
#[derive(Args, Clone, Debug)]
pub struct Pools {
    /// The pipeline.
    #[command(flatten)]
    pub named: Named,
    /// Only this pool: an EdgePool's or the GatewayPool's name. Default: all.
    #[arg(long)]
    pub pool: Option<String>,
}

/// Of `plan`.
#[derive(Args, Clone, Debug)]
pub struct PlanArgs {
    /// The changed TelemetryPipeline, as YAML or JSON; `-` reads standard input.
    #[arg(short, long)]
    pub filename: String,
    /// Field manager of the apply: fields that it no longer writes are removed.
    #[arg(long, default_value = "kubectl")]
    pub field_manager: String,
}

/// Of `convert`.
#[derive(Args, Clone, Debug)]
pub struct Convert {
    /// A Collector's configuration, or an OpenTelemetryCollector; `-` reads standard input.
    #[arg(short, long)]
    pub filename: String,
    /// The pipeline's name. Default: the object's own, or a placeholder.
    #[arg(long)]
    pub name: Option<String>,
}

/// Of `rules`.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// Run a pipeline's rules on sample records: each record before and after, and which rule
    /// changed or dropped it. Hashes are made with a key of zeros.
    Test(RulesTest),
}

/// Of `rules test`.
#[derive(Args, Clone, Debug)]
pub struct RulesTest {
    /// The TelemetryPipeline or EdgePool, as YAML or JSON; `-` reads standard input.
    #[arg(short, long)]
    pub filename: String,
    /// OTLP requests in JSON: one, or one after the other.
    #[arg(short, long, value_name = "FILE")]
    pub records: String,
    /// The edge pool by its name in the pipeline, whose own rules follow the pipeline's. Default:
    /// the only one.
    #[arg(long)]
    pub pool: Option<String>,
}

/// Of `explain-defaults`.
#[derive(Args, Clone, Debug)]
pub struct ExplainDefaults {
    /// The pipeline.
    #[command(flatten)]
    pub named: Named,
    /// An object of any kind of Millrace, as YAML or JSON, instead of the cluster's; `-` reads
    /// standard input.
    #[arg(short, long, conflicts_with = "pipeline")]
    pub filename: Option<String>,
}

/// Of `dead-letters`: options of the collector's own tool follow.
#[derive(Debug, Subcommand)]
pub enum DeadLetterCommand {
    /// List them, with their causes.
    List(ToolArgs),
    /// Show one: `show 0:5 --signal logs`.
    Show(ToolArgs),
    /// Send them to their topic again: `resend --reason refused_by_clickhouse`, or `--all`.
    Resend(ToolArgs),
}

impl DeadLetterCommand {
    /// The tool's own word, and what follows it.
    #[must_use]
    pub const fn tool_command(&self) -> (&'static str, &ToolArgs) {
        match self {
            Self::List(args) => ("list", args),
            Self::Show(args) => ("show", args),
            Self::Resend(args) => ("resend", args),
        }
    }
}

/// Arguments of the collector's tool.
#[derive(Args, Clone, Debug)]
pub struct ToolArgs {
    /// The pipeline; optional if the namespace has only one.
    #[arg(short, long)]
    pub pipeline: Option<String>,
    /// The kubectl that runs it.
    #[arg(long, default_value = "kubectl")]
    pub kubectl: PathBuf,
    /// The tool's own options and offsets, as the page "Lost data and dead letters" lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub rest: Vec<String>,
}

/// Of `send`.
#[derive(Args, Clone, Debug)]
pub struct Send {
    /// The path of the record.
    #[command(flatten)]
    pub run: TestRunArgs,
    /// Seconds to wait for the row, 1 to 600.
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..=600))]
    pub wait: u32,
}

/// Of `verify`.
#[derive(Args, Clone, Debug)]
pub struct Verify {
    /// The path of the records.
    #[command(flatten)]
    pub run: TestRunArgs,
    /// How many records, 1 to 10,000; 100 in a request.
    #[arg(long, default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(RECORDS_MAX)))]
    pub records: u32,
    /// Seed of the records' sizes and durations.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Seconds to wait for the rows, 1 to 600.
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u32).range(1..=600))]
    pub wait: u32,
}

/// The pool and signal of test records, and the program that finds their rows.
#[derive(Args, Clone, Debug)]
pub struct TestRunArgs {
    /// The pipeline.
    #[command(flatten)]
    pub named: Named,
    /// The signal: a span, a log record or a gauge point. Default: the pipeline's first signal.
    #[arg(long, value_enum)]
    pub signal: Option<SignalArg>,
    /// Only this EdgePool. Default: all that receive the signal.
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
    /// Logs of the previous container.
    #[arg(long)]
    pub previous: bool,
    /// Only lines of the last SECONDS.
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
    /// The file. Default: `millrace-NAMESPACE-PIPELINE.tar`.
    #[arg(short, long)]
    pub file: Option<PathBuf>,
    /// Last lines of each pod's log, 0 to 10,000; 0 omits logs.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(i64).range(0..=10_000))]
    pub lines: i64,
    /// The operator's namespace, for its log.
    #[arg(long, default_value = "millrace-system")]
    pub operator_namespace: String,
}

/// Of `uninstall`.
#[derive(Args, Clone, Debug)]
pub struct Uninstall {
    /// Required: only report. This tool deletes nothing.
    #[arg(long, required = true)]
    pub check: bool,
    /// All namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
}

/// Of `completion`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Completion {
    /// The shell; `kubectl` gives the completion script of `kubectl millrace`.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// The shell of a completion script.
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

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.trim_end_matches('s').parse().map_err(|_no_number| {
        format!("{text:?} is not a number of seconds: write for example 3")
    })?;
    match (0.0..=INTERVAL_SECONDS_MAX).contains(&number) {
        true => Ok(Duration::from_secs_f64(number)),
        false => Err(format!("write 0 to {INTERVAL_SECONDS_MAX} seconds")),
    }
}
