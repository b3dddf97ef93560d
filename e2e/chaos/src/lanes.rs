//! Worlds side by side. Most of a fault is waiting, so that two of them take little more time than
//! one; each world has a broker, an engine, collectors and a load of its own, and its verdicts are
//! about these alone. Faults are handed out in the table's order to whichever lane is free.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};

use crate::disk::Disks;
use crate::faults::{Budget, Fault, ON_DISKS};
use crate::report::Outcome;
use crate::world::World;
use crate::{run, say};

/// How often each fault is done, from which seed, and how many worlds there are.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How much is done.
    pub budget: Budget,
    /// How often each, instead of the budget's count.
    pub runs: Option<u32>,
    /// Everything left to chance follows from it and a fault's name.
    pub seed: u64,
    /// Worlds at once; no more than there are faults.
    pub lanes: usize,
}

/// Does all of them, prints a line each, and gives the sums.
///
/// # Errors
/// When a world can't be started. What other lanes had begun is done to its end.
pub fn run(faults: Vec<Fault>, plan: &Plan) -> Result<Outcome> {
    let began = Instant::now();
    let fills_disks = faults.iter().any(|fault| ON_DISKS.contains(&fault.name));
    let lanes = plan.lanes.clamp(1, faults.len().max(1));
    let seed = plan.seed;
    say::progress(&format!("SEED={seed}; {lanes} x broker, engine, edge and gateways"));
    let waiting = Mutex::new(VecDeque::from(faults));
    let outcomes: Vec<Result<Outcome>> = thread::scope(|scope| {
        let start = |_| scope.spawn(|| lane(&waiting, plan, fills_disks));
        let running: Vec<_> = (0..lanes).map(start).collect();
        let ended = running.into_iter().map(|lane| {
            lane.join().unwrap_or_else(|_| Err(anyhow!("a lane ended before its faults did")))
        });
        ended.collect()
    });
    let mut sum = Outcome { fault: "all".to_owned(), ..Outcome::default() };
    for outcome in outcomes {
        sum.add(&outcome?);
    }
    sum.seconds = began.elapsed().as_secs_f64();
    Ok(sum)
}

fn lane(waiting: &Mutex<VecDeque<Fault>>, plan: &Plan, fills_disks: bool) -> Result<Outcome> {
    let began = Instant::now();
    let disks = fills_disks.then(Disks::mount).transpose()?;
    let mut world = World::start(disks).context("a world could not be started")?;
    say::progress(&format!("all up after {:.1} s", began.elapsed().as_secs_f64()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let mut sum = Outcome::default();
    while let Some(fault) = next() {
        let runs = plan.runs.unwrap_or_else(|| fault.runs(plan.budget));
        if runs == 0 {
            say::progress(&format!("{}: left out of this budget", fault.name));
            continue;
        }
        say::progress(&format!("{} x {runs}: {}", fault.name, fault.unit));
        let outcome = run::fault(&mut world, &fault, runs, plan.seed);
        say::line(&outcome.line(plan.seed));
        sum.add(&outcome);
    }
    Ok(sum)
}
