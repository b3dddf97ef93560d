//! Wall clocks that step, as they do when a machine finds out that it was wrong: an hour or a day,
//! forward or back, everywhere or in some places.

use std::time::Duration;

use anyhow::Result;
use millrace_e2e::collector::Collector;
use millrace_e2e::lab::DRAIN_LIMIT;

use super::Scene;
use crate::clock::Clock;
use crate::world::{RATE, World};

/// How far a clock steps, in seconds; each in turn.
const STEPS_SECONDS: [i64; 4] = [3_600, -3_600, 86_400, -86_400];
/// How long the load may take to flow after a step.
const FLOW_LIMIT: Duration = Duration::from_secs(120);

/// Whose clocks step at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Everybodys,
    Edges,
    Gateway(usize),
}

impl Whose {
    /// The edge comes after the gateways.
    fn has(self, index: usize, gateways: usize) -> bool {
        match self {
            Self::Everybodys => true,
            Self::Edges => index == gateways,
            Self::Gateway(which) => index == which,
        }
    }
}

/// Steps clocks, waits until all is well while they are wrong, and sets them right again.
pub(super) fn step(scene: &mut Scene<'_>) -> Result<()> {
    let names = members(scene.world).map(|member| member.name().to_owned());
    let names: Vec<String> = names.collect();
    let folder = scene.world.lab.folder().to_path_buf();
    let clocks = names.iter().map(|name| Clock::new(&folder, name));
    let clocks = clocks.collect::<Result<Vec<_>>>()?;
    restart(scene.world, Some(&clocks))?;
    let struck = steps(scene, &clocks);
    restart(scene.world, None)?;
    struck
}

fn steps(scene: &mut Scene<'_>, clocks: &[Clock]) -> Result<()> {
    for run in 0..scene.runs {
        let seconds = STEPS_SECONDS[(scene.before + run) as usize % STEPS_SECONDS.len()];
        let gateways = scene.world.gateways.len();
        let whose = match scene.random.below(3) {
            0 => Whose::Everybodys,
            1 => Whose::Edges,
            _ => Whose::Gateway(usize::try_from(scene.random.below(gateways as u64))?),
        };
        for seconds in [seconds, 0] {
            let stepped = members(scene.world).zip(clocks).enumerate();
            for (_, (member, clock)) in stepped.filter(|(index, _)| whose.has(*index, gateways)) {
                clock.set(seconds, member)?;
            }
            let context = || format!("{whose:?} clock is {seconds} s off");
            scene.flow.goes_on(RATE, FLOW_LIMIT).map_err(|error| error.context(context()))?;
            scene.recover().map_err(|error| error.context(context()))?;
        }
    }
    Ok(())
}

/// The gateways, then the edge.
fn members(world: &World) -> impl Iterator<Item = &Collector> {
    world.gateways.iter().chain([&world.edge])
}

/// Ends and starts every collector, with these clocks or with the machine's.
fn restart(world: &mut World, clocks: Option<&[Clock]>) -> Result<()> {
    world.note_memory();
    for index in 0..=world.gateways.len() {
        let member = world.gateways.get_mut(index).unwrap_or(&mut world.edge);
        let mut launch = member.launched().clone();
        match clocks {
            Some(clocks) => launch = clocks[index].launch(&launch)?,
            None => Clock::forget(&mut launch),
        }
        member.process().terminate(DRAIN_LIMIT)?;
        member.relaunch(launch)?;
        world.ready()?;
    }
    Ok(())
}
