//! Processes of ours that die, are told to end, or stand still.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use millrace_e2e::lab::DRAIN_LIMIT;
use millrace_e2e::process::signal;

use super::Scene;
use crate::world::{BATCH_ROWS, INSERTS_IN_FLIGHT, PARTITIONS};

/// Between two kills: from before the last victim is back to after it has caught up.
const KILL_AFTER: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(3_500));
/// Shorter than the group's session time-out.
const FREEZE: Duration = Duration::from_secs(5);

/// Kills one gateway after the other, chosen by chance, each at a random moment.
pub(super) fn kill_gateway(scene: &mut Scene<'_>) -> Result<()> {
    for _ in 0..scene.runs {
        // The moment is what is random here; there is nothing to wait for.
        sleep(scene.random.between(KILL_AFTER.0, KILL_AFTER.1));
        let count = scene.world.gateways.len() as u64;
        let victim = usize::try_from(scene.random.below(count))?;
        scene.world.note_memory();
        let victim = &mut scene.world.gateways[victim];
        victim.process().still_runs().context("it ended before it was killed")?;
        victim.crash_and_restart()?;
        // What one gateway may have stored and not committed: of each of its partitions, what it
        // has in flight at once.
        let partitions = PARTITIONS as u64 / count;
        scene.notes.bound += partitions * INSERTS_IN_FLIGHT * BATCH_ROWS;
    }
    Ok(())
}

/// Kills the edge, each time at a random moment.
pub(super) fn kill_edge(scene: &mut Scene<'_>) -> Result<()> {
    for _ in 0..scene.runs {
        sleep(scene.random.between(KILL_AFTER.0, KILL_AFTER.1));
        scene.world.note_memory();
        let edge = &mut scene.world.edge;
        edge.process().still_runs().context("it ended before it was killed")?;
        edge.crash_and_restart()?;
    }
    Ok(())
}

/// Ends and starts the edge and every gateway, one after the other, as a roll-out does.
pub(super) fn drain(scene: &mut Scene<'_>) -> Result<()> {
    for _ in 0..scene.runs {
        scene.world.note_memory();
        scene.world.edge.drain_and_restart(DRAIN_LIMIT)?;
        scene.world.ready()?;
        for index in 0..scene.world.gateways.len() {
            scene.world.gateways[index].drain_and_restart(DRAIN_LIMIT)?;
            scene.world.ready()?;
        }
    }
    Ok(())
}

/// Stops a process and lets it go on before its group gives up on it.
pub(super) fn freeze(scene: &mut Scene<'_>) -> Result<()> {
    for run in 0..scene.runs {
        let count = scene.world.gateways.len() as u64;
        let victim = usize::try_from(scene.random.below(count))?;
        let victim = match run % 2 {
            0 => &mut scene.world.gateways[victim],
            _ => &mut scene.world.edge,
        };
        let pid = victim.process().pid();
        signal(pid, "STOP")?;
        sleep(FREEZE);
        signal(pid, "CONT")?;
        scene.flow.goes_on(1_000, Duration::from_secs(60))?;
    }
    Ok(())
}
