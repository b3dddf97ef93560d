//! Scrape targets that are found in a real cluster, by a ServiceMonitor and by annotations of pods,
//! for a pool that is scaled: who asks them, and how often.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{Pipeline, Wish, resources};
use millrace_e2e::wait;
use millrace_stack::Stack;
use millrace_stack::node::HOST_IP;
use serde_json::{Value, json};

use crate::sharing::{LIMIT, POOL, shared};
use crate::targets::{INTERVAL, SLACK, Targets};

/// Services with one target each.
const SERVICES: usize = 8;
/// Annotated pods: the pipeline's gateways.
const PODS: usize = 2;
const FOUND: usize = SERVICES + PODS;
/// Where gateways tell their metrics.
const ADMIN_PORT: u16 = 9464;
/// Four scrapes of each target with so many pods.
const STAYS: Duration = Duration::from_secs(60);
/// A kind that wasn't served is looked for again within 30 s.
const FOUND_LIMIT: Duration = Duration::from_secs(90);

/// The definition of ServiceMonitors, as far as the API server needs one. It goes with its test.
struct Definition<'c>(&'c Cluster);

impl<'c> Definition<'c> {
    const NAME: &'static str = "servicemonitors.monitoring.coreos.com";

    fn apply(cluster: &'c Cluster) -> Result<Self> {
        let schema = json!({"type": "object", "properties": {"spec":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let document = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": Self::NAME},
            "spec": {
                "group": "monitoring.coreos.com", "scope": "Namespaced",
                "names": {"kind": "ServiceMonitor", "plural": "servicemonitors",
                    "singular": "servicemonitor", "listKind": "ServiceMonitorList"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}}],
            },
        });
        cluster.apply("default", &document.to_string())?;
        let this = Self(cluster);
        let crd = format!("crd/{}", Self::NAME);
        cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", &crd])?;
        Ok(this)
    }
}

impl Drop for Definition<'_> {
    fn drop(&mut self) {
        let _ = self.0.kubectl(&["delete", "crd", Self::NAME, "--wait=false"]);
    }
}

/// A Service for each target, whose endpoints are this machine's, and the monitor of them all.
fn monitored(cluster: &Cluster, namespace: &str, targets: &Targets) -> Result<()> {
    let labels = json!({"app": "numbers"});
    for (number, address) in targets.addresses.iter().enumerate() {
        let (ip, port) = address.split_once(':').context("an address has a port")?;
        let port: u16 = port.parse()?;
        let name = format!("numbers-{number}");
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "labels": labels},
            "spec": {"clusterIP": "None", "ports": [{"name": "metrics", "port": port}]},
        });
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
            "ports": [{"name": "metrics", "port": port, "protocol": "TCP"}],
        });
        cluster.apply(namespace, &service.to_string())?;
        cluster.apply(namespace, &slice.to_string())?;
    }
    let endpoint = json!({"port": "metrics", "interval": format!("{}s", INTERVAL.as_secs()),
        "scrapeTimeout": "5s"});
    let monitor = json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
        "metadata": {"name": "numbers"},
        "spec": {"selector": {"matchLabels": labels}, "endpoints": [endpoint]},
    });
    cluster.apply(namespace, &monitor.to_string())
}

fn edges(pods: u32) -> Value {
    let found = json!({"serviceMonitors": {}, "annotations": {},
        "intervalSeconds": INTERVAL.as_secs()});
    json!([{"name": "scraper", "replicas": pods, "resources": resources(),
        "receivers": {"prometheus": {"kubernetes": found}}}])
}

fn gateway() -> Value {
    let annotations = json!({"prometheus.io/scrape": "true",
        "prometheus.io/port": ADMIN_PORT.to_string()});
    json!({"replicas": PODS, "resources": resources(),
        "podTemplate": {"metadata": {"annotations": annotations}}})
}

/// When each annotated pod was scraped since then, in milliseconds since 1970, by its instance.
fn scraped(
    stack: &Stack,
    pipeline: &Pipeline<'_>,
    since: u64,
) -> Result<BTreeMap<String, Vec<u64>>> {
    let sql = format!(
        "SELECT ResourceAttributes['service.instance.id'] AS instance, \
         toUnixTimestamp64Milli(TimeUnix) AS at FROM DATABASE.otel_metrics_gauge \
         WHERE MetricName = 'up' AND ServiceName = 'kubernetes-pods' AND Value = 1 \
         AND toUnixTimestamp64Milli(TimeUnix) >= {since} ORDER BY at"
    );
    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in pipeline.query(stack, &sql)?.lines() {
        let (instance, at) = line.split_once('\t').with_context(|| line.to_owned())?;
        times.entry(instance.to_owned()).or_default().push(at.parse()?);
    }
    Ok(times)
}

fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or_default()
}

/// No pod was scraped twice in an interval, or missed more than one.
fn judge(times: &BTreeMap<String, Vec<u64>>, until: u64) {
    assert_eq!(times.len(), PODS, "{times:?}");
    for (pod, times) in times {
        let ends = times.iter().skip(1).chain([&until]);
        for (place, (from, to)) in times.iter().zip(ends).enumerate() {
            let gap = Duration::from_millis(to.saturating_sub(*from));
            let is_last = place + 1 == times.len();
            assert!(is_last || gap > INTERVAL - SLACK, "{pod} was scraped twice within {gap:?}");
            assert!(gap < INTERVAL * 2 + SLACK, "{pod} was not scraped for {gap:?}");
        }
    }
}

/// Scenario: a pool of one pod that scrapes what a ServiceMonitor and annotations name: eight
/// Services' endpoints and two pods; it is scaled to three pods, and back to one. Guarantee: all is
/// found and up, and the monitor is told to be followed; each pod has some targets, and each target
/// one pod at a time: none is scraped twice in an interval or misses more than one; tables have no
/// sample twice, and the labels that prometheus-operator's rules give.
#[test]
fn what_is_found_in_the_cluster_is_scraped_by_a_pool_that_is_scaled() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let _definition = Definition::apply(&cluster).unwrap();
    let targets = Targets::start(HOST_IP.into(), SERVICES).unwrap();
    let wish = Wish {
        signal: "metrics",
        gateway: Some(gateway()),
        edges: Some(edges(1)),
        ..Wish::usual(&stack)
    };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "found", wish).unwrap();
    let namespace = pipeline.namespace.name.clone();
    monitored(&cluster, &namespace, &targets).unwrap();
    pipeline.ready().unwrap();
    let told = |what: &str| {
        wait::until(what, FOUND_LIMIT + LIMIT, || {
            let pool = cluster.get(&namespace, "edgepool", POOL)?;
            let told = &pool["status"]["targets"];
            ensure!(told["up"] == FOUND && told["shared"] == FOUND, "{told}");
            ensure!(
                told["monitors"] == 1 && told["brokenMonitors"].as_u64().is_none_or(|it| it == 0),
                "{told}"
            );
            Ok(())
        })
    };
    told("all to be found and up").unwrap();
    shared(&cluster, &namespace, (FOUND, 1)).unwrap();
    let (begun, begun_millis) = (Instant::now(), unix_millis());
    for pods in [3, 1] {
        pipeline.change(|wish| wish.edges = Some(edges(pods))).unwrap();
        shared(&cluster, &namespace, (FOUND, pods as usize)).unwrap();
        let since = Instant::now();
        thread::sleep(STAYS);
        // The last targets may still move for balance: to another pod, and not back.
        let is_one_by_one = |pods: &Vec<IpAddr>| {
            !pods.is_empty() && pods.iter().collect::<BTreeSet<_>>().len() == pods.len()
        };
        let by = targets.asked_by(since);
        assert!(by.iter().all(is_one_by_one), "one pod at a time asks each: {by:?}");
    }
    targets.judge(begun);
    let until = unix_millis();
    let stored = wait::until("what was scraped to be stored", LIMIT, || {
        let times = scraped(&stack, &pipeline, begun_millis)?;
        let is_new = |times: &Vec<u64>| {
            times.last().is_some_and(|last| last + 2 * INTERVAL.as_millis() as u64 >= until)
        };
        ensure!(times.len() == PODS && times.values().all(is_new), "{times:?}");
        Ok(times)
    })
    .unwrap();
    judge(&stored, until);
    told("all to be up in the end").unwrap();
    let twice = "SELECT count() - uniqExact(ResourceAttributes['service.instance.id'], \
                 TimeUnix) FROM DATABASE.otel_metrics_gauge WHERE MetricName = 'up'";
    assert_eq!(pipeline.query(&stack, twice).unwrap().trim(), "0", "no sample is there twice");
    let labeled = "SELECT uniqExact(Attributes['service']) FROM DATABASE.otel_metrics_gauge \
                   WHERE MetricName = 'up' AND startsWith(ServiceName, 'numbers-') \
                   AND Attributes['endpoint'] = 'metrics'";
    let labeled = pipeline.query(&stack, labeled).unwrap();
    assert_eq!(labeled.trim(), SERVICES.to_string(), "labels of prometheus-operator's rules");
}
