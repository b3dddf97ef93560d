//! Gateways against a simulated world, by seed: [`GroupSession`](crate::group::session::GroupSession)s as they ship,
//! on a simulated clock, broker with a consumer group, and sink.
//!
//! A seed decides everything: what is produced, who is killed, frozen, drained or started when,
//! which answers come late, twice or never. While faults last, every commit is compared with what
//! the sink has; once they are over, everything must be stored, and committed, within bounded time.
//!
//! The session is real, with its ledger, batches, intents, flow control and rebalances. Simulated
//! are librdkafka, the encoder and the sink, which deduplicates by token as ClickHouse does.
//! Nothing here sleeps or reads a clock.
//!
//! ```text
//! make seeds              # 20,000 seeds
//! make seeds SEEDS=100000 # more
//! make seeds SEED=17      # one, again, with the log of what happened
//! ```

mod cluster;
mod division;
mod drains;
mod driver;
mod member;
mod sink;
mod world;

use driver::{Tally, run};

use millrace_seeds::{Ran, Seeds, run_all};

/// The number of seeds in which each kind of event must have happened: a world without events
/// proves nothing.
const SEEDS: u64 = 300;
/// Seeds that found a fault: a division whose messages retention deleted (127, 756), and a frozen
/// process that sent a whole insert after another one had divided it (2451), one that read another
/// topic for an old promise (1670) or under its token (5428), and a damaged last message that nothing
/// showed (1535).
const FOUND: [u64; 6] = [127, 756, 1535, 1670, 2451, 5428];

/// Scenario: kills, freezes past the session timeout, drains, scaling, a recreated topic, refused
/// and lost commits, answers with commits older than the session knows, late, repeated, lost and
/// refusing sinks, blocked tables that return inserts, little memory; eager and cooperative groups,
/// both kinds of delivery. Guarantee, at every commit: nothing is committed that isn't stored or
/// dead-lettered, and no commit moves back. Guarantee, at the end of a drain: where it reports that
/// everything is safe, all that it sent is committed. Guarantee, in the end: every row is stored,
/// with effectively-once delivery exactly once, within bounded time; no memory is held any more.
/// Slow: seeds run for 5 s, in `make test-all` for 20 s.
#[test]
fn no_seed_loses_or_doubles_a_record() {
    let Ran { count, sum: all, failed } = run_all(Seeds::requested(), &FOUND, run, Tally::add);
    assert!(failed.is_empty(), "{} of {count} seeds: {}", failed.len(), failed.join("\n"));
    println!("{count} seeds: {all:?}");
    if count >= SEEDS {
        let Tally { rows, kills, freezes, drains, evictions, repeats, divided, .. } = all;
        for (what, happened) in [
            ("rows", rows),
            ("kills", kills),
            ("freezes", freezes),
            ("drains", drains),
            ("drains after which everything was safe", 2 * all.safe),
            ("evictions", evictions),
            ("inserts repeated under their token", repeats),
            ("inserts of several messages that were refused", divided),
            ("dead letters", all.letters),
            ("commits behind a request to join", 2 * all.parked),
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
