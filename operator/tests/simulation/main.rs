//! Every reconciler in a simulated cluster, by seed: stale, late, repeated and lost watch events,
//! requests that fail or whose answers are lost, deaths before and after any write, two leaders at
//! once, users that meddle, brokers that go away.
//!
//! Guarantees: no object ever says Ready while what it stands for was not so; once trouble ceases
//! everything ends ready and as in a world without trouble; then one more look, by the same
//! operator or a new one, writes nothing. Simulations that are broken on purpose are found out.
//! `make sim-operator SEEDS=` walks on; `SEED=` walks one again.
#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

// The same server as the other tests'; each uses its part of it.
#[allow(dead_code)]
#[path = "../reconcilers/support/apiserver.rs"]
mod apiserver;
mod cluster;
mod instance;
mod outside;
mod reads;
mod rng;
mod truth;
mod walk;

use instance::OURS;
use outside::Broken;
use walk::Score;

/// Changes of specs in one walk.
const EDGES: usize = 50;

/// And in one that is broken on purpose.
const EDGES_BROKEN: usize = 4;

/// Seeds that found faults, walked as well by default.
const FOUND: [(&str, u64); 2] = [
    // A child whose deletion no watch told of.
    ("edgepools", 193),
    // A spec changed while the number for autoscalers was written.
    ("telemetrypipelines", 49),
];

/// Which seeds: one, the first so many, or by default the first and those that found faults.
fn seeds(kind: &str, default: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (number("MILLRACE_SEED"), number("MILLRACE_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, Some(seeds)) => (0..seeds).collect(),
        (None, None) => {
            let found = FOUND.iter().filter(|(of, _)| *of == kind).map(|(_, seed)| *seed);
            (0..default).chain(found).collect()
        }
    }
}

/// Walks on a thread with room for the futures of a dev build.
fn walk_all(kind: &'static str, default: u64) {
    let walks = std::thread::Builder::new().stack_size(32 << 20);
    let walks = walks.spawn(move || walk_here(kind, default)).unwrap();
    if let Err(found) = walks.join() {
        std::panic::resume_unwind(found);
    }
}

fn walk_here(kind: &str, default: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut sum = Score::default();
    for seed in seeds(kind, default) {
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
                 --test simulation {kind}"
            ),
        }
    }
    println!("{kind}: {sum:?}");
    let one = std::env::var_os("MILLRACE_SEED").is_some();
    assert!(kind != "edgepools" || one || sum.canaries > 0, "no walk watched canary nodes");
}

/// Scenario: walks over edge pools. Guarantee: those of this file.
#[test]
fn edgepools_end_as_in_a_quiet_world() {
    walk_all("edgepools", 23);
}

/// Scenario: walks over gateway pools and the schema they wait for. Guarantee: those of this file.
#[test]
fn gatewaypools_end_as_in_a_quiet_world() {
    walk_all("gatewaypools", 12);
}

/// Scenario: walks over topics, kept or deleted with their object. Guarantee: those of this file.
#[test]
fn telemetrytopics_end_as_in_a_quiet_world() {
    walk_all("telemetrytopics", 140);
}

/// Scenario: walks over schemas, kept or deleted with their object. Guarantee: those of this file.
#[test]
fn telemetryschemas_end_as_in_a_quiet_world() {
    walk_all("telemetryschemas", 20);
}

/// Scenario: walks over pipelines, all their children reconciled with them. Guarantee: those of
/// this file.
#[test]
fn telemetrypipelines_end_as_in_a_quiet_world() {
    walk_all("telemetrypipelines", 3);
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
