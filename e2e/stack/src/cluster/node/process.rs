//! A process known by its id and its start time, so that an id used again is never mistaken for it.
//!
//! Looked at through a `/proc`, the host's or the node's. It has no child handle: the stack's
//! processes outlive whoever started them.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::error::Result;
use crate::service::{io_error, write_file};

/// How often a process is looked at while it is waited for.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Set in a process' flags from the start of its end on (`PF_EXITING` in Linux' `sched.h`).
const EXITING: u32 = 0x4;
/// SIGKILL, the ninth, in a mask of signals.
const KILL_BIT: u64 = 1 << 8;
/// Lines of a log that an error quotes.
const TAIL_LINES: usize = 15;
/// Bytes read from the end of a log to find them; logs of weeks are long.
const TAIL_BYTES: usize = 16 * 1024;

/// A process as one `/proc` shows it.
#[derive(Debug, Clone)]
pub(super) struct Process {
    proc_folder: PathBuf,
    pid: u32,
    start_time: u64,
}

impl Process {
    /// The process that now has this id.
    pub(super) fn find(pid: u32, proc_folder: &Path) -> Option<Self> {
        let stat = Stat::read(pid, proc_folder)?;
        let start_time = stat.start_time;
        Some(Self { proc_folder: proc_folder.to_path_buf(), pid, start_time })
    }

    /// The process noted in a file.
    pub(super) fn read(file: &Path, proc_folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(file).ok()?;
        let (pid, start_time) = text.trim().split_once(' ')?;
        let (pid, start_time) = (pid.parse().ok()?, start_time.parse().ok()?);
        Some(Self { proc_folder: proc_folder.to_path_buf(), pid, start_time })
    }

    /// Notes it in a file that `read` understands.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        Ok(write_file(file, &format!("{} {}\n", self.pid, self.start_time))?)
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// A zombie does not count: it only waits for its parent.
    pub(super) fn is_alive(&self) -> bool {
        Stat::read(self.pid, &self.proc_folder)
            .is_some_and(|stat| stat.start_time == self.start_time && !stat.is_zombie())
    }

    /// Whether it has been killed or has begun to end. The first process of a namespace stays in
    /// that state until all others in it have ended, and can't be entered any more.
    pub(super) fn is_ending(&self) -> bool {
        let status = self.proc_folder.join(self.pid.to_string()).join("status");
        let status = fs::read_to_string(status).unwrap_or_default();
        let pending = |name: &str| {
            let mask = status.lines().find_map(|line| line.strip_prefix(name));
            mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
        };
        let is_killed = (pending("SigPnd:") | pending("ShdPnd:")) & KILL_BIT != 0;
        is_killed
            || Stat::read(self.pid, &self.proc_folder).is_some_and(|it| it.flags & EXITING != 0)
    }

    /// Whether its program is this file.
    pub(super) fn runs(&self, program: &Path) -> bool {
        let link = self.proc_folder.join(self.pid.to_string()).join("exe");
        let wanted = fs::canonicalize(program).unwrap_or_else(|_| program.to_path_buf());
        fs::read_link(link).is_ok_and(|found| found == wanted)
    }

    /// Waits until it has ended; says whether it did.
    pub(super) fn wait_end(&self, patience: Duration) -> bool {
        let began = Instant::now();
        while self.is_alive() {
            if began.elapsed() > patience {
                return false;
            }
            sleep(POLL_INTERVAL);
        }
        true
    }

    /// Kills it. Only for processes seen through the host's `/proc`: ids inside are not ours.
    pub(super) fn kill(&self) -> Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let killed = pid.map_or(Ok(()), |pid| kill_process(pid, Signal::KILL));
        match killed {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(io_error(format!("kill process {}", self.pid))(errno.into()).into()),
        }
    }
}

/// The processes whose parent is `parent`, in the host's `/proc`.
pub(super) fn children(parent: u32) -> Vec<u32> {
    let host = Path::new("/proc");
    let Ok(entries) = fs::read_dir(host) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| Stat::read(*pid, host).is_some_and(|stat| stat.parent == parent))
        .collect()
}

/// The end of a log, or nothing if it cannot be read.
pub(super) fn tail(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// The four fields of `/proc/<pid>/stat` that matter here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: u32,
    flags: u32,
    start_time: u64,
}

impl Stat {
    fn read(pid: u32, proc_folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(proc_folder.join(pid.to_string()).join("stat")).ok()?;
        Self::parse(&text)
    }

    /// The second field is the program's name in brackets and may hold anything, so fields are
    /// counted from the last bracket: state is the first after it, flags the seventh, start time the
    /// twentieth.
    fn parse(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            flags: fields.get(6)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }

    fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Process, Stat};

    /// A program may be called `a) R 7`: the fields after its name are still found.
    #[test]
    fn a_stat_line_with_brackets_in_the_name_is_read() {
        let line = "42 (a) R 7) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 0 0";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat, Stat { state: 'S', parent: 1, flags: 4_194_560, start_time: 98765 });
    }

    /// Scenario: a process is killed.
    /// Guarantee: it is ending, or has ended; before that it was neither.
    #[test]
    fn a_killed_process_is_ending() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::find(child.id(), Path::new("/proc")).unwrap();
        assert!(process.is_alive() && !process.is_ending());
        process.kill().unwrap();
        assert!(process.is_ending() || !process.is_alive());
        child.wait().unwrap();
    }

    /// An id that now belongs to a later process is not the one that was noted.
    #[test]
    fn an_id_used_again_is_not_the_same_process() {
        let proc_folder = Path::new("/proc");
        let mut process = Process::find(std::process::id(), proc_folder).unwrap();
        assert!(process.is_alive());
        process.start_time += 1;
        assert!(!process.is_alive());
    }
}
