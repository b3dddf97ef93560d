//! Where kinds are watched.

use super::*;

/// Scenario: an operator that looks after two namespaces, and one that looks after all. Guarantee:
/// namespaced kinds are watched in each of the two, others once.
#[test]
fn a_kind_is_watched_where_the_operator_looks() {
    let within = ["a".to_owned(), "b".to_owned()];
    assert_eq!(places(Watched::Pods, &within), [Some("a".to_owned()), Some("b".to_owned())]);
    assert_eq!(places(Watched::Nodes, &within), [None]);
    assert_eq!(places(Watched::Pods, &[]), [None]);
}
