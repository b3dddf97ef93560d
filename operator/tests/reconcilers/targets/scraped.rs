//! Pools that scrape targets: what their collectors are told, and that no secret goes along.

use std::collections::BTreeMap;

use millrace_config::{ByteSize, HttpTargets, RelabelAction, RelabelRule, ScrapeJob, ScrapeLimits};
use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::pods::ShareReport;
use millrace_operator::sharing::{self, SharingMemory};
use serde_json::{Value, json};

use crate::reconcilers::pools::edge::{DEPLOYMENT, POOL, pool, world};
use crate::reconcilers::support::world::World;

const BINDING: &str =
    "/apis/rbac.authorization.k8s.io/v1/namespaces/telemetry/rolebindings/prod-edge";

/// A pool of one pod for metrics that scrapes.
fn scraping(prometheus: &Value) -> Value {
    let mut wanted = pool();
    wanted["spec"]["replicas"] = json!(1);
    wanted["spec"]["signals"] = json!({"metrics": {}});
    wanted["spec"]["receivers"] = json!({"prometheus": prometheus});
    wanted
}

/// The jobs that rounds of sharing out give to a pool's pods, from the only share there is.
async fn shared_jobs(world: &World) -> BTreeMap<String, ScrapeJob> {
    let pods = "/api/v1/namespaces/telemetry/pods";
    let labels = world.server.get(DEPLOYMENT).unwrap()["spec"]["selector"]["matchLabels"].clone();
    world.server.put(
        &format!("{pods}/prod-edge-1"),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels},
            "status": {"podIP": "10.0.0.1"}}),
    );
    world.set_report("prod-edge-1", Some(ShareReport::default()));
    let pool = serde_json::from_value(world.server.get(POOL).unwrap()).unwrap();
    sharing::run_round(&world.context, &pool, &mut SharingMemory::default()).await.unwrap();
    let maps = world.server.select(|path| path.ends_with("/configmaps/prod-edge-1-share-a-0"));
    let share =
        millrace_share_documents::join_parts([maps[0].1["data"]["share"].as_str().unwrap()])
            .unwrap();
    let job = |(name, settings): (&String, &Value)| {
        (name.clone(), ScrapeJob::of_share(name, settings).unwrap())
    };
    share.jobs.iter().map(job).collect()
}

/// Scenario: a pool scrapes targets; then one whose time-out the API server would have refused.
/// Guarantee: pods are told to read a share, with what they need for it, and their share has the job
/// as it is; the second is refused with what is wrong.
#[tokio::test]
async fn a_pool_that_scrapes_reads_its_jobs_from_shares() {
    let world = world();
    let job = json!({
        "name": "node", "targets": ["node:9100"], "intervalSeconds": 15, "labels": {"env": "prod"},
        "honorLabels": true, "limits": {"bodyBytes": "512Mi", "labels": 100}
    });
    let mut wanted = scraping(&json!({"jobs": [job]}));
    world.server.put(POOL, wanted.clone());
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let settings = world.collector_settings();
    let millrace_config::CollectorMode::Edge { sources, .. } = settings.mode else {
        panic!("no edge")
    };
    let prometheus = sources.prometheus.unwrap();
    assert!(prometheus.share.is_some() && prometheus.jobs.is_empty(), "{prometheus:?}");
    assert!(!prometheus.allow_local_addresses);
    let expected = ScrapeJob {
        name: "node".into(),
        interval_seconds: 15,
        labels: [("env".to_owned(), "prod".to_owned())].into(),
        honor_labels: true,
        limits: ScrapeLimits {
            body_bytes: ByteSize::mib(512),
            labels: 100,
            ..ScrapeLimits::default()
        },
        ..ScrapeJob::default()
    };
    assert_eq!(shared_jobs(&world).await, [("node".to_owned(), expected)].into());

    let pod = world.server.get(DEPLOYMENT).unwrap()["spec"]["template"]["spec"].clone();
    assert_eq!(pod["automountServiceAccountToken"], true);
    let variables = pod["containers"][0]["env"].as_array().unwrap();
    let paths: Vec<&Value> =
        variables.iter().map(|it| &it["valueFrom"]["fieldRef"]["fieldPath"]).collect();
    assert_eq!(paths, ["metadata.name", "metadata.namespace", "metadata.uid"]);
    let binding = world.server.get(BINDING).unwrap();
    assert_eq!(binding["roleRef"]["name"], "share-access");
    assert_eq!(binding["subjects"][0]["name"], "prod-edge");

    wanted["spec"]["receivers"]["prometheus"]["jobs"][0]["intervalSeconds"] = json!(5);
    world.server.put(POOL, wanted);
    let refused = world.reconcile::<EdgePools>(POOL).await;
    let status = world.server.get(POOL).unwrap()["status"].to_string();
    let said = format!("{refused:?} {status}");
    assert!(said.contains("receivers.prometheus.jobs[0].timeoutSeconds"), "{said}");
}

/// Scenario: a pool whose targets may have local addresses. Guarantee: pods are told so.
#[tokio::test]
async fn local_addresses_are_allowed_where_the_pool_says_so() {
    let world = world();
    let job = json!({"name": "node", "targets": ["127.0.0.1:9100"]});
    world.server.put(POOL, scraping(&json!({"jobs": [job], "allowLocalAddresses": true})));
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let settings = world.collector_settings();
    let millrace_config::CollectorMode::Edge { sources, .. } = settings.mode else {
        panic!("no edge")
    };
    assert!(sources.prometheus.unwrap().allow_local_addresses);
}

/// Scenario: a pool scrapes, then no more; one that never did. Guarantee: the right to read shares
/// goes with the scraping, and the other pool never had it.
#[tokio::test]
async fn the_right_to_read_shares_is_of_pools_that_scrape() {
    let world = world();
    world.server.put(POOL, pool());
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_eq!(world.server.get(BINDING), None);
    let template =
        |world: &World| world.server.get(DEPLOYMENT).unwrap()["spec"]["template"].clone();
    assert_eq!(template(&world)["spec"]["automountServiceAccountToken"], false);
    let job = json!({"name": "node", "targets": ["node:9100"]});
    world.server.put(POOL, scraping(&json!({"jobs": [job]})));
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    shared_jobs(&world).await;
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert!(world.server.get(BINDING).is_some());
    let status = world.server.get(POOL).unwrap()["status"].clone();
    world.server.put(POOL, pool());
    world.server.edit(POOL, |pool| pool["status"] = status);
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_eq!(world.server.get(BINDING), None);
}

/// Scenario: targets that are asked over TLS with a token, by a proxy with a password; a Secret
/// that is missing. Guarantee: pods have the keys as read-only files that the settings name, and no
/// ConfigMap holds what is in them; the missing one is named.
#[tokio::test]
async fn credentials_for_targets_are_files_in_pods() {
    let world = world();
    let job = json!({
        "name": "shop", "targets": ["shop:1"], "scheme": "https", "params": {"a": ["b"]},
        "tls": {"ca": {"secretName": "ca"}, "serverName": "shop.net",
            "certificateSecret": {"name": "pair"}},
        "authorization": {"credentialsSecret": {"name": "access"}},
        "proxy": {"url": "http://proxy:3128", "noProxy": [".svc"],
            "credentialsSecret": {"name": "proxy", "usernameKey": "name"}}
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
    let jobs = shared_jobs(&world).await;
    let text = format!("{:?}", jobs["shop"]);
    let template = world.server.get(DEPLOYMENT).unwrap()["spec"]["template"].to_string();
    for file in ["ca/ca.crt", "pair/tls.crt", "pair/tls.key", "access/token", "proxy/name"] {
        assert!(text.contains(&format!("/etc/millrace/secrets/{file}")), "{text}");
        assert!(template.contains(&format!("\"path\":\"{file}\"")), "{template}");
    }
    let proxy = jobs["shop"].proxy.as_ref().unwrap();
    assert_eq!(proxy.url.authority(), "proxy:3128");
    assert!(text.contains("shop.net"), "{text}");
    for (path, object) in world.server.snapshot() {
        let is_secret = path.contains("/secrets/");
        let text = object.to_string();
        assert!(is_secret || !text.contains("hunter2") && !text.contains("aHVudGVy"), "{path}");
    }
}

/// Scenario: a job with a server that lists targets, rules for targets and samples, and a pasted
/// `scrape_configs`; then one that has a field which isn't taken, and one with a pattern that is
/// none. Guarantee: the collector has the rules with Prometheus' defaults, and both jobs; the others
/// are refused by field and line.
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
    let jobs = shared_jobs(&world).await;
    assert_eq!(jobs.keys().collect::<Vec<_>>(), ["listed", "pasted"]);
    let jobs: Vec<ScrapeJob> = jobs.into_values().collect();
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

    prometheus["scrapeConfigs"] = json!(pasted);
    prometheus["jobs"][0]["relabel"][0]["regex"] = json!("pro(d");
    world.server.put(POOL, scraping(&prometheus));
    let refused = world.reconcile::<EdgePools>(POOL).await;
    let status = world.server.get(POOL).unwrap()["status"].to_string();
    let said = format!("{refused:?} {status}");
    assert!(said.contains("receivers.prometheus.jobs: listed: relabel[0]"), "{said}");
}
