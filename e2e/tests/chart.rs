//! What the chart makes of its values, rendered by Helm.

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

/// Scenario: no image repositories, and each of them alone. Guarantee: nothing is rendered that
/// would pull an image of nobody's, and the message names the value to set.
#[test]
fn image_repositories_must_be_named() {
    let stack = Stack::open().unwrap();
    for value in ["image.repository", "collector.imageRepository"] {
        let empty = format!("{value}=");
        let refused = rendered(&stack, "deployment.yaml", &[&empty], &[]).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("{value} is empty: set it to the repository")),
            "{refused}"
        );
    }
}

/// Scenario: every object of the Prometheus operator with its switch at each of its values, on
/// clusters that serve the kinds and don't. Guarantee: auto goes by the cluster; true and false don't.
#[test]
fn switches_decide_where_the_cluster_does_not() {
    let stack = Stack::open().unwrap();
    let cases = [
        ("podMonitor", "podmonitor.yaml"),
        ("rules", "prometheusrule.yaml"),
        ("dashboards", "dashboards.yaml"),
    ];
    for (switch, template) in cases {
        let is_made = |value: &str, kinds: &[&str]| {
            let value = format!("monitoring.{switch}={value}");
            rendered(&stack, template, &[&value, "monitoring.labels.a=b"], kinds).is_ok()
        };
        let made: Vec<bool> = ["auto", "true", "false"]
            .into_iter()
            .flat_map(|value| [is_made(value, &PROMETHEUS_KINDS), is_made(value, &[])])
            .collect();
        assert_eq!(made, [true, false, true, true, false, false], "{switch}");
    }
}

/// Scenario: names overridden, in part and completely; more variables, volumes and annotations.
/// Guarantee: objects, lease and selectors have the names, and pods what was added, beside their own.
#[test]
fn names_and_pods_take_what_users_add() {
    let stack = Stack::open().unwrap();
    let deployment = |values: &[&str]| -> Value {
        let text = rendered(&stack, "deployment.yaml", values, &[]).unwrap();
        serde_norway::from_str(&text).unwrap()
    };
    let named = deployment(&["nameOverride=telemetry"]);
    assert_eq!(named["metadata"]["name"], "millrace-telemetry-operator");
    let labels = &named["spec"]["selector"]["matchLabels"];
    assert_eq!(labels["app.kubernetes.io/name"], "telemetry");
    let changed = deployment(&[
        "fullnameOverride=own",
        "annotations.reloader=yes",
        "podAnnotations.injected=no",
        "extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=http://proxy:3128",
        "extraVolumes[0].name=ca,extraVolumes[0].configMap.name=ca",
        "extraVolumeMounts[0].name=ca,extraVolumeMounts[0].mountPath=/etc/ssl/own",
    ]);
    let pod = &changed["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    let has = |list: &Value, name: &str| {
        list.as_array().unwrap().iter().any(|it| it["name"] == name || it == name)
    };
    assert_eq!(changed["metadata"]["name"], "own");
    assert!(has(&container["args"], "--lease-name=own"), "{container}");
    assert_eq!(changed["metadata"]["annotations"]["reloader"], "yes");
    assert_eq!(pod["metadata"]["annotations"]["injected"], "no");
    assert!(has(&container["env"], "HTTPS_PROXY") && has(&container["env"], "POD_NAME"));
    assert!(has(&pod["spec"]["volumes"], "ca"));
    assert!(has(&container["volumeMounts"], "ca"));
}

/// Scenario: names that YAML reads as booleans where they aren't quoted. Guarantee: they are texts; and
/// the operator's pods have a label that no name changes, by which the plugin finds them.
#[test]
fn names_are_texts_whatever_they_are() {
    let stack = Stack::open().unwrap();
    let values = ["fullnameOverride=yes", "nameOverride=y", "serviceAccount.name=no"];
    let more = ["priorityClassName=on", "console.enabled=true", "console.access=token"];
    let secret = ["console.token.secretName=off"];
    let values: Vec<&str> = values.into_iter().chain(more).chain(secret).collect();
    let text = rendered(&stack, "deployment.yaml", &values, &[]).unwrap();
    for expected in [
        "name: \"yes\"",
        "namespace: \"millrace-system\"",
        "app.kubernetes.io/name: \"y\"",
        "serviceAccountName: \"no\"",
        "priorityClassName: \"on\"",
        "secretName: \"off\"",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let deployment: Value = serde_norway::from_str(&text).unwrap();
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["app.kubernetes.io/part-of"], "millrace");
    assert_eq!(labels["app.kubernetes.io/component"], "operator");
}

/// Scenario: a token for metrics. Guarantee: the operator reads it from the Secret, and the
/// PodMonitor sends it; without one neither names a Secret.
#[test]
fn a_token_for_metrics_reaches_operator_and_monitor() {
    let stack = Stack::open().unwrap();
    let of = |template: &str, values: &[&str]| {
        rendered(&stack, template, values, &PROMETHEUS_KINDS).unwrap()
    };
    let token = ["metrics.token.secretName=scrape"];
    let deployment = of("deployment.yaml", &token);
    assert!(deployment.contains("--metrics-token-file=/etc/millrace/metrics/token"));
    assert!(deployment.contains("secretName: \"scrape\""));
    let monitor = of("podmonitor.yaml", &token);
    assert_eq!(
        monitor.matches("credentials: {name: \"scrape\", key: \"token\"}").count(),
        1,
        "{monitor}"
    );
    assert!(!of("deployment.yaml", &[]).contains("metrics-token"));
    assert!(!of("podmonitor.yaml", &[]).contains("credentials"));
}
