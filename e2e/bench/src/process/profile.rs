//! A profile of a running collector: `perf record` beside it, its samples folded into stacks, and a
//! flame graph drawn of them.
//!
//! The whole machine is sampled, and the collector's samples taken out of that: a sampler attached
//! to a process would miss the threads it starts later. Samples come by the clock, since virtual
//! machines often have no counters. Stacks are unwound
//! from copies of the stack (the release build keeps no frame pointers), which costs the collector
//! time: a profiled run gives a picture, not a figure.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use crate::process::flame;
use crate::process::signal;
use crate::say;

/// Samples a second and thread: prime, so as not to beat with timers.
const FREQUENCY: &str = "499";
/// Bytes of stack copied with a sample: the deepest path of ours takes less.
const UNWIND: &str = "dwarf,16384";

/// A profile under way.
#[derive(Debug)]
pub(crate) struct Profile {
    perf: Child,
    subject: u32,
    data: PathBuf,
    drawing: PathBuf,
}

impl Profile {
    /// Begins to sample for a process. The samples go to `data`, the flame graph to `drawing`.
    pub(crate) fn start(pid: u32, data: &Path, drawing: &Path) -> Result<Self> {
        let log = File::create(data.with_extension("perf-log"))?;
        let perf = Command::new("perf")
            .args(["record", "--freq", FREQUENCY, "--call-graph", UNWIND, "--output"])
            .arg(data)
            .arg("--all-cpus")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start perf: is it installed?")?;
        Ok(Self { perf, subject: pid, data: data.to_owned(), drawing: drawing.to_owned() })
    }

    /// Ends the sampling and draws.
    pub(crate) fn finish(mut self) -> Result<()> {
        signal(self.perf.id(), Signal::INT)?;
        self.perf.wait().context("cannot await perf")?;
        say::progress("unwinding the profile");
        let output = Command::new("perf")
            .args(["script", "--no-inline", "--fields", "comm,ip,sym"])
            .args(["--pid", &self.subject.to_string(), "--input"])
            .arg(&self.data)
            .output()
            .context("cannot start perf")?;
        if !output.status.success() {
            bail!("perf script: {}", String::from_utf8_lossy(&output.stderr));
        }
        let stacks = fold(&String::from_utf8_lossy(&output.stdout));
        if stacks.is_empty() {
            bail!("perf took no samples; see {}", self.data.with_extension("perf-log").display());
        }
        fs::write(&self.drawing, flame::draw(&stacks))
            .with_context(|| format!("cannot write {}", self.drawing.display()))?;
        say::progress(&format!("drawn: {}", self.drawing.display()));
        Ok(())
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        if matches!(self.perf.try_wait(), Ok(None)) {
            let _ = self.perf.kill();
            let _ = self.perf.wait();
        }
    }
}

/// Stacks from the outermost frame inwards, the thread's name first, with how often each was seen.
pub(crate) fn fold(script: &str) -> BTreeMap<Vec<String>, u64> {
    let mut stacks = BTreeMap::new();
    let mut thread = None;
    let mut frames = Vec::new();
    for line in script.lines().chain([""]) {
        if line.trim().is_empty() {
            if let Some(thread) = thread.take() {
                frames.push(thread);
                frames.reverse();
                *stacks.entry(std::mem::take(&mut frames)).or_insert(0) += 1;
            }
        } else if line.starts_with(char::is_whitespace) {
            let symbol = line.trim().split_once(' ').map_or("[unknown]", |(_, symbol)| symbol);
            frames.push(readable(symbol));
        } else {
            thread = Some(line.trim().trim_end_matches(':').to_owned());
        }
    }
    stacks
}

/// A symbol without its hash and generic arguments' depths.
fn readable(symbol: &str) -> String {
    let symbol = symbol.trim();
    match symbol.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            path.to_owned()
        }
        _ => symbol.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::fold;

    /// Scenario: perf's text of two equal samples and one of another thread. Guarantee: stacks
    /// stand from the outside in, hashes gone, counted.
    #[test]
    fn samples_become_stacks() {
        let script = "worker-0 \n\t  55d1 mill::leaf::h0123456789abcdef\n\t 55d2 main\n\n\
                      worker-0 \n\t  55d1 mill::leaf::h0123456789abcdef\n\t 55d2 main\n\n\
                      io \n\t 7f00 [unknown]\n";
        let stacks = fold(script);
        let key = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(stacks.get(&key(&["worker-0", "main", "mill::leaf"])), Some(&2));
        assert_eq!(stacks.get(&key(&["io", "[unknown]"])), Some(&1));
    }
}
