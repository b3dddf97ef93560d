//! Tests how often a status reports targets, and why not all are shared out.

use jiff::Timestamp;
use millrace_crds::find_condition;

use super::*;

fn found(at: i64) -> Scraping {
    Scraping {
        at: Some(Timestamp::from_second(at).unwrap()),
        targets: 10,
        assigned: 10,
        up: 9,
        down: 1,
        ready_pods: 2,
        samples_per_second: 500,
        ..Scraping::default()
    }
}

fn told(found: &Scraping, cap: Option<u32>) -> Conditions {
    let mut conditions = Conditions::new(&[], Some(1), Timestamp::from_second(0).unwrap());
    state_targets(&mut conditions, found, cap, true);
    conditions
}

fn condition(
    found: &Scraping,
    cap: Option<u32>,
    type_: ConditionType,
) -> (ConditionStatus, String) {
    let all = told(found, cap).into_conditions();
    let condition = find_condition(&all, type_).unwrap();
    (condition.status, format!("{}: {}", condition.reason, condition.message))
}

/// Scenario: samples change, then a target goes down, then nothing for five minutes. Guarantee:
/// figures are written once a minute, at once, and once in five minutes.
#[test]
fn figures_are_written_as_often_as_they_matter() {
    let first = build_figures(None, &found(100)).unwrap();
    let more = |at| Scraping { samples_per_second: 501, ..found(at) };
    assert_eq!(build_figures(Some(&first), &more(159)).unwrap(), first);
    assert_eq!(build_figures(Some(&first), &more(160)).unwrap().samples_per_second, 501);
    let down = Scraping { up: 8, down: 2, ..found(101) };
    assert_eq!(build_figures(Some(&first), &down).unwrap().down, 2);
    assert_eq!(build_figures(Some(&first), &found(399)).unwrap(), first);
    assert_ne!(build_figures(Some(&first), &found(400)).unwrap(), first);
    assert_eq!(build_figures(Some(&first), &Scraping::default()).unwrap(), first);
}

/// Scenario: no round yet; a failed one; a refused target; no ready pod; targets over the cap; all
/// well. Guarantee: the condition distinguishes them.
#[test]
fn the_condition_says_why_targets_are_not_shared_out() {
    let of = |found: &Scraping| condition(found, None, ConditionType::TargetsAssigned);
    let (status, why) = of(&Scraping::default());
    assert_eq!(status, ConditionStatus::Unknown, "{why}");
    let failure = Some((Reason::ApiServerFailed, "no API server".to_owned()));
    let failed = Scraping { failure, ..found(1) };
    assert!(of(&failed).1.contains("no API server"));
    let refusals = vec!["job a: too long".to_owned()];
    let refused = Scraping { refused: 1, refusals, ..found(1) };
    assert_eq!(of(&refused).1, "TargetsRejected: 1 can't be assigned: job a: too long");
    let in_spec = Scraping { refused_in_spec: 1, ..refused.clone() };
    assert_eq!(of(&in_spec).1, of(&refused).1);
    let none = Scraping { ready_pods: 0, excluded: 10, ..found(1) };
    assert!(of(&none).1.starts_with("Waiting"));
    let left = Scraping { excluded: 3, ..found(1) };
    assert_eq!(
        of(&left).1,
        "CapacityReached: 3 of 10 targets wait: every pod is at its capacity or \
        has as many targets as it can scrape: add pods"
    );
    assert_eq!(of(&found(1)).0, ConditionStatus::True);
}

/// Scenario: a fault of somebody's monitor, alone and with targets that have no pod; a fault of the
/// pool's own job. Guarantee: only what the pool's owner can correct makes the pool unready, and a
/// fault of a monitor hides nothing of that.
#[test]
fn a_monitor_of_others_makes_no_pool_unready() {
    let monitor = Scraping { refused: 1, refusals: vec!["its port".to_owned()], ..found(1) };
    for (found, reason, is_unready) in [
        (monitor.clone(), "TargetsRejected", false),
        (Scraping { excluded: 3, ..monitor.clone() }, "CapacityReached", true),
        (Scraping { refused_in_spec: 1, ..monitor }, "TargetsRejected", true),
    ] {
        let all = told(&found, None).into_conditions();
        let shared = find_condition(&all, ConditionType::TargetsAssigned).unwrap();
        assert_eq!((shared.status, shared.reason.as_str()), (ConditionStatus::False, reason));
        assert_eq!(prevents_ready(&found, shared), is_unready, "{found:?}");
    }
}

/// Scenario: a pool has no cap; its pods suffice; it needs another pod. Guarantee: the condition is
/// absent; false; true with the number of pods.
#[test]
fn the_cap_says_how_many_pods_the_load_needs() {
    assert!(
        find_condition(
            &told(&found(1), None).into_conditions(),
            ConditionType::ScrapeCapacityReached
        )
        .is_none()
    );
    let needs = |needed| Scraping { needed_pods: Some(needed), ..found(1) };
    let of = |found| condition(&found, Some(300), ConditionType::ScrapeCapacityReached);
    assert_eq!(of(needs(2)).0, ConditionStatus::False);
    let (status, why) = of(needs(3));
    assert_eq!(status, ConditionStatus::True);
    assert!(why.contains("need 3 pods of at most 300 samples"), "{why}");
}

/// Scenario: targets are shared and no pod has scraped one, with and without the operator granting
/// the right to read shares; then a pod has scraped. Guarantee: only the second case names the
/// right and the chart's value.
#[test]
fn a_missing_right_to_read_shares_is_named() {
    let shared = Scraping { assigned: 5, up: 0, down: 0, ..found(1) };
    let of = |found: &Scraping, grants: bool| {
        let mut conditions = Conditions::new(&[], Some(1), Timestamp::from_second(0).unwrap());
        state_targets(&mut conditions, found, None, grants);
        let all = conditions.into_conditions();
        let condition = find_condition(&all, ConditionType::TargetsAssigned).unwrap();
        (condition.status, condition.message.clone())
    };
    assert_eq!(of(&shared, true).0, ConditionStatus::True);
    let (status, message) = of(&shared, false);
    assert_eq!(status, ConditionStatus::False);
    assert!(message.contains("shareAccess.grant"), "{message}");
    assert_eq!(of(&Scraping { down: 1, ..shared }, false).0, ConditionStatus::True);
}
