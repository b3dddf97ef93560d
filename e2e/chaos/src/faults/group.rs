//! Trouble in the consumer group: members that come and go, and one that sleeps through it.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use millrace_e2e::collector::Collector;
use millrace_e2e::lab::DRAIN_LIMIT;
use millrace_e2e::process::signal;

use super::Scene;
use crate::world::{Delivery, SESSION_TIMEOUT};

/// Between two changes of the membership.
const CHANGE_EVERY: Duration = Duration::from_secs(2);
/// How long a member sleeps beyond its session, so that its partitions have other owners by then.
const OVERSLEEP: Duration = Duration::from_secs(3);

/// Stops a member until others own its partitions and have read them, then lets it go on: whatever
/// it still has in hand comes late.
pub(super) fn late_revoke(scene: &mut Scene<'_>) -> Result<()> {
    for _ in 0..scene.runs {
        let count = scene.world.gateways.len() as u64;
        let victim = usize::try_from(scene.random.below(count))?;
        let pid = scene.world.gateways[victim].process().pid();
        signal(pid, "STOP")?;
        sleep(SESSION_TIMEOUT + OVERSLEEP);
        signal(pid, "CONT")?;
        scene.recover()?;
    }
    Ok(())
}

/// Lets a third of the group come and go. It leaves in good order or by SIGKILL, by chance; the
/// others are never asked.
pub(super) fn rebalance_storm(scene: &mut Scene<'_>) -> Result<()> {
    let mut guests: Vec<Collector> = Vec::new();
    for run in 0..scene.runs {
        sleep(CHANGE_EVERY);
        match guests.pop() {
            None => {
                let name = format!("gateway-guest-{}", scene.before + run);
                let delivery = Delivery::EffectivelyOnce;
                guests.push(scene.world.gateway(&name, delivery, false)?);
            }
            Some(mut guest) if scene.random.below(4) == 0 => guest.process().kill9()?,
            Some(mut guest) => drop(guest.process().terminate(DRAIN_LIMIT)?),
        }
    }
    for mut guest in guests {
        guest.process().terminate(DRAIN_LIMIT)?;
    }
    Ok(())
}
