//! Tests of what `cache/holders/record.rs` keeps to itself.

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn holder(who: &str, shared: bool) -> Holder {
    Holder { who: who.to_owned(), shared }
}

fn me(who: &str, shared: bool) -> Claimant {
    Claimant { holder: holder(who, shared), takes_over: None }
}

fn slot(who: &str, shared: bool, age: Duration) -> Slot {
    Slot::read(&holder(who, shared).text(), age)
}

/// Scenario: records as this release writes them, one given up, and one of a form it doesn't
/// know. Guarantee: each is read as it was written; what can't be read is somebody's.
#[test]
fn a_record_reads_as_it_was_written() {
    for all in [holder("c/n/TelemetryTopic/t", true), holder("c/n/GatewayPool/p", false)] {
        assert_eq!(Holder::read(&all.text()), Some(all));
    }
    assert_eq!(Holder::read(""), None);
    for odd in ["v2:whatever", "v1:a/b/c/d/maybe", "text"] {
        assert_eq!(Holder::read(odd), Some(holder(odd, false)));
    }
}

/// Scenario: every pair of sharing and not. Guarantee: only both together may have it; who
/// finds one that shares with it writes nothing.
#[test]
fn another_holds_unless_both_share() {
    for (theirs, mine) in [(false, false), (true, false), (false, true), (true, true)] {
        let verdict = judge(&[slot("a", theirs, HOUR)], &me("b", mine), |_| false);
        let wanted = if theirs && mine { Verdict::Holds } else { Verdict::Refused("a".into()) };
        assert_eq!(verdict, wanted);
    }
}

/// Scenario: a record of one's own, by its age; one that says otherwise; another's that was not
/// renewed for a week. Guarantee: it is written anew once a day and when it says what is no
/// longer so; a week without is as if there was none.
#[test]
fn a_record_is_renewed_daily_and_ends_after_a_week() {
    let mine = |slot| judge(&[slot], &me("a", false), |_| false);
    assert_eq!(mine(slot("a", false, HOUR * 23)), Verdict::Holds);
    assert_eq!(mine(slot("a", false, HOUR * 25)), Verdict::Due);
    assert_eq!(mine(slot("a", true, HOUR)), Verdict::Due);
    assert_eq!(mine(Slot::FREE), Verdict::Due);
    assert_eq!(mine(slot("b", false, HOUR * 167)), Verdict::Refused("b".into()));
    assert_eq!(mine(slot("b", false, HOUR * 169)), Verdict::Due);
    let shares = |age| judge(&[slot("b", true, age)], &me("a", true), |_| false);
    assert_eq!((shares(HOUR), shares(HOUR * 25)), (Verdict::Holds, Verdict::Due));
}

/// Scenario: another's record that the object may take over, by name; one that is to be
/// passed over. Guarantee: both are written over; a name that isn't the holder's takes
/// nothing.
#[test]
fn a_record_is_taken_over_by_name_alone() {
    let takes = |name: &str| {
        let me = Claimant { takes_over: Some(name.to_owned()), ..me("a", false) };
        judge(&[slot("b", false, HOUR)], &me, |_| false)
    };
    assert_eq!(takes("b"), Verdict::Due);
    assert_eq!(takes("c"), Verdict::Refused("b".into()));
    let seen = judge(&[slot("b", false, HOUR)], &me("a", false), |who| who == "b");
    assert_eq!(seen, Verdict::Due);
}

/// Scenario: several places, of which one is another's, free, or one's own. Guarantee: one that
/// is another's refuses all; all are to be one's own.
#[test]
fn every_place_must_be_ones_own() {
    let (own, other) = (slot("a", false, HOUR), slot("b", false, HOUR));
    let judged = |slots: &[Slot]| judge(slots, &me("a", false), |_| false);
    assert_eq!(judged(&[own.clone(), own.clone()]), Verdict::Holds);
    assert_eq!(judged(&[own.clone(), Slot::FREE]), Verdict::Due);
    assert_eq!(judged(&[own, other]), Verdict::Refused("b".into()));
}

/// Scenario: a holder of another cluster. Guarantee: the refusal names all of it, and the way
/// to take over word for word.
#[test]
fn a_refusal_names_the_holder_and_the_ways_out() {
    let refused = refusal("topic t", "prod-1/obs/TelemetryTopic/logs", "another topicName");
    assert_eq!(refused.reason, Reason::HeldByAnother);
    for part in [
        "topic t is on record as held by TelemetryTopic logs in namespace obs of cluster prod-1",
        "another topicName",
        "millrace.dev/takes-over: prod-1/obs/TelemetryTopic/logs",
    ] {
        assert!(refused.message.contains(part), "{refused}");
    }
}
