//! What simulations share: numbers by seed, which seeds are run, and their runs on all cores.

mod random;

use std::{env, thread};

pub(crate) use random::Random;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// The seeds asked for: one (`MILLRACE_SEED`), which is run to be looked at, or the first so many
/// (`MILLRACE_SEEDS`).
pub(crate) fn seeds(count: u64) -> Vec<u64> {
    if let Some(seed) = number("MILLRACE_SEED") {
        let _ = tracing_subscriber::fmt().with_env_filter("debug").without_time().try_init();
        return vec![seed];
    }
    (0..number("MILLRACE_SEEDS").unwrap_or(count)).collect()
}

/// Runs seeds on all cores: each is a world of its own. What `add` sums up, and why others failed.
pub(crate) fn run_all<T: Default + Send>(
    seeds: &[u64],
    run: impl Fn(u64) -> Result<T, String> + Sync,
    add: impl Fn(&mut T, &T) + Sync,
) -> (T, Vec<String>) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let part = |first: usize| {
        let (mut tally, mut failed) = (T::default(), Vec::new());
        for seed in seeds.iter().skip(first).step_by(threads) {
            match run(*seed) {
                Ok(one) => add(&mut tally, &one),
                Err(reason) => failed.push(format!("seed {seed}: {reason}")),
            }
        }
        (tally, failed)
    };
    thread::scope(|scope| {
        let part = &part;
        let parts: Vec<_> = (0..threads).map(|first| scope.spawn(move || part(first))).collect();
        let (mut tally, mut failed) = (T::default(), Vec::new());
        for (one, more) in parts.into_iter().map(|part| part.join().unwrap()) {
            add(&mut tally, &one);
            failed.extend(more);
        }
        (tally, failed)
    })
}
