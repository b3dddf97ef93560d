//! Rules on the text of files: heads, lengths, columns, and words that belong elsewhere. Reads the
//! files git tracks or would track; judges, never rewrites.

use std::fs;

use anyhow::{Context, Result};

use crate::shell;

/// No Rust file may be longer (tests and generated files aside).
const FILE_LINES_MAX: usize = 800;
/// No Rust line may be wider, unless a literal or an address makes it so (tests aside: rustfmt's
/// own limit holds there, and literals are what tests are made of).
const LINE_COLUMNS_MAX: usize = 100;

/// SQL belongs to the one renderer.
const SQL: &[&str] = &[
    "\"SELECT ",
    "\"INSERT INTO",
    "\"CREATE TABLE",
    "\"CREATE DATABASE",
    "\"ALTER TABLE",
    "\"DROP TABLE",
    "\"CREATE MATERIALIZED",
];

/// The machine's clock may be set back or ahead at any time, so nothing may wait or decide by it.
/// Where it is read all the same, and what for:
const WALL_CLOCK: &[(&str, &str)] = &[
    ("collector/sources/kafka/src/lag.rs", "the age of messages, a metric"),
    (
        "collector/core/pipeline/src/process/clock.rs",
        "content: when a line was read, a target scraped",
    ),
    ("collector/sinks/kafka/src/buffered/disk_writer.rs", "the age of the buffer, a metric"),
    ("collector/sinks/clickhouse/src/direct/mod.rs", "part of a process's name"),
    ("collector/ddl/src/migrate.rs", "a note of when, and part of a name"),
    ("collector/src/commands/dead_letters.rs", "`--since` of a command for people"),
    (
        "collector/core/kafka-tokens/src/native.rs",
        "librdkafka takes a token's end as wall-clock time",
    ),
    (
        "collector/core/kafka-tokens/src/aws/",
        "AWS takes the time of a signature as wall-clock time",
    ),
    ("collector/core/observe/src/", "content: when a span began, an exemplar was noted"),
    ("collector/loadgen/", "content"),
];

/// Crates with no clock and no I/O. That they link no runtime is told by their dependencies
/// (walls.rs); the standard library's part is told by its words.
const PURE: &[&str] = &[
    "operator/decide/autoscale/src/",
    "operator/decide/rollout/src/",
    "operator/tools/convert/src/",
    "operator/decide/monitors/src/",
    "operator/decide/rule-settings/src/",
    "operator/decide/shares/src/",
    "collector/core/ledger/src/",
    "collector/sources/files/tail/src/",
    "collector/core/wire/src/",
    "collector/core/columns/src/",
    "collector/core/coordination/src/",
    "collector/core/share-documents/src/",
    "collector/sources/files/lines/src/",
    "collector/sources/prometheus/scrape/src/",
    "collector/core/schema/src/",
    "collector/core/processing/src/",
];
const CLOCK_AND_IO: &[&str] =
    &["std::fs", "std::net", "std::process", "std::thread", "std::env", "std::time::Instant"];

/// One line for each broken rule.
pub(super) fn broken_rules() -> Result<Vec<String>> {
    let listed = shell::output("git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let mut broken = Vec::new();
    for path in listed.lines().filter(|path| path.ends_with(".rs")) {
        let full = shell::root().join(path);
        if !full.exists() {
            continue; // deleted, not yet committed
        }
        let text = fs::read_to_string(&full).with_context(|| format!("cannot read {path}"))?;
        broken.extend(judge(path, &text));
    }
    Ok(broken)
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.starts_with("e2e/")
}

fn judge(path: &str, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let head = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if !head.starts_with("//!") && !head.starts_with("#![") {
        broken.push(format!("{path}: opens without `//!` saying what it does and must not do"));
    }
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX && !is_test(path) {
        broken.push(format!("{path}: {lines} lines, over {FILE_LINES_MAX}: split it"));
    }
    for (number, line) in text.lines().enumerate() {
        let wide = line.chars().count() > LINE_COLUMNS_MAX && !is_test(path);
        if wide && !line.contains('"') && !line.contains("://") {
            broken.push(format!("{path}:{}: over {LINE_COLUMNS_MAX} columns", number + 1));
        }
    }
    let renderer = path.starts_with("collector/ddl/src/render") || path.contains("xtask/src/check");
    if !renderer && !is_test(path) {
        let production = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in production.lines().enumerate() {
            if SQL.iter().any(|word| line.contains(word)) {
                broken.push(format!("{path}:{}: SQL text outside ddl/src/render", number + 1));
            }
        }
    }
    let may_read = WALL_CLOCK.iter().any(|(known, _)| path.starts_with(known));
    if path.starts_with("collector/") && !may_read && !is_test(path) {
        for (number, line) in text.lines().enumerate() {
            if line.contains("SystemTime") || line.contains("Timestamp::now") {
                broken.push(format!(
                    "{path}:{}: the wall clock decides nothing: take an Instant",
                    number + 1
                ));
            }
        }
    }
    if PURE.iter().any(|folder| path.starts_with(folder)) && !is_test(path) {
        let production = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in production.lines().enumerate() {
            if let Some(word) = CLOCK_AND_IO.iter().find(|word| line.contains(**word)) {
                broken.push(format!("{path}:{}: {word} in a pure crate", number + 1));
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::judge;

    /// Scenario: a file with a head and short lines. Guarantee: nothing is reported.
    #[test]
    fn a_tidy_file_passes() {
        assert_eq!(judge("a/src/lib.rs", "//! Does a thing.\nfn f() {}\n"), Vec::<String>::new());
    }

    /// Scenario: no head, 801 lines, a wide line, SQL outside the renderer, the wall clock, a file
    /// read by a pure crate. Guarantee: each is one report that names the file.
    #[test]
    fn each_broken_rule_is_named() {
        let no_head = judge("a/src/lib.rs", "fn f() {}\n");
        let long = judge("a/src/lib.rs", &format!("//! x\n{}", "\n".repeat(800)));
        let wide = judge("a/src/lib.rs", &format!("//! x\n// {}\n", "y".repeat(100)));
        let sql = judge("a/src/lib.rs", "//! x\nconst Q: &str = \"SELECT 1\";\n");
        for reports in [no_head, long, wide, sql] {
            assert_eq!(reports.len(), 1, "{reports:?}");
            assert!(reports[0].starts_with("a/src/lib.rs"));
        }
        let clock = judge("collector/a/src/lib.rs", "//! x\nuse std::time::SystemTime;\n");
        assert_eq!(clock.len(), 1, "{clock:?}");
        let pure = judge("collector/core/ledger/src/lib.rs", "//! x\nuse std::fs::File;\n");
        assert_eq!(pure.len(), 1, "{pure:?}");
    }
}
