//! `xtask relabel` and `xtask parse`: random rules on random labels, and bodies of the text formats
//! changed at random, read by Prometheus' own packages (small Go programs in `e2e/relabel`, built
//! from Go modules) and by ours, compared case by case.

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
    /// Its Go program, in `e2e/relabel`.
    program: &'static str,
    /// Its test, in `collector/scrape/tests`.
    test: &'static str,
    /// Names the cases' file for the test.
    variable: &'static str,
}

/// Rules for labels.
pub(crate) const RULES: Subject =
    Subject { program: ".", test: "relabel", variable: "MILLRACE_RELABEL_CASES" };

/// Bodies of the text formats.
pub(crate) const BODIES: Subject =
    Subject { program: "./parse", test: "parse", variable: "MILLRACE_PARSE_CASES" };

/// Makes cases with Prometheus' answers, and compares.
pub(crate) fn run(subject: &Subject, options: &Options) -> Result<()> {
    let folder = shell::root().join("target").join(subject.test);
    fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
    let path = folder.join("cases.jsonl");
    let file = File::create(&path).with_context(|| format!("{} can't be made", path.display()))?;
    let (count, seed) = (options.count.to_string(), options.seed.to_string());
    say::line(&format!("{count} cases of seed {seed}"));
    let mut program = shell::command("go", &["run", subject.program, &count, &seed]);
    program.current_dir(shell::root().join("e2e/relabel")).stdout(file);
    shell::run_command(&mut program)?;
    let args = ["test", "--locked", "--package", "millrace-scrape", "--test", subject.test, "--"];
    let mut test = shell::command("cargo", &[&args[..], &["--nocapture"]].concat());
    shell::run_command(test.env(subject.variable, &path))
}
