//! A server process that a test or the stack owns: start it, wait until it serves, stop it, kill
//! it.
//!
//! Each process gets a small guard beside it, which ends the process (and removes its scratch
//! folder) if the owner dies without saying so: a test that was killed leaves nothing behind.
//!
//! It blocks; there is no async here. A log file is kept whole: these processes are short-lived and
//! say little.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::files::last_lines;
use super::{Result, ServiceError, io_error};

/// How often a process is asked whether it serves yet, or has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The guard: waits for its input to close, then ends process $1 and removes folder $2.
const GUARD_SCRIPT: &str = r#"
cat >/dev/null
kill -TERM "$1" 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" 2>/dev/null || break; sleep 0.5; done
kill -KILL "$1" 2>/dev/null
[ -z "$2" ] || rm -rf -- "$2"
"#;

/// A running server process and its guard. Dropping it stops the process.
#[derive(Debug)]
pub struct Service {
    name: &'static str,
    log: PathBuf,
    child: Child,
    guard: Child,
    grace: Duration,
    ended: bool,
    /// Nobody reads what it leaves.
    is_scratch: bool,
}

impl Service {
    /// Starts `command` with its output appended to `log`. `scratch` is a folder the guard removes
    /// if the owner dies; `grace` is what the process gets between being asked and being killed.
    ///
    /// # Errors
    /// The program can't be started, or its log can't be opened.
    pub fn spawn(
        name: &'static str,
        mut command: Command,
        log: PathBuf,
        scratch: Option<&Path>,
        grace: Duration,
    ) -> Result<Self> {
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(io_error(format!("open {}", log.display())))?;
        let errors = output.try_clone().map_err(io_error(format!("open {}", log.display())))?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(io_error(format!("start {name}")))?;
        let guard = Command::new("sh")
            .args(["-c", GUARD_SCRIPT, "guard", &child.id().to_string()])
            .arg(scratch.map_or_else(Default::default, Path::as_os_str))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match guard {
            Ok(guard) => {
                let is_scratch = scratch.is_some();
                Ok(Self { name, log, child, guard, grace, ended: false, is_scratch })
            }
            Err(source) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(ServiceError::Io { action: format!("start the guard of {name}"), source })
            }
        }
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks `probe` until it succeeds, the process ends, or `patience` is over.
    ///
    /// # Errors
    /// The process ended or doesn't serve in time; the end of its log is part of the error.
    pub fn wait_ready(
        &mut self,
        patience: Duration,
        mut probe: impl FnMut() -> io::Result<()>,
    ) -> Result<()> {
        let start = Instant::now();
        loop {
            let last = match probe() {
                Ok(()) => return Ok(()),
                Err(error) => error.to_string(),
            };
            if let Some(status) = self.try_wait()? {
                let (service, log) = (self.name, self.log.clone());
                return Err(ServiceError::Exited { service, status, tail: log_tail(&log), log });
            }
            if start.elapsed() > patience {
                let (service, log) = (self.name, self.log.clone());
                let waited_seconds = patience.as_secs();
                let tail = log_tail(&log);
                return Err(ServiceError::NotReady { service, waited_seconds, last, log, tail });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until the process ends by itself.
    ///
    /// # Errors
    /// The system can't tell.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// The end of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        log_tail(&self.log)
    }

    fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(io_error(format!("wait for {}", self.name)))
    }

    /// Ends the process as the system would in an accident: no warning, nothing flushed.
    pub(crate) fn kill9(&mut self) {
        self.end(Duration::ZERO);
    }

    /// Asks the process to end, and kills it when it has not within its grace.
    pub(crate) fn stop(&mut self) {
        self.end(self.grace);
    }

    fn end(&mut self, grace: Duration) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        // The guard goes first, while the process id is still ours: it must never signal another's.
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        if !grace.is_zero() && self.ask_to_end() {
            let deadline = Instant::now() + grace;
            while Instant::now() < deadline {
                if matches!(self.child.try_wait(), Ok(Some(_))) {
                    return;
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn ask_to_end(&mut self) -> bool {
        self.signal(Signal::TERM).is_ok()
    }

    /// Sends the process a signal. One that has ended is an error.
    pub(crate) fn signal(&mut self, signal: Signal) -> Result<()> {
        // Only a child that was not reaped yet still owns its id.
        let runs = self.try_wait()?.is_none();
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        match pid.filter(|_| runs) {
            Some(pid) => kill_process(pid, signal).map_err(io::Error::from),
            None => Err(io::Error::other("it has ended")),
        }
        .map_err(io_error(format!("signal {}", self.name)))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // An orderly end takes a second or two.
        match self.is_scratch {
            true => self.kill9(),
            false => self.stop(),
        }
    }
}

/// The end of a log file, or nothing if it cannot be read.
fn log_tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    last_lines(&String::from_utf8_lossy(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn shell(script: &str, dir: &Path, scratch: Option<&Path>, grace: Duration) -> Service {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Service::spawn("shell", command, dir.join("log"), scratch, grace).unwrap()
    }

    fn exists(path: &Path) -> impl Fn() -> io::Result<()> {
        let path = path.to_owned();
        move || fs::metadata(&path).map(drop)
    }

    /// A server that will not end must not hold up, or outlive, the test that started it.
    #[test]
    fn a_process_that_ignores_the_request_to_end_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let up = dir.path().join("up");
        let script = format!("trap '' TERM; touch {}; while :; do sleep 1; done", up.display());
        let mut service = shell(&script, dir.path(), None, Duration::from_millis(100));
        service.wait_ready(PATIENCE, exists(&up)).unwrap();
        service.stop();
        assert!(service.child.try_wait().unwrap().is_some());
    }

    /// The guard's whole purpose: its input closes when the owner dies, however it dies.
    #[test]
    fn an_owner_that_dies_leaves_no_process_and_no_scratch_folder() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = dir.path().join("scratch");
        fs::create_dir(&scratch).unwrap();
        let mut service = shell("exec sleep 1000", dir.path(), Some(&scratch), PATIENCE);
        drop(service.guard.stdin.take());
        assert!(!service.child.wait().unwrap().success());
        assert!(service.guard.wait().is_ok());
        assert!(!scratch.exists());
        service.ended = true;
    }

    /// A person should see why a server did not start without looking for its log.
    #[test]
    fn a_process_that_ends_early_is_reported_with_its_last_words() {
        let dir = tempfile::tempdir().unwrap();
        let mut service = shell("echo no such port; exit 3", dir.path(), None, PATIENCE);
        let never = || Err(io::Error::from(io::ErrorKind::ConnectionRefused));
        let error = service.wait_ready(PATIENCE, never).unwrap_err();
        assert!(matches!(&error, ServiceError::Exited { status, .. } if status.code() == Some(3)));
        assert!(error.to_string().contains("no such port"));
    }
}
