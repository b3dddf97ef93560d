//! `clickhouse-ddl`: makes, checks and mends ClickHouse tables for OpenTelemetry data. Everything
//! is done on each endpoint given, one after the other.

mod args;
mod load;
mod say;

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use millrace_ddl::{
    Client, Converged, Declared, Drift, Endpoint, Loss, MigrateError, MigrateOptions, Permit,
    Severity, Standing, Step, converge, explain, history, missing, needed, observe, origin, plan,
    preflight, verify,
};

use args::{Change, Cli, Command, Report, RunFlags, ServerFlags, TableCommand};

/// Something differs, or was left undone.
const DIFFERS: u8 = 1;
/// Arguments that make no sense together; clap ends with the same code for those it refuses.
const USAGE: u8 = 2;
/// No answer that could be used.
const UNKNOWN: u8 = 3;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Coordination(flags) => load::print(&flags).map(|()| Outcome::Fine),
        Command::Tables(command) => match command.tables().declared() {
            Ok(declared) => run(*command, &declared),
            Err(error) => {
                say::error(&error);
                return USAGE.into();
            }
        },
    };
    match outcome {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Differs) => DIFFERS.into(),
        Ok(Outcome::Unknown) => UNKNOWN.into(),
        Err(error) => {
            say::error(&error);
            UNKNOWN.into()
        }
    }
}

/// What a run came to, for its exit code.
enum Outcome {
    /// Done, or equal.
    Fine,
    /// Something differs, or was left undone.
    Differs,
    /// A server gave no answer that could be used.
    Unknown,
}

fn run(command: TableCommand, declared: &Declared) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    match command {
        TableCommand::Render(_) => {
            say::statements(declared);
            Ok(Outcome::Fine)
        }
        TableCommand::Explain { tables: _, json } => {
            say::reasons(&explain(declared), json)?;
            Ok(Outcome::Fine)
        }
        TableCommand::Create(Change { live, run }) => {
            runtime.block_on(mend(declared, &live.server, &run, Permit::ADDITIVE))
        }
        TableCommand::Apply { change: Change { live, run }, allow } => {
            runtime.block_on(mend(declared, &live.server, &run, allow.into()))
        }
        TableCommand::Status(Report { live, json }) => {
            runtime.block_on(show_status(declared, &live.server, json))
        }
        TableCommand::Plan(Report { live, json }) => {
            runtime.block_on(show_plan(declared, &live.server, json))
        }
        TableCommand::Verify(live) => {
            let found = runtime.block_on(look(declared, &live.server))?;
            found.answers.iter().for_each(|(at, drift)| say::drift(at, drift, Severity::Breaking));
            let differs = found.answers.iter().flat_map(|(_, drift)| drift).any(is_breaking);
            Ok(found.outcome(differs))
        }
        TableCommand::Diff(Report { live, json }) => {
            let found = runtime.block_on(look(declared, &live.server))?;
            if json {
                say::drift_as_json(declared, &found.answers)?;
            } else {
                found
                    .answers
                    .iter()
                    .for_each(|(at, drift)| say::drift(at, drift, Severity::Notice));
            }
            Ok(found.outcome(false))
        }
    }
}

fn is_breaking(drift: &Drift) -> bool {
    drift.severity == Severity::Breaking
}

fn client(server: &ServerFlags) -> Result<Client> {
    if server.is_password_exposed() {
        say::password_is_exposed();
    }
    server.client()
}

/// What the servers answered, one by one. One that is down does not hide what the others say.
struct Answers<T> {
    answers: Vec<(Endpoint, T)>,
    has_failed: bool,
}

impl<T> Answers<T> {
    async fn of<Asking>(server: &ServerFlags, ask: impl Fn(Client) -> Asking) -> Result<Self>
    where
        Asking: Future<Output = Result<T, MigrateError>>,
    {
        let (mut answers, mut has_failed) = (Vec::new(), false);
        for each in client(server)?.each() {
            let endpoint = each.endpoint().clone();
            match ask(each).await {
                Ok(answer) => answers.push((endpoint, answer)),
                Err(error) => {
                    say::not_reached(&endpoint, &error);
                    has_failed = true;
                }
            }
        }
        Ok(Self { answers, has_failed })
    }

    fn outcome(&self, differs: bool) -> Outcome {
        match (self.has_failed, differs) {
            (true, _) => Outcome::Unknown,
            (false, true) => Outcome::Differs,
            (false, false) => Outcome::Fine,
        }
    }
}

async fn mend(
    declared: &Declared,
    server: &ServerFlags,
    run: &RunFlags,
    permit: Permit,
) -> Result<Outcome> {
    if run.dry_run {
        return show_plan(declared, server, false).await;
    }
    let options: MigrateOptions = run.options(permit);
    let done: Converged = converge(&client(server)?, declared, &options).await?;
    say::converged(declared, &done);
    for name in &declared.consent {
        let has_gone = |(_, step): &(Endpoint, Step)| step.loss == Loss::Agreed(name.clone());
        if !done.applied.iter().any(has_gone) {
            say::unmatched(name);
        }
    }
    let is_equal = !done.drift.iter().any(|(_, drift)| is_breaking(drift));
    Ok(if is_equal && done.failed.is_empty() { Outcome::Fine } else { Outcome::Differs })
}

/// Differs: a migration is open, or the last one did not finish.
async fn show_status(declared: &Declared, server: &ServerFlags, json: bool) -> Result<Outcome> {
    let servers = Answers::of(server, |each| async move {
        let facts = preflight(&each, declared).await?;
        let observed = observe(&each, declared).await.map_err(MigrateError::Read)?;
        let history = history(&each, declared).await?;
        Ok((facts, origin(declared, &observed), history))
    })
    .await?;
    let is_open = servers.answers.iter().any(|(_, (_, _, history))| {
        let last = history.as_ref().and_then(|history| history.migrations.last());
        last.is_some_and(|last| last.standing != Standing::Finished)
    });
    say::status(declared, &servers.answers, json)?;
    Ok(servers.outcome(is_open))
}

async fn show_plan(declared: &Declared, server: &ServerFlags, json: bool) -> Result<Outcome> {
    let plans = Answers::of(server, |each| async move {
        preflight(&each, declared).await?;
        let observed = observe(&each, declared).await.map_err(MigrateError::Read)?;
        let plan = plan(declared, &observed);
        let needed = match plan.steps.is_empty() {
            true => BTreeSet::new(),
            false => needed(declared, &observed, &plan.steps),
        };
        let lacked = missing(&each, &needed).await.map_err(MigrateError::Read)?;
        Ok((plan, lacked))
    })
    .await?;
    if json {
        say::plans_as_json(declared, &plans.answers)?;
    } else {
        plans.answers.iter().for_each(|(at, (plan, lacked))| say::plan(at, plan, lacked.as_ref()));
    }
    Ok(plans.outcome(false))
}

async fn look(declared: &Declared, server: &ServerFlags) -> Result<Answers<Vec<Drift>>> {
    Answers::of(
        server,
        |each| async move { verify(&each, declared).await.map_err(MigrateError::Read) },
    )
    .await
}
