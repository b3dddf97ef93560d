//! Log files whose reader dies, loses its positions, or can't write them, while they are rotated.
//!
//! What was in the table some seconds before a kill is on record, and never comes again. What came
//! since may come once more; all that is there may, where all positions are damaged.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use millrace_e2e::wait;
use millrace_stack::disk::Disk;
use millrace_stack::random::Random;
use millrace_stack::service;

use super::Scene;
use crate::logs::Logs;

/// How long a stored line takes to be on record: positions are written every second, on a machine
/// that may have other work.
const ON_RECORD: (Duration, Duration) =
    (Duration::from_millis(2_500), Duration::from_millis(3_500));
/// The same for the positions before the newest: a second more.
const ON_RECORD_TWICE: (Duration, Duration) =
    (Duration::from_millis(4_000), Duration::from_millis(5_000));
/// For how long nobody reads: every file is rotated about once.
const AWAY: Duration = Duration::from_secs(2);
/// How long the reader may take to meet a full disk, or one with room.
const DISK_LIMIT: Duration = Duration::from_secs(60);
/// How long the load of spans may take to flow again.
const FLOW_LIMIT: Duration = Duration::from_secs(180);
/// The reader's metric of positions that it could not write.
const FAILED: &str = "millrace_files_positions_failed_total";
/// The documents of positions.
const NEWEST: &str = "positions";
const PREVIOUS: &str = "positions.previous";

/// Strikes of one turn.
pub(super) const STRIKES: u32 = TURN.len() as u32;

type Strike = fn(&mut Scene<'_>, &mut Logs) -> Result<()>;

const TURN: [(&str, Strike); 6] = [
    ("killed", killed),
    ("killed and away", killed_and_away),
    ("newest positions damaged", newest_damaged),
    ("killed without Kafka", killed_without_kafka),
    ("no room for positions", no_room),
    ("all positions damaged", all_damaged),
];

/// Each strike in turn, on one reader, one set of files.
pub(super) fn log_files(scene: &mut Scene<'_>) -> Result<()> {
    let mut logs = Logs::start(scene.world, scene.random.number())?;
    for run in 0..scene.runs {
        let (name, strike) = TURN[((scene.before + run) % STRIKES) as usize];
        strike(scene, &mut logs).context(name)?;
        let began = Instant::now();
        logs.catch_up(scene.world).context(name)?;
        let seconds = began.elapsed().as_secs_f64();
        scene.notes.recovered_s_max = scene.notes.recovered_s_max.max(seconds);
    }
    scene.notes.lines = Some(logs.end(scene.world)?);
    Ok(())
}

/// What is stored now, returned when that is on record.
fn on_record(scene: &mut Scene<'_>, logs: &Logs, after: (Duration, Duration)) -> Result<Vec<u64>> {
    let stored = logs.stored(scene.world)?;
    // The moment is what is random here, and a promise about time is what is tested.
    sleep(scene.random.between(after.0, after.1));
    Ok(stored)
}

fn killed(scene: &mut Scene<'_>, logs: &mut Logs) -> Result<()> {
    let from = on_record(scene, logs, ON_RECORD)?;
    let to = logs.kill(scene.world)?;
    logs.allow(&from, &to);
    logs.start_reader().map(drop)
}

fn killed_and_away(scene: &mut Scene<'_>, logs: &mut Logs) -> Result<()> {
    let from = on_record(scene, logs, ON_RECORD)?;
    let to = logs.kill(scene.world)?;
    logs.allow(&from, &to);
    sleep(AWAY);
    logs.start_reader().map(drop)
}

fn newest_damaged(scene: &mut Scene<'_>, logs: &mut Logs) -> Result<()> {
    let from = on_record(scene, logs, ON_RECORD_TWICE)?;
    let to = logs.kill(scene.world)?;
    logs.allow(&from, &to);
    damage(&logs.positions().join(NEWEST), &mut scene.random)?;
    let said = logs.start_reader()?;
    expect(scene, &said, "the previous ones are used");
    Ok(())
}

/// All that is there may come again, and nothing may be skipped, whatever was rotated meanwhile.
fn all_damaged(scene: &mut Scene<'_>, logs: &mut Logs) -> Result<()> {
    let to = logs.kill(scene.world)?;
    logs.allow(&vec![0; to.len()], &to);
    for name in [NEWEST, PREVIOUS] {
        damage(&logs.positions().join(name), &mut scene.random)?;
    }
    sleep(AWAY);
    let said = logs.start_reader()?;
    expect(scene, &said, "every file is read from its beginning");
    Ok(())
}

/// The broker restarts, and the reader is killed while it has nowhere to send.
fn killed_without_kafka(scene: &mut Scene<'_>, logs: &mut Logs) -> Result<()> {
    let from = on_record(scene, logs, ON_RECORD)?;
    scene.world.lab.broker.stop();
    sleep(AWAY);
    let to = logs.kill(scene.world)?;
    logs.allow(&from, &to);
    let launch = logs.reader.launched().clone();
    logs.reader.relaunch(launch)?;
    scene.world.lab.broker.restart()?;
    logs.reader.ready()?;
    scene.recover()?;
    scene.flow.goes_on(1_000, FLOW_LIMIT)
}

/// Reading goes on without room for positions, also after a kill, and positions are written again
/// when there is room.
fn no_room(scene: &mut Scene<'_>, logs: &mut Logs) -> Result<()> {
    let from = on_record(scene, logs, ON_RECORD)?;
    let disk = |scene: &Scene<'_>, does: fn(&Disk) -> service::Result<()>| {
        let disks = scene.world.disks.as_ref();
        let disks = disks.context("this world was made without disks of its own")?;
        anyhow::Ok(does(&disks.positions)?)
    };
    wait::until("positions to find no room", DISK_LIMIT, || {
        // Again, as the document before the last may have left room.
        disk(scene, |disk| disk.fill(0))?;
        ensure!(logs.reader.metric(FAILED, "")? > 0.0, "positions are written");
        Ok(())
    })?;
    logs.catch_up(scene.world)?;
    let to = logs.kill(scene.world)?;
    logs.allow(&from, &to);
    logs.start_reader()?;
    logs.catch_up(scene.world)?;
    let freed = SystemTime::now();
    disk(scene, Disk::free)?;
    wait::until("positions to be written again", DISK_LIMIT, || {
        let written = fs::metadata(logs.positions().join(NEWEST))?.modified()?;
        ensure!(written > freed, "the last are from before there was room");
        Ok(())
    })
}

/// Cuts a document anywhere, or changes one of its bytes.
fn damage(document: &Path, random: &mut Random) -> Result<()> {
    let named = || format!("{} could not be damaged", document.display());
    let mut bytes = fs::read(document).with_context(named)?;
    let place = random.below(bytes.len() as u64) as usize;
    if random.below(2) == 0 {
        bytes.truncate(place);
    } else {
        bytes[place] ^= 1 << random.below(8);
    }
    fs::write(document, bytes).with_context(named)
}

/// A reader that doesn't say what happens next breaks a promise.
fn expect(scene: &mut Scene<'_>, said: &str, what: &str) {
    if !said.contains(what) {
        scene.notes.broken.push(format!("with damaged positions it didn't say: {what}"));
    }
}
