//! A load on a pipeline of the repository: what commits do to records.

use std::time::Duration;

use anyhow::{Result, ensure};
use millrace_e2e::loadgen::Running;
use millrace_e2e::pipeline;
use tempfile::TempDir;

use crate::gitops::world::World;

/// Spans per second: little beside what a gateway takes, so that none waits when the load ends.
const RATE: u64 = 500;
/// More than are sent before a test ends it: 30 minutes of them.
const COUNT: u64 = RATE * 30 * 60;
/// Sent before a test goes on.
const FLOWING: u64 = RATE * 4;
/// Until it flows, and until the verdict.
const LIMIT: Duration = Duration::from_secs(120);

/// A load under way.
pub(in crate::gitops) struct Flow {
    running: Running,
    /// Its logs.
    _folder: TempDir,
}

impl Flow {
    /// Sends to the pipeline of a namespace, and returns when records are taken.
    pub(in crate::gitops) fn start(world: &World, namespace: &str, seed: u64) -> Result<Self> {
        let (stack, cluster) = (&world.stack, &world.cluster);
        let load = pipeline::load(stack, cluster, namespace, seed, COUNT, Some(RATE))?;
        let folder = tempfile::tempdir()?;
        let mut running = load.start(folder.path())?;
        running.reached(FLOWING, LIMIT)?;
        Ok(Self { running, _folder: folder })
    }

    /// Ends it, and compares what was acknowledged with what is stored: each span once, unaltered.
    pub(in crate::gitops) fn all_stored(self) -> Result<()> {
        self.running.stop_sending()?;
        let verdict = self.running.verdict(LIMIT)?;
        let faults = verdict.missing + verdict.altered + verdict.duplicated + verdict.invented;
        ensure!(faults == 0 && verdict.sent >= FLOWING, "{}", verdict.line);
        println!("under changes: {}", verdict.line);
        Ok(())
    }
}
