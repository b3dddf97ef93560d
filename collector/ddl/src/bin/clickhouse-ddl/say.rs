//! All that is printed: results to standard output, trouble to standard error.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use anyhow::Result;
use millrace_ddl::{
    Blocked, ConvergeError, Converged, Declared, Drift, Endpoint, Plan, Severity, Step,
};
use serde_json::json;

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
    println!("-- revision {}", declared.revision());
    for statement in millrace_ddl::render::create_all(declared) {
        println!("{};\n", statement.sql());
    }
}

fn size(step: &Step) -> String {
    if step.rows == 0 {
        return String::new();
    }
    format!(", table holds {} rows, {:.1} MB", step.rows, step.bytes as f64 / 1e6)
}

fn step(endpoint: &Endpoint, step: &Step, verb: &str) {
    println!("{endpoint} {}: {verb}{} [{}{}]", step.object, step.what, step.class, size(step));
}

fn blocked(endpoint: &Endpoint, blocked: &Blocked) {
    println!("{endpoint} {} (blocked: {})", blocked.drift, blocked.advice);
}

pub(crate) fn plan(endpoint: &Endpoint, plan: &Plan) {
    for each in &plan.steps {
        step(endpoint, each, "");
        for line in each.statement.sql().lines() {
            println!("    {line}");
        }
    }
    plan.blocked.iter().for_each(|each| blocked(endpoint, each));
    if plan.is_empty() {
        println!("{endpoint} nothing to do");
    }
}

pub(crate) fn plans_as_json(declared: &Declared, plans: &[(Endpoint, Plan)]) -> Result<()> {
    let servers: Vec<_> = plans
        .iter()
        .map(|(endpoint, plan)| json!({"endpoint": endpoint.to_string(), "plan": plan}))
        .collect();
    let all = json!({"revision": declared.revision(), "servers": servers});
    println!("{}", serde_json::to_string_pretty(&all)?);
    Ok(())
}

pub(crate) fn drift(endpoint: &Endpoint, drift: &[Drift], severity: Severity) {
    let shown: Vec<_> = drift.iter().filter(|each| each.severity >= severity).collect();
    for each in &shown {
        let weight = match each.severity {
            Severity::Breaking => "breaking",
            Severity::Notice => "notice",
        };
        println!("{endpoint} {each} [{weight}]");
    }
    if shown.is_empty() {
        println!("{endpoint} no difference");
    }
}

pub(crate) fn drift_as_json(declared: &Declared, found: &[(Endpoint, Vec<Drift>)]) -> Result<()> {
    let servers: Vec<_> = found
        .iter()
        .map(|(endpoint, drift)| json!({"endpoint": endpoint.to_string(), "differences": drift}))
        .collect();
    let all = json!({"revision": declared.revision(), "servers": servers});
    println!("{}", serde_json::to_string_pretty(&all)?);
    Ok(())
}

pub(crate) fn converged(declared: &Declared, converged: &Converged) {
    let Converged { applied, refused, blocked: in_the_way, drift: _, failed } = converged;
    applied.iter().for_each(|(endpoint, each)| step(endpoint, each, "done: "));
    refused.iter().for_each(|(endpoint, each)| step(endpoint, each, "not allowed: "));
    in_the_way.iter().for_each(|(endpoint, each)| blocked(endpoint, each));
    for (endpoint, error) in failed {
        not_reached(endpoint, error);
    }
    println!("revision {}: {} statements run", declared.revision(), applied.len());
}

fn not_reached(endpoint: &Endpoint, error: &ConvergeError) {
    eprintln!("{endpoint} failed: {error}");
}
