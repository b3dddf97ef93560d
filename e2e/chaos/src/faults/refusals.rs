//! What refuses records that are good: a view behind a table, a topic below its minimum of replicas,
//! and nobody who answers for longer than clients wait.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use millrace_e2e::lab::TOPIC;
use millrace_e2e::topics;

use super::Scene;
use crate::proxy::Mode;
use crate::world::{RATE, World};

/// How long a view refuses: several inserts of each partition are in the table by then, and wait.
const REFUSING_VIEW: Duration = Duration::from_secs(5);
/// One row of so many is refused by the view: nearly every insert has one.
const REFUSED_ROWS: u32 = 50;
/// How long a topic has fewer replicas than it wants: shorter than the edge waits for an answer.
const FEW_REPLICAS: Duration = Duration::from_secs(8);
/// Longer than clients wait for an answer, and than the edge does.
const LONG_STALL: Duration = Duration::from_secs(60);
/// How long the load may take to flow again.
const FLOW_LIMIT: Duration = Duration::from_secs(120);

/// A materialized view throws for some rows: their inserts fail although the table has them.
pub(super) fn refusing_view(scene: &mut Scene<'_>) -> Result<()> {
    let query = |scene: &Scene<'_>, text: &str| scene.world.lab.engine.query(text).map(drop);
    for _ in 0..scene.runs {
        let before = retried_inserts(scene.world)?;
        query(scene, "CREATE TABLE otel.refusing_rows (refused UInt8) ENGINE = Null")?;
        query(
            scene,
            &format!(
                "CREATE MATERIALIZED VIEW otel.refusing TO otel.refusing_rows AS SELECT \
                 throwIf(cityHash64(SpanId) % {REFUSED_ROWS} = 0) AS refused FROM otel.otel_traces"
            ),
        )?;
        sleep(REFUSING_VIEW);
        let retried = retried_inserts(scene.world)? - before;
        query(scene, "DROP TABLE otel.refusing SYNC")?;
        query(scene, "DROP TABLE otel.refusing_rows SYNC")?;
        if retried <= 0.0 {
            scene.notes.broken.push("no insert failed: the fault was none".to_owned());
        }
        scene.recover()?;
        scene.flow.goes_on(RATE, FLOW_LIMIT)?;
    }
    Ok(())
}

/// Inserts that were not stored at first, over all gateways.
fn retried_inserts(world: &World) -> Result<f64> {
    world.gateways.iter().map(|each| each.metric("millrace_insert_retries_total", "")).sum()
}

/// The topic wants more replicas than it has, so that it takes nothing.
pub(super) fn few_replicas(scene: &mut Scene<'_>) -> Result<()> {
    let bootstrap = scene.world.lab.broker.internal_bootstrap();
    let want = |replicas| {
        let settings =
            [("message.timestamp.type", "LogAppendTime"), ("min.insync.replicas", replicas)];
        topics::configure(&bootstrap, TOPIC, &settings)
    };
    for _ in 0..scene.runs {
        want("2")?;
        sleep(FEW_REPLICAS);
        want("1")?;
        scene.recover()?;
        scene.flow.goes_on(RATE, FLOW_LIMIT)?;
    }
    Ok(())
}

/// The broker doesn't answer for longer than clients wait, and they send again.
pub(super) fn long_stall(scene: &mut Scene<'_>) -> Result<()> {
    for _ in 0..scene.runs {
        scene.world.kafka.set(Mode::BlackHole);
        sleep(LONG_STALL);
        scene.world.kafka.set(Mode::Pass);
        scene.recover()?;
        scene.flow.goes_on(RATE, FLOW_LIMIT)?;
    }
    Ok(())
}
