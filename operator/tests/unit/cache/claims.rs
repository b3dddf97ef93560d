//! Tests of what `cache/claims.rs` keeps to itself.

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

/// Scenario: three objects of one thing, noted in every order. Guarantee: whoever is oldest
/// holds it, and both others name it; of the same second the first by name.
#[test]
fn the_oldest_holds_whoever_is_noted_first() {
    let all = [topic("b", "x", Some(5)), topic("a", "z", Some(9)), topic("a", "y", Some(9))];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let claims = Claims::default();
        order.iter().for_each(|at| claims.note(&all[*at], claim(&["t"], false)));
        assert_eq!(claims.refused(&all[0]), None);
        for other in &all[1..] {
            let refused = claims.refused(other).unwrap();
            assert_eq!(refused.reason, Reason::HeldByAnother);
            assert!(refused.message.contains("TelemetryTopic x in namespace b"), "{refused}");
        }
        claims.forget("TelemetryTopic/b/x");
        assert_eq!(claims.refused(&all[2]), None);
        assert!(claims.refused(&all[1]).unwrap().message.contains("TelemetryTopic y"));
    }
}

/// Scenario: two objects of one thing say that they share in none, one or both. Guarantee: only
/// both together may; either is still another's for who deletes.
#[test]
fn only_who_both_say_so_share() {
    let (old, new) = (topic("a", "x", Some(1)), topic("b", "x", Some(2)));
    for (first, second) in [(false, false), (true, false), (false, true), (true, true)] {
        let claims = Claims::default();
        claims.note(&new, claim(&["t"], second));
        claims.note(&old, claim(&["t"], first));
        assert_eq!(claims.refused(&new).is_none(), first && second);
        assert_eq!(claims.refused(&old), None);
        assert!(claims.another(&old).is_some() && claims.another(&new).is_some());
    }
}

/// Scenario: one of two addresses is common; then the claim changes; then both are gone.
/// Guarantee: one is enough; what is no longer claimed is free; nothing is kept.
#[test]
fn a_claim_that_changes_gives_up_what_it_was() {
    let (old, new) = (topic("a", "x", Some(1)), topic("b", "x", Some(2)));
    let claims = Claims::default();
    claims.note(&old, claim(&["t on k:1", "t on k:2"], false));
    claims.note(&new, claim(&["t on k:2", "t on k:3"], false));
    assert!(claims.refused(&new).is_some());
    claims.note(&old, claim(&["t on k:1"], false));
    assert_eq!((claims.refused(&new), claims.another(&new)), (None, None));
    claims.forget("TelemetryTopic/a/x");
    claims.forget("TelemetryTopic/b/x");
    let known = claims.known.into_inner().unwrap();
    assert!(known.by_thing.is_empty() && known.by_object.is_empty());
}
