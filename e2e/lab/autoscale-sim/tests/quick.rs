//! A quick subset of the simulator: what must hold of our rule on every change.

use millrace_sim::group::Protocol;
use millrace_sim::rules::{Keda, Ours, Rule};
use millrace_sim::run::{Run, run};
use millrace_sim::score::Score;
use millrace_sim::trace::{Trace, all};

fn trace(name: &str) -> Trace {
    all().into_iter().find(|trace| trace.name == name).unwrap()
}

fn ours(trace: &Trace, protocol: Protocol, seed: u64) -> Run {
    run(trace, &mut Ours::default(), protocol, seed)
}

/// Scenario: the same load for four hours, any protocol. Guarantee: no flap, and no change but to
/// find the size. Slow: nine runs of four hours are simulated second by second.
#[test]
fn constant_load_never_flaps() {
    for protocol in Protocol::ALL {
        for seed in 1..4 {
            let run = ours(&trace("constant"), protocol, seed);
            assert_eq!(run.score.0[Score::FLAPS], 0.0, "{protocol:?} {seed} {:?}", run.sizes);
            assert!(run.sizes.len() <= 2, "{protocol:?} {seed} {:?}", run.sizes);
        }
    }
}

/// Scenario: the same seed twice. Guarantee: the same decisions and the same score.
#[test]
fn a_seed_gives_the_same_run_each_time() {
    let trace = trace("bad signals");
    let (first, again) = (ours(&trace, Protocol::Eager, 5), ours(&trace, Protocol::Eager, 5));
    assert_eq!(first.sizes, again.sizes);
    assert_eq!(first.score, again.score);
    assert_ne!(first.score, ours(&trace, Protocol::Eager, 6).score);
}

/// Scenario: ClickHouse slows down for twenty minutes. Guarantee: the pool does not grow while it
/// does.
#[test]
fn a_busy_sink_does_not_make_the_pool_grow() {
    let trace = trace("sink brown-out");
    let run = ours(&trace, Protocol::Cooperative, 1);
    let during = run.points.iter().filter(|point| (2_430..3_600).contains(&point.at));
    let sizes: Vec<u32> = during.map(|point| point.size).collect();
    assert!(sizes.windows(2).all(|pair| pair[1] <= pair[0]), "{sizes:?}");
}

/// Scenario: three times the load at once. Guarantee: the bound is kept or broken for less than a
/// minute, and no rule of KEDA's is faster by more than that.
#[test]
fn a_step_breaks_the_bound_for_less_than_a_minute() {
    for protocol in Protocol::ALL {
        let run = ours(&trace("step"), protocol, 1);
        assert!(run.score.0[Score::OVER_BOUND] < 60.0, "{protocol:?} {:?}", run.score);
    }
}

/// Scenario: pods leak memory for six hours. Guarantee: memory grows in place, so pods are ended
/// less often than under a rule that leaves memory alone.
#[test]
fn memory_grows_before_pods_are_ended() {
    let trace = trace("slow leak");
    let ours = ours(&trace, Protocol::Cooperative, 1).score.0[Score::OOM_KILLS];
    let mut keda = Keda::tuned();
    let rule: &mut dyn Rule = &mut keda;
    let theirs = run(&trace, rule, Protocol::Cooperative, 1).score.0[Score::OOM_KILLS];
    assert!(ours < theirs, "{ours} {theirs}");
}
