//! What users may do with the kinds who have one of Kubernetes' own roles in a namespace, by the roles
//! that the chart of the definitions adds to them.

use millrace_e2e::cluster::Cluster;
use millrace_stack::Stack;

const KINDS: [&str; 5] =
    ["telemetrypipelines", "edgepools", "gatewaypools", "telemetrytopics", "telemetryschemas"];

/// `what` is a kind, or a kind and one of its subresources behind a slash.
fn may(cluster: &Cluster, namespace: &str, user: &str, verb: &str, what: &str) -> bool {
    let (kind, below) = what.split_once('/').unwrap_or((what, ""));
    let (resource, below) = (format!("{kind}.millrace.dev"), format!("--subresource={below}"));
    let args = ["-n", namespace, "auth", "can-i", verb, &resource, &below, "--as", user];
    let spoken = cluster.call(&args, "").unwrap();
    match spoken.out.trim() {
        "yes" => true,
        "no" => false,
        other => panic!("{verb} {resource}: {other} {}", spoken.err),
    }
}

/// Scenario: two users, one with Kubernetes' role `view` and one with `edit` in a namespace.
/// Guarantee: the first may read all kinds and write none, the second may write all of them and
/// scale pools, neither may write a status, and neither may anything in another namespace.
#[test]
fn viewers_read_the_kinds_and_editors_write_them() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let namespace = cluster.namespace("access").unwrap();
    let elsewhere = cluster.namespace("access-other").unwrap();
    for role in ["view", "edit"] {
        let (binding, user) = (format!("{role}er"), format!("--user=the-{role}er"));
        let role = format!("--clusterrole={role}");
        let args = ["-n", &namespace.name, "create", "rolebinding", &binding, &role, &user];
        cluster.kubectl(&args).unwrap();
    }
    let may = |user, verb, what: &str| may(&cluster, &namespace.name, user, verb, what);
    for kind in KINDS {
        for user in ["the-viewer", "the-editer"] {
            for verb in ["get", "list", "watch"] {
                assert!(may(user, verb, kind), "{user} may not {verb} {kind}");
            }
            assert!(!may(user, "patch", &format!("{kind}/status")), "{user}: status of {kind}");
            assert!(!self::may(&cluster, &elsewhere.name, user, "get", kind), "{user}: {kind}");
        }
        for verb in ["create", "update", "patch", "delete"] {
            assert!(may("the-editer", verb, kind), "the editor may not {verb} {kind}");
            assert!(!may("the-viewer", verb, kind), "the viewer may {verb} {kind}");
        }
    }
    for pool in ["edgepools/scale", "gatewaypools/scale"] {
        assert!(may("the-editer", "patch", pool) && !may("the-viewer", "patch", pool), "{pool}");
    }
}
