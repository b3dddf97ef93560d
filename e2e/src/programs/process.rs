//! A program of ours under test: its output goes to a file, it can be stopped, killed, frozen and
//! started again, and it never outlives its guard.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::wait;

/// A running program.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Start `command`, its output appended to `log`. The kernel kills it when whoever started it
    /// dies.
    ///
    /// # Errors
    /// When the log can't be opened or the program can't be started.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let out = open_log(log)?;
        let err = out.try_clone().context("cannot share the log")?;
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(command.get_program())
            .args(command.get_args())
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(Stdio::from(out))
            .stderr(Stdio::from(err))
            .spawn()
            .with_context(|| format!("cannot start {name}: {command:?}"))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_path_buf() })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote so far.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// When the operating system can't say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("cannot ask after {}", self.name))
    }

    /// SIGKILL, and wait for the end.
    ///
    /// # Errors
    /// When it can't be signalled.
    pub fn kill9(&mut self) -> Result<()> {
        self.child.kill().with_context(|| format!("cannot kill {}", self.name))?;
        self.child.wait().map(drop).with_context(|| format!("cannot await {}", self.name))
    }

    /// SIGTERM, and wait up to `limit` for the end.
    ///
    /// # Errors
    /// When it doesn't end in time; the message carries the last lines of its output.
    pub fn terminate(&mut self, limit: Duration) -> Result<ExitStatus> {
        signal(self.pid(), "TERM")?;
        let name = self.name.clone();
        let ended = wait::until(&format!("{name} to end"), limit, || {
            self.child.try_wait()?.context("still running")
        });
        ended.with_context(|| format!("last output of {name}:\n{}", last_lines(&self.output(), 20)))
    }

    /// An error that carries the last lines of the output, when the program has ended early.
    ///
    /// # Errors
    /// When it has ended.
    pub fn still_runs(&mut self) -> Result<()> {
        if let Some(status) = self.ended()? {
            bail!("{} ended ({status}):\n{}", self.name, last_lines(&self.output(), 20));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Send a signal by name to a process this test started.
///
/// # Errors
/// When it can't be sent.
pub fn signal(pid: u32, name: &str) -> Result<()> {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status()?;
    if !status.success() {
        bail!("cannot send SIG{name} to process {pid}");
    }
    Ok(())
}

/// The last `count` lines of a text.
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

fn open_log(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.with_context(|| format!("cannot open {}", path.display()))
}
