//! What the chart makes of the dashboards, rendered by Helm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use millrace_e2e::chart::{PROMETHEUS_KINDS, rendered};
use millrace_stack::Stack;
use serde_json::Value;

const TEMPLATE: &str = "dashboards.yaml";
const ALL: [&str; 8] =
    ["edges", "fleet", "gateways", "node-logs", "operator", "pipelines", "tables", "targets"];

/// The dashboards of rendered ConfigMaps, by name: each is indented by four below its key.
fn dashboards(text: &str) -> Vec<(String, Value)> {
    let maps = text.split("\n---\n").filter(|it| it.contains("\nkind: ConfigMap\n"));
    let dashboard = |map: &str| {
        let (head, page) = map.split_once(".json: |\n").unwrap();
        let name = head.rsplit("millrace-").next().unwrap().to_owned();
        (name, serde_json::from_str(page).unwrap())
    };
    maps.map(dashboard).collect()
}

fn names(dashboards: &[(String, Value)]) -> Vec<&str> {
    dashboards.iter().map(|(name, _)| name.as_str()).collect()
}

/// Scenario: clusters with and without the Prometheus operator, its rules switched off, data sources
/// named. Guarantee: the chart brings the dashboards that can have answers there; the named data
/// source is chosen, each of its kind, and nothing else of a dashboard changes.
#[test]
fn dashboards_come_where_they_have_answers_and_choose_the_named_source() {
    let stack = Stack::open().unwrap();
    let of = |values: &[&str], kinds: &[&str]| {
        dashboards(&rendered(&stack, TEMPLATE, values, kinds).unwrap())
    };
    let usual = of(&[], &PROMETHEUS_KINDS);
    assert_eq!(names(&usual), ALL);
    let without_rules = of(&["monitoring.rules=false"], &PROMETHEUS_KINDS);
    let wanted: Vec<_> = ALL.into_iter().filter(|name| *name != "fleet").collect();
    assert_eq!(names(&without_rules), wanted);

    let sources =
        ["monitoring.dataSources.prometheus=prom-1", "monitoring.dataSources.clickhouse=c_2"];
    let mut chosen = of(&sources, &PROMETHEUS_KINDS);
    for ((name, page), (_, usual)) in chosen.iter_mut().zip(&usual) {
        let uid = if name == "tables" { "c_2" } else { "prom-1" };
        let variable = &mut page["templating"]["list"][0];
        assert_eq!(
            (&variable["type"], &variable["current"]["value"]),
            (&"datasource".into(), &uid.into())
        );
        variable["current"] = serde_json::json!({});
        assert!(page == usual, "{name} changed");
    }
    let alone = of(&sources, &[]);
    assert_eq!(names(&alone), ["tables"]);
    // Helm has nothing to show then, and says so.
    let none = rendered(&stack, TEMPLATE, &[], &[]).unwrap_err().to_string();
    assert!(none.contains("could not find template"), "{none}");
}
