//! A process with two workers that drains while its group is being rebalanced, by seed. Nothing
//! else goes wrong: the brokers and the sink answer, and nobody is killed.

use std::sync::Arc;
use std::time::Duration;

use super::driver::{DRAIN, Driver, State};

/// Seeds tried: some seconds of unoptimised code.
const SEEDS: u64 = 200;
/// Until the group has settled, and the first commits are there.
const SETTLED: Duration = Duration::from_secs(5);
/// How long anything may take that is waited for.
const LIMIT: Duration = Duration::from_secs(60);

impl Driver {
    /// Turns until something is so.
    fn until(&mut self, what: &str, mut so: impl FnMut(&Self) -> bool) -> Result<(), String> {
        let limit = self.world().now + LIMIT;
        while !so(self) {
            self.tick();
            self.holds()?;
            if self.world().now > limit {
                return Err(format!("not in time: {what}; {}", self.describe()));
            }
        }
        Ok(())
    }

    /// How many of a process's workers have asked to join again and wait for the others.
    fn parked(&self, process: usize) -> usize {
        let world = self.world();
        let place = |id| world.group.members.get(&id);
        let workers = self.processes[process].workers.iter();
        workers.filter(|worker| place(worker.id).is_some_and(|place| place.parked)).count()
    }
}

/// One seed: what was wrong with it, and how long the drain took.
fn drain_amid_a_rebalance(seed: u64) -> Result<Duration, String> {
    let mut driver = Driver::with(seed, |shape| {
        (shape.processes, shape.workers, shape.parks) = (2, 2, true);
        // Work for each worker; enough memory to take it.
        (shape.partitions, shape.budget_bytes) = (shape.partitions.max(4), 96 << 20);
    });
    {
        let second = &mut driver.processes[1];
        second.state = State::Down(Duration::MAX);
        let ids: Vec<_> = second.workers.drain(..).map(|worker| worker.id).collect();
        let mut world = driver.world();
        world.faults = false;
        ids.iter().for_each(|id| drop(world.group.members.remove(id)));
    }
    driver.until("the group settles", |driver| {
        driver.parked(0) == 0 && driver.world().now > SETTLED
    })?;
    driver.processes[1].state = State::Down(Duration::ZERO);
    driver.until("one worker knows of the rebalance", |driver| driver.parked(0) > 0)?;
    driver.ending = true;
    let begun = driver.world().now;
    let deadline = driver.world().instant() + DRAIN;
    let shared = Arc::clone(&driver.processes[0].shared);
    shared.drain.begin_by(deadline);
    driver.until("the drain ends", |driver| {
        driver.processes[0].workers.iter().all(|worker| worker.session.is_none())
    })?;
    let took = driver.world().now - begun;
    let left = shared.finish.left();
    driver.world().hold_to_its_word(0, true);
    driver.holds()?;
    driver.recover()?;
    driver.end()?;
    let tally = driver.judge()?;
    let again = tally.copies + tally.repeats;
    if again > 0 || !left.is_empty() || took >= DRAIN / 2 {
        return Err(format!("{again} rows or inserts came again, {took:?}, left: {left:?}"));
    }
    Ok(took)
}

/// Scenario: a second process joins; one worker of the first has asked to join again, so that its
/// commits wait for the rest of the group, and the other has not heard of it yet. Then the first
/// process drains. Guarantee: everything it took is stored and committed, it says so, nothing is
/// read again by others, and it takes less than half of its time.
#[test]
fn a_drain_amid_a_rebalance_commits_what_every_worker_has_stored() {
    let results: Vec<_> = (0..SEEDS).map(|seed| (seed, drain_amid_a_rebalance(seed))).collect();
    let failed: Vec<_> = results
        .iter()
        .filter_map(|(seed, result)| Some(format!("seed {seed}: {}", result.as_ref().err()?)))
        .collect();
    assert!(failed.is_empty(), "{} of {SEEDS} seeds: {}", failed.len(), failed.join("\n"));
    let longest = results.iter().filter_map(|(_, result)| result.as_ref().ok()).max();
    println!("{SEEDS} seeds, longest drain {longest:?}");
}
