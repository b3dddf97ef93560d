//! Pools that scrape targets: what their collectors are told, and that no secret goes along.

use millrace_config::{HttpTargets, RelabelAction, RelabelRule};
use millrace_operator::controllers::edge::EdgePools;
use serde_json::{Value, json};

use crate::edge::{DEPLOYMENT, POOL, pool, world};

/// A pool of one pod for metrics that scrapes.
fn scraping(prometheus: &Value) -> Value {
    let mut wanted = pool();
    wanted["spec"]["replicas"] = json!(1);
    wanted["spec"]["signals"] = json!({"metrics": {}});
    wanted["spec"]["receivers"] = json!({"prometheus": prometheus});
    wanted
}

/// Scenario: a pool scrapes targets; then one whose time-out the API server would have refused.
/// Guarantee: the collector has the jobs as they are, and its pod stops before its successor starts;
/// the second is refused with what is wrong.
#[tokio::test]
async fn a_pool_that_scrapes_has_its_jobs_and_never_two_pods() {
    let world = world();
    let job = json!({
        "name": "node", "targets": ["node:9100"], "intervalSeconds": 15, "labels": {"env": "prod"},
        "honorLabels": true
    });
    let mut wanted = scraping(&json!({"jobs": [job]}));
    world.server.put(POOL, wanted.clone());
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let settings = world.collector_settings();
    let millrace_config::Mode::Edge { sources, .. } = settings.mode else { panic!("no edge") };
    let expected = millrace_config::ScrapeJob {
        name: "node".into(),
        targets: vec![millrace_config::TargetAddress::new("node:9100").unwrap()],
        interval_seconds: 15,
        labels: [("env".to_owned(), "prod".to_owned())].into(),
        honor_labels: true,
        ..millrace_config::ScrapeJob::default()
    };
    let prometheus = sources.prometheus.unwrap();
    assert_eq!(prometheus.jobs, [expected]);
    assert!(!prometheus.allow_local_addresses);
    let strategy = world.server.get(DEPLOYMENT).unwrap()["spec"]["strategy"].clone();
    assert_eq!(strategy["rollingUpdate"], json!({"maxSurge": 0, "maxUnavailable": 1}));
    wanted["spec"]["receivers"]["prometheus"]["jobs"][0]["intervalSeconds"] = json!(5);
    world.server.put(POOL, wanted);
    let refused = world.reconcile::<EdgePools>(POOL).await;
    let status = world.server.get(POOL).unwrap()["status"].to_string();
    let said = format!("{refused:?} {status}");
    assert!(said.contains("receivers.prometheus.jobs[0].timeoutSeconds"), "{said}");
}

/// Scenario: targets that are asked over TLS with a token, by a proxy with a password; a Secret
/// that is missing. Guarantee: pods have the keys as read-only files that the settings name, and no
/// ConfigMap holds what is in them; the missing one is named.
#[tokio::test]
async fn credentials_for_targets_are_files_in_pods() {
    let world = world();
    let job = json!({
        "name": "shop", "targets": ["shop:1"], "scheme": "https", "params": {"a": ["b"]},
        "tls": {"caSecretRef": {"name": "ca"}, "serverName": "shop.net",
            "clientCertificateSecretRef": {"name": "pair"}},
        "authorization": {"credentialsSecretRef": {"name": "access"}},
        "proxy": {"url": "http://proxy:3128", "noProxy": [".svc"],
            "credentialsSecretRef": {"name": "proxy", "usernameKey": "name"}}
    });
    let wanted = scraping(&json!({"jobs": [job]}));
    let secret = |name: &str, keys: &[&str]| {
        let data: serde_json::Map<_, _> =
            keys.iter().map(|key| ((*key).to_owned(), json!("aHVudGVyMg=="))).collect();
        let path = format!("/api/v1/namespaces/telemetry/secrets/{name}");
        world.server.put(
            &path,
            json!({
                "apiVersion": "v1", "kind": "Secret", "data": data,
                "metadata": {"name": name, "namespace": "telemetry"}
            }),
        );
    };
    secret("ca", &["ca.crt"]);
    secret("pair", &["tls.crt", "tls.key"]);
    secret("proxy", &["name", "password"]);
    world.server.put(POOL, wanted);
    let _ = world.reconcile::<EdgePools>(POOL).await;
    let status = world.server.get(POOL).unwrap()["status"].to_string();
    assert!(status.contains("Secret access does not exist"), "{status}");
    secret("access", &["token"]);
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let settings = world.collector_settings();
    let millrace_config::Mode::Edge { sources, .. } = settings.mode else { panic!("no edge") };
    let prometheus = sources.prometheus.unwrap();
    let text = format!("{:?}", prometheus.jobs[0]);
    let template = world.server.get(DEPLOYMENT).unwrap()["spec"]["template"].to_string();
    for file in ["ca/ca.crt", "pair/tls.crt", "pair/tls.key", "access/token", "proxy/name"] {
        assert!(text.contains(&format!("/etc/millrace/secrets/{file}")), "{text}");
        assert!(template.contains(&format!("\"path\":\"{file}\"")), "{template}");
    }
    let proxy = prometheus.jobs[0].proxy.as_ref().unwrap();
    assert_eq!(proxy.url.authority(), "proxy:3128");
    assert!(text.contains("shop.net"), "{text}");
    for (path, object) in world.server.snapshot() {
        let is_secret = path.contains("/secrets/");
        let text = object.to_string();
        assert!(is_secret || !text.contains("hunter2") && !text.contains("aHVudGVy"), "{path}");
    }
}

/// Scenario: a job with a server that lists targets, rules for targets and samples, and a pasted
/// `scrape_configs`; then one that has a field which isn't taken. Guarantee: the collector has the
/// rules with Prometheus' defaults, and both jobs; the other is refused by field and line.
#[tokio::test]
async fn rules_lists_and_pasted_jobs_reach_the_collector() {
    let world = world();
    let pasted = "- job_name: pasted\n  static_configs:\n    - targets: [a:1]\n";
    let mut prometheus = json!({
        "jobs": [{
            "name": "listed", "http": [{"url": "http://inventory/targets"}],
            "relabel": [{"action": "keep", "sourceLabels": ["env"], "regex": "prod"}],
            "metricRelabel": [{"action": "labeldrop", "regex": "pod_.*"}],
        }],
        "scrapeConfigs": pasted,
    });
    world.server.put(POOL, scraping(&prometheus));
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let settings = world.collector_settings();
    let millrace_config::Mode::Edge { sources, .. } = settings.mode else { panic!("no edge") };
    let jobs = sources.prometheus.unwrap().jobs;
    assert_eq!(jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["listed", "pasted"]);
    let url = "http://inventory/targets".to_owned();
    assert_eq!(jobs[0].http, [HttpTargets { url, refresh_seconds: 60 }]);
    let keep = RelabelRule {
        action: RelabelAction::Keep,
        source_labels: vec!["env".to_owned()],
        regex: "prod".to_owned(),
        ..RelabelRule::default()
    };
    let regex = "pod_.*".to_owned();
    let drop = RelabelRule { action: RelabelAction::LabelDrop, regex, ..RelabelRule::default() };
    assert_eq!((&jobs[0].relabel[..], &jobs[0].metric_relabel[..]), (&[keep][..], &[drop][..]));

    prometheus["scrapeConfigs"] = json!(format!("{pasted}  ec2_sd_configs: []\n"));
    world.server.put(POOL, scraping(&prometheus));
    let refused = world.reconcile::<EdgePools>(POOL).await;
    let status = world.server.get(POOL).unwrap()["status"].to_string();
    let said = format!("{refused:?} {status}");
    assert!(said.contains("receivers.prometheus.scrapeConfigs"), "{said}");
    assert!(said.contains("line 4") && said.contains("ec2_sd_configs"), "{said}");
}
