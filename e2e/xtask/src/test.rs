//! `xtask test`: every layer in order, the cheap ones first. Test output passes through as it
//! comes; the last line sums up what the runners counted. A phase that fails ends the run.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use millrace_stack::Stack;

use crate::build::{self, Binaries};
use crate::{check, install, say, shell};

/// What the runners counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// Checks, unit tests, tests against a real broker and engine, tests on a real cluster.
pub(crate) fn run() -> Result<()> {
    let started = Instant::now();
    let mut tally = Tally::default();
    check::run()?;
    phase("unit, property and model tests", &started);
    let unit = ["--workspace", "--exclude", "millrace-e2e", "--exclude", "millrace-stack"];
    cargo_test(&unit, &[], &mut tally)?;
    phase("binaries and images", &started);
    build::images(Binaries::Built)?;
    phase("the stack's own tests: broker, engine front", &started);
    cargo_test(&["-p", "millrace-stack"], &["--test-threads=2"], &mut tally)?;
    phase("integration: real binaries, broker and engine", &started);
    for class in ["columns_", "ddl_", "loadgen_", "operator_", "ingest_"] {
        cargo_test(&suite(class)?, &["--test-threads=1"], &mut tally)?;
    }
    phase("cluster: a real Kubernetes", &started);
    cluster(&mut tally)?;
    say::step(&format!("all phases done in {:.0} s", started.elapsed().as_secs_f64()));
    say::line(&format!(
        "{} passed, {} failed, {} skipped",
        tally.passed, tally.failed, tally.ignored
    ));
    Ok(())
}

/// Cluster tests run on the local stack; one that wasn't up before is removed again.
fn cluster(tally: &mut Tally) -> Result<()> {
    let stack = Stack::open()?;
    let was_up = stack.status().is_up();
    stack.up(&say::progress())?;
    let loaded = build::load(&stack, Binaries::AsTheyAre)?;
    install::charts(&stack, &loaded)?;
    let outcome = cargo_test(&suite("cluster_")?, &["--test-threads=1"], tally);
    if !was_up {
        stack.down(&say::progress())?;
    }
    outcome
}

fn phase(name: &str, started: &Instant) {
    say::step(&format!("[{:.0} s] {name}", started.elapsed().as_secs_f64()));
}

/// The e2e test files of one class: the prefix of a file's name is its class.
fn suite(class: &str) -> Result<Vec<&'static str>> {
    let folder = shell::root().join("e2e/tests");
    let mut names = Vec::new();
    for entry in folder.read_dir().context("no e2e/tests")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(stem) = name.strip_suffix(".rs").filter(|stem| stem.starts_with(class)) {
            names.push(stem.to_owned());
        }
    }
    names.sort();
    if names.is_empty() {
        bail!("no test file of class {class} in {}", folder.display());
    }
    let mut args = vec!["-p", "millrace-e2e"];
    for name in names {
        args.extend(["--test", name.leak()]);
    }
    Ok(args)
}

fn cargo_test(select: &[&str], runner: &[&str], tally: &mut Tally) -> Result<()> {
    let mut args = vec!["test", "--locked"];
    args.extend(select);
    args.push("--");
    args.extend(runner);
    let mut child = shell::command("cargo", &args)
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo could not be started")?;
    let output = child.stdout.take().context("cargo has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line.context("cargo's output is no UTF-8")?;
        say::line(&line);
        tally.add(&line);
    }
    let status = child.wait().context("cargo did not end")?;
    if !status.success() {
        bail!("`cargo {}` failed ({status})", args.join(" "));
    }
    Ok(())
}

impl Tally {
    /// Takes the runner's own closing line: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let words: Vec<&str> = result.split([' ', ';']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let count = pair[0].parse::<u64>().unwrap_or(0);
            match pair[1] {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    /// Scenario: two closing lines and other output. Guarantee: only closing lines are counted.
    #[test]
    fn closing_lines_are_summed() {
        let mut tally = Tally::default();
        tally.add("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
        tally.add("running 7 tests");
        tally.add("test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!(tally, Tally { passed: 5, failed: 4, ignored: 1 });
    }
}
