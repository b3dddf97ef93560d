//! The node: a set of namespaces (network, mounts, processes, host name, IPC) in which all of the
//! stack runs, so that ending its first process ends everything.
//!
//! The first process is the pause program. Mounts, interfaces and nftables rules made inside vanish
//! with the namespaces; what doesn't (cgroups, kernel settings) is in `host`. The tools are
//! util-linux' `unshare` and `nsenter`, so nothing here is unsafe code.
//!
//! It does not know what runs inside: see `components`.

mod host;
mod network;
mod process;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use network::{CLUSTER_DNS, HOST_IP, NODE_IP, POD_RANGE, SERVICE_API, SERVICE_RANGE};

use crate::binaries::Binary;
use crate::error::{Result, StackError};
use crate::paths::Paths;
use crate::service::{ServiceError, create_dir, io_error, run, write_file};
use process::{POLL_INTERVAL, Process};

/// The node's host name, and its name in Kubernetes.
pub const NODE_NAME: &str = "millrace";
/// The cgroup below which the kubelet puts every pod.
pub const CGROUP: &str = "millrace";
/// How long the first process may take to appear: a fork and an exec.
const INIT_PATIENCE: Duration = Duration::from_secs(10);
/// How long processes may take to vanish once their namespace is killed.
const END_PATIENCE: Duration = Duration::from_secs(30);
/// What processes inside find their programs by. Nothing else of the caller's environment goes in.
const INNER_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Folders of the host that the node replaces by folders of the state, and must exist for that.
const BOUND_FOLDERS: [(&str, &str); 3] =
    [("/var/lib/kubelet", "kubelet"), ("/var/lib/cni", "cni"), ("/var/lib/millrace", "positions")];

/// Starts the namespaces; prints the id of the process that holds them.
const START_SCRIPT: &str = r#"
setsid unshare --net --mount --pid --uts --ipc --fork --kill-child --mount-proc \
    --propagation private -- "$1" </dev/null >>"$2" 2>&1 &
echo $!
"#;

/// Makes the node's own view of the file system. `$1` is the state folder, `$2` the host name.
const MOUNT_SCRIPT: &str = r#"
set -e
for file in hosts resolv.conf; do
    [ ! -e "/etc/$file" ] || mount --bind "$1/conf/node-$file" "/etc/$file"
done
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/log
mkdir /var/log/pods
mount --bind "$1/pod-logs" /var/log/pods
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --bind "$1/kubelet" /var/lib/kubelet
mount --bind "$1/cni" /var/lib/cni
mount --bind "$1/positions" /var/lib/millrace
mount --make-rshared /
hostname "$2"
"#;

/// Starts a server inside: `$1` working folder, `$2` log, then the command. Prints its id.
const SPAWN_SCRIPT: &str = r#"
cd "$1" || exit 1
log=$2
shift 2
setsid "$@" </dev/null >>"$log" 2>&1 &
echo $!
"#;

/// The node of a state folder, running or not.
#[derive(Debug, Clone)]
pub struct Node {
    paths: Paths,
}

impl Node {
    /// The node whose state is in `paths`.
    #[must_use]
    pub fn new(paths: Paths) -> Self {
        Self { paths }
    }

    /// Whether its first process lives.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.init().is_some()
    }

    fn init(&self) -> Option<Process> {
        Process::read(&self.pid_file("init"), Path::new("/proc")).filter(Process::is_alive)
    }

    fn require_init(&self) -> Result<Process> {
        self.init().ok_or(StackError::NotUp)
    }

    fn pid_file(&self, name: &str) -> PathBuf {
        self.paths.state().join("pids").join(name)
    }

    /// Starts the namespaces if they are not there. Leftovers of a dead node are removed first.
    ///
    /// # Errors
    /// When the stack's address ranges are in use, or the system refuses a namespace or a mount.
    pub fn start(&self) -> Result<()> {
        if let Some(init) = self.init() {
            if !init.is_ending() {
                return Ok(());
            }
            // What ran in a node that was killed ends with it, a moment later.
            init.wait_end(INIT_PATIENCE);
        }
        self.remove_leftovers()?;
        network::check_free()?;
        let started = self.start_init();
        if started.is_err() {
            // Half a node is worse than none: the next try begins from nothing.
            let _ = self.destroy();
        }
        started
    }

    fn start_init(&self) -> Result<()> {
        self.paths.state_dir("pids")?;
        self.paths.state_dir("pod-logs")?;
        for (_, folder) in BOUND_FOLDERS {
            self.paths.state_dir(folder)?;
        }
        self.write_names()?;
        let log = self.paths.log("init");
        create_dir(log.parent().unwrap_or(Path::new("/")))?;
        host::prepare(&self.paths, &BOUND_FOLDERS.map(|(host, _)| host))?;
        let mut start = Command::new("sh");
        start.args(["-c", START_SCRIPT, "start"]);
        start.arg(Binary::Pause.path(&self.paths)).arg(&log).current_dir("/");
        let holder: u32 = printed_pid("start the node's namespaces", &mut start)?;
        let init = self.wait_for_init(holder, &log)?;
        init.write(&self.pid_file("init"))?;
        if let Some(holder) = Process::find(holder, Path::new("/proc")) {
            holder.write(&self.pid_file("holder"))?;
        }
        let mut mounts = Command::new("sh");
        mounts.args(["-c", MOUNT_SCRIPT, "mount"]).arg(self.paths.state()).arg(NODE_NAME);
        run("mount the node's folders", &mut self.inside(&mounts)?)?;
        network::connect(self, init.pid())
    }

    /// Names as the node's own processes see them. The host's name servers can't be reached from
    /// inside, and a lookup of one's own host name (Java does one) would wait for them.
    fn write_names(&self) -> Result<()> {
        let conf = self.paths.state_dir("conf")?;
        let hosts = format!("127.0.0.1 localhost\n{NODE_IP} {NODE_NAME}\n");
        write_file(&conf.join("node-hosts"), &hosts)?;
        Ok(write_file(&conf.join("node-resolv.conf"), "# no name servers\n")?)
    }

    /// The holder forks the first process of the new namespaces, which then becomes the pause
    /// program: before that its mounts are not in place.
    fn wait_for_init(&self, holder: u32, log: &Path) -> Result<Process> {
        let program = Binary::Pause.path(&self.paths);
        let began = Instant::now();
        loop {
            let child = process::children(holder).into_iter().next();
            let child = child.and_then(|pid| Process::find(pid, Path::new("/proc")));
            if let Some(child) = child.filter(|child| child.runs(&program)) {
                return Ok(child);
            }
            if began.elapsed() > INIT_PATIENCE {
                return Err(StackError::NotReady {
                    what: "the node's first process".to_owned(),
                    waited_seconds: INIT_PATIENCE.as_secs(),
                    last: "unshare has not started it".to_owned(),
                    log: log.to_path_buf(),
                    tail: process::tail(log),
                });
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// The same command, run inside the node: its program, arguments, folder and own variables are
    /// kept, the caller's environment is not.
    ///
    /// # Errors
    /// When the node does not run.
    pub fn inside(&self, command: &Command) -> Result<Command> {
        let init = self.require_init()?;
        let mut wrapped = Command::new("nsenter");
        wrapped.args(["--net", "--mount", "--pid", "--uts", "--ipc", "--target"]);
        wrapped.arg(init.pid().to_string());
        if let Some(folder) = command.get_current_dir() {
            wrapped.arg("--wdns").arg(folder);
        }
        wrapped.arg("--").arg(command.get_program()).args(command.get_args());
        wrapped.env_clear().env("PATH", INNER_PATH).env("HOME", "/root");
        for (key, value) in command.get_envs() {
            if let Some(value) = value {
                wrapped.env(key, value);
            }
        }
        Ok(wrapped)
    }

    /// Starts a server inside the node, its output appended to its log. It lives until it ends, is
    /// stopped, or the node is destroyed; the caller may end before it.
    ///
    /// # Errors
    /// When the node does not run or the command cannot be started.
    pub fn spawn(&self, name: &str, command: &Command) -> Result<()> {
        let log = self.paths.log(name);
        let folder = command.get_current_dir().unwrap_or(Path::new("/"));
        let mut script = Command::new("sh");
        script.args(["-c", SPAWN_SCRIPT, "spawn"]).arg(folder).arg(&log);
        script.arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            if let Some(value) = value {
                script.env(key, value);
            }
        }
        let pid = printed_pid(&format!("start {name}"), &mut self.inside(&script)?)?;
        match Process::find(pid, &self.inner_proc()?) {
            Some(process) => process.write(&self.pid_file(name)),
            None => Err(self.ended(name)),
        }
    }

    /// The node's own `/proc`, seen from the host: ids in it are those inside.
    fn inner_proc(&self) -> Result<PathBuf> {
        Ok(PathBuf::from(format!("/proc/{}/root/proc", self.require_init()?.pid())))
    }

    /// Whether the server of that name runs.
    #[must_use]
    pub fn is_alive(&self, name: &str) -> bool {
        self.server(name).is_some()
    }

    fn server(&self, name: &str) -> Option<Process> {
        let proc_folder = self.inner_proc().ok()?;
        Process::read(&self.pid_file(name), &proc_folder).filter(Process::is_alive)
    }

    /// The error for a server that has ended by itself.
    pub(crate) fn ended(&self, name: &str) -> StackError {
        let log = self.paths.log(name);
        let tail = process::tail(&log);
        StackError::Ended { component: name.to_owned(), log, tail }
    }

    /// The error for something that took too long, with the log that may say why.
    pub(crate) fn not_ready(
        &self,
        what: &str,
        log: &str,
        waited: Duration,
        last: &str,
    ) -> StackError {
        let log = self.paths.log(log);
        let tail = process::tail(&log);
        let (what, last) = (what.to_owned(), last.trim().to_owned());
        StackError::NotReady { what, waited_seconds: waited.as_secs(), last, log, tail }
    }

    /// Asks a server to end, and kills it when it has not within `grace`. A `grace` of zero kills
    /// it at once, as an accident would.
    ///
    /// # Errors
    /// When the signal could not be sent, or the process outlives even the kill.
    pub fn stop(&self, name: &str, grace: Duration) -> Result<()> {
        let Some(process) = self.server(name) else {
            return Ok(());
        };
        if !grace.is_zero() {
            self.signal("TERM", &process)?;
            if process.wait_end(grace) {
                return Ok(());
            }
        }
        self.signal("KILL", &process)?;
        if process.wait_end(END_PATIENCE) {
            return Ok(());
        }
        Err(StackError::LeftBehind { what: format!("{name} (process {})", process.pid()) })
    }

    fn signal(&self, signal: &str, process: &Process) -> Result<()> {
        let mut kill = Command::new("/bin/kill");
        kill.arg(format!("-{signal}")).arg(process.pid().to_string());
        let sent =
            run(&format!("send {signal} to process {}", process.pid()), &mut self.inside(&kill)?);
        // It may have ended just before: then there is nobody left to be told.
        if process.is_alive() { Ok(sent?) } else { Ok(()) }
    }

    /// Ends every process of the node and removes what the host still holds of it: cgroups, and
    /// kernel settings as they were. The state folder is left for the caller.
    ///
    /// # Errors
    /// When something stays behind.
    pub fn destroy(&self) -> Result<()> {
        let holder = Process::read(&self.pid_file("holder"), Path::new("/proc"));
        if let Some(init) = self.init() {
            init.kill()?;
            if !init.wait_end(END_PATIENCE) {
                let what = format!("the node's first process {}", init.pid());
                return Err(StackError::LeftBehind { what });
            }
        }
        // It ends by itself once its child has, a moment later.
        if let Some(holder) = holder.filter(|holder| !holder.wait_end(END_PATIENCE)) {
            let what = format!("the holder of the node's namespaces, process {}", holder.pid());
            return Err(StackError::LeftBehind { what });
        }
        self.remove_leftovers()
    }

    fn remove_leftovers(&self) -> Result<()> {
        let _ = fs::remove_dir_all(self.paths.state().join("pids"));
        network::disconnect()?;
        host::restore(&self.paths)
    }
}

/// Runs a script that starts something in the background and prints its process id.
fn printed_pid(action: &str, command: &mut Command) -> Result<u32> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(io_error(format!("run {}", command.get_program().display())))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| {
        let tail = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let (action, status) = (action.to_owned(), output.status);
        StackError::Service(ServiceError::Command { action, status, tail })
    })
}
