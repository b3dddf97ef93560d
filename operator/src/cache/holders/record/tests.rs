//! Tests of the private parts of `cache/holders/record.rs`.

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn holder(who: &str, shared: bool) -> Holder {
    Holder { who: who.to_owned(), shared }
}

fn me(who: &str, shared: bool) -> Claimant {
    Claimant { holder: holder(who, shared), takes_over: None }
}

fn slot(who: &str, shared: bool, age: Duration) -> HolderSlot {
    HolderSlot::read(&holder(who, shared).to_text(), age)
}

/// Scenario: records as this release writes them, one released, and one in an unknown format.
/// Guarantee: each is read as it was written; an unreadable one belongs to an unknown holder.
#[test]
fn a_record_reads_as_it_was_written() {
    for all in [holder("c/n/TelemetryTopic/t", true), holder("c/n/GatewayPool/p", false)] {
        assert_eq!(Holder::read(&all.to_text()), Some(all));
    }
    assert_eq!(Holder::read(""), None);
    for odd in ["v2:whatever", "v1:a/b/c/d/maybe", "text"] {
        assert_eq!(Holder::read(odd), Some(holder(odd, false)));
    }
}

/// Scenario: every combination of sharing and not. Guarantee: both may hold only if both share; a
/// claimant that finds a record that shares with it writes nothing.
#[test]
fn another_holds_unless_both_share() {
    for (theirs, mine) in [(false, false), (true, false), (false, true), (true, true)] {
        let verdict = decide_claim(&[slot("a", theirs, HOUR)], &me("b", mine), |_| false);
        let wanted =
            if theirs && mine { ClaimDecision::Holds } else { ClaimDecision::Refused("a".into()) };
        assert_eq!(verdict, wanted);
    }
}

/// Scenario: the claimant's own record, by its age; one with different content; another's that was
/// not renewed for a week. Guarantee: it is rewritten once a day and when its content is outdated;
/// one not renewed for a week counts as none.
#[test]
fn a_record_is_renewed_daily_and_ends_after_a_week() {
    let mine = |slot| decide_claim(&[slot], &me("a", false), |_| false);
    assert_eq!(mine(slot("a", false, HOUR * 23)), ClaimDecision::Holds);
    assert_eq!(mine(slot("a", false, HOUR * 25)), ClaimDecision::Due);
    assert_eq!(mine(slot("a", true, HOUR)), ClaimDecision::Due);
    assert_eq!(mine(HolderSlot::FREE), ClaimDecision::Due);
    assert_eq!(mine(slot("b", false, HOUR * 167)), ClaimDecision::Refused("b".into()));
    assert_eq!(mine(slot("b", false, HOUR * 169)), ClaimDecision::Due);
    let shares = |age| decide_claim(&[slot("b", true, age)], &me("a", true), |_| false);
    assert_eq!((shares(HOUR), shares(HOUR * 25)), (ClaimDecision::Holds, ClaimDecision::Due));
}

/// Scenario: another's record that the object may take over, by name; one that is passed over.
/// Guarantee: both are overwritten; a name that isn't the holder's takes over nothing.
#[test]
fn a_record_is_taken_over_by_name_alone() {
    let takes = |name: &str| {
        let me = Claimant { takes_over: Some(name.to_owned()), ..me("a", false) };
        decide_claim(&[slot("b", false, HOUR)], &me, |_| false)
    };
    assert_eq!(takes("b"), ClaimDecision::Due);
    assert_eq!(takes("c"), ClaimDecision::Refused("b".into()));
    let seen = decide_claim(&[slot("b", false, HOUR)], &me("a", false), |who| who == "b");
    assert_eq!(seen, ClaimDecision::Due);
}

/// Scenario: several slots, one of them another's, free, or the claimant's own. Guarantee: one slot
/// of another refuses all; all must be the claimant's own.
#[test]
fn every_place_must_be_ones_own() {
    let (own, other) = (slot("a", false, HOUR), slot("b", false, HOUR));
    let judged = |slots: &[HolderSlot]| decide_claim(slots, &me("a", false), |_| false);
    assert_eq!(judged(&[own.clone(), own.clone()]), ClaimDecision::Holds);
    assert_eq!(judged(&[own.clone(), HolderSlot::FREE]), ClaimDecision::Due);
    assert_eq!(judged(&[own, other]), ClaimDecision::Refused("b".into()));
}

/// Scenario: a holder of another cluster. Guarantee: the refusal names it in full, and states
/// verbatim the setting that takes it over.
#[test]
fn a_refusal_names_the_holder_and_the_ways_out() {
    let refused = claim_refusal("topic t", "prod-1/obs/TelemetryTopic/logs", "another topicName");
    assert_eq!(refused.reason, Reason::HeldByAnother);
    for part in [
        "topic t is recorded as held by TelemetryTopic logs in namespace obs of cluster prod-1",
        "another topicName",
        "spec.takesOver: prod-1/obs/TelemetryTopic/logs",
    ] {
        assert!(refused.message.contains(part), "{refused}");
    }
}
