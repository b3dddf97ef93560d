//! Packets between pods, dropped in the node's network as an enforced NetworkPolicy drops them. The
//! stack's own pod network enforces none.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use millrace_stack::Stack;

/// A rule that drops packets, until this is dropped.
pub(crate) struct Blocked<'s> {
    stack: &'s Stack,
    table: String,
}

impl<'s> Blocked<'s> {
    /// Drops what a pod sends to a TCP port of other pods. Connections that exist break off too.
    pub(crate) fn between(stack: &'s Stack, from: &str, to: &[String], port: u16) -> Result<Self> {
        let table = format!("millrace_e2e_{}", std::process::id());
        let this = Self { stack, table };
        let (table, to) = (&this.table, to.join(", "));
        // Pods are on a bridge: their packets are forwarded below IP.
        this.nft(&format!(
            "add table bridge {table}; \
             add chain bridge {table} drops {{ type filter hook forward priority 0; }}; \
             add rule bridge {table} drops ip saddr {from} ip daddr {{ {to} }} \
             tcp dport {port} counter drop"
        ))?;
        Ok(this)
    }

    /// The number of packets that were dropped.
    pub(crate) fn packets(&self) -> Result<u64> {
        let listed = self.nft(&format!("list table bridge {}", self.table))?;
        let (_, count) = listed.split_once("counter packets ").context("no rule has a counter")?;
        let count = count.split_whitespace().next().unwrap_or_default();
        count.parse().with_context(|| format!("no count: {listed}"))
    }

    fn nft(&self, commands: &str) -> Result<String> {
        let mut nft = Command::new("nft");
        nft.arg(commands);
        let output = self.stack.node().inside(&nft)?.output().context("cannot run nft")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "nft {commands}: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        let _ = self.nft(&format!("delete table bridge {}", self.table));
    }
}
