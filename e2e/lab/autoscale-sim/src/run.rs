//! Plays a rule on a trace.

use crate::group::Protocol;
use crate::rules::Rule;
use crate::score::Score;
use crate::signals::Watcher;
use crate::trace::Trace;
use crate::world::{MEMORY_LIMIT, MEMORY_MAX, World};

/// One point of a run, for plots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Second.
    pub at: usize,
    /// Pods' worth of load.
    pub load: f64,
    /// Pods wanted.
    pub size: u32,
    /// Age of the oldest message not committed, in seconds.
    pub lag_seconds: usize,
}

/// A run: what it cost, and how it went.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it cost.
    pub score: Score,
    /// Sizes decided on, one for each change.
    pub sizes: Vec<u32>,
    /// Each change: when it was decided on, and why.
    pub changes: Vec<(usize, String)>,
    /// Some three hundred points.
    pub points: Vec<Point>,
}

/// Points kept of a run.
const POINTS: usize = 360;

/// Plays `rule` on one pool of the trace.
#[must_use]
pub fn run(trace: &Trace, rule: &mut dyn Rule, protocol: Protocol, seed: u64) -> Run {
    let mut world = World::new(trace, protocol, seed);
    let mut watcher = Watcher::new(trace, seed);
    let (mut sizes, mut changes) = (vec![world.size()], Vec::new());
    let mut points = Vec::with_capacity(POINTS);
    let every = (trace.seconds / POINTS).max(1);
    for now in 0..trace.seconds {
        world.tick(now);
        watcher.look(&world, now);
        if now > 0 && now.is_multiple_of(rule.period_seconds()) {
            let wish = rule.decide(&watcher.seen(&world, now));
            world.resize(wish.size.max(1), now);
            if let Some(limit) = wish.memory_limit {
                world.memory_limit = limit.clamp(MEMORY_LIMIT / 2.0, MEMORY_MAX);
            }
            if sizes.last() != Some(&world.size()) {
                sizes.push(world.size());
                changes.push((now, rule.why()));
            }
        }
        if now.is_multiple_of(every) {
            let (load, size) = (world.load(now), world.size());
            points.push(Point { at: now, load, size, lag_seconds: world.lag_seconds });
        }
    }
    world.finish(trace.seconds);
    Run { score: world.score, sizes, changes, points }
}
