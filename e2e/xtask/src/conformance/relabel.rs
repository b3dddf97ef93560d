//! `xtask relabel` and `xtask parse`: random rules on random labels, and bodies of the text formats
//! changed at random, read by Prometheus' own packages and by ours. `xtask ottl`: random statements
//! on random records, run by the OpenTelemetry Collector's own processors and by ours. Small Go
//! programs, built from Go modules, make the cases; a test of ours compares them one by one.

use std::fs::{self, File};

use anyhow::{Context, Result};

use crate::{say, shell};

/// How much is compared.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many cases.
    #[arg(long, default_value_t = 100_000)]
    count: u64,
    /// The same cases again.
    #[arg(long, default_value_t = 1)]
    seed: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self { count: 100_000, seed: 1 }
    }
}

/// What is compared.
#[derive(Debug)]
pub(crate) struct Subject {
    /// The folder of its Go module.
    module: &'static str,
    /// Its Go program, in that folder.
    program: &'static str,
    /// The package with its test.
    package: &'static str,
    /// Its test, a module of the package's `tests/main.rs`.
    test: &'static str,
    /// Names the cases' file for the test.
    variable: &'static str,
}

/// Rules for labels.
pub(crate) const RULES: Subject = Subject {
    module: "e2e/relabel",
    program: ".",
    package: "millrace-scrape",
    test: "relabel",
    variable: "MILLRACE_RELABEL_CASES",
};

/// Bodies of the text formats.
pub(crate) const BODIES: Subject = Subject {
    module: "e2e/relabel",
    program: "./parse",
    package: "millrace-scrape",
    test: "parse",
    variable: "MILLRACE_PARSE_CASES",
};

/// Statements and conditions of processing.
pub(crate) const STATEMENTS: Subject = Subject {
    module: "e2e/ottl",
    program: ".",
    package: "millrace-processing",
    test: "collector",
    variable: "MILLRACE_OTTL_CASES",
};

/// Makes cases with the answers of the other program, and compares.
pub(crate) fn run(subject: &Subject, options: &Options) -> Result<()> {
    let folder = shell::root().join("target").join(subject.test);
    fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
    let path = folder.join("cases.jsonl");
    let file = File::create(&path).with_context(|| format!("{} can't be made", path.display()))?;
    let (count, seed) = (options.count.to_string(), options.seed.to_string());
    say::line(&format!("{count} cases of seed {seed}"));
    let mut program = shell::command("go", &["run", subject.program, &count, &seed]);
    program.current_dir(shell::root().join(subject.module)).stdout(file);
    shell::run_command(&mut program)?;
    let filter = format!("{}::", subject.test);
    let package = subject.package;
    let args = ["test", "--locked", "--package", package, "--test", "integration", "--"];
    let mut test = shell::command("cargo", &[&args[..], &["--nocapture", &filter]].concat());
    shell::run_command(test.env(subject.variable, &path))
}
