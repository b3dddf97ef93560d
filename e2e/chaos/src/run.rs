//! Rounds: a load, faults in it, and the judgement. A fault that breaks a promise doesn't end the
//! run; what it left behind is mended and the next one begins.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use millrace_e2e::loadgen::Verdict;
use millrace_stack::random::Random;

use crate::faults::{Fault, Notes, Scene};
use crate::logs::judge::Judged;
use crate::report::Outcome;
use crate::say;
use crate::world::{Delivery, Flow, MEMORY_LIMIT_MIB, World};

/// After everything is well, fresh records must pass.
const FRESH_RECORDS: u64 = 500;
/// Within this.
const FRESH_LIMIT: Duration = Duration::from_secs(60);

/// Does a fault `runs` times, in rounds. Its loads' seeds are derived from `seed`.
pub fn fault(world: &mut World, fault: &Fault, runs: u32, seed: u64) -> Outcome {
    let began = Instant::now();
    let mut sum = Outcome { fault: fault.name.to_owned(), ..Outcome::default() };
    let mut random = Random::named(seed, fault.name);
    while sum.runs < runs {
        let count = fault.per_round.min(runs - sum.runs);
        let before = sum.runs;
        let mut outcome = Outcome { runs: count, ..Outcome::default() };
        if let Err(error) = round(world, fault, before, random.number(), &mut outcome) {
            outcome.broken.push(format!("{error:#}"));
        }
        if !outcome.is_kept() {
            for broken in &outcome.broken {
                say::progress(&format!("{}: broken: {broken}", fault.name));
            }
            say::progress(&format!("{}: logs stay in {}", fault.name, world.keep_logs()));
            if let Err(error) = world.mend() {
                outcome.broken.push(format!("it can't be mended: {error:#}"));
                sum.add(&outcome);
                break;
            }
        }
        sum.add(&outcome);
        let Outcome { runs: done, records, recovered_s_max, .. } = &sum;
        say::progress(&format!(
            "{}: {done} of {runs}, {records} records, recovered in {recovered_s_max:.1} s at most",
            fault.name
        ));
    }
    sum.seconds = began.elapsed().as_secs_f64();
    sum
}

fn round(
    world: &mut World,
    fault: &Fault,
    before: u32,
    seed: u64,
    outcome: &mut Outcome,
) -> Result<()> {
    let usual = Delivery::EffectivelyOnce;
    if fault.delivery != usual {
        world.set_delivery(fault.delivery)?;
        world.ready()?;
    }
    let struck = under_load(world, fault, before, seed, outcome);
    if fault.delivery != usual {
        world.set_delivery(usual)?;
        world.ready()?;
    }
    struck
}

fn under_load(
    world: &mut World,
    fault: &Fault,
    before: u32,
    seed: u64,
    outcome: &mut Outcome,
) -> Result<()> {
    world.watch.reset();
    world.take_memory();
    let mut flow = world.flow(seed)?;
    let random = Random::new(seed);
    let notes = Notes::default();
    let runs = outcome.runs;
    let mut scene = Scene { world, flow: &mut flow, random, runs, before, notes };
    let struck = (fault.strike)(&mut scene);
    let Notes { broken, bound, recovered_s_max, doubles, crowds, lines } = scene.notes;
    outcome.broken.extend(broken);
    outcome.recovered_s_max = recovered_s_max;
    if fault.delivery == Delivery::AtLeastOnce {
        outcome.bound = bound;
    }
    if doubles {
        outcome.bound = flow.acknowledged();
    }
    if let Err(error) = struck {
        outcome.broken.push(format!("{error:#}"));
        // The verdict is wanted all the same.
        world.mend()?;
    }
    settle(world, flow, crowds, outcome)?;
    if let Some(lines) = &lines {
        judge_lines(lines, outcome);
    }
    if doubles && outcome.duplicated == 0 {
        outcome.broken.push("nothing was doubled, so the fault has shown nothing".to_owned());
    }
    Ok(())
}

/// Waits until all is well, and has the loads judged.
fn settle(
    world: &mut World,
    mut flow: Flow,
    crowds: Vec<Flow>,
    outcome: &mut Outcome,
) -> Result<()> {
    let recovered = world.recovered().context("after the faults had stopped");
    match recovered {
        Ok(seconds) => outcome.recovered_s_max = outcome.recovered_s_max.max(seconds),
        Err(error) => outcome.broken.push(format!("{error:#}")),
    }
    if let Err(error) = flow.goes_on(FRESH_RECORDS, FRESH_LIMIT) {
        outcome.broken.push(format!("no fresh record passed: {error:#}"));
    }
    flow.stop()?;
    for flow in crowds.into_iter().chain([flow]) {
        judge(&flow.verdict()?, outcome);
    }
    let (rss_mib_max, whose) = world.take_memory();
    outcome.rss_mib_max = rss_mib_max;
    hold("MiB resident", rss_mib_max, MEMORY_LIMIT_MIB, &whose, outcome);
    let seen = world.watch.seen();
    if seen.stale.0 > 0 {
        let (count, longest) = seen.stale;
        say::progress(&format!(
            "{count} answers about commits were old, the longest came forward after {longest:.1?}"
        ));
    }
    for what in seen.went_back {
        outcome.broken.push(format!("a commit went back: {what}"));
    }
    Ok(())
}

/// Holds a verdict against the promises.
fn judge(verdict: &Verdict, outcome: &mut Outcome) {
    let Verdict { sent, missing, duplicated, altered, invented, resent, refused, .. } = verdict;
    outcome.records += sent;
    outcome.missing += missing;
    outcome.duplicated += duplicated;
    outcome.altered += altered;
    outcome.invented += invented;
    outcome.resent += resent;
    let examples = verdict.faults.join("; ");
    for (name, count, allowed) in [
        ("missing", *missing, 0),
        ("altered", *altered, 0),
        ("invented", *invented, 0),
        ("duplicated", *duplicated, outcome.bound),
        ("refused for good", *refused, 0),
    ] {
        hold(name, count, allowed, &examples, outcome);
    }
}

/// The same for the lines of log files, which may come again where a strike explains it.
fn judge_lines(lines: &Judged, outcome: &mut Outcome) {
    outcome.records += lines.lines;
    outcome.missing += lines.missing;
    outcome.duplicated += lines.repeated;
    outcome.altered += lines.altered;
    outcome.invented += lines.invented;
    outcome.bound += lines.bound;
    let examples = lines.examples.join("; ");
    for (name, count) in [
        ("lines missing", lines.missing),
        ("lines altered", lines.altered),
        ("lines invented", lines.invented),
        ("lines repeated that were on record", lines.unexplained),
        ("lines out of order", lines.unordered),
    ] {
        hold(name, count, 0, &examples, outcome);
    }
}

/// Notes a promise as broken when there is more of something than is allowed.
fn hold(name: &str, count: u64, allowed: u64, examples: &str, outcome: &mut Outcome) {
    if count > allowed {
        let text = format!("{count} {name}, {allowed} allowed. {examples}");
        outcome.broken.push(text.trim_end().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(missing: u64, duplicated: u64) -> Verdict {
        Verdict {
            sent: 100,
            stored: 100 - missing,
            missing,
            duplicated,
            altered: 0,
            invented: 0,
            resent: 3,
            refused: 0,
            line: String::new(),
            faults: vec!["missing: span 7".to_owned()],
        }
    }

    /// Scenario: nothing wrong; a record missing; copies with and without a bound for them.
    /// Guarantee: only what a promise forbids breaks it, and the example is passed on.
    #[test]
    fn promises_are_held_against_verdicts() {
        let judged = |verdict: &Verdict, bound| {
            let mut outcome = Outcome { bound, ..Outcome::default() };
            judge(verdict, &mut outcome);
            outcome.broken
        };
        assert!(judged(&verdict(0, 0), 0).is_empty());
        let missing = judged(&verdict(1, 0), 0);
        assert!(missing.len() == 1 && missing[0].contains("span 7"), "{missing:?}");
        assert_eq!(judged(&verdict(0, 5), 4).len(), 1);
        assert!(judged(&verdict(0, 5), 5).is_empty());
    }
}
