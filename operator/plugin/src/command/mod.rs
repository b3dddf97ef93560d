//! One file for each command: read facts, make the report, render it. Nothing here prints.

mod bundle;
mod convert;
mod exec;
mod file;
mod letters;
mod logs;
mod plan;
mod rollout;
mod test_run;
mod uninstall;
mod watch;
pub mod words;

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::args::{Cli, Command, Interval};
use crate::error::Error;
use crate::gather::{Cluster, Depth};
use crate::render::Palette;

/// The longest that a shell waits for names.
const COMPLETION_MAX: Duration = Duration::from_secs(2);

/// What a command answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// For people.
    pub text: String,
    /// For people too, beside an answer that goes into a file: on standard error.
    pub aside: String,
    /// For programs.
    pub json: Value,
    /// Whether a script may take it for well.
    pub healthy: bool,
}

impl Answer {
    /// An answer that is no judgement.
    ///
    /// # Errors
    /// When the report can't be JSON.
    pub fn of(text: String, report: &impl Serialize) -> Result<Self, Error> {
        let json = serde_json::to_value(report)
            .map_err(|error| Error::Impossible(format!("the report is no JSON: {error}")))?;
        Ok(Self { text, aside: String::new(), json, healthy: true })
    }
}

/// A cluster, a clock, a palette, and where test records get their numbers.
#[derive(Clone)]
pub struct Session {
    /// The cluster.
    pub cluster: Cluster,
    /// Whether colours are written.
    pub palette: Palette,
    /// The time of day: ages in statuses are measured by it.
    pub now: fn() -> Timestamp,
    /// A number that no other run of test records has.
    pub run: fn() -> u64,
    /// Says how far something long has come, to whoever waits.
    pub progress: fn(&str),
}

/// Does what needs no cluster; none if one is needed.
#[must_use]
pub fn without_cluster(cli: &Cli) -> Option<Result<Answer, Error>> {
    match &cli.command {
        Command::Completion(args) => Some(words::completion(args.shell)),
        Command::Man => Some(words::man()),
        Command::Convert(args) => Some(convert::run(&cli.place, args)),
        Command::Complete { words } => {
            let next = words::next(words);
            // Names need a cluster.
            let text = (!next.pipelines).then(|| words::lines(&next, &[]))?;
            Some(Answer::of(text, &Value::Null))
        }
        _ => None,
    }
}

/// Does what is asked of a cluster.
///
/// # Errors
/// When it can't be done; the message says what to do next.
pub async fn run(session: &Session, cli: &Cli) -> Result<Answer, Error> {
    match &cli.command {
        Command::Status(args) => watch::status(session, args).await,
        Command::Why(named) => watch::why(session, named).await,
        Command::Lag(args) => watch::lag(session, args).await,
        Command::Top(args) => watch::top(session, args).await,
        Command::Rollout(args) => rollout::run(session, args).await,
        Command::Plan(args) => plan::run(session, &cli.place, args).await,
        Command::Convert(args) => convert::run(&cli.place, args),
        Command::DeadLetters(args) => letters::run(session, &cli.place, cli.output, args).await,
        Command::Send(args) => test_run::send(session, &cli.place, args).await,
        Command::Verify(args) => test_run::verify(session, &cli.place, args).await,
        Command::Logs(args) => logs::run(session, args).await,
        Command::Bundle(args) => bundle::run(session, args).await,
        Command::Uninstall(args) => uninstall::run(session, args).await,
        Command::Complete { words } => complete(session, words).await,
        Command::Completion(args) => words::completion(args.shell),
        Command::Man => words::man(),
    }
}

/// How deep to read for rates.
const fn depth(interval: Interval) -> Depth {
    if interval.between.is_zero() { Depth::Metrics } else { Depth::Rates(interval.between) }
}

/// Words and names of pipelines. A cluster that doesn't answer costs names, no message: a shell
/// would show it amid the line.
async fn complete(session: &Session, words: &[String]) -> Result<Answer, Error> {
    let next = words::next(words);
    let asked = tokio::time::timeout(COMPLETION_MAX, session.cluster.pipelines(None, false)).await;
    let found = asked.ok().and_then(Result::ok).unwrap_or_default();
    let begun = words.last().map_or("", String::as_str);
    let names = found.into_iter().filter_map(|one| one.metadata.name);
    let names: Vec<String> = names.filter(|name| name.starts_with(begun)).collect();
    Answer::of(words::lines(&next, &names), &Value::Null)
}
