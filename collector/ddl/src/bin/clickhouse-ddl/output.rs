//! Prints everything: results to standard output, problems to standard error. A reader that closes
//! the pipe early causes no error.
#![allow(clippy::print_stderr)]

use std::io::Write;

use anyhow::Result;
use millrace_ddl::{
    Blocked, ConvergeReport, Declared, Drift, Explanation, History, Loss, MigrateError, Migration,
    MigrationPlan, Missing, PlanStep, ServerEndpoint, ServerFacts, Severity, TableOrigin,
};
use serde_json::json;

/// Prints a line to standard output.
macro_rules! out {
    ($($said:tt)*) => {{
        // The reader closed the pipe, so the error has no recipient either.
        let _ = writeln!(std::io::stdout().lock(), $($said)*);
    }};
}

pub(crate) fn print_error(error: &anyhow::Error) {
    eprintln!("clickhouse-ddl: {error:#}");
}

pub(crate) fn warn_exposed_password() {
    eprintln!(
        "warning: --password can be read by anyone on this machine; use --password-file, \
         CLICKHOUSE_PASSWORD or --ask-password"
    );
}

pub(crate) fn print_statements(declared: &Declared) {
    out!("-- revision {}", declared.revision());
    for statement in millrace_ddl::render::create_all(declared) {
        out!("{};\n", statement.sql());
    }
}

fn format_plural(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

fn format_size(step: &PlanStep) -> String {
    if step.rows == 0 {
        return String::new();
    }
    format!(", table holds {}, {:.1} MB", format_plural(step.rows, "row"), step.bytes as f64 / 1e6)
}

fn print_step(endpoint: &ServerEndpoint, step: &PlanStep, verb: &str) {
    let PlanStep { object, what, class, phase, loss, .. } = step;
    out!("{endpoint} {object}: {verb}{what} [{phase}, {class}{}]", format_size(step));
    if let Loss::Unagreed(name) = loss {
        out!("    only with --destroy {name}");
    }
}

fn print_blocked(endpoint: &ServerEndpoint, blocked: &Blocked) {
    out!("{endpoint} {} (blocked: {})", blocked.drift, blocked.advice);
}

pub(crate) fn print_plan(
    endpoint: &ServerEndpoint,
    plan: &MigrationPlan,
    lacked: Option<&Missing>,
) {
    for each in &plan.steps {
        print_step(endpoint, each, "");
        for line in each.statement.sql().lines() {
            out!("    {line}");
        }
    }
    plan.blocked.iter().for_each(|each| print_blocked(endpoint, each));
    if let Some(lacked) = lacked {
        out!("{endpoint} {lacked}");
    }
    if plan.is_empty() {
        out!("{endpoint} nothing to do: the tables match the declaration");
    } else {
        out!("{endpoint} plan {}", plan.hash());
    }
}

/// A plan, and the privileges that it lacks.
pub(crate) type Planned = (MigrationPlan, Option<Missing>);

pub(crate) fn plans_as_json(
    declared: &Declared,
    plans: &[(ServerEndpoint, Planned)],
) -> Result<()> {
    let servers: Vec<_> = plans
        .iter()
        .map(|(endpoint, (plan, lacked))| {
            json!({
                "endpoint": endpoint.to_string(),
                "hash": plan.hash(),
                "plan": plan,
                "missingPrivileges": lacked,
            })
        })
        .collect();
    let all = json!({"revision": declared.revision(), "servers": servers});
    out!("{}", serde_json::to_string_pretty(&all)?);
    Ok(())
}

pub(crate) fn print_drift(endpoint: &ServerEndpoint, drift: &[Drift], severity: Severity) {
    let shown: Vec<_> = drift.iter().filter(|each| each.severity >= severity).collect();
    for each in &shown {
        let weight = match each.severity {
            Severity::Breaking => "breaking",
            Severity::Notice => "notice",
        };
        out!("{endpoint} {each} [{weight}]");
    }
    if shown.is_empty() {
        out!("{endpoint} no difference");
    }
}

pub(crate) fn drift_as_json(
    declared: &Declared,
    found: &[(ServerEndpoint, Vec<Drift>)],
) -> Result<()> {
    let servers: Vec<_> = found
        .iter()
        .map(|(endpoint, drift)| json!({"endpoint": endpoint.to_string(), "differences": drift}))
        .collect();
    let all = json!({"revision": declared.revision(), "servers": servers});
    out!("{}", serde_json::to_string_pretty(&all)?);
    Ok(())
}

pub(crate) fn print_report(declared: &Declared, converged: &ConvergeReport) {
    let ConvergeReport { applied, refused, blocked, drift: _, migrations, adopted, failed } =
        converged;
    for (endpoint, origin) in adopted {
        out!("{endpoint} tables of {origin} were adopted unchanged");
    }
    applied.iter().for_each(|(endpoint, each)| print_step(endpoint, each, "done: "));
    refused.iter().for_each(|(endpoint, each)| print_step(endpoint, each, "not allowed: "));
    blocked.iter().for_each(|(endpoint, each)| print_blocked(endpoint, each));
    for (endpoint, error) in failed {
        print_unreachable(endpoint, error);
    }
    for (endpoint, number) in migrations {
        out!("{endpoint} migration {number} is finished");
    }
    let run = format_plural(applied.len() as u64, "statement");
    out!("revision {}: {run} run", declared.revision());
}

/// Reports a name of --destroy that matched nothing.
pub(crate) fn warn_unmatched(name: &str) {
    eprintln!(
        "warning: --destroy {name}: the plan deletes no such object; use a name that `plan` prints, \
         or omit it if it is deleted already"
    );
}

pub(crate) fn print_reasons(reasons: &[Explanation], json: bool) -> Result<()> {
    if json {
        out!("{}", serde_json::to_string_pretty(reasons)?);
        return Ok(());
    }
    let mut object = "";
    for reason in reasons {
        if reason.object != object {
            object = &reason.object;
            out!("{object}");
        }
        out!("  {} {}: {}", reason.part, reason.what, reason.why);
    }
    Ok(())
}

/// A server's facts, its tables' origin, and its journal.
pub(crate) type ServerStatus = (ServerFacts, TableOrigin, Option<History>);

pub(crate) fn print_status(
    declared: &Declared,
    servers: &[(ServerEndpoint, ServerStatus)],
    json: bool,
) -> Result<()> {
    if json {
        let servers: Vec<_> = servers
            .iter()
            .map(|(endpoint, (facts, origin, history))| {
                let migrations = history.as_ref().map(|history| &history.migrations);
                json!({
                    "endpoint": endpoint.to_string(),
                    "server": facts,
                    "origin": origin,
                    "migrations": migrations,
                })
            })
            .collect();
        let all = json!({"revision": declared.revision(), "servers": servers});
        out!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    for (endpoint, (facts, origin, history)) in servers {
        let ServerFacts { version, host, keeper_sessions } = facts;
        let keeper = keeper_sessions.map_or(String::new(), |alive| format!(", keeper: {alive}"));
        out!("{endpoint} {host}, version {version}{keeper}, tables made by {origin}");
        match history {
            None => out!("  no journal of migrations yet"),
            Some(history) => history.migrations.iter().for_each(print_migration),
        }
    }
    Ok(())
}

fn print_migration(migration: &Migration) {
    let Migration { number, phase, author, tool, done, statements, .. } = migration;
    let took = migration.duration_millis.map_or(String::new(), |millis| format!(" in {millis} ms"));
    out!(
        "  {number} {phase} {} {done}/{} statements{took}, by {author} with {tool}",
        migration.standing,
        statements.len(),
    );
    if !migration.detail.is_empty() {
        out!("    {}", migration.detail);
    }
}

pub(crate) fn print_unreachable(endpoint: &ServerEndpoint, error: &MigrateError) {
    eprintln!("{endpoint} failed: {error}");
}
