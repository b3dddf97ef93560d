//! A process with two workers that drains while its group is being rebalanced, by seed. Nothing
//! else fails: the brokers and the sink answer, and nobody is killed.

use std::sync::Arc;
use std::time::Duration;

use super::driver::{DRAIN, Driver, State};
use millrace_seeds::{Ran, Seeds, run_all};

/// The time until the group has settled, and the first commits have arrived.
const SETTLED: Duration = Duration::from_secs(5);
/// Seeds that found a fault: a drain that sent everything that waited for a small sink (163), or had
/// written a dead letter behind it (3545), and a rebalance that the test didn't see (1037).
const FOUND: [u64; 3] = [163, 1037, 3545];
/// The maximum time of any wait.
const LIMIT: Duration = Duration::from_secs(60);

impl Driver {
    /// Runs ticks until a condition holds.
    fn until(&mut self, what: &str, so: impl FnMut(&Self) -> bool) -> Result<(), String> {
        self.until_within(LIMIT, what, so)
    }

    /// Runs ticks until a condition holds, for at most this simulated time.
    pub(super) fn until_within(
        &mut self,
        limit: Duration,
        what: &str,
        mut so: impl FnMut(&Self) -> bool,
    ) -> Result<(), String> {
        let limit = self.world().now + limit;
        while !so(self) {
            self.tick();
            self.holds()?;
            if self.world().now > limit {
                return Err(format!("not in time: {what}; {}", self.describe()));
            }
        }
        Ok(())
    }

    /// Returns how many of a process's workers have requested to join again and wait for the
    /// others.
    fn parked(&self, process: usize) -> usize {
        let world = self.world();
        let place = |id| world.group.members.get(&id);
        let workers = self.processes[process].workers.iter();
        workers.filter(|worker| place(worker.id).is_some_and(|place| place.parked)).count()
    }
}

/// Runs one seed. Returns its fault, or how long the drain took.
fn drain_amid_a_rebalance(seed: u64) -> Result<Duration, String> {
    let mut driver = Driver::with(seed, |shape| {
        (shape.processes, shape.workers, shape.parks) = (2, 2, true);
        // A drain doesn't wait for batches that are divided: the next owner does that.
        shape.has_bad_rows = false;
        // Work for each worker, and enough memory for it.
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
    // In a few worlds no worker waits for the others at the end of a tick.
    let has_moved = |driver: &Driver| {
        let world = driver.world();
        let joined = world.group.members.values().filter(|place| !place.owned.is_empty());
        joined.count() == 4
    };
    driver.until("one worker knows of the rebalance", |driver| {
        driver.parked(0) > 0 || has_moved(driver)
    })?;
    driver.ending = true;
    let begun = driver.world().now;
    let deadline = driver.world().instant() + DRAIN;
    let shared = Arc::clone(&driver.processes[0].shared);
    shared.drain.begin_by(deadline);
    driver.until("the drain ends", |driver| {
        driver.processes[0].workers.iter().all(|worker| worker.session.is_none())
    })?;
    let took = driver.world().now - begun;
    let left = shared.finish.list_uncommitted();
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

/// Scenario: a second process joins; one worker of the first has requested to join again, so that
/// its commits wait for the rest of the group, and the other has not heard of it yet. Then the
/// first process drains. Guarantee: everything it sent is stored and committed, it reports that,
/// nothing is sent again by others, and it takes less than half of its time. Slow: seeds run
/// for 5 s, in `make test-all` for 20 s.
#[test]
fn a_drain_amid_a_rebalance_commits_what_every_worker_has_stored() {
    let longest = |longest: &mut Duration, took: &Duration| *longest = (*longest).max(*took);
    let Ran { count, sum: longest, failed } =
        run_all(Seeds::requested(), &FOUND, drain_amid_a_rebalance, longest);
    assert!(failed.is_empty(), "{} of {count} seeds: {}", failed.len(), failed.join("\n"));
    println!("{count} seeds, longest drain {longest:?}");
}
