//! Servers' answers: `mntr` and `dirs` of both, as a four-letter word or through Keeper's HTTP API,
//! and its `/ready`.
//!
//! Which fields there are depends on the server and its version: what is missing or can't be read
//! is left out. A text with none of them isn't believed. Limits: whoever reads the text bounds it.

use serde_json::Value;

use crate::observation::{Report, Role, Silence};

/// The four-letter word for a server's figures.
pub const MNTR: &str = "mntr";
/// The one for the bytes on its disk.
pub const DIRS: &str = "dirs";

/// What both say instead of an answer while they have no leader.
const NOT_SERVING: &str = "not currently serving requests";
/// What both say of a command that isn't on their list.
const NOT_ALLOWED: &str = "is not executed because";

/// Reads the answer to `mntr`.
///
/// # Errors
/// When the server doesn't serve, doesn't allow the command, or is neither Keeper nor ZooKeeper.
pub fn mntr(text: &str) -> Result<Report, Silence> {
    refusal(text, MNTR)?;
    let mut report = Report::default();
    let mut role = None;
    for (key, value) in text.lines().filter_map(field) {
        let number = || whole(value);
        match key {
            "zk_server_state" => role = read_role(value),
            // ZooKeeper 3.6 and later count learners instead, observers among them.
            "zk_followers" => report.followers = number(),
            "zk_synced_followers" => report.synced_followers = number(),
            "zk_quorum_size" => report.voters = number(),
            "zk_outstanding_requests" => report.outstanding_requests = number(),
            "zk_avg_latency" => report.latency_milliseconds = figure(value),
            "zk_znode_count" => report.znodes = number(),
            "zk_approximate_data_size" => report.data_bytes = number(),
            "zk_watch_count" => report.watches = number(),
            _ => {}
        }
    }
    report.role = role.ok_or(Silence::Foreign)?;
    Ok(report)
}

/// Reads the answer to `dirs`: bytes of snapshots and logs.
///
/// # Errors
/// As [`mntr`].
pub fn dirs(text: &str) -> Result<u64, Silence> {
    refusal(text, DIRS)?;
    let sizes = text.lines().filter_map(|line| line.split_once(':'));
    let sizes = sizes.filter(|(name, _)| name.ends_with("dir_size"));
    let mut sizes = sizes.filter_map(|(_, size)| whole(size.trim())).peekable();
    sizes.peek().ok_or(Silence::Foreign)?;
    Ok(sizes.fold(0, u64::saturating_add))
}

/// The text of a command's answer in the HTTP API's envelope.
///
/// # Errors
/// When the command isn't allowed, or the answer isn't the API's.
pub fn enveloped(status: u16, body: &str, command: &'static str) -> Result<String, Silence> {
    if status == 403 {
        return Err(Silence::NotAllowed(command));
    }
    let value: Value = serde_json::from_str(body).map_err(|_| Silence::Foreign)?;
    match value.get("result").and_then(Value::as_str) {
        Some(text) => Ok(text.to_owned()),
        None => Err(Silence::Foreign),
    }
}

/// Reads `/ready`: whether the server has a leader.
///
/// # Errors
/// When the answer isn't Keeper's.
pub fn ready(body: &str) -> Result<bool, Silence> {
    let value: Value = serde_json::from_str(body).map_err(|_| Silence::Foreign)?;
    value.pointer("/details/hasLeader").and_then(Value::as_bool).ok_or(Silence::Foreign)
}

fn refusal(text: &str, command: &'static str) -> Result<(), Silence> {
    let first = text.lines().next().unwrap_or_default();
    if first.contains(NOT_SERVING) {
        return Err(Silence::NotServing);
    }
    if first.contains(NOT_ALLOWED) {
        return Err(Silence::NotAllowed(command));
    }
    Ok(())
}

/// A line `key`, tab or spaces, `value`.
fn field(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(char::is_whitespace)?;
    key.starts_with("zk_").then_some((key, value.trim()))
}

fn read_role(value: &str) -> Option<Role> {
    match value {
        "leader" => Some(Role::Leader),
        "follower" => Some(Role::Follower),
        "observer" => Some(Role::Observer),
        "standalone" => Some(Role::Standalone),
        "read-only" => Some(Role::ReadOnly),
        _ => None,
    }
}

/// A number of 0 or more. ZooKeeper writes some whole ones with a fraction; -1 is unknown.
fn figure(value: &str) -> Option<f64> {
    value.parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0)
}

fn whole(value: &str) -> Option<u64> {
    // A fraction is far below what an f64 holds exactly; larger ones are whole.
    value.parse().ok().or_else(|| figure(value).map(|it| it as u64))
}

#[cfg(test)]
#[path = "../tests/unit/answer.rs"]
mod tests;
