//! Kills an engine, but not between an insert's token and its rows.
//!
//! A plain MergeTree writes an insert's token to the table's deduplication log and then renames the
//! part into place. Killed in between, the table drops every repetition of the insert as a
//! duplicate of rows that it doesn't have: ClickHouse loses the insert, and no client can prevent
//! it. So the engine is stopped first, looked at, and killed in that state.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::servers::service::{Result, Service, ServiceError, io_error};

/// How often a stopping process is looked at, and how long an insert gets to end.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// A process stops in milliseconds, and an insert is at this point for less than one.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where a plain MergeTree remembers its inserts, in a table's folder.
const TOKENS_DIR: &str = "deduplication_logs";
/// An entry of the log that adds a part.
const ADDED: &str = "1";

/// Kills the engine at a moment when every table has the rows of each insert that it remembers.
///
/// # Errors
/// The process has ended, never stops, or never reaches such a moment; its folder can't be read.
pub(super) fn kill_between_inserts(service: &mut Service, data: &Path) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        service.signal(Signal::STOP)?;
        wait_stopped(service.pid(), deadline)?;
        let torn = find_torn_insert(data).map_err(io_error(format!("read {}", data.display())))?;
        let Some(part) = torn else {
            service.kill9();
            return Ok(());
        };
        service.signal(Signal::CONT)?;
        if Instant::now() > deadline {
            return Err(timeout_error(&format!("{} still isn't there", part.display())));
        }
        sleep(POLL_INTERVAL);
    }
}

/// Waits until every thread has stopped, so that none changes a file any more.
fn wait_stopped(pid: u32, deadline: Instant) -> Result<()> {
    let action = || io_error(format!("read the threads of process {pid}"));
    while !is_stopped(pid).map_err(action())? {
        if Instant::now() > deadline {
            return Err(timeout_error(&format!("process {pid} doesn't stop")));
        }
        sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn is_stopped(pid: u32) -> io::Result<bool> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread that ends meanwhile has no file any more.
        let Ok(stat) = fs::read_to_string(thread?.path().join("stat")) else { continue };
        // The name in parentheses may contain anything.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        if !matches!(state, Some('T' | 't' | 'Z' | 'X')) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn timeout_error(problem: &str) -> ServiceError {
    ServiceError::Io {
        action: "kill the engine between two inserts".to_owned(),
        source: io::Error::new(io::ErrorKind::TimedOut, problem.to_owned()),
    }
}

/// The part of an insert that some table remembers and doesn't have.
fn find_torn_insert(data: &Path) -> io::Result<Option<PathBuf>> {
    for group in list_folder(&data.join("store"))? {
        for table in list_folder(&group)? {
            let Some(part) = last_added(&table.join(TOKENS_DIR))? else { continue };
            if !has_rows_of(&table, &part)? {
                return Ok(Some(table.join(part)));
            }
        }
    }
    Ok(None)
}

/// The part that the newest entry of a log adds. Tables hold a lock from an entry to its rename, so
/// no older entry can be without its part.
fn last_added(logs: &Path) -> io::Result<Option<String>> {
    let number = |path: &PathBuf| {
        let stem = path.file_stem()?.to_str()?;
        stem.rsplit_once('_')?.1.parse::<u64>().ok()
    };
    let mut logs = list_folder(logs)?;
    logs.sort_by_key(number);
    for log in logs.iter().rev() {
        let text = fs::read_to_string(log)?;
        let Some(entry) = text.lines().next_back() else { continue };
        let mut fields = entry.split('\t');
        let is_added = fields.next() == Some(ADDED);
        return Ok(fields.next().filter(|_| is_added).map(str::to_owned));
    }
    Ok(None)
}

/// Whether a table has a part, or one into which it was merged.
fn has_rows_of(table: &Path, part: &str) -> io::Result<bool> {
    let Some(wanted) = parse_part(part) else { return Ok(true) };
    let parts = list_folder(table)?;
    let names = parts.iter().filter_map(|path| path.file_name()?.to_str());
    Ok(names.filter_map(parse_part).any(|(partition, blocks)| {
        partition == wanted.0 && blocks.0 <= wanted.1.0 && blocks.1 >= wanted.1.1
    }))
}

/// Partition, first and last block of a part by its name, such as `20261128_5_9_2`, or with the
/// version of its mutation `20261128_5_9_2_14`. Temporary parts have more fields in front.
fn parse_part(name: &str) -> Option<(&str, (u64, u64))> {
    let fields: Vec<&str> = name.split('_').collect();
    let (partition, numbers) = fields.split_first()?;
    let numbers: Vec<u64> = numbers.iter().map(|it| it.parse().ok()).collect::<Option<_>>()?;
    match numbers[..] {
        [first, last, _level] | [first, last, _level, _] => Some((partition, (first, last))),
        _ => None,
    }
}

/// What is in a folder; nothing if there is none.
fn list_folder(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: tables whose newest token belongs to a part that is there, was merged, mutated or
    /// dropped, or is still temporary; logs with a newer file that is empty; a table without
    /// tokens. Guarantee: only the temporary one is torn.
    #[test]
    fn an_insert_is_torn_while_its_part_is_temporary() {
        for (entries, parts, is_torn) in [
            ("1\tall_7_7_0\tid\n", vec!["all_7_7_0"], false),
            ("1\tall_7_7_0\tid\n", vec!["all_1_9_3", "tmp_insert_all_8_8_0"], false),
            ("1\tall_7_7_0\tid\n", vec!["all_7_7_0_12"], false),
            ("1\tall_7_7_0\tid\n2\tall_7_7_0\tid\n", vec![], false),
            ("1\tall_6_6_0\tid\n1\tall_7_7_0\tid\n", vec!["tmp_insert_all_7_7_0"], true),
            ("1\t20261128_7_7_0\tid\n", vec!["20261127_1_9_1", "all_1_9_1"], true),
            ("", vec!["all_7_7_0"], false),
        ] {
            let data = tempfile::tempdir().unwrap();
            let table = data.path().join("store/0ab/0ab1");
            let logs = table.join(TOKENS_DIR);
            fs::create_dir_all(&logs).unwrap();
            fs::create_dir_all(data.path().join("store/0ab/0ab2/all_1_1_0")).unwrap();
            fs::write(logs.join("deduplication_log_9.txt"), entries).unwrap();
            fs::write(logs.join("deduplication_log_8.txt"), "1\tall_5_5_0\tid\n2\tall_5_5_0\tid\n")
                .unwrap();
            fs::write(logs.join("deduplication_log_10.txt"), "").unwrap();
            parts.iter().for_each(|part| fs::create_dir(table.join(part)).unwrap());
            let torn = find_torn_insert(data.path()).unwrap();
            assert_eq!(torn.is_some(), is_torn, "{entries:?} {parts:?}");
        }
    }
}
