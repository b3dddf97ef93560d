//! `process_*`: the kernel's figures of this process under the names that all Prometheus clients
//! use, and its build.
//!
//! The `process` feature of `prometheus` counts processor time in whole seconds, but the operator
//! sizes pools by a few seconds' use. Each scrape reads four small files and the list of open files
//! in `/proc`; without `/proc` the figures stay at 0.

use std::fs;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, IntGauge, IntGaugeVec, Opts, Registry};

/// The ticks per second in `/proc/self/stat`: fixed at 100 for all programs on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The commit of this build, if the build set it (`MILLRACE_COMMIT`).
pub const COMMIT: &str = match option_env!("MILLRACE_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Registers `process_*`.
///
/// # Errors
/// If one of the names is in use.
pub fn register_metrics(registry: &Registry) -> prometheus::Result<()> {
    registry.register(Box::new(Process::new()?))
}

/// The running build.
#[derive(Clone, Copy, Debug)]
pub struct BuildInfo<'a> {
    /// The version, as in image tags.
    pub version: &'a str,
    /// The compiled-in memory allocator.
    pub allocator: &'a str,
}

impl BuildInfo<'_> {
    /// Registers a gauge that is always 1, with version, commit and allocator as labels.
    ///
    /// # Errors
    /// If the name is in use.
    pub fn register(self, registry: &Registry, name: &str, help: &str) -> prometheus::Result<()> {
        let labels = &["version", "commit", "allocator"];
        let build = IntGaugeVec::new(Opts::new(name, help), labels)?;
        build.with_label_values(&[self.version, COMMIT, self.allocator]).set(1);
        registry.register(Box::new(build))
    }
}

/// The process's figures, read at each collection.
struct Process {
    cpu_seconds: Counter,
    resident_bytes: IntGauge,
    virtual_bytes: IntGauge,
    open_files: IntGauge,
    open_files_max: IntGauge,
    threads: IntGauge,
    began: IntGauge,
}

impl Process {
    fn new() -> prometheus::Result<Self> {
        let gauge = IntGauge::new;
        let process = Self {
            cpu_seconds: Counter::new(
                "process_cpu_seconds_total",
                "User and system CPU time of the process in seconds.",
            )?,
            resident_bytes: gauge(
                "process_resident_memory_bytes",
                "Resident memory of the process in bytes.",
            )?,
            virtual_bytes: gauge(
                "process_virtual_memory_bytes",
                "Virtual memory of the process in bytes.",
            )?,
            open_files: gauge(
                "process_open_fds",
                "Open file descriptors of the process, including sockets.",
            )?,
            open_files_max: gauge(
                "process_max_fds",
                "Limit of open file descriptors; -1 without a limit.",
            )?,
            threads: gauge("process_threads", "Threads of the process.")?,
            began: gauge(
                "process_start_time_seconds",
                "Start time of the process in seconds since 1970.",
            )?,
        };
        // Read once: the kernel's own answer changes with the machine's clock.
        let (stat, machine) = (read_file("/proc/self/stat"), read_file("/proc/stat"));
        set_gauge(&process.began, start_seconds(&stat, &machine));
        Ok(process)
    }

    fn refresh(&self) {
        let (stat, status) = (read_file("/proc/self/stat"), read_file("/proc/self/status"));
        let used = cpu_seconds(&stat).unwrap_or(0.0);
        self.cpu_seconds.inc_by((used - self.cpu_seconds.get()).max(0.0));
        set_gauge(&self.resident_bytes, parse_bytes(&status, "VmRSS:"));
        set_gauge(&self.virtual_bytes, parse_bytes(&status, "VmSize:"));
        set_gauge(&self.threads, parse_number(&status, "Threads:"));
        set_gauge(&self.open_files_max, files_max(&read_file("/proc/self/limits")));
        // The open list itself counts while it is read.
        let open = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
        set_gauge(
            &self.open_files,
            open.and_then(|open| i64::try_from(open).ok()).map(|open| open - 1),
        );
    }

    fn collectors(&self) -> [&dyn Collector; 7] {
        [
            &self.cpu_seconds,
            &self.resident_bytes,
            &self.virtual_bytes,
            &self.open_files,
            &self.open_files_max,
            &self.threads,
            &self.began,
        ]
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.collectors().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.refresh();
        self.collectors().into_iter().flat_map(Collector::collect).collect()
    }
}

fn read_file(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn set_gauge(gauge: &IntGauge, value: Option<i64>) {
    if let Some(value) = value {
        gauge.set(value);
    }
}

/// Returns the start time: field 22, in ticks since the machine's boot, plus the boot time, the
/// line `btime` of the other file.
fn start_seconds(stat: &str, machine: &str) -> Option<i64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: f64 = rest.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let began = machine.lines().find_map(|line| line.strip_prefix("btime "))?;
    let began: i64 = began.trim().parse().ok()?;
    // The cast saturates, and a NaN becomes 0.
    Some(began + (ticks / TICKS_PER_SECOND) as i64)
}

/// Sums fields 14 and 15. The second field is the program's name in parentheses and may contain
/// blanks, so counting starts behind its last parenthesis.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

/// Parses `VmRSS: 1234 kB`, which is in kibibytes.
fn parse_bytes(status: &str, name: &str) -> Option<i64> {
    parse_number(status, name).map(|kibibytes| kibibytes.saturating_mul(1024))
}

/// Parses the first number behind a name at the beginning of a line.
fn parse_number(status: &str, name: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Parses `Max open files  1024  524288  files`: the current limit, and the one to which the
/// process may raise it.
fn files_max(limits: &str) -> Option<i64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(-1),
        limit => limit.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a program's name contains blanks and parentheses. Guarantee: the fields are right.
    #[test]
    fn a_hostile_program_name_does_not_shift_the_fields() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        let status = "VmHWM: 9 kB\nVmRSS:\t  12 kB\nThreads:\t7\n";
        assert_eq!(parse_bytes(status, "VmRSS:"), Some(12 * 1024));
        assert_eq!(parse_number(status, "Threads:"), Some(7));
    }

    /// Scenario: a limit of open files, and none. Guarantee: the current limit, or -1.
    #[test]
    fn the_limit_of_open_files_is_the_one_that_holds() {
        let limits = |soft| format!("Max cpu time  1 2 s\nMax open files  {soft}  4096  files\n");
        assert_eq!(files_max(&limits("1024")), Some(1024));
        assert_eq!(files_max(&limits("unlimited")), Some(-1));
    }

    /// Scenario: a process began 250 s after its machine. Guarantee: the sum of both times; nothing
    /// if the kernel doesn't give one of them.
    #[test]
    fn a_process_knows_when_it_began() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 9 0 25099 1 1";
        let machine = "cpu 1 2\nbtime 1790000000\nprocesses 7\n";
        assert_eq!(start_seconds(stat, machine), Some(1_790_000_250));
        assert_eq!(start_seconds(stat, "cpu 1 2\n"), None);
    }

    /// Scenario: this process opens files and reads its metrics. Guarantee: all seven names exist
    /// with plausible figures, and the opened files count.
    #[test]
    fn this_process_says_what_it_uses() {
        let registry = Registry::new();
        register_metrics(&registry).unwrap();
        let of = |name: &str| {
            let families = registry.gather();
            let family = families.iter().find(|family| family.name() == name).unwrap();
            let metric = &family.get_metric()[0];
            metric.get_gauge().get_value() + metric.get_counter().get_value()
        };
        let before = of("process_open_fds");
        let files: Vec<_> = (0..5).map(|_| fs::File::open("/proc/self/stat").unwrap()).collect();
        // Other tests of this program open and close files at the same time.
        assert!(before >= 3.0 && of("process_open_fds") > 3.0);
        assert!(of("process_max_fds") >= files.len() as f64);
        assert!(of("process_virtual_memory_bytes") > of("process_resident_memory_bytes"));
        assert!(of("process_resident_memory_bytes") > 100_000.0);
        assert!(of("process_threads") >= 1.0);
        assert!(of("process_start_time_seconds") > 1_700_000_000.0);
        assert!(of("process_cpu_seconds_total") >= 0.0);
    }
}
