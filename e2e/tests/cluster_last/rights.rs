//! The rights that the chart grants, compared with what the operator and the pools' pods requested
//! in a run of all cluster tests, by the API server's audit log.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};

use anyhow::{Context, Result};
use millrace_e2e::cluster::{Cluster, OPERATOR_NAMESPACE};
use millrace_e2e::rights::{self, Grant, Request};
use millrace_stack::{Stack, audit};
use serde_json::Value;

/// The chart's release, and the name of its Deployment.
const RELEASE: &str = "millrace";
const DEPLOYMENT: &str = "millrace-operator";

/// Group, resource (empty: all), verbs, and a reason.
type Reason = (&'static str, &'static str, &'static [&'static str], &'static str);

/// Rights that no request of these tests shows, and what needs and proves them.
const WITHOUT_REQUEST: [Reason; 9] = [
    ("millrace.dev", "telemetrypipelines/finalizers", &["update"], FINALIZERS),
    ("millrace.dev", "edgepools/finalizers", &["update"], FINALIZERS),
    ("millrace.dev", "gatewaypools/finalizers", &["update"], FINALIZERS),
    (
        "rbac.authorization.k8s.io",
        "clusterroles",
        &["bind"],
        "the API server requires it of writes to bindings, which these tests need",
    ),
    (
        "coordination.k8s.io",
        "leases",
        &["create"],
        "an installation's first start: where the stack was up before, it is not in the log",
    ),
    ("apps", "statefulsets", &["delete"], ADOPTION),
    ("", "services", &["delete"], ADOPTION),
    ("", "serviceaccounts", &["delete"], ADOPTION),
    ("", "pods/resize", &["patch"], "cluster_nightly::resize: growth takes minutes of load"),
];
const FINALIZERS: &str = "the API server's admission requires it of whoever makes an object with an \
                          owner that blocks deletion (kubernetes::commands of the stack enables it)";
const ADOPTION: &str = "the same admission requires it of whoever changes an object's owners: \
                        cluster::deletion has a pool that adopts";

/// Requests that roles refuse, and why that is right.
const REFUSED: [Reason; 1] = [(
    "monitoring.coreos.com",
    "",
    &["list", "watch"],
    "cluster::receivers::found revokes this right for a minute and a half",
)];

/// The roles and bindings of both scopes.
fn objects(cluster: &Cluster, kinds: &str) -> Result<Vec<Value>> {
    let text = cluster.kubectl(&["get", kinds, "--all-namespaces", "-o", "json"])?;
    let list: Value = serde_json::from_str(&text)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// All requests of accounts outside kube-system since the run began.
fn requests(stack: &Stack) -> Result<BTreeSet<Request>> {
    let mut requests = BTreeSet::new();
    for file in audit::files(stack.paths())? {
        let file = File::open(&file).with_context(|| format!("cannot read {}", file.display()))?;
        for line in BufReader::new(file).lines() {
            requests.extend(rights::requests(&line?)?);
        }
    }
    Ok(requests)
}

fn has_reason(reasons: &[Reason], (group, resource, verb): (&str, &str, &str)) -> bool {
    reasons.iter().any(|(of, what, verbs, _)| {
        *of == group && (what.is_empty() || *what == resource) && verbs.contains(&verb)
    })
}

/// Scenario: all cluster tests have run, with trial pods, shares, labels of pods and discovery
/// enabled. Guarantee: each right that the chart grants the operator, and the operator the pools'
/// accounts, was needed by a request, or has a reason here; roles refused no request of these
/// accounts without a reason here; and each reason is about a right that is granted.
#[test]
#[ignore = "judges the run of all cluster tests: make test-all"]
fn each_granted_right_was_used_and_no_request_was_refused() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let deployment = cluster.get(OPERATOR_NAMESPACE, "deployment", DEPLOYMENT).unwrap();
    let account = deployment["spec"]["template"]["spec"]["serviceAccountName"].as_str().unwrap();
    let operator = rights::user(OPERATOR_NAMESPACE, account);
    let roles = objects(&cluster, "clusterroles,roles").unwrap();
    let bindings = objects(&cluster, "clusterrolebindings,rolebindings").unwrap();
    let granted = rights::grants(RELEASE, &operator, &roles, &bindings);
    let requests = requests(&stack).unwrap();
    assert!(requests.iter().any(|it| it.account == operator), "no audit log of the operator");

    let unused = rights::unused(&granted, &requests, &operator);
    let is_unused =
        |it: &&Grant| !has_reason(&WITHOUT_REQUEST, (&it.group, &it.resource, &it.verb));
    let unused: Vec<_> = unused.iter().filter(is_unused).collect();
    let is_wrong =
        |it: &&Request| !it.allowed && !has_reason(&REFUSED, (&it.group, &it.resource, &it.verb));
    let refused: Vec<_> = requests.iter().filter(is_wrong).collect();
    println!("{} rights, {} different requests", granted.len(), requests.len());
    assert!(unused.is_empty() && refused.is_empty(), "unused: {unused:#?}, refused: {refused:#?}");
    for (group, resource, verbs, _) in WITHOUT_REQUEST {
        for verb in verbs {
            let is_it =
                |it: &Grant| (&*it.group, &*it.resource, &*it.verb) == (group, resource, *verb);
            assert!(granted.iter().any(is_it), "{verb} {resource} of {group:?} isn't granted");
        }
    }
}
