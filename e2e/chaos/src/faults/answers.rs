//! Inserts whose answers are not what a healthy server would send.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::Scene;
use crate::proxy::http::{Act, Script};

/// The chance that an insert is struck: it gets through after two tries on average, so that its
/// back-off stays short and many are struck in little time.
const CHANCE: f64 = 0.5;
/// A hundred struck inserts take some ten seconds.
const LIMIT_PER_HUNDRED: Duration = Duration::from_secs(90);
/// Lost answers under one load, with one size of the table's window: with a score of inserts a
/// second and a tenth of one before a repetition, most repetitions come after other inserts.
pub(super) const FORGETFUL_ROUND: u32 = 50;
/// Inserts that the table remembers as it was made, for up to six gateways.
const USUAL_WINDOW: u64 = 10_000;
/// How long a server says that it is overloaded.
const OVERLOAD: Duration = Duration::from_secs(10);

fn answered(status: u16, text: &str) -> Act {
    Act::Answer { status, text: text.to_owned() }
}

fn exception(code: u32, name: &str) -> String {
    format!("Code: {code}. DB::Exception: said by a test. ({name})")
}

/// A share of inserts is answered by somebody in between.
pub(super) fn errors(scene: &mut Scene<'_>) -> Result<()> {
    let passing = [500, 502, 503].map(|status| answered(status, "<html>bad gateway</html>"));
    // Of three passing errors each, and one that asks to slow down, which costs seconds.
    let mut acts: Vec<Act> = passing.iter().cloned().cycle().take(12).collect();
    acts.push(answered(429, "slow down"));
    strike(scene, acts)
}

/// A share of inserts is carried out and the answer lost.
pub(super) fn unknown_outcome(scene: &mut Scene<'_>) -> Result<()> {
    strike(scene, vec![Act::LoseAnswer])
}

/// A share of inserts is carried out and the answer lost, while the table remembers the last insert
/// alone, and in the next round as many as it was made to: only the first may double.
pub(super) fn forgetful_table(scene: &mut Scene<'_>) -> Result<()> {
    scene.notes.doubles = (scene.before / FORGETFUL_ROUND).is_multiple_of(2);
    remember(scene, if scene.notes.doubles { 1 } else { USUAL_WINDOW })?;
    let struck = unknown_outcome(scene);
    // What was struck last is repeated within the wait for it.
    let recovered = scene.recover();
    remember(scene, USUAL_WINDOW)?;
    struck.and(recovered)
}

/// Has the table remember so many inserts from now on.
fn remember(scene: &Scene<'_>, inserts: u64) -> Result<()> {
    let setting = format!("non_replicated_deduplication_window = {inserts}");
    scene
        .world
        .lab
        .engine
        .query(&format!("ALTER TABLE otel.otel_traces MODIFY SETTING {setting}"))?;
    Ok(())
}

/// A share of inserts gets half an answer, or one that hides a failure behind a success.
pub(super) fn damaged(scene: &mut Scene<'_>) -> Result<()> {
    let late = exception(236, "ABORTED");
    strike(
        scene,
        vec![
            Act::CutAnswer,
            // The rows landed, and the server failed after it; or nothing did.
            Act::ReplaceBody(format!("\n__exception__\r\n{late}")),
            answered(200, &late),
            Act::FewerRows,
        ],
    )
}

/// Every insert is refused for a while as an overloaded server does. Fewer must come meanwhile.
pub(super) fn overload(scene: &mut Scene<'_>) -> Result<()> {
    let parts = answered(500, &exception(252, "TOO_MANY_PARTS"));
    let memory = answered(500, &exception(241, "MEMORY_LIMIT_EXCEEDED"));
    let full = answered(500, &exception(243, "NOT_ENOUGH_SPACE"));
    let shapes = [parts, full, memory];
    for run in 0..scene.runs {
        let act = &shapes[(scene.before + run) as usize % shapes.len()];
        let answers = &scene.world.answers;
        let usual = inserts_in(scene, OVERLOAD / 2);
        answers.set(Some(Script {
            acts: vec![act.clone()],
            chance: 1.0,
            times: u64::MAX,
            seed: scene.random.number(),
        }));
        // The first half is when every gateway learns of it.
        sleep(OVERLOAD / 2);
        let during = inserts_in(scene, OVERLOAD / 2);
        scene.world.answers.set(None);
        if during * 4 > usual {
            let text = format!("{during} inserts to an overloaded server, {usual} to a well one");
            scene.notes.broken.push(text);
        }
        scene.recover()?;
    }
    Ok(())
}

/// How many inserts come within a time.
fn inserts_in(scene: &Scene<'_>, time: Duration) -> u64 {
    let before = scene.world.answers.seen().inserts;
    sleep(time);
    scene.world.answers.seen().inserts - before
}

fn strike(scene: &mut Scene<'_>, acts: Vec<Act>) -> Result<()> {
    let answers = &scene.world.answers;
    let struck = answers.seen().struck + u64::from(scene.runs);
    let times = u64::from(scene.runs);
    answers.set(Some(Script { acts, chance: CHANCE, times, seed: scene.random.number() }));
    let limit = LIMIT_PER_HUNDRED * scene.runs.div_ceil(100);
    let began = Instant::now();
    let reached = answers.reached(struck, limit);
    answers.set(None);
    reached.map_err(|error| error.context(format!("after {:.0?}", began.elapsed())))
}
