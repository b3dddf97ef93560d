//! Tests of owners.

use super::*;

fn owned_by(api_version: &str, kind: &str, name: &str, hash: &str) -> String {
    let owner = OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        controller: true,
    };
    let other = OwnerReference { controller: false, name: "other".into(), ..owner.clone() };
    let labels = BTreeMap::from([(TEMPLATE_HASH.to_owned(), hash.to_owned())]);
    let all = owner_attributes(&[other, owner], &labels);
    let all: Vec<_> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
    all.join(" ")
}

/// Scenario: pods belong to each controller, to others with similar names, and to a Job whose name
/// ends in a date. Guarantee: the owner is named, its own owner only if the name was derived from
/// it.
#[test]
fn owners_are_named_by_the_rules_of_their_controllers() {
    for (api_version, kind, name, hash, expected) in [
        (
            "apps/v1",
            "ReplicaSet",
            "cart-7f9c",
            "7f9c",
            "k8s.deployment.name=cart k8s.replicaset.name=cart-7f9c",
        ),
        ("apps/v1", "ReplicaSet", "cart-7f9c", "other", "k8s.replicaset.name=cart-7f9c"),
        ("apps/v1", "ReplicaSet", "cart7f9c", "7f9c", "k8s.replicaset.name=cart7f9c"),
        ("other.io/v1", "ReplicaSet", "cart-7f9c", "7f9c", ""),
        ("apps/v1", "StatefulSet", "db", "", "k8s.statefulset.name=db"),
        ("apps/v1", "DaemonSet", "agent", "", "k8s.daemonset.name=agent"),
        (
            "batch/v1",
            "Job",
            "backup-29384720",
            "",
            "k8s.cronjob.name=backup k8s.job.name=backup-29384720",
        ),
        ("batch/v1", "Job", "import-20261231", "", "k8s.job.name=import-20261231"),
        ("batch/v1", "Job", "import-1", "", "k8s.job.name=import-1"),
        ("v1", "Node", "node-1", "", ""),
    ] {
        assert_eq!(owned_by(api_version, kind, name, hash), expected, "{kind} {name}");
    }
}
