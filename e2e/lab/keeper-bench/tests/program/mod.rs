//! The program as a process, and its null server.

#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_keeper-bench");

/// A null server of one's own.
pub(crate) struct NullServer {
    pub(crate) address: String,
    child: Child,
}

impl NullServer {
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1:0")
    }

    pub(crate) fn start_at(address: &str) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["null-server", "--listen", address]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut address).unwrap();
        Self { address: address.trim().to_owned(), child }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run, being prepared.
pub(crate) struct Bench(Command);

impl Bench {
    pub(crate) fn run(servers: &str) -> Self {
        Self::new("run", servers)
    }

    pub(crate) fn inserts(servers: &str) -> Self {
        Self::new("inserts", servers)
    }

    pub(crate) fn replay(servers: &str, log: &Path) -> Self {
        Self::new("replay", servers).args(["--log", log.to_str().unwrap()])
    }

    fn new(what: &str, servers: &str) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args([what, "--servers", servers]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command)
    }

    pub(crate) fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.0.args(args);
        self
    }

    pub(crate) fn start(mut self) -> Running {
        let mut child = self.0.spawn().unwrap();
        let progress = BufReader::new(child.stderr.take().unwrap());
        Running { child, progress, said: String::new() }
    }

    /// Its results; it has to succeed.
    pub(crate) fn lines(self) -> Vec<Value> {
        self.start().finish()
    }

    /// What it says on standard error; it has to fail without results.
    pub(crate) fn failure(self) -> String {
        let (status, lines, said) = self.start().end();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(lines.is_empty(), "{lines:?}");
        said
    }
}

/// A run that goes on.
pub(crate) struct Running {
    child: Child,
    progress: BufReader<ChildStderr>,
    said: String,
}

impl Running {
    /// Waits until it says something.
    pub(crate) fn wait_for(&mut self, text: &str) {
        while !self.said.contains(text) {
            let read = self.progress.read_line(&mut self.said).unwrap();
            assert_ne!(read, 0, "it ended: {}", self.said);
        }
    }

    pub(crate) fn finish(self) -> Vec<Value> {
        self.finish_with(0)
    }

    pub(crate) fn finish_with(self, code: i32) -> Vec<Value> {
        let (status, lines, said) = self.end();
        assert_eq!(status.code(), Some(code), "{said}");
        lines
    }

    fn end(mut self) -> (ExitStatus, Vec<Value>, String) {
        self.progress.read_to_string(&mut self.said).unwrap();
        let output = self.child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (output.status, lines, self.said)
    }
}

/// The line of all kinds together.
pub(crate) fn all(lines: &[Value]) -> &Value {
    kind(lines, "all")
}

pub(crate) fn kind<'a>(lines: &'a [Value], name: &str) -> &'a Value {
    lines.iter().find(|line| line["kind"] == name).unwrap_or_else(|| panic!("no {name}: {lines:?}"))
}
