//! The log files that are read: made of words by a seed, the same for every collector.
//!
//! Each record has its number in its text. Words are drawn at random, so that compressing them
//! costs what it costs with real texts.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::seen::mark;

/// What lines are made of.
const WORDS: [&str; 32] = [
    "request",
    "order",
    "payment",
    "cart",
    "failed",
    "user",
    "timeout",
    "retry",
    "inventory",
    "shipped",
    "queue",
    "cache",
    "miss",
    "hit",
    "latency",
    "connection",
    "closed",
    "accepted",
    "rejected",
    "session",
    "token",
    "expired",
    "database",
    "replica",
    "commit",
    "rollback",
    "index",
    "upload",
    "customer",
    "region",
    "worker",
    "started",
];
/// Frames of a Java trace.
const FRAMES: usize = 20;
/// Bytes of a plain line, its end included.
pub(super) const PLAIN_BYTES: usize = 512;
/// Bytes of a container's line, its end included.
pub(super) const CONTAINER_BYTES: usize = 216;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text {
    /// Lines of 512 bytes: a time, a level, words.
    Plain,
    /// Java's traces: a line with a time, 21 more.
    Java,
    /// A container runtime's lines of 216 bytes, with JSON in them.
    Container,
}

/// Draws words.
#[derive(Debug)]
pub(crate) struct Words(u64);

impl Words {
    /// From a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Xorshift.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Adds words and numbers until `line` has `length` bytes.
    fn fill(&mut self, line: &mut String, length: usize) {
        while line.len() < length {
            let drawn = self.next();
            line.push(' ');
            if drawn & 7 == 0 {
                line.push_str(&(drawn >> 40).to_string());
            } else {
                line.push_str(WORDS[(drawn >> 8) as usize % WORDS.len()]);
            }
        }
        line.truncate(length);
    }

    /// The record with that number, its last line end included.
    pub(crate) fn record(&mut self, text: Text, number: u64) -> String {
        match text {
            Text::Plain => self.plain(number),
            Text::Java => self.trace(number),
            Text::Container => self.container(number),
        }
    }

    fn plain(&mut self, number: u64) -> String {
        let second = number / 1000 % 60;
        let millis = number % 1000;
        let level = ["INFO", "WARN", "ERROR", "DEBUG"][(self.next() >> 20) as usize % 4];
        let mut line =
            format!("2026-11-25T04:00:{second:02}.{millis:03}Z {level} {}", mark(number));
        self.fill(&mut line, PLAIN_BYTES - 1);
        line.push('\n');
        line
    }

    fn container(&mut self, number: u64) -> String {
        let second = number / 1000 % 60;
        let mut line = format!(
            "2026-11-25T04:00:{second:02}.{number:09}Z stdout F \
             {{\"level\":\"info\",\"user\":{},\"msg\":\"{}",
            self.next() >> 44,
            mark(number)
        );
        self.fill(&mut line, CONTAINER_BYTES - 3);
        line.push_str("\"}\n");
        line
    }

    fn trace(&mut self, number: u64) -> String {
        let (second, millis) = (number / 1000 % 60, number % 1000);
        let mut lines = format!(
            "2026-11-25 04:00:{second:02},{millis:03} ERROR [main] com.example.Shop - {}",
            mark(number)
        );
        let length = lines.len() + 60;
        self.fill(&mut lines, length);
        lines.push_str("\njava.lang.IllegalStateException: no stock\n");
        for _ in 0..FRAMES {
            let drawn = self.next();
            let class = WORDS[(drawn >> 8) as usize % WORDS.len()];
            let method = WORDS[(drawn >> 24) as usize % WORDS.len()];
            let at = drawn >> 54;
            lines.push_str(&format!("\tat com.example.shop.{class}.{method}(Shop.java:{at})\n"));
        }
        lines
    }
}

/// A node's pod with one container, as the kubelet lays out its logs.
#[derive(Debug, Clone)]
pub(super) struct Pod {
    /// Its name, also its container's id.
    pub(super) name: String,
    /// Where its container's log is.
    pub(super) log: PathBuf,
}

/// The namespace of all pods.
pub(super) const NAMESPACE: &str = "shop";
/// The container of every pod.
pub(super) const CONTAINER: &str = "app";

/// The uid of a pod: its number is in its name.
pub(super) fn uid_of(name: &str) -> String {
    let number = name.rsplit('-').next().unwrap_or_default();
    format!("0f3c1f0e-5a1d-4f9a-9a70-{number:0>12}")
}

/// Makes a pod's log directory below `pods`, and its link below `links`, where vlagent looks.
pub(super) fn make_pod(root: &Path, number: usize) -> Result<Pod> {
    let name = format!("shop-5c7d9b6f4-{number:05}");
    let uid = uid_of(&name);
    let folder = pods(root).join(format!("{NAMESPACE}_{name}_{uid}")).join(CONTAINER);
    fs::create_dir_all(&folder).with_context(|| format!("no {}", folder.display()))?;
    let log = folder.join("0.log");
    fs::create_dir_all(links(root))?;
    let link = links(root).join(format!("{name}_{NAMESPACE}_{CONTAINER}-{name}.log"));
    std::os::unix::fs::symlink(&log, &link)?;
    Ok(Pod { name, log })
}

/// Where a node's logs are, as `/var/log/pods`.
pub(super) fn pods(root: &Path) -> PathBuf {
    root.join("pods")
}

/// Where links to them are, as `/var/log/containers`.
pub(super) fn links(root: &Path) -> PathBuf {
    root.join("containers")
}

/// Writes `count` records round the files, in runs as programs write them. The bytes written.
pub(super) fn write(files: &[PathBuf], text: Text, count: u64) -> Result<u64> {
    const RUN: u64 = 64;
    let mut words = Words::new(count);
    let mut outs = files
        .iter()
        .map(|file| Ok(BufWriter::with_capacity(64 << 10, File::create(file)?)))
        .collect::<Result<Vec<_>>>()?;
    let (mut bytes, outs_count) = (0, outs.len() as u64);
    for number in 0..count {
        let out = &mut outs[(number / RUN % outs_count) as usize];
        let record = words.record(text, number);
        bytes += record.len() as u64;
        out.write_all(record.as_bytes())?;
    }
    outs.iter_mut().try_for_each(Write::flush)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{CONTAINER_BYTES, PLAIN_BYTES, Text, Words};

    /// Scenario: a record of each kind. Guarantee: lengths and lines are what the names say, the
    /// number stands once, and the same seed gives the same text.
    #[test]
    fn records_are_as_long_as_said() {
        let record = |text, number| Words::new(7).record(text, number);
        assert_eq!(record(Text::Plain, 5).len(), PLAIN_BYTES);
        assert_eq!(record(Text::Container, 999_999).len(), CONTAINER_BYTES);
        assert_eq!(record(Text::Java, 5).lines().count(), 22);
        for text in [Text::Plain, Text::Container, Text::Java] {
            assert_eq!(record(text, 5).matches("seq=000000005").count(), 1);
            assert_eq!(record(text, 5), record(text, 5));
        }
    }
}
