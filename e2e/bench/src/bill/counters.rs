//! What an engine has spent so far.

use anyhow::{Context, Result};
use millrace_stack::clickhouse::Engine;

use crate::process::usage;

/// Its counters at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counters {
    /// User and system time of its process.
    pub(crate) process_seconds: f64,
    /// The same of its queries alone.
    pub(crate) query_seconds: f64,
    /// Merges that began.
    pub(crate) merges: u64,
}

impl Counters {
    pub(crate) fn of(engine: &Engine) -> Result<Self> {
        let text = engine.query(
            "SELECT toUInt64(sumIf(value, event IN ('UserTimeMicroseconds', \
             'SystemTimeMicroseconds'))), toUInt64(sumIf(value, event = 'Merge')) \
             FROM system.events",
        )?;
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next().context("too few counters")?.context("a counter");
        let (micros, merges) = (next()?, next()?);
        let process_seconds = usage(engine.pid())?.cpu_seconds;
        Ok(Self { process_seconds, query_seconds: micros as f64 / 1e6, merges })
    }
}
