//! What a status says of targets: how often, and why not all are shared out.

use jiff::Timestamp;
use millrace_crds::{ConditionStatus, find};

use super::*;

fn found(at: i64) -> Scraping {
    Scraping {
        at: Some(Timestamp::from_second(at).unwrap()),
        targets: 10,
        shared: 10,
        up: 9,
        down: 1,
        ready_pods: 2,
        samples_per_second: 500,
        ..Scraping::default()
    }
}

fn told(found: &Scraping, cap: Option<u32>) -> Conditions {
    let mut conditions = Conditions::new(&[], Some(1), Timestamp::from_second(0).unwrap());
    state(&mut conditions, found, cap);
    conditions
}

fn condition(
    found: &Scraping,
    cap: Option<u32>,
    type_: ConditionType,
) -> (ConditionStatus, String) {
    let all = told(found, cap).into_conditions();
    let condition = find(&all, type_).unwrap();
    (condition.status, format!("{}: {}", condition.reason, condition.message))
}

/// Scenario: samples change, then a target goes down, then nothing for five minutes. Guarantee:
/// written once a minute, at once, and once in five minutes.
#[test]
fn figures_are_written_as_often_as_they_matter() {
    let first = figures(None, &found(100)).unwrap();
    let more = |at| Scraping { samples_per_second: 501, ..found(at) };
    assert_eq!(figures(Some(&first), &more(159)).unwrap(), first);
    assert_eq!(figures(Some(&first), &more(160)).unwrap().samples_per_second, 501);
    let down = Scraping { up: 8, down: 2, ..found(101) };
    assert_eq!(figures(Some(&first), &down).unwrap().down, 2);
    assert_eq!(figures(Some(&first), &found(399)).unwrap(), first);
    assert_ne!(figures(Some(&first), &found(400)).unwrap(), first);
    assert_eq!(figures(Some(&first), &Scraping::default()).unwrap(), first);
}

/// Scenario: no round yet; one that failed; a refused target; no ready pod; targets over the cap;
/// all well. Guarantee: the condition says which.
#[test]
fn the_condition_says_why_targets_are_not_shared_out() {
    let of = |found: &Scraping| condition(found, None, ConditionType::TargetsShared);
    let (status, why) = of(&Scraping::default());
    assert_eq!(status, ConditionStatus::Unknown, "{why}");
    let failure = Some((Reason::ApiServerFailed, "no API server".to_owned()));
    let failed = Scraping { failure, ..found(1) };
    assert!(of(&failed).1.contains("no API server"));
    let refusals = vec!["job a: too long".to_owned()];
    let refused = Scraping { refused: 1, refusals, ..found(1) };
    assert_eq!(of(&refused).1, "TargetsRefused: 1 can't be shared out: job a: too long");
    let none = Scraping { ready_pods: 0, left_out: 10, ..found(1) };
    assert!(of(&none).1.starts_with("Waiting"));
    let left = Scraping { left_out: 3, ..found(1) };
    assert_eq!(of(&left).1, "CapReached: 3 of 10 targets wait: every pod is at the cap");
    assert_eq!(of(&found(1)).0, ConditionStatus::True);
}

/// Scenario: a pool without a cap; one whose pods suffice; one that needs another pod. Guarantee: no
/// condition; false; true with the number of pods.
#[test]
fn the_cap_says_how_many_pods_the_load_needs() {
    assert!(
        find(&told(&found(1), None).into_conditions(), ConditionType::ScrapeCapReached).is_none()
    );
    let needs = |needed| Scraping { needed_pods: Some(needed), ..found(1) };
    let of = |found| condition(&found, Some(300), ConditionType::ScrapeCapReached);
    assert_eq!(of(needs(2)).0, ConditionStatus::False);
    let (status, why) = of(needs(3));
    assert_eq!(status, ConditionStatus::True);
    assert!(why.contains("need 3 pods of at most 300 samples"), "{why}");
}
