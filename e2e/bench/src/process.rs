//! The program under test: started as a child, its CPU time and memory read from the kernel, and
//! ended with the harness however that ends.
//!
//! CPU time is user plus system time of all its threads, ended ones included, in ticks of 10 ms.

mod flame;
pub(crate) mod profile;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use millrace_e2e::process::last_lines;
use millrace_e2e::wait;
use rustix::process::{Pid, Signal, kill_process};

/// What one process has used so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// User plus system time, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Resident memory now, in bytes.
    pub(crate) rss_bytes: u64,
    /// Resident memory at its highest, in bytes.
    pub(crate) peak_bytes: u64,
}

/// Reads what a process has used.
pub(crate) fn usage(pid: u32) -> Result<Usage> {
    let read = |file: &str| {
        let path = format!("/proc/{pid}/{file}");
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
    };
    let (stat, status) = (read("stat")?, read("status")?);
    let ticks = cpu_ticks(&stat).with_context(|| format!("no times in: {stat}"))?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Usage {
        cpu_seconds: ticks as f64 / per_second as f64,
        rss_bytes: kib(&status, "VmRSS:").unwrap_or(0) * 1024,
        peak_bytes: kib(&status, "VmHWM:").unwrap_or(0) * 1024,
    })
}

/// User plus system time of the thread that has used most, in seconds; ended ones don't count.
pub(crate) fn busiest_thread(pid: u32) -> Result<f64> {
    let mut most = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).context("no threads")? {
        // A thread may end meanwhile.
        let stat = fs::read_to_string(task?.path().join("stat")).unwrap_or_default();
        most = most.max(cpu_ticks(&stat).unwrap_or(0));
    }
    Ok(most as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// `utime` and `stime`: the 12th and 13th fields after the command, which may hold anything and
/// ends with the last bracket.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

fn kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A running program.
#[derive(Debug)]
pub(crate) struct Subject {
    name: String,
    child: Child,
    log: PathBuf,
    started: Instant,
}

impl Subject {
    /// Starts `program`, its output written to `log`. The kernel kills it when the harness dies.
    pub(crate) fn start(
        name: &str,
        program: &Path,
        arguments: &[String],
        variables: &[(&str, &str)],
        log: &Path,
    ) -> Result<Self> {
        let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("cannot start {name} ({})", program.display()))?;
        let (name, log) = (name.to_owned(), log.to_owned());
        Ok(Self { name, child, log, started: Instant::now() })
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// When it was started.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// What it has used so far; an error with its last words when it has ended.
    pub(crate) fn usage(&mut self) -> Result<Usage> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended ({status}):\n{}", self.name, self.last_words());
        }
        usage(self.pid())
    }

    /// Lets its highest memory begin anew, from what it has now.
    pub(crate) fn forget_peak(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.pid());
        // What stands for that in the kernel's manual.
        fs::write(&path, "5").with_context(|| format!("cannot write {path}"))
    }

    /// Whether it has ended, well or not.
    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// The end of its log.
    pub(crate) fn last_words(&self) -> String {
        last_lines(&fs::read_to_string(&self.log).unwrap_or_default(), 15)
    }

    /// Asks it to end and waits, up to `limit`; then it is killed.
    pub(crate) fn stop(mut self, limit: Duration) -> Result<()> {
        signal(self.pid(), Signal::TERM)?;
        let ended = wait::until(&format!("{} to end", self.name), limit, || {
            self.child.try_wait()?.context("still running")
        });
        ended.map(drop)
    }

    /// Waits up to `limit` for it to end by itself; an error with its last words when it fails.
    pub(crate) fn finish(mut self, limit: Duration) -> Result<()> {
        let status = wait::until(&format!("{} to end", self.name), limit, || {
            self.child.try_wait()?.context("still running")
        })?;
        if !status.success() {
            bail!("{} failed ({status}):\n{}", self.name, self.last_words());
        }
        Ok(())
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Sends a signal to a process this harness started.
pub(crate) fn signal(pid: u32, signal: Signal) -> Result<()> {
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw).context("not a process id")?;
    kill_process(id, signal).with_context(|| format!("cannot signal process {pid}"))
}

#[cfg(test)]
mod tests {
    use super::{cpu_ticks, usage};

    /// Scenario: a command with brackets and spaces in its name. Guarantee: the times are found
    /// all the same.
    #[test]
    fn cpu_times_are_found_behind_any_name() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194560 100 0 0 0 31 11 0 0 20 0 1 0";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(cpu_ticks("7 (x) S 1 7"), None);
    }

    /// Scenario: this very process. Guarantee: it has memory, and its peak is no less.
    #[test]
    fn a_living_process_has_memory() {
        let usage = usage(std::process::id()).unwrap();
        assert!(usage.rss_bytes > 0 && usage.peak_bytes >= usage.rss_bytes, "{usage:?}");
    }
}
