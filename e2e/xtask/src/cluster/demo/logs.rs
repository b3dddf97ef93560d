//! The demo's log files: a pod writes numbered lines while spans are sent, the kubelet rotates its
//! log, and every line must be in the table with the pod's label. What the pod is and how its lines
//! are found is `millrace_stack::numbered`, which a test of the cluster shares.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use millrace_stack::Stack;
use millrace_stack::http::ask;
use millrace_stack::numbered::{self, Numbered, POD, Stored};

use crate::shell;

/// Between two looks at the pipeline's conditions.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// Some ten seconds, 6 MB, three rotations at the stack's size. Spans are sent meanwhile.
const WRITER: Numbered = Numbered { lines: 30_000, burst: 1_000, pause_seconds: "0.2" };
/// From the end of the load until the last line is stored: the pod writes for a few seconds more.
const LIMIT: Duration = Duration::from_secs(60);
/// The engine counts some ten thousand rows in less, or is broken.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Lines that may be without the pod's label: a file waits a second for it, and the API server of a
/// busy machine may take longer once.
const UNLABELED_MAX: u64 = WRITER.lines / 10;

/// A pod that writes.
#[derive(Debug)]
pub(super) struct Logs {
    uid: String,
}

/// What became of its lines.
#[derive(Debug)]
pub(super) struct Verdict {
    /// As a line.
    pub(super) text: String,
    /// Whether every line is there, and the log was rotated.
    pub(super) whole: bool,
}

impl Logs {
    /// Starts the pod, with the image of a collector that is there. One of an earlier demo goes.
    pub(super) fn begin(stack: &Stack, namespace: &str) -> Result<Self> {
        let kubectl = |args: &[&str]| -> Result<String> {
            shell::said("kubectl", &stack.kubectl(["-n", namespace].iter().chain(args))?)
        };
        kubectl(&["delete", "pod", POD, "--ignore-not-found"])?;
        let path = "jsonpath={.items[0].spec.containers[0].image}";
        let selector = "app.kubernetes.io/component=edge";
        let image = kubectl(&["get", "pods", "-l", selector, "-o", path])?;
        stack.apply(&WRITER.pod(namespace, &image).to_string())?;
        let uid = kubectl(&["get", "pod", POD, "-o", "jsonpath={.metadata.uid}"])?;
        Ok(Self { uid })
    }

    /// Waits for the last line.
    pub(super) fn check(&self, stack: &Stack, namespace: &str) -> Result<Verdict> {
        let query = numbered::query("otel", namespace, &self.uid);
        let began = Instant::now();
        let stored = loop {
            let answer = answer(stack, &query)?;
            let stored =
                Stored::read(&answer).with_context(|| format!("not three numbers: {answer}"))?;
            let is_all = stored.different >= WRITER.lines;
            if is_all || began.elapsed() > LIMIT {
                break stored;
            }
            thread::sleep(LOOK);
        };
        let files = shell::said("kubectl", &stack.kubectl(numbered::list_files(namespace))?)?;
        let (files, packed) =
            (files.split_whitespace(), files.split_whitespace().filter(|one| one.ends_with(".gz")));
        Ok(verdict(stored, files.count(), packed.count()))
    }
}

fn verdict(stored: Stored, files: usize, packed: usize) -> Verdict {
    let Stored { different, labeled, rows } = stored;
    let lines = WRITER.lines;
    let text = format!(
        "log lines: written={lines} stored={different} missing={} repeated={} labeled={labeled}; \
         the kubelet rotated them into {files} files, {packed} of them compressed",
        lines.saturating_sub(different),
        rows.saturating_sub(different),
    );
    let whole = different == lines && files > 1 && lines - labeled.min(lines) <= UNLABELED_MAX;
    Verdict { text, whole }
}

fn answer(stack: &Stack, query: &str) -> Result<String> {
    let user = read(&stack.clickhouse_user_file())?;
    let password = read(&stack.clickhouse_password_file())?;
    let headers = [("x-clickhouse-user", &*user), ("x-clickhouse-key", &*password)];
    let address = stack.clickhouse_url().trim_start_matches("http://").parse();
    let address = address.context("the engine's URL has no address")?;
    let answer = ask(address, "POST", "/", &headers, query.as_bytes(), QUERY_TIMEOUT)?;
    if answer.status != 200 {
        bail!("{query}: {} {}", answer.status, answer.text());
    }
    Ok(answer.text())
}

fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    Ok(text?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: all lines, some of the first without a label; one line missing; a log that was
    /// never rotated. Guarantee: only the first is whole, and the line says what is missing.
    #[test]
    fn a_missing_line_or_rotation_is_a_failure() {
        let all = Stored { different: 30_000, labeled: 29_000, rows: 30_010 };
        assert!(verdict(all, 4, 2).whole);
        let short = verdict(Stored { different: 29_999, ..all }, 4, 2);
        assert!(!short.whole && short.text.contains("missing=1"), "{}", short.text);
        assert!(!verdict(all, 1, 0).whole);
        assert!(!verdict(Stored { labeled: 0, ..all }, 4, 2).whole);
    }
}
