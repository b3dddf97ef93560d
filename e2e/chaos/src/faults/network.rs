//! Networks that don't carry, carry one way, lose connections, or are slow.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use super::Scene;
use crate::proxy::Mode;
use crate::world::{RATE, World};

/// A partition's length, from a blink to past the group's session time-out.
const PARTITION: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(8));
/// How long answers are held before a connection is reset: requests have landed by then.
const HELD: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// How long the way to ClickHouse is slow.
const SLOW_SINK: Duration = Duration::from_secs(30);
/// How long the way to the broker is: past the edge's delivery time-out (25 s), by which messages
/// are given up that may have landed (docs/internals/faults.md, finding 14).
const SLOW_BROKER: Duration = Duration::from_secs(30);
/// A lean span takes about 60 bytes of an insert and 25 of a Kafka message, compressed; 1 % of
/// either at our rate, over the connections a gateway or an edge has.
const SLOW_BYTES_PER_SECOND: u64 = RATE * 50 / 100;
/// How long the load may take to flow again.
const FLOW_LIMIT: Duration = Duration::from_secs(120);

/// No network to the broker or to ClickHouse, both ways or for answers only; each shape in turn.
pub(super) fn partition(scene: &mut Scene<'_>) -> Result<()> {
    for run in 0..scene.runs {
        let shape = (scene.before + run) % 4;
        let World { kafka, sink, .. } = &*scene.world;
        let (proxy, mode) = match shape {
            0 => (kafka, Mode::BlackHole),
            1 => (sink, Mode::BlackHole),
            2 => (kafka, Mode::OnlyToServer),
            _ => (sink, Mode::OnlyToServer),
        };
        proxy.set(mode);
        sleep(scene.random.between(PARTITION.0, PARTITION.1));
        proxy.set(Mode::Pass);
        scene.recover()?;
    }
    Ok(())
}

/// Every connection is reset; half of the time answers are held first, so that what was asked has
/// happened and nobody was told.
pub(super) fn lost_connections(scene: &mut Scene<'_>) -> Result<()> {
    for run in 0..scene.runs {
        let World { kafka, sink, .. } = &*scene.world;
        let proxy = if run.is_multiple_of(2) { kafka } else { sink };
        if scene.random.below(2) == 0 {
            proxy.set(Mode::OnlyToServer);
            sleep(scene.random.between(HELD.0, HELD.1));
        }
        proxy.set(Mode::Cut);
        sleep(scene.random.between(HELD.0, HELD.1));
        proxy.set(Mode::Pass);
        scene.recover()?;
        scene.flow.goes_on(RATE, FLOW_LIMIT)?;
    }
    Ok(())
}

/// ClickHouse is a hundred times too far away.
pub(super) fn slow_sink(scene: &mut Scene<'_>) -> Result<()> {
    for _ in 0..scene.runs {
        scene.world.sink.set(Mode::Throttle { bytes_per_second: SLOW_BYTES_PER_SECOND });
        sleep(SLOW_SINK);
        scene.world.sink.set(Mode::Pass);
        scene.recover()?;
    }
    Ok(())
}

/// The broker is a hundred times too far away and clients are many: they must be told to come back,
/// in words that don't make them drop anything, and the edge must keep to its memory.
pub(super) fn slow_broker(scene: &mut Scene<'_>) -> Result<()> {
    for _ in 0..scene.runs {
        let refused = |world: &World| world.edge.metric("millrace_records_refused_total", "");
        let before = refused(scene.world)?;
        scene.world.kafka.set(Mode::Throttle { bytes_per_second: SLOW_BYTES_PER_SECOND });
        let mut crowd = scene.world.crowd(scene.random.number())?;
        sleep(SLOW_BROKER);
        let turned_away = refused(scene.world)? - before;
        // Enough was asked of it; what is under way comes to its end.
        crowd.stop()?;
        scene.notes.crowds.push(crowd);
        scene.world.kafka.set(Mode::Pass);
        if turned_away <= 0.0 {
            scene.notes.broken.push("nobody was turned away: the fault was none".to_owned());
        }
        scene.recover()?;
        scene.flow.goes_on(RATE, FLOW_LIMIT)?;
    }
    Ok(())
}
