//! One file for each command: reads facts, builds the report, renders it. Nothing here prints.

mod bundle;
pub mod completion;
mod exec;
mod file;
mod logs;
mod rollout;
mod uninstall;
mod watch;

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::args::{Cli, Command, Interval};
use crate::error::Error;
use crate::gather::{Cluster, Depth};
use crate::render::Palette;

/// Maximum time that a shell waits for names.
const COMPLETION_MAX: Duration = Duration::from_secs(2);

/// The answer of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandOutput {
    /// For people.
    pub text: String,
    /// Also for people, on standard error, when the answer itself goes into a file.
    pub aside: String,
    /// For programs.
    pub json: Value,
    /// Whether a script should treat it as success.
    pub healthy: bool,
}

impl CommandOutput {
    /// Creates a healthy answer.
    ///
    /// # Errors
    /// When the report can't be JSON.
    pub fn from_report(text: String, report: &impl Serialize) -> Result<Self, Error> {
        let json = serde_json::to_value(report)
            .map_err(|error| Error::Impossible(format!("the report can't be JSON: {error}")))?;
        Ok(Self { text, aside: String::new(), json, healthy: true })
    }
}

/// A cluster, a clock, a palette, and the source of run numbers.
#[derive(Clone)]
pub struct CommandSession {
    /// The cluster.
    pub cluster: Cluster,
    /// Whether colours are written.
    pub palette: Palette,
    /// The time of day: ages in statuses are measured by it.
    pub now: fn() -> Timestamp,
    /// Returns a number that no other run of test records has.
    pub run: fn() -> u64,
    /// Reports the progress of a long command to the user.
    pub progress: fn(&str),
}

/// Runs a command that needs no cluster; `None` if it needs one.
#[must_use]
pub fn without_cluster(cli: &Cli) -> Option<Result<CommandOutput, Error>> {
    match &cli.command {
        Command::Completion(args) => Some(completion::completion_script(args.shell)),
        Command::Man => Some(completion::man_page()),
        Command::Convert(args) => Some(file::convert::run(&cli.cluster, args)),
        Command::Rules(args) => Some(file::rules::run(args)),
        Command::ExplainDefaults(args) => {
            args.filename.as_deref().map(file::explain_defaults::explain_file)
        }
        Command::Complete { words } => {
            let next = completion::next_words(words);
            // Names need a cluster.
            let text = (!next.pipelines).then(|| completion::completion_lines(&next, &[]))?;
            Some(CommandOutput::from_report(text, &Value::Null))
        }
        _ => None,
    }
}

/// Runs a command on a cluster.
///
/// # Errors
/// When the command fails; the message has the next step.
pub async fn run(session: &CommandSession, cli: &Cli) -> Result<CommandOutput, Error> {
    match &cli.command {
        Command::Status(args) => watch::run_status(session, args).await,
        Command::Why(named) => watch::run_why(session, named).await,
        Command::Lag(args) => watch::run_lag(session, args).await,
        Command::Top(args) => watch::run_top(session, args).await,
        Command::Rollout(args) => rollout::run(session, args).await,
        Command::Plan(args) => file::plan::run(session, &cli.cluster, args).await,
        Command::Convert(args) => file::convert::run(&cli.cluster, args),
        Command::Rules(args) => file::rules::run(args),
        Command::ExplainDefaults(args) => file::explain_defaults::run(session, args).await,
        Command::DeadLetters(args) => {
            exec::dead_letters::run(session, &cli.cluster, cli.output, args).await
        }
        Command::Send(args) => exec::test_run::send_record(session, &cli.cluster, args).await,
        Command::Verify(args) => exec::test_run::verify_load(session, &cli.cluster, args).await,
        Command::Logs(args) => logs::run(session, args).await,
        Command::Bundle(args) => bundle::run(session, args).await,
        Command::Uninstall(args) => uninstall::run(session, args).await,
        Command::Complete { words } => complete_words(session, words).await,
        Command::Completion(args) => completion::completion_script(args.shell),
        Command::Man => completion::man_page(),
    }
}

/// Returns the depth that rates need.
const fn reading_depth(interval: Interval) -> Depth {
    if interval.between.is_zero() { Depth::Metrics } else { Depth::Rates(interval.between) }
}

/// Completes words and names of pipelines. If the cluster doesn't answer, names are missing without
/// a message: a shell would show it in the middle of the line.
async fn complete_words(
    session: &CommandSession,
    words: &[String],
) -> Result<CommandOutput, Error> {
    let next = completion::next_words(words);
    let outcome =
        tokio::time::timeout(COMPLETION_MAX, session.cluster.read_pipelines(None, false)).await;
    let found = outcome.ok().and_then(Result::ok).unwrap_or_default();
    let begun = words.last().map_or("", String::as_str);
    let names = found.into_iter().filter_map(|one| one.metadata.name);
    let names: Vec<String> = names.filter(|name| name.starts_with(begun)).collect();
    CommandOutput::from_report(completion::completion_lines(&next, &names), &Value::Null)
}
