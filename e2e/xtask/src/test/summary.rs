//! What a run of tests says at its end: each phase's time and how busy the processors were, the
//! slowest tests, which tests failed and how each is run again, what was left out, and the counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

/// A test that the workspace has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    /// Its program, such as `millrace-wire` or `millrace-wire::integration`.
    pub(crate) program: String,
    /// Its path of modules and its name.
    pub(crate) name: String,
    /// Whether the selection has it.
    pub(crate) selected: bool,
}

/// Tests named as the slowest.
const SLOWEST: usize = 10;

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
}

/// A test that ran.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    /// Its program, such as `millrace-wire::integration`.
    pub(crate) program: String,
    pub(crate) name: String,
    pub(crate) seconds: f64,
    pub(crate) outcome: Outcome,
}

/// What has run so far.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    phases: Vec<Phase>,
    tests: Vec<Ran>,
    /// What failed that is no test of the runner.
    failures: Vec<String>,
}

#[derive(Debug)]
struct Phase {
    title: &'static str,
    used: Used,
    passed: bool,
}

/// How long something took, and how busy the machine's processors were in that time, from 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    took: Duration,
    busy: Option<f64>,
}

/// When something began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Began {
    at: Instant,
    ticks: Option<Ticks>,
}

/// What the kernel has counted since the machine started, over all processors.
#[derive(Debug, Clone, Copy)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Began {
    /// Now.
    pub(crate) fn now() -> Self {
        Self { at: Instant::now(), ticks: ticks(&kernel_counters()) }
    }

    /// What was used since.
    pub(crate) fn used(self) -> Used {
        let busy = self.ticks.zip(ticks(&kernel_counters())).map(|(began, now)| {
            let all = now.all.saturating_sub(began.all).max(1);
            1.0 - now.idle.saturating_sub(began.idle) as f64 / all as f64
        });
        Used { took: self.at.elapsed(), busy }
    }
}

/// Empty where the kernel has none.
fn kernel_counters() -> String {
    fs::read_to_string("/proc/stat").unwrap_or_default()
}

/// The line `cpu user nice system idle iowait irq ...`.
fn ticks(counters: &str) -> Option<Ticks> {
    let line = counters.lines().next()?.strip_prefix("cpu ")?;
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let idle = numbers.get(3)? + numbers.get(4)?;
    Some(Ticks { idle, all: numbers.iter().take(8).sum() })
}

impl Summary {
    /// Adds tests that ran. Whether all of them passed.
    pub(crate) fn add_tests(&mut self, ran: Vec<Ran>) -> bool {
        let passed = ran.iter().all(|one| one.outcome == Outcome::Passed);
        self.tests.extend(ran);
        passed
    }

    /// Adds what failed that is no test of the runner.
    pub(crate) fn add_failure(&mut self, failure: String) {
        self.failures.push(failure);
    }

    /// Adds what a phase used and whether it passed.
    pub(crate) fn add_phase(&mut self, title: &'static str, used: Used, passed: bool) {
        self.phases.push(Phase { title, used, passed });
    }

    /// Whether every phase passed.
    pub(crate) fn passed(&self) -> bool {
        self.phases.iter().all(|phase| phase.passed)
    }

    /// All lines but the counts. `tests` are those of the whole workspace.
    pub(crate) fn lines(&self, tests: &[Listed], elsewhere: &str) -> Vec<String> {
        let mut lines = self.table();
        lines.extend(self.slowest());
        lines.extend(self.failed());
        lines.extend(self.left_out(tests, elsewhere));
        lines
    }

    fn table(&self) -> Vec<String> {
        let mut lines = vec!["| phase | seconds | processors busy | result |".to_owned()];
        lines.push("| --- | ---: | ---: | --- |".to_owned());
        lines.extend(self.phases.iter().map(
            |Phase { title, used: Used { took, busy }, passed }| {
                let busy = busy.map_or_else(|| "?".into(), |busy| format!("{:.0} %", 100.0 * busy));
                let result = if *passed { "passed" } else { "FAILED" };
                format!("| {title} | {:.0} | {busy} | {result} |", took.as_secs_f64())
            },
        ));
        lines
    }

    fn slowest(&self) -> Vec<String> {
        let mut tests: Vec<&Ran> = self.tests.iter().collect();
        tests.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let mut lines = vec![format!("the {SLOWEST} slowest tests:")];
        let line = |one: &&Ran| format!("{:7.1} s  {} {}", one.seconds, one.program, one.name);
        lines.extend(tests.iter().take(SLOWEST).map(line));
        lines
    }

    /// Each failed test with the command that runs it alone, then what else failed.
    fn failed(&self) -> Vec<String> {
        let failed = self.tests.iter().filter(|one| one.outcome == Outcome::Failed);
        let line = |one: &Ran| {
            format!("FAILED {} {}; again: make test ONLY={}", one.program, one.name, one.name)
        };
        let others = self.failures.iter().map(|failure| format!("FAILED {failure}"));
        failed.map(line).chain(others).collect()
    }

    /// Tests that didn't run, counted by crate, and of the end-to-end tests by module.
    fn left_out(&self, tests: &[Listed], elsewhere: &str) -> Vec<String> {
        let mut groups: BTreeMap<String, usize> = BTreeMap::new();
        for test in self.not_run(tests) {
            let (module, _) = test.name.split_once("::").unwrap_or(("", &test.name));
            let program = test.program.split("::").next().unwrap_or_default();
            let group = match program {
                "millrace-e2e" => format!("{program} {module}"),
                _ => program.to_owned(),
            };
            *groups.entry(group).or_default() += 1;
        }
        if groups.is_empty() {
            return Vec::new();
        }
        let groups: Vec<String> =
            groups.iter().map(|(group, count)| format!("{group} {count}")).collect();
        vec![format!("not run here ({elsewhere}): {}", groups.join(", "))]
    }

    fn not_run<'a>(&self, tests: &'a [Listed]) -> Vec<&'a Listed> {
        let ran: BTreeSet<(&str, &str)> =
            self.tests.iter().map(|one| (&*one.program, &*one.name)).collect();
        tests.iter().filter(|test| !ran.contains(&(&*test.program, &*test.name))).collect()
    }

    /// The closing line.
    pub(crate) fn counts(&self, tests: &[Listed]) -> String {
        let failed = self.tests.iter().filter(|one| one.outcome == Outcome::Failed).count();
        let passed = self.tests.len() - failed;
        format!("{passed} passed, {failed} failed, {} skipped", self.not_run(tests).len())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Listed, Outcome, Ran, Summary, Used, ticks};

    fn ran(program: &str, name: &str, seconds: f64, outcome: Outcome) -> Ran {
        Ran { program: program.into(), name: name.into(), seconds, outcome }
    }

    fn listed(program: &str, name: &str) -> Listed {
        Listed { program: program.into(), name: name.into(), selected: true }
    }

    /// Scenario: a run with a failure, and tests of another tier. Guarantee: the slowest is named
    /// first, the failed one with its command, and those that didn't run are counted as skipped.
    #[test]
    fn the_end_says_what_ran_and_what_did_not() {
        let mut summary = Summary::default();
        let passed = summary.add_tests(vec![
            ran("millrace-wire", "json::a", 0.5, Outcome::Passed),
            ran("millrace-e2e::integration", "ingest::b", 12.4, Outcome::Failed),
        ]);
        assert!(!passed);
        summary.add_phase("tests", Used { took: Duration::from_secs(20), busy: Some(0.5) }, passed);
        summary.add_failure("chaos: freeze: it is slow".to_owned());
        let tests = [
            listed("millrace-wire", "json::a"),
            listed("millrace-e2e::integration", "ingest::b"),
            listed("millrace-e2e::integration", "cluster::c"),
            listed("millrace-e2e::integration", "cluster::d"),
        ];
        let lines = summary.lines(&tests, "make test-all");
        assert_eq!(lines[2], "| tests | 20 | 50 % | FAILED |");
        assert_eq!(lines[4], "   12.4 s  millrace-e2e::integration ingest::b");
        assert!(lines[6].ends_with("again: make test ONLY=ingest::b"), "{lines:?}");
        assert_eq!(lines[7], "FAILED chaos: freeze: it is slow");
        assert_eq!(lines[8], "not run here (make test-all): millrace-e2e cluster 2");
        assert_eq!(summary.counts(&tests), "1 passed, 1 failed, 2 skipped");
        assert!(!summary.passed());
    }

    /// Scenario: the kernel's counters, with lines of single processors behind the sum. Guarantee:
    /// waiting for a disk counts as idle, and guests' time isn't counted twice.
    #[test]
    fn the_kernels_counters_are_read() {
        let read = ticks("cpu  10 20 30 40 5 6 7 8 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n").unwrap();
        assert_eq!((read.idle, read.all), (45, 126));
        assert!(ticks("").is_none());
    }
}
