//! `xtask relabel`: random rules on random labels, applied by Prometheus' own package (a small Go
//! program in `e2e/relabel`, built from Go modules) and by ours, compared case by case.

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

/// Makes cases with Prometheus' answers, and compares.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = shell::root().join("target/relabel");
    fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
    let path = folder.join("cases.jsonl");
    let file = File::create(&path).with_context(|| format!("{} can't be made", path.display()))?;
    let (count, seed) = (options.count.to_string(), options.seed.to_string());
    say::line(&format!("{count} cases of seed {seed}"));
    let mut program = shell::command("go", &["run", ".", &count, &seed]);
    program.current_dir(shell::root().join("e2e/relabel")).stdout(file);
    shell::run_command(&mut program)?;
    let args = ["test", "--locked", "--package", "millrace-scrape", "--test", "relabel", "--"];
    let mut test = shell::command("cargo", &[&args[..], &["--nocapture"]].concat());
    shell::run_command(test.env("MILLRACE_RELABEL_CASES", &path))
}
