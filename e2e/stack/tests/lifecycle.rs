//! The stack as a whole: what it survives, and that nothing of it stays.
//!
//! Slow (minutes, and more on a cold cache), needs root, and cannot run while a stack is up, since
//! the addresses are the same. So it is not part of a plain `cargo test`:
//! `cargo test -p millrace-stack lifecycle:: -- --ignored --test-threads=1`
#![allow(clippy::print_stderr, missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use millrace_stack::component::Component;
use millrace_stack::error::StackError;
use millrace_stack::paths::Paths;
use millrace_stack::progress::Timed;
use millrace_stack::stack::Stack;

/// What names of the tests' own state folders begin with.
const STATE_PREFIX: &str = "millrace-lifecycle-";

/// A stack whose state is the test's own; the cache is the machine's.
struct OwnStack {
    stack: Stack,
    _folder: tempfile::TempDir,
}

impl OwnStack {
    fn new() -> Self {
        assert!(
            !Path::new("/sys/class/net/millrace0").exists(),
            "a local stack is up: run `make down` first"
        );
        let folder = tempfile::Builder::new().prefix(STATE_PREFIX).tempdir_in("/var/tmp").unwrap();
        let cache = Paths::from_env().unwrap().cache().to_path_buf();
        let paths = Paths::new(folder.path().join("state"), cache).unwrap();
        Self { stack: Stack::with_paths(paths), _folder: folder }
    }

    fn up(&self) -> Duration {
        let began = Instant::now();
        self.stack.up(&Timed::new(std::io::stderr())).unwrap();
        assert!(self.stack.status().is_up(), "{}", self.stack.status());
        began.elapsed()
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.stack.kubectl(arguments).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for OwnStack {
    fn drop(&mut self) {
        let _ = self.stack.down(&Timed::new(std::io::stderr()));
    }
}

/// What a stack could leave on a machine.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    mounts: BTreeSet<String>,
    links: BTreeSet<String>,
    routes: BTreeSet<String>,
    rules: String,
    cgroups: BTreeSet<String>,
    processes: BTreeSet<String>,
    kernel_settings: Vec<String>,
    folders: Vec<bool>,
}

impl Machine {
    fn look() -> Self {
        let kernel_settings = ["vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"];
        let folders = ["/var/lib/kubelet", "/var/lib/cni", "/run/containerd", "/etc/cni"];
        Self {
            mounts: lines(&fs::read_to_string("/proc/self/mounts").unwrap()),
            links: names("/sys/class/net"),
            routes: lines(&said("ip", &["-4", "route", "show", "table", "all"])),
            rules: said("nft", &["list", "ruleset"]),
            cgroups: stack_cgroups(Path::new("/sys/fs/cgroup")),
            processes: stack_processes(),
            kernel_settings: kernel_settings
                .map(|setting| fs::read_to_string(Path::new("/proc/sys").join(setting)).unwrap())
                .to_vec(),
            folders: folders.map(|folder| Path::new(folder).exists()).to_vec(),
        }
    }
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_owned).collect()
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Cgroups of the stack's name, in every hierarchy.
fn stack_cgroups(root: &Path) -> BTreeSet<String> {
    let hierarchies = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let candidates = hierarchies.chain([root.to_path_buf()]).map(|path| path.join("millrace"));
    candidates.filter(|path| path.exists()).map(|path| path.display().to_string()).collect()
}

/// Processes of a stack, by what they were started with: its pause program, or a file of its state.
fn stack_processes() -> BTreeSet<String> {
    let ours = ["/bin/pause-", STATE_PREFIX, "/var/lib/millrace-stack/", "/run/containerd/"];
    let processes = names("/proc").into_iter().filter(|name| name.parse::<u32>().is_ok());
    processes
        .filter_map(|pid| {
            let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
            ours.iter().any(|ours| arguments.contains(ours)).then(|| format!("{pid} {arguments}"))
        })
        .collect()
}

/// Scenario: a stack starts, runs pods, loses its first process, and is removed.
/// Guarantee: a second `up` is quick; after a crash the cluster comes back with what it knew; after
/// `down` the machine is as it was before.
#[test]
#[ignore = "slow, needs root, and no stack may be up"]
fn a_stack_survives_a_crash_and_leaves_nothing() {
    let before = Machine::look();
    assert!(before.processes.is_empty(), "{:?}", before.processes);
    {
        let own = OwnStack::new();
        own.up();
        assert!(own.up() < Duration::from_secs(5), "a second start took too long");
        own.kubectl(&["create", "namespace", "kept"]);

        let init = fs::read_to_string(own.stack.paths().state().join("pids/init")).unwrap();
        let init = init.split_whitespace().next().unwrap();
        assert!(Command::new("kill").args(["-KILL", init]).status().unwrap().success());
        own.up();
        assert!(own.kubectl(&["get", "namespaces"]).contains("kept"));

        own.stack.kill(Component::Scheduler).unwrap();
        assert!(!own.stack.status().is_up(), "a killed scheduler was not noticed");
        own.up();

        own.stack.down(&Timed::new(std::io::stderr())).unwrap();
        assert!(!own.stack.paths().state().exists(), "the state folder is still there");
        own.stack.down(&Timed::new(std::io::stderr())).unwrap();
    }
    assert_eq!(Machine::look(), before);
}

/// Scenario: another network of the machine uses the range of pods.
/// Guarantee: nothing is started, and the message names the route in the way.
#[test]
#[ignore = "needs root, and no stack may be up"]
fn a_range_in_use_is_refused_before_anything_starts() {
    let own = OwnStack::new();
    let route = ["route", "add", "blackhole", "10.198.7.0/24"];
    said("ip", &route);
    let refused = own.stack.up(&Timed::new(std::io::stderr()));
    said("ip", &["route", "del", "blackhole", "10.198.7.0/24"]);
    let error = refused.unwrap_err();
    assert!(matches!(error, StackError::RangeTaken { .. }), "{error}");
    assert!(error.to_string().contains("10.198.7.0/24"), "{error}");
    assert!(own.stack.status().is_down());
}
