//! `clickhouse-ddl`: makes, checks and mends ClickHouse tables for OpenTelemetry data. Everything
//! is done on each endpoint given, one after the other.

mod args;
mod say;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use millrace_ddl::{
    Client, Converged, Declared, Drift, Endpoint, MigrateOptions, Permit, Plan, Severity, Standing,
    converge, explain, history, observe, origin, plan, preflight, verify,
};

use args::{Cli, Command, RunFlags, ServerFlags};

/// Something differs, or was left undone.
const DIFFERS: u8 = 1;
/// Arguments that make no sense together; clap ends with the same code for those it refuses.
const USAGE: u8 = 2;
/// No answer that could be used.
const UNKNOWN: u8 = 3;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let declared = match command.tables().declared() {
        Ok(declared) => declared,
        Err(error) => {
            say::error(&error);
            return USAGE.into();
        }
    };
    match run(command, &declared) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => DIFFERS.into(),
        Err(error) => {
            say::error(&error);
            UNKNOWN.into()
        }
    }
}

/// `false`: something differs, or was left undone.
fn run(command: Command, declared: &Declared) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    match command {
        Command::Render { tables: _ } => {
            say::statements(declared);
            Ok(true)
        }
        Command::Explain { tables: _, json } => {
            say::reasons(&explain(declared), json)?;
            Ok(true)
        }
        Command::Create { tables: _, server, run } => {
            runtime.block_on(mend(declared, &server, &run, Permit::ADDITIVE))
        }
        Command::Apply { tables: _, server, run, allow } => {
            runtime.block_on(mend(declared, &server, &run, allow.into()))
        }
        Command::Status { tables: _, server, json } => {
            runtime.block_on(show_status(declared, &server, json))
        }
        Command::Plan { tables: _, server, json } => {
            runtime.block_on(show_plan(declared, &server, json))
        }
        Command::Verify { tables: _, server } => {
            let found = runtime.block_on(look(declared, &server))?;
            found.iter().for_each(|(at, drift)| say::drift(at, drift, Severity::Breaking));
            Ok(!found.iter().flat_map(|(_, drift)| drift).any(is_breaking))
        }
        Command::Diff { tables: _, server, json } => {
            let found = runtime.block_on(look(declared, &server))?;
            if json {
                say::drift_as_json(declared, &found)?;
            } else {
                found.iter().for_each(|(at, drift)| say::drift(at, drift, Severity::Notice));
            }
            Ok(true)
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

async fn mend(
    declared: &Declared,
    server: &ServerFlags,
    run: &RunFlags,
    permit: Permit,
) -> Result<bool> {
    if run.dry_run {
        return show_plan(declared, server, false).await;
    }
    let options: MigrateOptions = run.options(permit);
    let done: Converged = converge(&client(server)?, declared, &options).await?;
    say::converged(declared, &done);
    let is_equal = !done.drift.iter().any(|(_, drift)| is_breaking(drift));
    Ok(is_equal && done.failed.is_empty())
}

/// `false`: a migration is open, or the last one did not finish.
async fn show_status(declared: &Declared, server: &ServerFlags, json: bool) -> Result<bool> {
    let mut servers = Vec::new();
    let mut is_settled = true;
    for each in client(server)?.each() {
        let facts = preflight(&each, declared).await?;
        let observed = observe(&each, declared).await?;
        let history = history(&each, declared).await?;
        let last = history.as_ref().and_then(|history| history.migrations.last());
        is_settled &= last.is_none_or(|last| last.standing == Standing::Finished);
        let origin = origin(declared, &observed);
        servers.push((each.endpoint().clone(), facts, origin, history));
    }
    say::status(declared, &servers, json)?;
    Ok(is_settled)
}

async fn show_plan(declared: &Declared, server: &ServerFlags, json: bool) -> Result<bool> {
    let mut plans: Vec<(Endpoint, Plan)> = Vec::new();
    for each in client(server)?.each() {
        let observed = observe(&each, declared).await?;
        plans.push((each.endpoint().clone(), plan(declared, &observed)));
    }
    if json {
        say::plans_as_json(declared, &plans)?;
    } else {
        plans.iter().for_each(|(at, plan)| say::plan(at, plan));
    }
    Ok(true)
}

async fn look(declared: &Declared, server: &ServerFlags) -> Result<Vec<(Endpoint, Vec<Drift>)>> {
    let mut found = Vec::new();
    for each in client(server)?.each() {
        found.push((each.endpoint().clone(), verify(&each, declared).await?));
    }
    Ok(found)
}
