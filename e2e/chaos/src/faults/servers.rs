//! Trouble with Kafka and ClickHouse themselves: they restart or die, and Kafka holds messages that
//! nobody can read.

use std::collections::HashSet;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use millrace_e2e::lab::{DEAD_LETTERS, TOPIC};
use millrace_e2e::{topics, wait};

use super::Scene;
use crate::world::PARTITIONS;

/// Flow between two strikes.
const BETWEEN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));
/// How long the load may take to flow again after a server is back.
const FLOW_LIMIT: Duration = Duration::from_secs(180);
/// Between two poisoned messages: a hundred a second, more than there are good ones.
const POISON_EVERY: Duration = Duration::from_millis(10);
/// The longest that a partition may stand still because of a message that can't be read.
const STAND_LIMIT: Duration = Duration::from_secs(30);
/// A span of this name is refused by the table for as long as messages are poisoned.
const REFUSED_NAME: &str = "poison";
/// Headers of a dead letter that say which message it is of.
const SOURCE_HEADERS: [&str; 2] = ["millrace-source-partition", "millrace-source-offset"];
/// How long the last letters may take: refused rows, 20 a second of what is poisoned, wait for each
/// other. That no partition stands still meanwhile is looked at apart.
const LETTERS_LIMIT: Duration = Duration::from_secs(60);

/// Stops the broker in good order and starts it again.
pub(super) fn broker_restart(scene: &mut Scene<'_>) -> Result<()> {
    for _ in 0..scene.runs {
        sleep(scene.random.between(BETWEEN.0, BETWEEN.1));
        scene.world.lab.broker.restart()?;
        scene.recover()?;
        scene.flow.goes_on(1_000, FLOW_LIMIT)?;
    }
    Ok(())
}

/// Kills the broker and starts it again.
pub(super) fn broker_kill(scene: &mut Scene<'_>) -> Result<()> {
    for _ in 0..scene.runs {
        sleep(scene.random.between(BETWEEN.0, BETWEEN.1));
        scene.world.lab.broker.kill9();
        scene.world.lab.broker.restart()?;
        scene.recover()?;
        scene.flow.goes_on(1_000, FLOW_LIMIT)?;
    }
    Ok(())
}

/// Kills the engine and starts it again.
pub(super) fn engine_kill(scene: &mut Scene<'_>) -> Result<()> {
    for _ in 0..scene.runs {
        sleep(scene.random.between(BETWEEN.0, BETWEEN.1));
        scene.world.lab.engine.kill9()?;
        scene.world.lab.engine.restart()?;
        scene.recover()?;
    }
    Ok(())
}

/// Puts messages among the good ones that are no OTLP, or whose row the table refuses. Each must
/// come to the dead letters, and no partition may stand still for them.
pub(super) fn poison(scene: &mut Scene<'_>) -> Result<()> {
    let condition = format!("CHECK SpanName != '{REFUSED_NAME}'");
    change_table(scene, &format!("ADD CONSTRAINT no_poison {condition}"))?;
    let outcome = poison_messages(scene);
    change_table(scene, "DROP CONSTRAINT no_poison")?;
    outcome
}

fn change_table(scene: &Scene<'_>, change: &str) -> Result<()> {
    scene.world.lab.engine.query(&format!("ALTER TABLE otel.otel_traces {change}"))?;
    Ok(())
}

fn poison_messages(scene: &mut Scene<'_>) -> Result<()> {
    let bootstrap = scene.world.lab.broker.internal_bootstrap();
    let before = topics::count(&bootstrap, DEAD_LETTERS)?;
    let messages_before = letters_by_message(&bootstrap)?.len() as i64;
    let sessions_before = scene.world.lost_sessions()?;
    let mut random = scene.random.clone();
    let made = (0..scene.runs).map(|_| {
        let partition = i32::try_from(random.below(PARTITIONS as u64)).unwrap_or(0);
        (partition, poisoned(random.number()))
    });
    topics::produce_all(&bootstrap, TOPIC, made, POISON_EVERY)?;
    let wanted = i64::from(scene.runs);
    let letters = wait::until("every poisoned message's letter", LETTERS_LIMIT, || {
        let letters = topics::count(&bootstrap, DEAD_LETTERS)?;
        anyhow::ensure!(letters - before >= wanted, "{} of {wanted}", letters - before);
        let messages = letters_by_message(&bootstrap)?.len() as i64;
        let copies = letters - messages;
        anyhow::ensure!(messages - messages_before >= wanted, "{copies} are copies of others");
        Ok(letters - before)
    })?;
    // Whoever takes over from a gateway that lost its session sends its uncommitted letters again.
    let lost_sessions = scene.world.lost_sessions()?.saturating_sub(sessions_before);
    if letters > wanted && lost_sessions == 0 {
        scene.notes.broken.push(format!("{letters} dead letters of {wanted} poisoned messages"));
    }
    let stood = scene.world.watch.seen().longest_stand;
    if stood > STAND_LIMIT {
        scene.notes.broken.push(format!("a partition stood still for {stood:.0?}"));
    }
    Ok(())
}

/// The messages that dead letters are of, by partition and offset.
fn letters_by_message(bootstrap: &str) -> Result<HashSet<[Option<String>; 2]>> {
    let letters = topics::read_all(bootstrap, DEAD_LETTERS)?;
    let message = |letter: &topics::Raw| {
        SOURCE_HEADERS.map(|name| {
            let header = letter.headers.iter().find(|(key, _)| key == name);
            header.map(|(_, value)| value.clone())
        })
    };
    Ok(letters.iter().map(message).collect())
}

/// Bytes that are no OTLP request: a field cut off, a length beyond the end, or a nested message
/// that breaks inside. Or a request that is one, with a row the table refuses.
fn poisoned(number: u64) -> Vec<u8> {
    let tail = (number >> 8).to_le_bytes();
    let head: &[u8] = match number % 5 {
        0 => &[0x0a, 0xff, 0xff, 0x7f],
        1 => &[0x0a, 0x0f, 0x0a, 0x0b],
        2 => &[0x07, 0x07],
        3 => &[0x0a, 0x08, 0x12, 0xff],
        _ => return refused_row(&tail),
    };
    [head, &tail].concat()
}

/// A request with one span, of this id and the name that the table refuses.
fn refused_row(id: &[u8; 8]) -> Vec<u8> {
    // All lengths are under 128, so one byte each.
    let field = |tag: u8, bytes: &[u8]| [&[tag, bytes.len() as u8], bytes].concat();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let span = [
        field(0x0a, &[&id[..], id].concat()),       // trace_id
        field(0x12, id),                            // span_id
        field(0x2a, REFUSED_NAME.as_bytes()),       // name
        [&[0x39], &now.to_le_bytes()[..]].concat(), // start_time_unix_nano
        [&[0x41], &now.to_le_bytes()[..]].concat(), // end_time_unix_nano
    ];
    // resource_spans { scope_spans { spans } }
    field(0x0a, &field(0x12, &field(0x12, &span.concat())))
}
