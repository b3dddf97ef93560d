//! What `xtask test` says at its end: how many tests passed, how long each phase took, and which
//! files of tests were the slowest. Reads the runner's own lines and runs nothing.

use std::fs;
use std::time::{Duration, Instant};

/// Files of tests named as the slowest.
const SLOWEST: usize = 10;

/// What the runners counted and how long it took.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// The file whose tests run now, as cargo names it.
    running: String,
    files: Vec<(f64, String)>,
    phases: Vec<(Used, &'static str)>,
}

/// How long something took, and how busy the machine's processors were meanwhile, from 0 to 1.
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
        Self { at: Instant::now(), ticks: ticks(&counted()) }
    }

    /// What was used since.
    pub(crate) fn used(self) -> Used {
        let busy = self.ticks.zip(ticks(&counted())).map(|(began, now)| {
            let all = now.all.saturating_sub(began.all).max(1);
            1.0 - now.idle.saturating_sub(began.idle) as f64 / all as f64
        });
        Used { took: self.at.elapsed(), busy }
    }
}

/// The kernel's counters; empty where it has none.
fn counted() -> String {
    fs::read_to_string("/proc/stat").unwrap_or_default()
}

/// The line `cpu user nice system idle iowait irq ...`.
fn ticks(counted: &str) -> Option<Ticks> {
    let line = counted.lines().next()?.strip_prefix("cpu ")?;
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let idle = numbers.get(3)? + numbers.get(4)?;
    Some(Ticks { idle, all: numbers.iter().take(8).sum() })
}

impl Tally {
    /// Takes a line of cargo's or of the runner's: `Running tests/a.rs (target/debug/deps/a-12)`,
    /// then `test result: ok. 3 passed; 0 failed; 1 ignored; ...; finished in 0.52s`.
    pub(crate) fn add(&mut self, line: &str) {
        if let Some(file) = line.trim_start().strip_prefix("Running ") {
            self.running = name(file);
        }
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
        let seconds = result.rsplit("finished in ").next().and_then(|text| text.strip_suffix('s'));
        if let Some(seconds) = seconds.and_then(|text| text.parse().ok()) {
            self.files.push((seconds, std::mem::take(&mut self.running)));
        }
    }

    /// Notes what a phase used.
    pub(crate) fn phase(&mut self, title: &'static str, used: Used) {
        self.phases.push((used, title));
    }

    /// The phases in order, then the slowest files, a line each.
    pub(crate) fn times(&self) -> Vec<String> {
        let phase = |(Used { took, busy }, title): &(Used, _)| {
            let busy =
                busy.map_or_else(String::new, |busy| format!(" {:3.0} % busy", 100.0 * busy));
            format!("{:7.0} s {busy}  {title}", took.as_secs_f64())
        };
        let mut files: Vec<&(f64, String)> = self.files.iter().collect();
        files.sort_by(|a, b| b.0.total_cmp(&a.0));
        let file = |(seconds, name): &&(f64, String)| format!("{seconds:7.1} s  {name}");
        let mut lines: Vec<String> = self.phases.iter().map(phase).collect();
        lines.push(format!("the {SLOWEST} slowest files of tests, without their compilation:"));
        lines.extend(files.iter().take(SLOWEST).map(file));
        lines
    }

    /// The closing line.
    pub(crate) fn counts(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.ignored)
    }
}

/// `unittests src/lib.rs (target/debug/deps/millrace_wire-0f2)`: the binary's name says which crate
/// it is, the hash behind it nothing.
fn name(file: &str) -> String {
    let (source, binary) = file.split_once(" (").unwrap_or((file, ""));
    let binary = binary.trim_end_matches(')').rsplit('/').next().unwrap_or_default();
    let krate = binary.rsplit_once('-').map_or(binary, |(krate, _)| krate);
    format!("{krate} ({source})")
}

#[cfg(test)]
mod tests {
    use super::{Tally, Used, ticks};
    use std::time::Duration;

    /// Scenario: two closing lines and other output. Guarantee: only closing lines are counted.
    #[test]
    fn closing_lines_are_summed() {
        let mut tally = Tally::default();
        tally.add("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
        tally.add("running 7 tests");
        tally.add("test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!(tally.counts(), "5 passed, 4 failed, 1 skipped");
    }

    /// Scenario: two files of tests in one phase. Guarantee: the slower one is named first, by its
    /// crate and source.
    #[test]
    fn slow_files_are_named() {
        let mut tally = Tally::default();
        let closing = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        tally.add("     Running unittests src/lib.rs (target/debug/deps/millrace_wire-0f2)");
        tally.add(&format!("{closing}; finished in 0.52s"));
        tally.add("     Running tests/rows.rs (target/debug/deps/rows-17)");
        tally.add(&format!("{closing}; finished in 12.40s"));
        let used = Used { took: Duration::from_secs(20), busy: Some(0.5) };
        tally.phase("unit tests", used);
        let times = tally.times();
        assert_eq!(times[0], "     20 s   50 % busy  unit tests");
        assert_eq!(times[2], "   12.4 s  rows (tests/rows.rs)");
        assert_eq!(times[3], "    0.5 s  millrace_wire (unittests src/lib.rs)");
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
