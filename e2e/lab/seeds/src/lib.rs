//! Random numbers by seed, and a runner that gives a simulation its seeds on all cores, for a time
//! or a count. Only tests link it.

#![allow(clippy::should_implement_trait, clippy::unwrap_used, missing_docs)]

mod random;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

pub use random::Random;

/// How long a simulation goes on by default: what every change waits for. `make test-all` gives it
/// longer (`MILLRACE_SEED_SECONDS`); `make nightly` counts seeds.
const SECONDS: u64 = 5;

/// Which seeds run.
#[derive(Debug, Clone, Copy)]
pub enum Seeds {
    /// This one, to be looked at (`MILLRACE_SEED`).
    One(u64),
    /// The first so many (`MILLRACE_SEEDS`).
    Count(u64),
    /// From the first on for so long, each core at least one.
    Time(Duration),
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

impl Seeds {
    /// What the environment says.
    pub fn requested() -> Self {
        if let Some(seed) = number("MILLRACE_SEED") {
            let _ = tracing_subscriber::fmt().with_env_filter("debug").without_time().try_init();
            return Self::One(seed);
        }
        let seconds = || number("MILLRACE_SEED_SECONDS").unwrap_or(SECONDS);
        let time = || Self::Time(Duration::from_secs(seconds()));
        number("MILLRACE_SEEDS").map_or_else(time, Self::Count)
    }

    fn first(self) -> u64 {
        match self {
            Self::One(seed) => seed,
            Self::Count(_) | Self::Time(_) => 0,
        }
    }

    /// Whether the seed that is `nth` in turn still runs after so long.
    fn has(self, nth: u64, after: Duration) -> bool {
        match self {
            Self::One(_) => nth == 0,
            Self::Count(count) => nth < count,
            Self::Time(limit) => after < limit,
        }
    }
}

/// How many seeds ran, the sum of what they gave, and why others failed.
#[derive(Debug, Default)]
pub struct Ran<T> {
    pub count: u64,
    pub sum: T,
    pub failed: Vec<String>,
}

/// Runs `found` (seeds that found faults) unless one seed is asked for, and then `seeds`, on all
/// cores: each is a world of its own.
pub fn run_all<T: Default + Send>(
    seeds: Seeds,
    found: &[u64],
    run: impl Fn(u64) -> Result<T, String> + Sync,
    add: impl Fn(&mut T, &T) + Sync,
) -> Ran<T> {
    let found = if matches!(seeds, Seeds::One(_)) { &[] } else { found };
    let (start, next) = (Instant::now(), AtomicU64::new(0));
    let next_seed = || {
        let nth = next.fetch_add(1, Ordering::Relaxed);
        if let Some(seed) = usize::try_from(nth).ok().and_then(|nth| found.get(nth)) {
            return Some(*seed);
        }
        let nth = nth - found.len() as u64;
        seeds.has(nth, start.elapsed()).then(|| seeds.first() + nth)
    };
    let part = || {
        let mut ran = Ran::default();
        while let Some(seed) = next_seed() {
            ran.count += 1;
            match run(seed) {
                Ok(one) => add(&mut ran.sum, &one),
                Err(reason) => ran.failed.push(format!("seed {seed}: {reason}")),
            }
        }
        ran
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let part = &part;
        let parts: Vec<_> = (0..threads).map(|_| scope.spawn(part)).collect();
        let mut all = Ran::default();
        for Ran { count, sum, failed } in parts.into_iter().map(|part| part.join().unwrap()) {
            all.count += count;
            add(&mut all.sum, &sum);
            all.failed.extend(failed);
        }
        all
    })
}
