//! `xtask nightly`: what takes longer than a change should wait for, one step after the other. A
//! step that fails does not end the run; the last lines are a table of all of them, in the form in
//! which docs/internals/faults.md keeps results.
//!
//! Rule: a test of more than 30 s that no change needs at once belongs here, not in `xtask test-all`.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::{say, shell};

/// Which steps run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only steps whose name contains this.
    #[arg(long)]
    only: Option<String>,
}

/// A step: its name, and the program that does it.
struct Step {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

/// The steps, those that need no stack first.
const STEPS: [Step; 19] = [
    Step { name: "gateway simulation", program: "make", arguments: &["seeds", "SEEDS=20000"] },
    Step {
        name: "operator simulation",
        program: "make",
        arguments: &["sim-operator", "SEEDS=1000"],
    },
    // A million actions.
    Step { name: "files simulation", program: "make", arguments: &["sim-files", "SEEDS=4000"] },
    Step {
        name: "declarations of tables",
        program: "env",
        arguments: &[
            "MILLRACE_SEEDS=5000",
            "make",
            "test",
            "ONLY=every_statement_of_every_option_parses",
        ],
    },
    Step {
        name: "properties",
        program: "env",
        arguments: &[
            "PROPTEST_CASES=4000",
            "cargo",
            "test",
            "--locked",
            "-p",
            "millrace-convert",
            "-p",
            "millrace-shares",
            "-p",
            "millrace-share-documents",
        ],
    },
    // Ten million texts with planted secrets, and a million requests.
    Step {
        name: "redaction of texts",
        program: "env",
        arguments: &[
            "PROPTEST_CASES=10000000",
            "cargo",
            "test",
            "--locked",
            "--release",
            "-p",
            "millrace-processing",
            "redact::properties::no_planted_secret",
        ],
    },
    Step {
        name: "redaction of requests",
        program: "env",
        arguments: &[
            "PROPTEST_CASES=1000000",
            "cargo",
            "test",
            "--locked",
            "--release",
            "-p",
            "millrace-processing",
            "step_properties::no_planted_secret",
        ],
    },
    Step { name: "fuzz targets", program: "make", arguments: &["fuzz"] },
    Step { name: "release", program: "make", arguments: &["release"] },
    Step { name: "conformance", program: "make", arguments: &["conformance"] },
    Step {
        name: "10,000 topics",
        program: "cargo",
        arguments: &[
            "test",
            "--locked",
            "-p",
            "millrace-e2e",
            "--test",
            "integration",
            "ten_thousand",
            "--",
            "--ignored",
        ],
    },
    Step { name: "sizes in a cluster", program: "cargo", arguments: &["xtask", "cluster-nightly"] },
    Step {
        name: "ZooKeeper under faults",
        program: "make",
        arguments: &["keeper-faults", "RUNS=10"],
    },
    Step { name: "commands of pages", program: "cargo", arguments: &["xtask", "pages"] },
    Step { name: "Argo CD", program: "make", arguments: &["argocd"] },
    Step { name: "upgrades", program: "make", arguments: &["upgrades"] },
    Step { name: "faults", program: "make", arguments: &["chaos", "BUDGET=nightly"] },
    Step { name: "benchmarks", program: "make", arguments: &["bench"] },
    // With the programs that the benchmarks have built.
    Step {
        name: "memory of a gateway and an edge",
        program: "make",
        arguments: &["test", "ONLY=benchmarks_run_and_memory_stays_within_its_aims"],
    },
];

struct Done {
    name: &'static str,
    took: Duration,
    passed: bool,
}

/// Runs them, and fails at the end if one failed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let only = options.only.as_deref().unwrap_or_default();
    let chosen: Vec<&Step> = STEPS.iter().filter(|step| step.name.contains(only)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        bail!("no step is called {only:?}; there are: {}", names.join(", "));
    }
    let mut done = Vec::new();
    for (place, Step { name, program, arguments }) in chosen.iter().enumerate() {
        say::step(&format!("{} of {}: {name}", place + 1, chosen.len()));
        let began = Instant::now();
        let outcome = shell::run(program, arguments);
        if let Err(error) = &outcome {
            say::error(&format!("{error:#}"));
        }
        done.push(Done { name, took: began.elapsed(), passed: outcome.is_ok() });
    }
    table(&done).iter().for_each(|line| say::line(line));
    let failed = done.iter().filter(|one| !one.passed).count();
    if failed > 0 {
        bail!("{failed} of {} steps failed; their output is above", done.len());
    }
    Ok(())
}

fn table(done: &[Done]) -> Vec<String> {
    let mut lines =
        vec!["| step | result | seconds |".to_owned(), "| --- | --- | ---: |".to_owned()];
    lines.extend(done.iter().map(|Done { name, took, passed }| {
        let result = if *passed { "passed" } else { "FAILED" };
        format!("| {name} | {result} | {:.0} |", took.as_secs_f64())
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::{Done, Duration, Options, run, table};

    /// Scenario: one step passed, one failed. Guarantee: the table says which.
    #[test]
    fn a_failed_step_stands_in_the_table() {
        let done = [
            Done { name: "a", took: Duration::from_secs(61), passed: true },
            Done { name: "b", took: Duration::from_secs(2), passed: false },
        ];
        assert_eq!(table(&done)[2..], ["| a | passed | 61 |", "| b | FAILED | 2 |"]);
    }

    /// Scenario: a name that no step has. Guarantee: nothing runs, and the names are told.
    #[test]
    fn a_step_that_is_not_there_is_refused() {
        let refused = run(&Options { only: Some("nothing of the kind".into()) }).unwrap_err();
        assert!(refused.to_string().contains("gateway simulation"), "{refused}");
    }
}
