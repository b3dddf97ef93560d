//! Collectors that end at a named line, by a build that has such lines (`--features failpoints`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use millrace_e2e::collector::{Collector, Launch};
use millrace_e2e::lab::DRAIN_LIMIT;
use millrace_e2e::process::signal;
use millrace_e2e::{binaries, wait};

use super::Scene;
use crate::world::Delivery;

/// The variable that arms a point.
const VARIABLE: &str = "MILLRACE_FAILPOINT";
/// Where the build with points is, when not in its usual place.
const BINARY: &str = "MILLRACE_FAILPOINT_BIN";
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
    let binary = binary()?;
    for run in scene.before..scene.before + scene.runs {
        let name = NAMES[run as usize % NAMES.len()];
        at_point(scene, name, &binary).with_context(|| format!("at point {name}"))?;
    }
    Ok(())
}

fn at_point(scene: &mut Scene<'_>, name: &str, binary: &Path) -> Result<()> {
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
    let mut armed = Launch { binary: Some(binary.to_path_buf()), ..usual.clone() };
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

/// The collector with points.
fn binary() -> Result<PathBuf> {
    let usual = || binaries::target().join("chaos/millrace-collector");
    let path = std::env::var_os(BINARY).map_or_else(usual, PathBuf::from);
    if !path.is_file() {
        bail!("{} is not there: build it with `cargo xtask chaos`", path.display());
    }
    Ok(path)
}
