//! A server process that a test or the stack owns: start it, wait until it serves, stop it, kill it.
//!
//! Each process gets a small guard beside it, which ends the process (and removes its scratch
//! folder) if the owner dies without saying so: a test that was killed leaves nothing behind.
//!
//! It knows nothing of Kafka or ClickHouse, and of Kubernetes even less. It blocks; there is no
//! async here. A log file is kept whole: these processes are short-lived and say little.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How often a process is asked whether it serves yet, or has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Lines of a log that an error message quotes: enough for a Java stack trace's head.
const LOG_TAIL_LINES: usize = 25;
/// Ports tried before giving up; any busy machine has a free one among so many.
const PORT_ATTEMPTS: u16 = 200;
/// Where free ports are looked for: below Linux' range for outgoing connections (32768 and up), so
/// that a stopped server finds its port free when it starts again.
const PORT_RANGE: std::ops::Range<u16> = 20_000..31_000;

/// The guard: waits for its input to close, then ends process $1 and removes folder $2.
const GUARD_SCRIPT: &str = r#"
cat >/dev/null
kill -TERM "$1" 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" 2>/dev/null || break; sleep 0.5; done
kill -KILL "$1" 2>/dev/null
[ -z "$2" ] || rm -rf -- "$2"
"#;

/// Why a server could not be installed, started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A program that must be on the machine is not.
    #[error("`{tool}` is not on the PATH: {hint}")]
    MissingTool {
        /// The program looked for.
        tool: &'static str,
        /// How to get it.
        hint: &'static str,
    },
    /// An option cannot work.
    #[error("{field}: {problem}")]
    Option {
        /// The option's name.
        field: &'static str,
        /// What is wrong and what to give instead.
        problem: String,
    },
    /// The server refused a request.
    #[error("the server answered with status {status}: {text}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's words.
        text: String,
    },
    /// The system refused something.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried, with the path or address.
        action: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A set-up command failed.
    #[error("{action} failed ({status}):\n{tail}")]
    Command {
        /// What the command was for.
        action: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it printed.
        tail: String,
    },
    /// The process ended before it served.
    #[error("{service} ended before it was ready ({status}); {log} ends with:\n{tail}", log = log.display())]
    Exited {
        /// The process.
        service: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// The end of its log.
        tail: String,
    },
    /// The process runs but did not serve in time.
    #[error("{service} did not serve within {waited_seconds} s ({last}); {log} ends with:\n{tail}", log = log.display())]
    NotReady {
        /// The process.
        service: &'static str,
        /// How long it was given.
        waited_seconds: u64,
        /// What the last probe met.
        last: String,
        /// Its log.
        log: PathBuf,
        /// The end of its log.
        tail: String,
    },
}

/// Shorthand of this layer.
pub type Result<T> = std::result::Result<T, ServiceError>;

/// Turns a system error into ours, saying what was tried.
pub(crate) fn io_error(action: impl Into<String>) -> impl FnOnce(io::Error) -> ServiceError {
    let action = action.into();
    move |source| ServiceError::Io { action, source }
}

/// A user name or password of a local server: 1 to 64 letters, digits, `.`, `_`, `-`.
///
/// The small alphabet keeps it whole in property files, JAAS lines and headers. It does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Checks and wraps a secret.
    ///
    /// # Errors
    /// When it is empty, longer than 64, or has another character.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if (1..=64).contains(&text.len()) && text.chars().all(plain) {
            return Ok(Self(text));
        }
        Err(ServiceError::Option {
            field: "secret",
            problem: "give 1 to 64 of letters, digits, '.', '_' and '-'".to_owned(),
        })
    }

    /// A fresh secret, good enough for a server that lives as long as a test.
    #[must_use]
    pub fn random() -> Self {
        Self(format!("{:016x}{:016x}", random(), random()))
    }

    /// A word of the source code, which is well-formed and no secret.
    pub(crate) fn fixed(word: &'static str) -> Self {
        Self(word.to_owned())
    }

    /// The text itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A number that differs from call to call and from process to process (the standard library seeds
/// its hash maps from the system). Not for keys that outlive a test.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A port on `host` that nothing listens on now.
///
/// # Errors
/// When none was found free in 200 tries.
pub fn free_port(host: IpAddr) -> Result<u16> {
    let span = PORT_RANGE.end - PORT_RANGE.start;
    let first = (random() % u64::from(span)) as u16;
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for step in 0..PORT_ATTEMPTS {
        let port = PORT_RANGE.start + (first + step) % span;
        match TcpListener::bind((host, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = error,
        }
    }
    Err(ServiceError::Io { action: format!("find a free port on {host}"), source: last })
}

/// The cache of things downloaded once: `MILLRACE_CACHE`, or `.cache/millrace` in the home folder.
#[must_use]
pub fn cache_dir() -> PathBuf {
    match (std::env::var_os("MILLRACE_CACHE"), std::env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) => PathBuf::from(home).join(".cache/millrace"),
        (_, None) => PathBuf::from("/var/cache/millrace"),
    }
}

/// Installs something into `cache/<name>` once, whatever number of processes ask at a time.
///
/// `fill` gets a folder to fill, which is renamed into place when it succeeds; what a broken-off
/// run left there is still in it, so an installer that can resume does. `recipe` is what the
/// content is made from: when it changes, the folder is made anew.
///
/// # Errors
/// Those of `fill`, and those of the file system.
pub(crate) fn install_once(
    name: &str,
    recipe: &str,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let cache = cache_dir();
    let target = cache.join(name);
    let stamp = target.join(".recipe");
    let current = || fs::read_to_string(&stamp).is_ok_and(|found| found == recipe);
    if current() {
        return Ok(target);
    }
    create_dir(&cache)?;
    let lock_path = cache.join(format!("{name}.lock"));
    let lock =
        File::create(&lock_path).map_err(io_error(format!("create {}", lock_path.display())))?;
    lock.lock().map_err(io_error(format!("lock {}", lock_path.display())))?;
    if current() {
        return Ok(target);
    }
    let partial = cache.join(format!("{name}.partial"));
    create_dir(&partial)?;
    fill(&partial)?;
    write_file(&partial.join(".recipe"), recipe)?;
    if target.exists() {
        fs::remove_dir_all(&target).map_err(io_error(format!("remove {}", target.display())))?;
    }
    fs::rename(&partial, &target)
        .map_err(io_error(format!("rename {} into place", partial.display())))?;
    Ok(target)
}

/// `mkdir -p`, with an error that names the folder.
pub(crate) fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(io_error(format!("create {}", path.display())))
}

/// Writes a file that only its owner can read, with an error that names it.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(io_error(format!("write {}", path.display())))
}

/// The folder a server lives in: the one given, or a temporary one that goes when dropped.
pub(crate) fn home(
    given: Option<&Path>,
    prefix: &str,
) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    if let Some(dir) = given {
        return Ok((dir.to_owned(), None));
    }
    let scratch = tempfile::Builder::new()
        .prefix(prefix)
        .tempdir()
        .map_err(io_error("make a temporary folder"))?;
    Ok((scratch.path().to_owned(), Some(scratch)))
}

/// Runs a set-up command to its end; its output is quoted if it fails.
pub(crate) fn run(action: &str, command: &mut Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(io_error(format!("run {}", command.get_program().display())))?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(ServiceError::Command {
        action: action.to_owned(),
        status: output.status,
        tail: last_lines(&text),
    })
}

/// Finds a program on the PATH.
pub(crate) fn find_tool(tool: &'static str, hint: &'static str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(tool))
        .find(|candidate| candidate.is_file())
        .ok_or(ServiceError::MissingTool { tool, hint })
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

/// The end of a log file, or nothing if it cannot be read.
fn log_tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    last_lines(&String::from_utf8_lossy(&text))
}

/// A running server process and its guard. Dropping it stops the process.
#[derive(Debug)]
pub(crate) struct Service {
    name: &'static str,
    log: PathBuf,
    child: Child,
    guard: Child,
    grace: Duration,
    ended: bool,
}

impl Service {
    /// Starts `command` with its output appended to `log`. `scratch` is a folder the guard removes
    /// if the owner dies; `grace` is what the process gets between being asked and being killed.
    pub(crate) fn spawn(
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
            Ok(guard) => Ok(Self { name, log, child, guard, grace, ended: false }),
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
    pub(crate) fn wait_ready(
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
        // Only a child that was not reaped yet still owns its id.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return false;
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}
