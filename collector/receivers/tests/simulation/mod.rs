//! Gateways against a simulated world, by seed: [`Session`](super::session::Session)s as they ship,
//! on a clock, a broker with a consumer group, and a sink that exist only here.
//!
//! A seed decides everything: what is produced, who is killed, frozen, drained or started when,
//! which answers come late, twice or never. While faults last, every commit is held against what
//! the sink has; once they are over, everything must be stored, and committed, within bounded time.
//!
//! What is real: the session with its ledger, batches, intents, flow control and rebalances. What
//! is a stand-in: librdkafka, the encoder, the salvage (a job is done message by message) and the
//! sink, which deduplicates by token as ClickHouse does. Nothing here sleeps or reads a clock.
//!
//! ```text
//! make seeds              # 20,000 seeds
//! make seeds SEEDS=100000 # more
//! make seeds SEED=17      # one, again, with the log of what happened
//! ```

mod cluster;
mod drains;
mod driver;
mod member;
mod sink;
mod world;

use driver::{Tally, run};

use crate::by_seed::{run_all, seeds};

/// Seeds tried by default: a few seconds of unoptimised code.
const SEEDS: u64 = 300;

/// Scenario: kills, freezes past the session's time-out, drains, scaling, a topic made again,
/// refused and lost commits, answers about commits that are old to whoever knows better, late,
/// repeated, lost and refusing sinks, blocked tables that give inserts back, little memory; eager
/// and cooperative groups, both kinds of delivery. Guarantee, at every commit: nothing is committed
/// that isn't stored or dead-lettered, and no commit goes back. Guarantee, at the end of a drain:
/// where it says that everything is safe, all that it sent is committed. Guarantee, in the end:
/// every row is stored, with effectively-once delivery exactly once, within bounded time; no memory
/// is held any more.
#[test]
fn no_seed_loses_or_doubles_a_record() {
    let seeds = seeds(SEEDS);
    let (all, failed) = run_all(&seeds, run, Tally::add);
    let count = seeds.len() as u64;
    assert!(failed.is_empty(), "{} of {count} seeds: {}", failed.len(), failed.join("\n"));
    println!("{count} seeds: {all:?}");
    if count >= SEEDS {
        // A world in which nothing happens proves nothing.
        let Tally { rows, kills, freezes, drains, evictions, repeats, salvages, .. } = all;
        for (what, happened) in [
            ("rows", rows),
            ("kills", kills),
            ("freezes", freezes),
            ("drains", drains),
            ("drains after which everything was safe", 2 * all.safe),
            ("evictions", evictions),
            ("inserts repeated under their token", repeats),
            ("inserts told apart", salvages),
            ("dead letters", all.letters),
            ("commits behind a request to join", all.parked),
            // They are rarer: a tenth of the others is enough.
            ("old answers about commits, tenfold", 10 * all.stale),
            ("topics made again", all.remade),
            ("messages deleted by retention", all.deleted),
            ("inserts given back for their table", all.given_back),
        ] {
            assert!(happened >= count / 10, "{what}: only {happened} in {count} seeds");
        }
    }
}
