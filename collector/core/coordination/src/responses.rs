//! Parses servers' answers: `mntr` and `dirs` of Keeper and ZooKeeper, as a four-letter word or
//! through Keeper's HTTP API, and the API's `/ready`.
//!
//! The fields depend on the server and its version: a missing or unreadable field is `None`. A text
//! without any of them is rejected. The caller must bound the text's length.

use serde_json::Value;

use crate::observation::{ProbeError, ServerReport, ServerRole};

/// The four-letter word for a server's figures.
pub const MNTR: &str = "mntr";
/// The four-letter word for the bytes on its disk.
pub const DIRS: &str = "dirs";

/// The answer of both servers while they have no leader.
const NOT_SERVING: &str = "not currently serving requests";
/// The answer of both servers to a command that isn't on their list.
const NOT_ALLOWED: &str = "is not executed because";

/// Parses the answer to `mntr`.
///
/// # Errors
/// If the server doesn't serve, doesn't allow the command, or is neither Keeper nor ZooKeeper.
pub fn parse_mntr(text: &str) -> Result<ServerReport, ProbeError> {
    check_refusal(text, MNTR)?;
    let mut report = ServerReport::default();
    let mut role = None;
    for (key, value) in text.lines().filter_map(split_field) {
        let number = || parse_integer(value);
        match key {
            "zk_server_state" => role = read_role(value),
            // ZooKeeper 3.6 and later count learners instead, including observers.
            "zk_followers" => report.followers = number(),
            "zk_synced_followers" => report.synced_followers = number(),
            "zk_quorum_size" => report.voters = number(),
            "zk_outstanding_requests" => report.outstanding_requests = number(),
            "zk_avg_latency" => report.latency_milliseconds = parse_number(value),
            "zk_znode_count" => report.znodes = number(),
            "zk_approximate_data_size" => report.data_bytes = number(),
            "zk_watch_count" => report.watches = number(),
            _ => {}
        }
    }
    report.role = role.ok_or(ProbeError::Foreign)?;
    Ok(report)
}

/// Parses the answer to `dirs`: bytes of snapshots and logs.
///
/// # Errors
/// As [`parse_mntr`].
pub fn parse_dirs(text: &str) -> Result<u64, ProbeError> {
    check_refusal(text, DIRS)?;
    let sizes = text.lines().filter_map(|line| line.split_once(':'));
    let sizes = sizes.filter(|(name, _)| name.ends_with("dir_size"));
    let mut sizes = sizes.filter_map(|(_, size)| parse_integer(size.trim())).peekable();
    sizes.peek().ok_or(ProbeError::Foreign)?;
    Ok(sizes.fold(0, u64::saturating_add))
}

/// Returns the text of a command's answer from the HTTP API's envelope.
///
/// # Errors
/// If the command isn't allowed, or the answer isn't the API's.
pub fn unwrap_envelope(
    status: u16,
    body: &str,
    command: &'static str,
) -> Result<String, ProbeError> {
    if status == 403 {
        return Err(ProbeError::NotAllowed(command));
    }
    let value: Value = serde_json::from_str(body).map_err(|_| ProbeError::Foreign)?;
    match value.get("result").and_then(Value::as_str) {
        Some(text) => Ok(text.to_owned()),
        None => Err(ProbeError::Foreign),
    }
}

/// Parses `/ready`: whether the server has a leader.
///
/// # Errors
/// If the answer isn't Keeper's.
pub fn parse_ready(body: &str) -> Result<bool, ProbeError> {
    let value: Value = serde_json::from_str(body).map_err(|_| ProbeError::Foreign)?;
    value.pointer("/details/hasLeader").and_then(Value::as_bool).ok_or(ProbeError::Foreign)
}

fn check_refusal(text: &str, command: &'static str) -> Result<(), ProbeError> {
    let first = text.lines().next().unwrap_or_default();
    if first.contains(NOT_SERVING) {
        return Err(ProbeError::NotServing);
    }
    if first.contains(NOT_ALLOWED) {
        return Err(ProbeError::NotAllowed(command));
    }
    Ok(())
}

/// Splits a line `key`, tab or spaces, `value`.
fn split_field(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(char::is_whitespace)?;
    key.starts_with("zk_").then_some((key, value.trim()))
}

fn read_role(value: &str) -> Option<ServerRole> {
    match value {
        "leader" => Some(ServerRole::Leader),
        "follower" => Some(ServerRole::Follower),
        "observer" => Some(ServerRole::Observer),
        "standalone" => Some(ServerRole::Standalone),
        "read-only" => Some(ServerRole::ReadOnly),
        _ => None,
    }
}

/// Parses a number of 0 or more. ZooKeeper writes some integers with a fraction; -1 means unknown.
fn parse_number(value: &str) -> Option<f64> {
    value.parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0)
}

fn parse_integer(value: &str) -> Option<u64> {
    // Numbers with a fraction are far below an f64's exact range; larger ones are integers.
    value.parse().ok().or_else(|| parse_number(value).map(|it| it as u64))
}

#[cfg(test)]
mod tests;
