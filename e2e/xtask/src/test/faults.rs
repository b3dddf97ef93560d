//! The phase of faults: those of the data path and those of ZooKeeper, side by side, since most of a
//! fault is waiting. Each prints a JSON line a fault; those with a broken promise are remembered for
//! the end of the run.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;

use super::summary::Summary;
use crate::faults::{chaos, keeper_faults};
use crate::say;

/// What is read of a fault's line.
#[derive(Debug, Deserialize)]
struct Judged {
    #[serde(alias = "strike")]
    fault: String,
    seed: u64,
    broken: Vec<String>,
}

/// Does the faults of each change.
pub(super) fn run(summary: &mut Summary) -> Result<()> {
    let ended = thread::scope(|scope| {
        let keeper =
            scope.spawn(|| strike("keeper-faults", "STRIKE", keeper_faults::of_each_change()));
        let chaos = strike("chaos", "FAULT", chaos::of_each_change());
        let keeper = keeper.join().unwrap_or_else(|_| Err(anyhow!("its thread panicked")));
        [("chaos", chaos), ("keeper-faults", keeper)]
    });
    let mut broken = Vec::new();
    for (target, outcome) in ended {
        let (has_passed, failures) = outcome.with_context(|| format!("make {target}"))?;
        if !has_passed {
            broken.push(target);
        }
        failures.into_iter().for_each(|failure| summary.add_failure(failure));
    }
    if !broken.is_empty() {
        bail!("a promise was broken in {}", broken.join(" and "));
    }
    Ok(())
}

/// Runs one program, its lines passed through: whether it passed, and a line for each fault that
/// broke a promise, or for the error that ended it.
fn strike(target: &str, variable: &str, mut command: Command) -> Result<(bool, Vec<String>)> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().context("it could not be started")?;
    let output = running.stdout.take().context("it has no output")?;
    let progress = running.stderr.take().context("it has no progress")?;
    let mut failures = Vec::new();
    let error = thread::scope(|scope| {
        let error = scope.spawn(|| pass_progress(progress));
        for line in BufReader::new(output).lines() {
            let line = line.context("cannot read its output")?;
            say::line(&line);
            failures.extend(failure(target, variable, &line));
        }
        error.join().map_err(|_| anyhow!("the thread that reads its progress panicked"))
    })?;
    failures.extend(error);
    Ok((running.wait().context("cannot wait for it")?.success(), failures))
}

/// Passes a program's progress through; its error, if one ended it.
fn pass_progress(progress: impl Read) -> Option<String> {
    let mut error = None;
    for line in BufReader::new(progress).lines().map_while(Result::ok) {
        say::progress_line(&line);
        if line.contains(": error: ") {
            error = Some(line);
        }
    }
    error
}

/// What the end of the run says of a fault's line, if a promise was broken.
fn failure(target: &str, variable: &str, line: &str) -> Option<String> {
    let Judged { fault, seed, broken } = serde_json::from_str(line).ok()?;
    let first = broken.first()?;
    // Strikes are numbered.
    let fault = fault.split('-').next().unwrap_or(&fault);
    Some(format!("{target}: {fault}: {first}; again: make {target} {variable}={fault} SEED={seed}"))
}

#[cfg(test)]
mod tests {
    use super::{failure, pass_progress};

    /// Scenario: a program that says what it does, and ends with an error.
    /// Guarantee: the error is what the end of the run says; progress alone says nothing.
    #[test]
    fn an_error_that_ended_a_program_is_a_failure() {
        let progress = "chaos: all up\nchaos: error: no world: out of disk\n";
        let error = pass_progress(progress.as_bytes());
        assert_eq!(error.as_deref(), Some("chaos: error: no world: out of disk"));
        assert_eq!(pass_progress("chaos: all up\n".as_bytes()), None);
    }

    /// Scenario: lines of a fault that kept its promises, of one that didn't, of sums, and text.
    /// Guarantee: only the broken promise is a failure, with what repeats it.
    #[test]
    fn a_broken_promise_is_said_with_its_seed() {
        let said = |line| failure("chaos", "FAULT", line);
        assert_eq!(said(r#"{"fault":"freeze","seed":7,"broken":[],"runs":2}"#), None);
        assert_eq!(said(r#"{"kept":5,"operations":14926,"seed":1}"#), None);
        assert_eq!(said("ordinary words"), None);
        assert_eq!(
            said(r#"{"fault":"freeze","seed":7,"broken":["it is slow","x"]}"#).as_deref(),
            Some("chaos: freeze: it is slow; again: make chaos FAULT=freeze SEED=7")
        );
    }
}
