//! The demo's load: the shipped load generator, run as a user would run it. Its lines pass through;
//! its last line is the verdict.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use millrace_stack::Stack;

use crate::say;

/// What the load generator reported.
#[derive(Debug)]
pub(super) struct Load {
    /// Its line on what was sent.
    pub(super) sending: String,
    /// Its last line.
    pub(super) verdict: String,
    /// Whether it found everything acknowledged and stored as sent.
    pub(super) whole: bool,
}

/// Send `spans` to the edge and have each one checked in ClickHouse.
pub(super) fn send_and_check(
    program: &Path,
    stack: &Stack,
    endpoint: &str,
    spans: u64,
) -> Result<Load> {
    let user = stack.clickhouse_user_file();
    let user =
        fs::read_to_string(&user).with_context(|| format!("cannot read {}", user.display()))?;
    let mut child = Command::new(program)
        .args(["run", "--endpoint", endpoint, "--count", &spans.to_string()])
        .args(["--compression", "gzip", "--clickhouse", &stack.clickhouse_url()])
        .args(["--user", user.trim(), "--password-file"])
        .arg(stack.clickhouse_password_file())
        .stdout(Stdio::piped())
        .spawn()
        .context("the load generator could not be started")?;
    let output = child.stdout.take().context("the load generator has no output")?;
    let mut lines: Vec<String> = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("the load generator's output is no UTF-8")?;
        if let Some(earlier) = lines.last() {
            say::step(earlier);
        }
        lines.push(line);
    }
    let whole = child.wait().context("the load generator did not end")?.success();
    let Some(verdict) = lines.pop() else { bail!("the load generator said nothing") };
    let sending = lines.into_iter().find(|line| line.starts_with("acknowledged="));
    Ok(Load { sending: sending.unwrap_or_else(|| "-".to_owned()), verdict, whole })
}
