//! Every reconciler in a simulated cluster, by seed: stale, late, repeated and lost watch events,
//! requests that fail or whose answers are lost, deaths before and after any write, two leaders at
//! once, users that meddle, brokers that go away.
//!
//! Guarantees: no object ever says Ready while what it stands for was not so; once trouble ceases
//! everything ends ready and as in a world without trouble; then one more look, by the same
//! operator or a new one, writes nothing. Simulations that are broken on purpose are found out.
//! `make sim-operator SEEDS=` walks on; `SEED=` walks one again.

mod cluster;
mod instance;
mod outside;
mod reads;
mod rng;
mod truth;
mod walk;

use std::time::{Duration, Instant};

use instance::OURS;
use outside::Broken;
use walk::Score;

/// Changes of specs in one walk.
const EDGES: usize = 50;

/// And in one that is broken on purpose.
const EDGES_BROKEN: usize = 4;

/// Seeds that found faults, walked before others.
const FOUND: [(&str, u64); 4] = [
    // A child whose deletion no watch told of.
    ("edgepools", 193),
    // A spec changed while the number for autoscalers was written.
    ("telemetrypipelines", 49),
    // A watch that was fetched and not delivered counted as read.
    ("edgepools", 83),
    // The pods of a DaemonSet that a user took away stay.
    ("edgepools", 91),
];

/// How long the walks of a kind go on by default: what every change waits for. `make test-all`
/// gives them longer (`MILLRACE_SEED_SECONDS`); `make nightly` counts seeds.
const SECONDS: u64 = 5;

/// In so many walks of edge pools some watch canary nodes.
const CANARY_WALKS: u64 = 23;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Which seeds: one (`MILLRACE_SEED`), the first so many (`MILLRACE_SEEDS`), or those that found
/// faults and then, until time is up, the first.
fn seeds(kind: &str) -> Box<dyn Iterator<Item = u64>> {
    if let Some(seed) = number("MILLRACE_SEED") {
        return Box::new(std::iter::once(seed));
    }
    if let Some(count) = number("MILLRACE_SEEDS") {
        return Box::new(0..count);
    }
    let found = FOUND.iter().filter(|(of, _)| *of == kind).map(|(_, seed)| *seed);
    let found: Vec<u64> = found.collect();
    let limit = Duration::from_secs(number("MILLRACE_SEED_SECONDS").unwrap_or(SECONDS));
    let start = Instant::now();
    // The first one always runs.
    let more = (0..).take_while(move |seed| *seed == 0 || start.elapsed() < limit);
    Box::new(found.into_iter().chain(more))
}

/// Walks on a thread with room for the futures of a dev build.
fn walk_all(kind: &'static str) {
    let walks = std::thread::Builder::new().stack_size(32 << 20);
    let walks = walks.spawn(move || walk_here(kind)).unwrap();
    if let Err(found) = walks.join() {
        std::panic::resume_unwind(found);
    }
}

fn walk_here(kind: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut sum, mut count) = (Score::default(), 0);
    for seed in seeds(kind) {
        count += 1;
        // Everything of a walk ends with it, tasks of clients too.
        let outcome = runtime.block_on(walk::walk(kind, seed, EDGES, Broken::Nothing));
        match outcome {
            Ok(score) => {
                sum.edges += score.edges;
                sum.reconciles += score.reconciles;
                sum.deaths += score.deaths;
                sum.canaries += score.canaries;
            }
            Err(found) => panic!(
                "{kind}, seed {seed}: {found}\nagain: MILLRACE_SEED={seed} cargo test --workspace \
                 simulation::{kind}"
            ),
        }
    }
    println!("{kind}, {count} walks: {sum:?}");
    let few = kind != "edgepools" || count < CANARY_WALKS;
    assert!(few || sum.canaries > 0, "no walk watched canary nodes");
}

/// Scenario: walks over edge pools. Guarantee: those of this file. Slow: walks go on for 5 s, in
/// `make test-all` for 20 s.
#[test]
fn edgepools_end_as_in_a_quiet_world() {
    walk_all("edgepools");
}

/// Scenario: walks over gateway pools and the schema they wait for. Guarantee: those of this file.
/// Slow: walks go on for 5 s, in `make test-all` for 20 s.
#[test]
fn gatewaypools_end_as_in_a_quiet_world() {
    walk_all("gatewaypools");
}

/// Scenario: walks over topics, kept or deleted with their object. Guarantee: those of this file.
/// Slow: walks go on for 5 s, in `make test-all` for 20 s.
#[test]
fn telemetrytopics_end_as_in_a_quiet_world() {
    walk_all("telemetrytopics");
}

/// Scenario: walks over schemas, kept or deleted with their object. Guarantee: those of this file.
/// Slow: walks go on for 5 s, in `make test-all` for 20 s.
#[test]
fn telemetryschemas_end_as_in_a_quiet_world() {
    walk_all("telemetryschemas");
}

/// Scenario: walks over pipelines, all their children reconciled with them. Guarantee: those of
/// this file. Slow: walks go on for 5 s, in `make test-all` for 20 s.
#[test]
fn telemetrypipelines_end_as_in_a_quiet_world() {
    walk_all("telemetrypipelines");
}

/// What a walk of a simulation that is broken on purpose is found to be.
fn found_out(kind: &'static str, seed: u64, broken: Broken) -> Result<Score, String> {
    let walks = std::thread::Builder::new().stack_size(32 << 20);
    let walks = walks.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(walk::walk(kind, seed, EDGES_BROKEN, broken))
    });
    walks.unwrap().join().unwrap()
}

/// Scenario: operators that reconcile nothing, walked over each kind. Guarantee: each walk fails,
/// because what was walked isn't ready in the end.
#[test]
fn a_world_in_which_nothing_is_reconciled_is_found_out() {
    for kind in OURS {
        let found = found_out(kind, 1, Broken::Idle).unwrap_err();
        assert!(found.contains("ends as nothing"), "{kind}: {found}");
    }
}

/// Scenario: ClickHouse says that it migrated, and has not. Guarantee: a schema that says Ready
/// without its tables is found out.
#[test]
fn a_schema_that_is_ready_without_its_tables_is_found_out() {
    let found = found_out("telemetryschemas", 1, Broken::Lying).unwrap_err();
    assert!(found.contains("says Ready, but database otel did not have its tables"), "{found}");
}
