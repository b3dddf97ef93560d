//! A quick subset of the simulator: what must hold of our rule on every change.

use millrace_shares_sim::fleet::Fleet;
use millrace_shares_sim::rules::Rule;
use millrace_shares_sim::scenario::{Play, Scenario};

fn play() -> Play {
    Play::new(Fleet::new(4_000, 20, 3))
}

/// Scenario: 4,000 targets with skewed weights on 20 pods, each change of the pool. Guarantee: no
/// pod ends over 5 % above its share, all targets have a pod, and the other rules are less even.
#[test]
fn every_change_ends_even() {
    let play = play();
    let ours = play.play(Rule::Ours, &Scenario::ALL);
    let theirs = play.play(Rule::ConsistentHashing, &Scenario::ALL);
    for (nth, scenario) in Scenario::ALL.into_iter().enumerate() {
        let (ours, theirs) = (ours[nth].end, theirs[nth].end);
        assert!(ours.over_percent <= 5.0 && ours.nobody == 0, "{scenario:?} {ours:?}");
        assert!(theirs.over_percent > ours.over_percent, "{scenario:?} {theirs:?}");
    }
}

/// Scenario: a pod dies. Guarantee: one decision, and little beyond the pod's own share moves.
#[test]
fn a_dead_pod_moves_little_more_than_its_share() {
    let played = &play().play(Rule::Ours, &[Scenario::PodDies])[0];
    assert_eq!(played.decisions, 1);
    assert!(played.moved.samples_percent <= 5.0 * 1.5, "{played:?}");
}
