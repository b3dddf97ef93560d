//! Collectors that end at a named line. Builds with debug assertions have such lines.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use millrace_e2e::collector::Collector;
use millrace_e2e::lab::DRAIN_LIMIT;
use millrace_e2e::process::signal;
use millrace_e2e::wait;

use super::Scene;
use crate::world::Delivery;

/// The variable that arms a point.
const VARIABLE: &str = "MILLRACE_FAILPOINT";
/// A point that isn't come to in this is none.
const REACH_LIMIT: Duration = Duration::from_secs(60);
/// Points on the way of every record are struck at one of the first so many visits.
const VISITS_MAX: u64 = 40;

/// The points, in the order a record comes by. `edge:` are the edge's, the others a gateway's.
pub const NAMES: &[&str] = &[
    "edge:after-decode",
    "edge:before-produce",
    "edge:after-produce",
    "edge:before-answer",
    "edge:in-drain",
    "after-fetch",
    "before-insert",
    "after-insert-sent",
    "before-ledger-ack",
    "before-commit",
    "in-revoke",
    "in-drain",
];

/// Ends collectors at each point in turn.
pub(super) fn kill_at_point(scene: &mut Scene<'_>) -> Result<()> {
    for run in scene.before..scene.before + scene.runs {
        let name = NAMES[run as usize % NAMES.len()];
        at_point(scene, name).with_context(|| format!("at point {name}"))?;
    }
    Ok(())
}

fn at_point(scene: &mut Scene<'_>, name: &str) -> Result<()> {
    let (is_edge, point) = match name.strip_prefix("edge:") {
        Some(point) => (true, point),
        None => (false, name),
    };
    let visit = match point {
        // May come once in a life: a drain that finds all stored is over at its first look.
        "in-revoke" | "in-drain" => 1,
        // Comes once a second for each of them.
        "before-commit" => 1 + scene.random.below(6),
        _ => 1 + scene.random.below(VISITS_MAX),
    };
    let index = usize::try_from(scene.random.below(scene.world.gateways.len() as u64))?;
    scene.world.note_memory();
    let victim = match is_edge {
        true => &mut scene.world.edge,
        false => &mut scene.world.gateways[index],
    };
    let usual = victim.launched().clone();
    let mut armed = usual.clone();
    armed.variables.push((VARIABLE.to_owned(), format!("{point}:{visit}")));
    victim.process().kill9()?;
    victim.relaunch(armed)?;
    // A revocation comes when somebody joins.
    let guest = match point {
        "in-revoke" => {
            victim.ready()?;
            Some(scene.world.gateway("gateway-extra", Delivery::EffectivelyOnce, false)?)
        }
        _ => None,
    };
    let victim = match is_edge {
        true => &mut scene.world.edge,
        false => &mut scene.world.gateways[index],
    };
    let struck = ask_for(point, victim).and_then(|()| await_end(victim));
    // Whatever came of it, it isn't armed any more.
    victim.relaunch(usual)?;
    if let Some(mut guest) = guest {
        guest.process().terminate(DRAIN_LIMIT)?;
    }
    struck
}

/// Some points only come when something is asked of the process.
fn ask_for(point: &str, victim: &mut Collector) -> Result<()> {
    if point == "in-drain" {
        victim.ready()?;
        signal(victim.process().pid(), "TERM")?;
    }
    Ok(())
}

/// Waits until the process has aborted, which is what a point does.
fn await_end(victim: &mut Collector) -> Result<()> {
    let ended = wait::until("the point to be reached", REACH_LIMIT, || {
        victim.process().ended()?.context("it still runs")
    })?;
    if ended.code().is_some() {
        bail!("it ended by itself ({ended}) before the point was reached");
    }
    Ok(())
}
