//! `clickhouse-ddl`: creates, checks and repairs ClickHouse tables for OpenTelemetry data, on each
//! given endpoint in turn.

mod args;
mod load;
mod output;

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use millrace_ddl::{
    ConvergeReport, DdlClient, Declared, Drift, Loss, MigrateError, MigrateOptions, MigrationState,
    Permit, PlanStep, ServerEndpoint, Severity, converge_servers, detect_origin, explain_tables,
    missing_privileges, needed_privileges, observe_declared, plan_migration, read_history,
    run_preflight, verify_tables,
};

use args::{ChangeFlags, Cli, Command, ReportFlags, RunFlags, ServerFlags, TableCommand};

/// Something differs, or a step was not done.
const DIFFERS: u8 = 1;
/// Arguments contradict each other; clap exits with the same code for those that it refuses.
const USAGE: u8 = 2;
/// No usable answer.
const UNKNOWN: u8 = 3;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Coordination(flags) => load::print_load(&flags).map(|()| RunOutcome::Fine),
        Command::Tables(command) => match command.table_flags().to_declared() {
            Ok(declared) => run(*command, &declared),
            Err(error) => {
                output::print_error(&error);
                return USAGE.into();
            }
        },
    };
    match outcome {
        Ok(RunOutcome::Fine) => ExitCode::SUCCESS,
        Ok(RunOutcome::Differs) => DIFFERS.into(),
        Ok(RunOutcome::Unknown) => UNKNOWN.into(),
        Err(error) => {
            output::print_error(&error);
            UNKNOWN.into()
        }
    }
}

/// The result of a run, for its exit code.
enum RunOutcome {
    /// Done, or equal.
    Fine,
    /// Something differs, or a step was not done.
    Differs,
    /// A server gave no usable answer.
    Unknown,
}

fn run(command: TableCommand, declared: &Declared) -> Result<RunOutcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    match command {
        TableCommand::Render(_) => {
            output::print_statements(declared);
            Ok(RunOutcome::Fine)
        }
        TableCommand::Explain { tables: _, json } => {
            output::print_reasons(&explain_tables(declared), json)?;
            Ok(RunOutcome::Fine)
        }
        TableCommand::Create(ChangeFlags { live, run }) => {
            runtime.block_on(apply_changes(declared, &live.server, &run, Permit::ADDITIVE))
        }
        TableCommand::Apply { change: ChangeFlags { live, run }, allow } => {
            runtime.block_on(apply_changes(declared, &live.server, &run, allow.into()))
        }
        TableCommand::Status(ReportFlags { live, json }) => {
            runtime.block_on(show_status(declared, &live.server, json))
        }
        TableCommand::Plan(ReportFlags { live, json }) => {
            runtime.block_on(show_plan(declared, &live.server, json))
        }
        TableCommand::Verify(live) => {
            let found = runtime.block_on(verify_servers(declared, &live.server))?;
            found
                .results
                .iter()
                .for_each(|(at, drift)| output::print_drift(at, drift, Severity::Breaking));
            let differs = found.results.iter().flat_map(|(_, drift)| drift).any(is_breaking);
            Ok(found.outcome(differs))
        }
        TableCommand::Diff(ReportFlags { live, json }) => {
            let found = runtime.block_on(verify_servers(declared, &live.server))?;
            if json {
                output::drift_as_json(declared, &found.results)?;
            } else {
                found
                    .results
                    .iter()
                    .for_each(|(at, drift)| output::print_drift(at, drift, Severity::Notice));
            }
            Ok(found.outcome(false))
        }
    }
}

fn is_breaking(drift: &Drift) -> bool {
    drift.severity == Severity::Breaking
}

fn connect_client(server: &ServerFlags) -> Result<DdlClient> {
    if server.is_password_exposed() {
        output::warn_exposed_password();
    }
    server.build_client()
}

/// The servers' answers, one by one. A server that is down does not hide the others' answers.
struct ServerResults<T> {
    results: Vec<(ServerEndpoint, T)>,
    has_failed: bool,
}

impl<T> ServerResults<T> {
    async fn collect_from<Asking>(
        server: &ServerFlags,
        query: impl Fn(DdlClient) -> Asking,
    ) -> Result<Self>
    where
        Asking: Future<Output = Result<T, MigrateError>>,
    {
        let (mut answers, mut has_failed) = (Vec::new(), false);
        for each in connect_client(server)?.per_endpoint() {
            let endpoint = each.endpoint().clone();
            match query(each).await {
                Ok(answer) => answers.push((endpoint, answer)),
                Err(error) => {
                    output::print_unreachable(&endpoint, &error);
                    has_failed = true;
                }
            }
        }
        Ok(Self { results: answers, has_failed })
    }

    fn outcome(&self, differs: bool) -> RunOutcome {
        match (self.has_failed, differs) {
            (true, _) => RunOutcome::Unknown,
            (false, true) => RunOutcome::Differs,
            (false, false) => RunOutcome::Fine,
        }
    }
}

async fn apply_changes(
    declared: &Declared,
    server: &ServerFlags,
    run: &RunFlags,
    permit: Permit,
) -> Result<RunOutcome> {
    if run.dry_run {
        return show_plan(declared, server, false).await;
    }
    let options: MigrateOptions = run.migrate_options(permit);
    let done: ConvergeReport =
        converge_servers(&connect_client(server)?, declared, &options).await?;
    output::print_report(declared, &done);
    for name in &declared.consent {
        let is_loss_of_name =
            |(_, step): &(ServerEndpoint, PlanStep)| step.loss == Loss::Agreed(name.clone());
        if !done.applied.iter().any(is_loss_of_name) {
            output::warn_unmatched(name);
        }
    }
    let is_equal = !done.drift.iter().any(|(_, drift)| is_breaking(drift));
    Ok(if is_equal && done.failed.is_empty() { RunOutcome::Fine } else { RunOutcome::Differs })
}

/// Shows the status. `Differs` means that a migration is open, or the last one did not finish.
async fn show_status(declared: &Declared, server: &ServerFlags, json: bool) -> Result<RunOutcome> {
    let servers = ServerResults::collect_from(server, |each| async move {
        let facts = run_preflight(&each, declared).await?;
        let observed = observe_declared(&each, declared).await.map_err(MigrateError::Read)?;
        let history = read_history(&each, declared).await?;
        Ok((facts, detect_origin(declared, &observed), history))
    })
    .await?;
    let is_open = servers.results.iter().any(|(_, (_, _, history))| {
        let last = history.as_ref().and_then(|history| history.migrations.last());
        last.is_some_and(|last| last.standing != MigrationState::Finished)
    });
    output::print_status(declared, &servers.results, json)?;
    Ok(servers.outcome(is_open))
}

async fn show_plan(declared: &Declared, server: &ServerFlags, json: bool) -> Result<RunOutcome> {
    let plans = ServerResults::collect_from(server, |each| async move {
        run_preflight(&each, declared).await?;
        let observed = observe_declared(&each, declared).await.map_err(MigrateError::Read)?;
        let plan = plan_migration(declared, &observed);
        let needed = match plan.steps.is_empty() {
            true => BTreeSet::new(),
            false => needed_privileges(declared, &observed, &plan.steps),
        };
        let lacked = missing_privileges(&each, &needed).await.map_err(MigrateError::Read)?;
        Ok((plan, lacked))
    })
    .await?;
    if json {
        output::plans_as_json(declared, &plans.results)?;
    } else {
        plans
            .results
            .iter()
            .for_each(|(at, (plan, lacked))| output::print_plan(at, plan, lacked.as_ref()));
    }
    Ok(plans.outcome(false))
}

async fn verify_servers(
    declared: &Declared,
    server: &ServerFlags,
) -> Result<ServerResults<Vec<Drift>>> {
    ServerResults::collect_from(server, |each| async move {
        verify_tables(&each, declared).await.map_err(MigrateError::Read)
    })
    .await
}
