//! All that is printed: results to standard output, trouble to standard error. A reader that has
//! seen enough and closes the pipe is no trouble.
#![allow(clippy::print_stderr)]

use std::io::Write;

use anyhow::Result;
use millrace_ddl::{
    Blocked, Converged, Declared, Drift, Endpoint, History, Loss, MigrateError, Migration, Missing,
    Origin, Plan, Reason, ServerFacts, Severity, Step,
};
use serde_json::json;

/// A line of standard output.
macro_rules! out {
    ($($said:tt)*) => {{
        // Nobody reads on: there is nobody to tell either.
        let _ = writeln!(std::io::stdout().lock(), $($said)*);
    }};
}

pub(crate) fn error(error: &anyhow::Error) {
    eprintln!("clickhouse-ddl: {error:#}");
}

pub(crate) fn password_is_exposed() {
    eprintln!(
        "warning: --password can be read by anyone on this machine; use --password-file, \
         CLICKHOUSE_PASSWORD or --ask-password"
    );
}

pub(crate) fn statements(declared: &Declared) {
    out!("-- revision {}", declared.revision());
    for statement in millrace_ddl::render::create_all(declared) {
        out!("{};\n", statement.sql());
    }
}

fn size(step: &Step) -> String {
    if step.rows == 0 {
        return String::new();
    }
    format!(", table holds {} rows, {:.1} MB", step.rows, step.bytes as f64 / 1e6)
}

fn step(endpoint: &Endpoint, step: &Step, verb: &str) {
    let Step { object, what, class, phase, loss, .. } = step;
    out!("{endpoint} {object}: {verb}{what} [{phase}, {class}{}]", size(step));
    if let Loss::Unagreed(name) = loss {
        out!("    only with --destroy {name}");
    }
}

fn blocked(endpoint: &Endpoint, blocked: &Blocked) {
    out!("{endpoint} {} (blocked: {})", blocked.drift, blocked.advice);
}

pub(crate) fn plan(endpoint: &Endpoint, plan: &Plan, lacked: Option<&Missing>) {
    for each in &plan.steps {
        step(endpoint, each, "");
        for line in each.statement.sql().lines() {
            out!("    {line}");
        }
    }
    plan.blocked.iter().for_each(|each| blocked(endpoint, each));
    if let Some(lacked) = lacked {
        out!("{endpoint} {lacked}");
    }
    if plan.is_empty() {
        out!("{endpoint} nothing to do");
    } else {
        out!("{endpoint} plan {}", plan.hash());
    }
}

/// A plan, and the privileges that are missing for it.
pub(crate) type Planned = (Plan, Option<Missing>);

pub(crate) fn plans_as_json(declared: &Declared, plans: &[(Endpoint, Planned)]) -> Result<()> {
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

pub(crate) fn drift(endpoint: &Endpoint, drift: &[Drift], severity: Severity) {
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

pub(crate) fn drift_as_json(declared: &Declared, found: &[(Endpoint, Vec<Drift>)]) -> Result<()> {
    let servers: Vec<_> = found
        .iter()
        .map(|(endpoint, drift)| json!({"endpoint": endpoint.to_string(), "differences": drift}))
        .collect();
    let all = json!({"revision": declared.revision(), "servers": servers});
    out!("{}", serde_json::to_string_pretty(&all)?);
    Ok(())
}

pub(crate) fn converged(declared: &Declared, converged: &Converged) {
    let Converged { applied, refused, blocked: in_the_way, drift: _, migrations, adopted, failed } =
        converged;
    for (endpoint, origin) in adopted {
        out!("{endpoint} tables made by {origin} were taken over as they are");
    }
    applied.iter().for_each(|(endpoint, each)| step(endpoint, each, "done: "));
    refused.iter().for_each(|(endpoint, each)| step(endpoint, each, "not allowed: "));
    in_the_way.iter().for_each(|(endpoint, each)| blocked(endpoint, each));
    for (endpoint, error) in failed {
        not_reached(endpoint, error);
    }
    for (endpoint, number) in migrations {
        out!("{endpoint} migration {number} is finished");
    }
    out!("revision {}: {} statements run", declared.revision(), applied.len());
}

/// Names given to --destroy that nothing answered to.
pub(crate) fn unmatched(name: &str) {
    eprintln!(
        "warning: --destroy {name}: nothing of that name is to go; misspelt, or gone already"
    );
}

pub(crate) fn reasons(reasons: &[Reason], json: bool) -> Result<()> {
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

/// What a server is, whose tables it has, and its journal.
pub(crate) type ServerStatus = (ServerFacts, Origin, Option<History>);

pub(crate) fn status(
    declared: &Declared,
    servers: &[(Endpoint, ServerStatus)],
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
            Some(history) => history.migrations.iter().for_each(migration),
        }
    }
    Ok(())
}

fn migration(migration: &Migration) {
    let Migration { number, phase, checksum, author, tool, done, statements, .. } = migration;
    let took = migration.duration_millis.map_or(String::new(), |millis| format!(" in {millis} ms"));
    out!(
        "  {number} {phase} {checksum} {} {done}/{} statements{took}, by {author} with {tool}",
        migration.standing,
        statements.len(),
    );
    if !migration.detail.is_empty() {
        out!("    {}", migration.detail);
    }
}

pub(crate) fn not_reached(endpoint: &Endpoint, error: &MigrateError) {
    eprintln!("{endpoint} failed: {error}");
}
