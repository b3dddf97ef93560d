//! Disks that are full for a while, each in turn: the broker's, the engine's, and the one that an
//! edge keeps its buffer on.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use millrace_e2e::collector::Collector;
use millrace_e2e::wait;

use super::Scene;
use crate::disk::{Disks, NOTHING_BYTES};
use crate::proxy::Mode;
use crate::world::{RATE, World};

/// How long a server's disk stays full: the broker gives up on it and ends, the engine refuses some
/// scores of inserts.
const FULL: Duration = Duration::from_secs(10);
/// What is left on the engine's full disk: less than it keeps free, enough for a merge under way.
const ENGINE_LEFT_BYTES: u64 = 32 << 20;
/// How long an edge may take until it buffers, is full, or has room again.
const BUFFER_LIMIT: Duration = Duration::from_secs(60);
/// How long the load may take to flow again.
const FLOW_LIMIT: Duration = Duration::from_secs(120);

/// Fills one disk after the other, and makes room again.
pub(super) fn full(scene: &mut Scene<'_>) -> Result<()> {
    for run in 0..scene.runs {
        match (scene.before + run) % 3 {
            0 => broker(scene)?,
            1 => engine(scene)?,
            _ => buffer(scene)?,
        }
        scene.recover()?;
        scene.flow.goes_on(RATE, FLOW_LIMIT)?;
    }
    Ok(())
}

fn disks(world: &World) -> Result<&Disks> {
    world.disks.as_ref().context("this world was made without disks of its own")
}

/// Kafka ends when its only log directory fails; whoever looks after it makes room and starts it.
fn broker(scene: &mut Scene<'_>) -> Result<()> {
    disks(scene.world)?.broker.fill(NOTHING_BYTES)?;
    sleep(FULL);
    let is_felt = !scene.world.broker_serves();
    disks(scene.world)?.broker.free()?;
    if !is_felt {
        scene.notes.broken.push("the broker went on with a full disk: the fault was none".into());
    }
    // It may be on its way out: it is started anew in any case.
    scene.world.lab.broker.kill9();
    scene.world.lab.broker.restart()?;
    Ok(())
}

/// ClickHouse refuses inserts, and takes them again by itself. It keeps some room free for what it
/// is at (64 MiB in this stand), half of which is there: without, it damages parts, as
/// docs/clickhouse.md says.
fn engine(scene: &mut Scene<'_>) -> Result<()> {
    let refused = |world: &World| -> Result<f64> {
        let of = |gateway: &Collector| gateway.metric("millrace_insert_retries_total", "");
        world.gateways.iter().map(of).sum()
    };
    let before = refused(scene.world)?;
    disks(scene.world)?.engine.fill(ENGINE_LEFT_BYTES)?;
    sleep(FULL);
    let during = refused(scene.world)? - before;
    disks(scene.world)?.engine.free()?;
    if during <= 0.0 {
        scene.notes.broken.push("no insert was refused: the fault was none".to_owned());
    }
    Ok(())
}

/// An edge whose buffer's disk is full while Kafka is away refuses what it has no room for, and
/// takes more as soon as there is room.
fn buffer(scene: &mut Scene<'_>) -> Result<()> {
    let folder = disks(scene.world)?.buffer.path().join("buffer");
    let mut edge = scene.world.buffering_edge(&folder)?;
    edge.ready()?;
    let mut load = scene.world.flow_into(&edge, scene.random.number())?;
    scene.world.kafka.set(Mode::BlackHole);
    let struck = fill_buffer(scene.world, &edge, || load.goes_on(RATE, FLOW_LIMIT));
    scene.world.kafka.set(Mode::Pass);
    disks(scene.world)?.buffer.free()?;
    struck?;
    load.goes_on(RATE, FLOW_LIMIT)?;
    load.stop()?;
    scene.notes.crowds.push(load.through(edge));
    Ok(())
}

fn fill_buffer(
    world: &World,
    edge: &Collector,
    goes_on: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let until_grown = |what: &str, name: &str| -> Result<()> {
        let before = edge.metric(name, "")?;
        wait::until(what, BUFFER_LIMIT, || match edge.metric(name, "")? > before {
            true => Ok(()),
            false => bail!("{name} is {before}"),
        })
    };
    until_grown("the edge to buffer", "millrace_buffer_records")?;
    disks(world)?.buffer.fill(NOTHING_BYTES)?;
    until_grown("clients to be turned away", "millrace_records_refused_total")?;
    disks(world)?.buffer.free()?;
    goes_on().context("with room on the disk again, and Kafka away")
}
