//! `process_*`: what the kernel counts of this process, under the names that all Prometheus clients
//! use, and which build it is.
//!
//! Not the `process` feature of `prometheus`: it counts processor time in whole seconds, and the
//! operator sizes pools by what they used in a few. Each scrape reads four small files and the list
//! of open files in `/proc`; where there is no `/proc`, the figures stay at 0.

use std::fs;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, IntGauge, IntGaugeVec, Opts, Registry};

/// The unit of times in `/proc/self/stat`, per second: fixed at 100 for all programs on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The commit that this was built from, where the build said it (`MILLRACE_COMMIT`).
pub const COMMIT: &str = match option_env!("MILLRACE_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Registers `process_*`.
///
/// # Errors
/// When one of the names is taken.
pub fn register(registry: &Registry) -> prometheus::Result<()> {
    registry.register(Box::new(Process::new()?))
}

/// What runs.
#[derive(Clone, Copy, Debug)]
pub struct BuildInfo<'a> {
    /// The version, as in image tags.
    pub version: &'a str,
    /// The memory allocator that is compiled in.
    pub allocator: &'a str,
}

impl BuildInfo<'_> {
    /// Registers a gauge that is always 1, with version, commit and allocator as labels.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn register(self, registry: &Registry, name: &str, help: &str) -> prometheus::Result<()> {
        let labels = &["version", "commit", "allocator"];
        let build = IntGaugeVec::new(Opts::new(name, help), labels)?;
        build.with_label_values(&[self.version, COMMIT, self.allocator]).set(1);
        registry.register(Box::new(build))
    }
}

/// The process's figures, read anew when they are asked for.
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
                "Processor time of the process, user and system.",
            )?,
            resident_bytes: gauge(
                "process_resident_memory_bytes",
                "Resident memory of the process.",
            )?,
            virtual_bytes: gauge("process_virtual_memory_bytes", "Virtual memory of the process.")?,
            open_files: gauge("process_open_fds", "Open files, sockets among them.")?,
            open_files_max: gauge(
                "process_max_fds",
                "Open files that the process may have; -1 without a limit.",
            )?,
            threads: gauge("process_threads", "Threads of the process.")?,
            began: gauge(
                "process_start_time_seconds",
                "When the process began, in seconds since 1970.",
            )?,
        };
        // Once: the kernel's own answer moves with the machine's clock.
        let (stat, machine) = (read("/proc/self/stat"), read("/proc/stat"));
        set(&process.began, start_seconds(&stat, &machine));
        Ok(process)
    }

    fn look(&self) {
        let (stat, status) = (read("/proc/self/stat"), read("/proc/self/status"));
        let used = cpu_seconds(&stat).unwrap_or(0.0);
        self.cpu_seconds.inc_by((used - self.cpu_seconds.get()).max(0.0));
        set(&self.resident_bytes, bytes(&status, "VmRSS:"));
        set(&self.virtual_bytes, bytes(&status, "VmSize:"));
        set(&self.threads, number(&status, "Threads:"));
        set(&self.open_files_max, files_max(&read("/proc/self/limits")));
        // The list itself is one of them while it is read.
        let open = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
        set(&self.open_files, open.and_then(|open| i64::try_from(open).ok()).map(|open| open - 1));
    }

    fn all(&self) -> [&dyn Collector; 7] {
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
        self.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.look();
        self.all().into_iter().flat_map(Collector::collect).collect()
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn set(gauge: &IntGauge, value: Option<i64>) {
    if let Some(value) = value {
        gauge.set(value);
    }
}

/// Field 22, in ticks since the machine began, which is the line `btime` of the other file.
fn start_seconds(stat: &str, machine: &str) -> Option<i64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: f64 = rest.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let began = machine.lines().find_map(|line| line.strip_prefix("btime "))?;
    let began: i64 = began.trim().parse().ok()?;
    // The cast saturates, and a NaN becomes 0.
    Some(began + (ticks / TICKS_PER_SECOND) as i64)
}

/// Fields 14 and 15. The second field is the program's name in parentheses and may hold blanks, so
/// counting starts behind its last parenthesis.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

/// `VmRSS: 1234 kB`, which is in kibibytes.
fn bytes(status: &str, name: &str) -> Option<i64> {
    number(status, name).map(|kibibytes| kibibytes.saturating_mul(1024))
}

/// The first number behind a name at the beginning of a line.
fn number(status: &str, name: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// `Max open files  1024  524288  files`: what holds now, and what the process may raise it to.
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

    /// Scenario: a program's name with blanks and parentheses. Guarantee: the right fields.
    #[test]
    fn a_hostile_program_name_does_not_shift_the_fields() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        let status = "VmHWM: 9 kB\nVmRSS:\t  12 kB\nThreads:\t7\n";
        assert_eq!(bytes(status, "VmRSS:"), Some(12 * 1024));
        assert_eq!(number(status, "Threads:"), Some(7));
    }

    /// Scenario: a limit of open files, and none. Guarantee: the one that holds, or -1.
    #[test]
    fn the_limit_of_open_files_is_the_one_that_holds() {
        let limits = |soft| format!("Max cpu time  1 2 s\nMax open files  {soft}  4096  files\n");
        assert_eq!(files_max(&limits("1024")), Some(1024));
        assert_eq!(files_max(&limits("unlimited")), Some(-1));
    }

    /// Scenario: a process that began 250 s after its machine. Guarantee: the sum of both times;
    /// nothing where the kernel doesn't give one of them.
    #[test]
    fn a_process_knows_when_it_began() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 9 0 25099 1 1";
        let machine = "cpu 1 2\nbtime 1790000000\nprocesses 7\n";
        assert_eq!(start_seconds(stat, machine), Some(1_790_000_250));
        assert_eq!(start_seconds(stat, "cpu 1 2\n"), None);
    }

    /// Scenario: this process opens files and is asked. Guarantee: all seven names, each with a
    /// figure that can be right, and the files it opened among those it has open.
    #[test]
    fn this_process_says_what_it_uses() {
        let registry = Registry::new();
        register(&registry).unwrap();
        let of = |name: &str| {
            let families = registry.gather();
            let family = families.iter().find(|family| family.name() == name).unwrap();
            let metric = &family.get_metric()[0];
            metric.get_gauge().get_value() + metric.get_counter().get_value()
        };
        let before = of("process_open_fds");
        let files: Vec<_> = (0..5).map(|_| fs::File::open("/proc/self/stat").unwrap()).collect();
        // Other tests of this program open and close files meanwhile.
        assert!(before >= 3.0 && of("process_open_fds") > 3.0);
        assert!(of("process_max_fds") >= files.len() as f64);
        assert!(of("process_virtual_memory_bytes") > of("process_resident_memory_bytes"));
        assert!(of("process_resident_memory_bytes") > 100_000.0);
        assert!(of("process_threads") >= 1.0);
        assert!(of("process_start_time_seconds") > 1_700_000_000.0);
        assert!(of("process_cpu_seconds_total") >= 0.0);
    }
}
