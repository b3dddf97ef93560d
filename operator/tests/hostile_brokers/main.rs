//! Kafka clusters that want the operator's memory: a process of its own asks many of them at once,
//! and one that is honest; its highest resident memory and its threads are looked at from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
// What was measured stands in the test's output.
#![allow(clippy::print_stderr)]

mod asking;
mod brokers;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use brokers::{Cluster, Will};
use rdkafka::mocking::MockCluster;

/// How long clusters are hostile.
const SIEGE: Duration = Duration::from_secs(12);

/// Longer than an honest cluster may take to be answered about, also on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(15);

/// What the asking process may have resident at most: 15 MiB at rest, 10 MiB of answers, what the
/// library makes of those that it takes apart just then, and 1,500 threads of 40 KiB. Measured: 48
/// MiB of answers, 70 of brokers; 1,675 MiB when nothing bounds the answers, 163 MiB when nothing
/// bounds the brokers.
const RESIDENT_BYTES_MAX: u64 = 96 << 20;

/// Threads of the asking process: the brokers of all clusters in two clients each, and what 32
/// sessions have beside them.
const THREADS_MAX: usize = 2 * 1_000 + 32 * 16;

/// Lines that it has said and nobody has read; it waits then.
const LINES_MAX: usize = 1_000;

/// The process that asks, as the operator does. Killed when this is dropped.
struct Asking {
    child: Child,
    lines: Receiver<String>,
}

impl Asking {
    fn start(honest: &str, hostile: &[Cluster]) -> Self {
        let hostile: Vec<String> = hostile.iter().map(|it| it.address().to_string()).collect();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", asking::TEST, "--nocapture"])
            .env(asking::HONEST, honest)
            .env(asking::HOSTILE, hostile.join(" "))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let (told, lines) = sync_channel(LINES_MAX);
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|it| told.send(it)));
        Self { child, lines }
    }

    /// What a line of its status says.
    fn status(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it has ended");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.split_whitespace().next().expect("a number").parse().unwrap()
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Most threads, most resident bytes, answers about the honest cluster and the longest wait for
/// one, of a process that asks these clusters for as long as a siege lasts.
fn besieged(wills: &[Will]) -> (usize, u64, usize, Duration) {
    let honest = MockCluster::new(1).unwrap();
    honest.create_topic("t", 3, 1).unwrap();
    let hostile: Vec<Cluster> = wills.iter().map(|will| Cluster::start(*will)).collect();
    let asking = Asking::start(&honest.bootstrap_servers(), &hostile);
    let began = Instant::now();
    let (mut threads, mut answers, mut last, mut longest) = (0, 0, began, Duration::ZERO);
    while began.elapsed() < SIEGE {
        match asking.lines.recv_timeout(Duration::from_millis(20)) {
            Ok(line) if line.contains(asking::ANSWERED) => {
                answers += 1;
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            Ok(line) => eprintln!("{line}"),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("the process that asks has ended"),
        }
        threads = threads.max(usize::try_from(asking.status("Threads:")).unwrap());
    }
    let asked = hostile.iter().filter(|cluster| cluster.was_hostile()).count();
    assert!(2 * asked > hostile.len(), "most clusters had no chance to be hostile");
    let peak_bytes = asking.status("VmHWM:") * 1024;
    (threads, peak_bytes, answers, longest.max(last.elapsed()))
}

fn withstands(wills: &[Will]) {
    let (threads, peak_bytes, answers, longest) = besieged(wills);
    let peak = peak_bytes >> 20;
    eprintln!("{wills:?}: {threads} threads, {peak} MiB, {answers} answers, {longest:?} at most");
    assert!(peak_bytes <= RESIDENT_BYTES_MAX, "{peak} MiB resident");
    assert!(threads <= THREADS_MAX, "{threads} threads");
    assert!(longest <= ANSWERED_WITHIN, "nothing heard of an honest cluster for {longest:?}");
}

/// Scenario: thirty clusters each begin an answer of 8 MiB or just under 1 MiB on every connection,
/// and stop short of its end, go on byte by byte, or send one after the other, unasked; others
/// answer with metadata as long as that. Guarantee: the process that asks stays within its memory,
/// and an honest cluster is answered about all the while.
#[test]
fn answers_without_end_are_bounded_for_all_clusters_together() {
    let wills = [
        Will::Stop(8 << 20),
        Will::Drip(8 << 20),
        Will::Flood(8 << 20),
        Will::Stop(1 << 20),
        Will::Drip(1 << 20),
        Will::Flood(1 << 20),
        Will::Metadata(8 << 20),
        Will::Metadata(1 << 20),
        Will::Stop((1 << 20) - 64),
        Will::Metadata((1 << 20) - 64),
    ];
    let all: Vec<Will> = wills.iter().copied().cycle().take(30).collect();
    withstands(&all);
}

/// Scenario: four clusters name a thousand brokers each, others just as many as one may, at every
/// question. Guarantee: the process has no more threads than the bound says, stays within its
/// memory, and an honest cluster is answered about all the while.
#[test]
fn brokers_without_number_are_bounded_for_all_clusters_together() {
    let wills = [Will::Brokers(1_000), Will::Brokers(150)];
    let all: Vec<Will> = wills.iter().copied().cycle().take(8).collect();
    withstands(&all);
}
