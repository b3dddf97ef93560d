//! The table of the operator's rights, and of those that it gives pods (docs/reference/rights.md), held to what
//! the chart renders.

use std::collections::BTreeSet;

use millrace_e2e::binaries;
use millrace_e2e::chart::rendered;
use millrace_stack::Stack;
use serde_json::Value;

/// Every feature off that can be.
const BASE: [&str; 3] = ["tries.enabled=false", "clusterId=c", "deletion.releaseRole=false"];
/// One namespace to look after.
const WATCHED: &str = "watchNamespaces={a}";
const OWN: &str = "millrace-system";
/// The table's word for rights that the operator binds to accounts of pools.
const PODS: &str = "pods";

/// A value, what it needs beside it, and what switches its right on.
const FEATURES: [(&str, &[&str]); 10] = [
    ("tries.enabled", &["tries.enabled=true"]),
    ("shareAccess.grant", &["shareAccess.grant=true"]),
    ("podAccess.grant", &["podAccess.grant=true"]),
    ("discovery.enabled", &["discovery.enabled=true"]),
    ("discovery.acrossNamespaces", &["discovery.enabled=true", "discovery.acrossNamespaces={b}"]),
    ("discovery.secrets", &["discovery.enabled=true", "discovery.secrets=true"]),
    ("console.enabled", &["console.enabled=true"]),
    ("secrets.watch", &["secrets.watch=true"]),
    ("clusterId", &["clusterId="]),
    ("deletion.releaseRole", &["deletion.releaseRole=true"]),
];

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    group: String,
    resource: String,
    verb: String,
    by_name: bool,
    place: String,
}

/// The rights of the operator's account, each with the namespace that it is for (`*`: all), and those
/// of roles that aren't bound to it.
fn granted(stack: &Stack, values: &[&str]) -> BTreeSet<Right> {
    let text = rendered(stack, "rbac.yaml", values, &[]).unwrap();
    let objects = text.trim_start_matches("---\n").split("\n---\n");
    let objects: Vec<Value> = objects.map(|it| serde_norway::from_str(it).unwrap()).collect();
    let mut rights = BTreeSet::new();
    let roles = objects.iter().filter(|it| it["rules"].is_array());
    for role in roles {
        let is_bound = objects.iter().any(|binding| {
            binding["subjects"][0]["name"] == "millrace-operator"
                && role["kind"] == binding["roleRef"]["kind"]
                && role["metadata"]["name"] == binding["roleRef"]["name"]
                && role["metadata"]["namespace"] == binding["metadata"]["namespace"]
        });
        let own = role["metadata"]["namespace"].as_str().unwrap_or("*");
        let place = if is_bound { own } else { PODS };
        for rule in role["rules"].as_array().unwrap() {
            rights.extend(rights_of(rule, place));
        }
    }
    rights
}

fn rights_of(rule: &Value, place: &str) -> Vec<Right> {
    let words = |field: &str| -> Vec<String> {
        let words = rule[field].as_array().into_iter().flatten();
        words.map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let by_name = !words("resourceNames").is_empty();
    let mut rights = Vec::new();
    for group in words("apiGroups") {
        let group = if group.is_empty() { "core".to_owned() } else { group };
        for resource in words("resources") {
            for verb in words("verbs") {
                let (group, resource) = (group.clone(), resource.clone());
                rights.push(Right { group, resource, verb, by_name, place: place.to_owned() });
            }
        }
    }
    rights
}

/// The same with the table's words for places: what the right is for without `watchNamespaces` and
/// with.
fn placed(stack: &Stack, values: &[&str]) -> BTreeSet<Right> {
    let everywhere = granted(stack, &[&BASE[..], values].concat());
    let watching = granted(stack, &[&BASE[..], values, &[WATCHED]].concat());
    let mut all = BTreeSet::new();
    for right in everywhere.iter().chain(&watching) {
        let at = |rights: &BTreeSet<Right>, place: &str| {
            rights.contains(&Right { place: place.to_owned(), ..right.clone() })
        };
        let places = [
            (PODS, at(&everywhere, PODS) && at(&watching, PODS)),
            ("own", at(&everywhere, OWN) && at(&watching, OWN)),
            ("cluster", at(&everywhere, "*") && at(&watching, "*")),
            ("watched", at(&everywhere, "*") && at(&watching, "a")),
        ];
        assert!(places.iter().any(|(_, is)| *is), "{right:?} has no place in the table");
        let named = places.iter().filter(|(_, is)| *is);
        all.extend(named.map(|(place, _)| Right { place: (*place).to_owned(), ..right.clone() }));
    }
    all
}

/// The rows of the page, with the value that gives them.
fn listed() -> BTreeSet<(String, Right)> {
    let page = std::fs::read_to_string(binaries::root().join("docs/reference/rights.md")).unwrap();
    let mut rights = BTreeSet::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("| ")) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [group, resources, verbs, place, with, purpose] = cells[..] else {
            panic!("a row of six cells: {line}");
        };
        if group == "group" || group == "---" {
            continue;
        }
        assert!(purpose.len() > 10, "{line}");
        let by_name = resources.ends_with(" by name");
        for resource in resources.trim_end_matches(" by name").split(", ") {
            for verb in verbs.split(", ") {
                let [group, resource, verb, place] =
                    [group, resource, verb, place].map(str::to_owned);
                rights.insert((with.to_owned(), Right { group, resource, verb, by_name, place }));
            }
        }
    }
    rights
}

/// Scenario: the chart with every feature off, and with each on, for all namespaces and for one.
/// Guarantee: each right that it gives the operator or pods has a row on the page, with its place and the
/// value that gives it, and no row names a right that isn't given. Slow: Helm renders the chart
/// twice for each of its features.
#[test]
fn each_right_has_its_row() {
    let stack = Stack::open().unwrap();
    let always = placed(&stack, &[]);
    let with = |name: &str, right: Right| (name.to_owned(), right);
    let mut rendered: BTreeSet<_> =
        always.iter().map(|right| with("always", right.clone())).collect();
    for (name, values) in FEATURES {
        let needed: Vec<&str> = values[..values.len() - 1].to_vec();
        let before = placed(&stack, &needed);
        let more = placed(&stack, values);
        assert!(more.is_superset(&before), "{name} takes rights away");
        rendered.extend(more.difference(&before).map(|right| with(name, right.clone())));
    }
    let listed = listed();
    let unlisted: Vec<_> = rendered.difference(&listed).collect();
    let ungranted: Vec<_> = listed.difference(&rendered).collect();
    assert!(unlisted.is_empty(), "without a row: {unlisted:#?}");
    assert!(ungranted.is_empty(), "not given: {ungranted:#?}");
}

/// Scenario: the chart at its defaults. Guarantee: what is off gives no right: no RoleBinding can be
/// written, no Secret made, nothing watched for discovery.
#[test]
fn features_that_are_off_by_default_give_no_rights() {
    let stack = Stack::open().unwrap();
    let given = granted(&stack, &[]);
    for group in ["rbac.authorization.k8s.io", "monitoring.coreos.com", "discovery.k8s.io"] {
        assert!(given.iter().all(|right| right.group != group), "{group}");
    }
    let secrets = given.iter().filter(|right| right.resource == "secrets");
    assert_eq!(secrets.map(|right| right.verb.as_str()).collect::<Vec<_>>(), ["get"]);
}
