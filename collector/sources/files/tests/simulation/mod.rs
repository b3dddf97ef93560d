//! Simulates the receiver of files against writers that rotate, and a publisher that fails, by
//! seed: the real worker, on a real directory, step by step.
//!
//! A seed decides everything: what is written, renamed, moved, copied and truncated, compressed,
//! deleted; when the worker scans, reads, sends and stores positions; which requests are refused,
//! fail, are late or lose their answer; when the process is killed, ended, and restarted. Files'
//! modification times are the simulation's, as coarse as the system's. Nothing here sleeps or
//! waits.
//!
//! ```text
//! make sim-files               # 4,000 seeds of 250 actions
//! make sim-files SEED=17       # one, again, with the log of what happened
//! ```

mod book;
mod disk;
mod found;
mod parts;
mod process;
mod walk;

use walk::{Found, Tally, run};

use millrace_seeds::{Ran, Seeds, run_all};

/// In this many seeds each kind of event must have happened often: a simulation without events
/// proves nothing.
const SEEDS: u64 = 100;

/// Seeds that found faults, which run before others: a reused inode, copies of copies, compressed
/// files of texts that weren't read yet or whose names changed, failures after a request without an
/// answer.
const FOUND: [u64; 40] = [
    110, 272, 310, 382, 384, 404, 514, 540, 546, 758, 782, 790, 810, 876, 898, 916, 968, 1080,
    1160, 1164, 1168, 1186, 1234, 1328, 1332, 1334, 1360, 1376, 1428, 1430, 1437, 1474, 1494, 1504,
    1672, 1714, 1767, 1872, 1892, 1930,
];

/// Scenario: random appends (lines in pieces, containers' lines in parts, two streams mixed),
/// renames with writers that continue, copies with truncation, compressions, moves out of the
/// pattern and back, deletions; kills, drains and starts; refused, failed, late and lost answers;
/// few files may be open. Guarantee: each line is sent at least once, except those of files that
/// were deleted before the process had them open; none is altered; each file's lines are in order;
/// none is repeated that was safe when positions were last written, and none at all without a kill
/// or a failure. Slow: 40 seeds that found faults run, and others until 5 s have passed, in `make
/// test-all` 20 s.
#[test]
fn no_seed_loses_alters_or_reorders_a_line() {
    judge(Found::ByWalks);
}

/// Scenario: the same simulations, in which after the first walk only events lead to scans.
/// Guarantee: the same. Slow: 40 seeds that found faults run, and others until 5 s have passed, in
/// `make test-all` 20 s.
#[test]
fn no_seed_loses_alters_or_reorders_a_line_when_events_alone_say_where_to_look() {
    judge(Found::ByEvents);
}

fn judge(found: Found) {
    let Ran { count, sum: all, failed } =
        run_all(Seeds::requested(), &FOUND, |seed| run(seed, found), Tally::add);
    assert!(failed.is_empty(), "{} of {count} seeds: {}", failed.len(), failed.join("\n"));
    println!("{count} seeds: {all:?}");
    if count >= SEEDS {
        for (what, happened) in [
            ("lines", all.lines / 100),
            ("repeats", all.repeats),
            ("renames", all.renames),
            ("copies", all.copies),
            ("compressions", all.compressions),
            ("moves", all.moves),
            ("deletions", all.deletions),
            ("kills", all.kills),
            ("ends in order", all.ends),
            ("failed requests", all.failures),
        ] {
            assert!(happened >= count / 2, "{what}: only {happened} in {count} seeds");
        }
    }
}
