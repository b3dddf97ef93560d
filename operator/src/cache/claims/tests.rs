//! Tests of the private parts of `cache/claims.rs`.

use super::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_crds::v1alpha1::TelemetryTopic;

fn topic(namespace: &str, name: &str, created: Option<i64>) -> TelemetryTopic {
    let text = r#"{"apiVersion":"millrace.dev/v1alpha1","kind":"TelemetryTopic",
        "metadata":{},"spec":{"kafka":{"bootstrapServers":["k:9092"]}}}"#;
    let mut topic: TelemetryTopic = serde_json::from_str(text).unwrap();
    topic.metadata.namespace = Some(namespace.to_owned());
    topic.metadata.name = Some(name.to_owned());
    topic.metadata.creation_timestamp =
        created.map(|second| Time(jiff::Timestamp::from_second(second).unwrap()));
    topic
}

fn claim(things: &[&str], shared: bool) -> Claim {
    let things = things.iter().map(|thing| (*thing).to_owned()).collect();
    Claim { things, shared, advice: "another name" }
}

/// Scenario: three objects that name one thing, recorded in every order. Guarantee: the oldest
/// holds it, and both others name it; of two created in the same second, the first by name is
/// older.
#[test]
fn the_oldest_holds_whoever_is_noted_first() {
    let all = [topic("b", "x", Some(5)), topic("a", "z", Some(9)), topic("a", "y", Some(9))];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let claims = Claims::default();
        order.iter().for_each(|at| claims.record_claim(&all[*at], claim(&["t"], false)));
        assert_eq!(claims.check_conflict(&all[0]), Ok(()));
        for other in &all[1..] {
            let refused = claims.check_conflict(other).unwrap_err();
            assert_eq!(refused.reason, Reason::HeldByAnother);
            assert!(refused.message.contains("TelemetryTopic x in namespace b"), "{refused}");
        }
        claims.remove_claims("TelemetryTopic/b/x");
        assert_eq!(claims.check_conflict(&all[2]), Ok(()));
        assert!(claims.check_conflict(&all[1]).unwrap_err().message.contains("TelemetryTopic y"));
    }
}

/// Scenario: of two objects that name one thing, neither, one or both declare that they share.
/// Guarantee: they may share only if both declare it; a deletion still finds the other object.
#[test]
fn only_who_both_say_so_share() {
    let (old, new) = (topic("a", "x", Some(1)), topic("b", "x", Some(2)));
    for (first, second) in [(false, false), (true, false), (false, true), (true, true)] {
        let claims = Claims::default();
        claims.record_claim(&new, claim(&["t"], second));
        claims.record_claim(&old, claim(&["t"], first));
        assert_eq!(claims.check_conflict(&new).is_ok(), first && second);
        assert_eq!(claims.check_conflict(&old), Ok(()));
        assert!(claims.other_claimant(&old).is_some() && claims.other_claimant(&new).is_some());
    }
}

/// Scenario: two objects have one of two addresses in common; then the claim changes; then both are
/// deleted. Guarantee: one common address is enough; what is no longer claimed is free; no entry
/// remains.
#[test]
fn a_claim_that_changes_gives_up_what_it_was() {
    let (old, new) = (topic("a", "x", Some(1)), topic("b", "x", Some(2)));
    let claims = Claims::default();
    claims.record_claim(&old, claim(&["t on k:1", "t on k:2"], false));
    claims.record_claim(&new, claim(&["t on k:2", "t on k:3"], false));
    assert!(claims.check_conflict(&new).is_err());
    claims.record_claim(&old, claim(&["t on k:1"], false));
    assert_eq!((claims.check_conflict(&new), claims.other_claimant(&new)), (Ok(()), None));
    claims.remove_claims("TelemetryTopic/a/x");
    claims.remove_claims("TelemetryTopic/b/x");
    let known = claims.known.into_inner().unwrap();
    assert!(known.by_thing.is_empty() && known.by_object.is_empty());
}
