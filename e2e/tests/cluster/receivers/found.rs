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

use crate::cluster::receivers::sharing::{LIMIT, POOL, shared};
use crate::cluster::receivers::targets::{INTERVAL, SLACK, Targets};

/// Services with one target each.
const SERVICES: usize = 8;
/// Annotated pods: the pipeline's gateways.
const PODS: usize = 2;
const FOUND: usize = SERVICES + PODS;
/// Where gateways tell their metrics.
const ADMIN_PORT: u16 = 9464;
/// Four scrapes of each target with so many pods.
const STAYS: Duration = Duration::from_secs(60);
/// A watch is renewed at least this often.
const WATCH_LIMIT: Duration = Duration::from_secs(86);
/// A kind that wasn't served is looked for again within 30 s.
const FOUND_LIMIT: Duration = Duration::from_secs(90);

/// The kinds of monitors: name, plural and version.
const KINDS: [(&str, &str, &str); 4] = [
    ("ServiceMonitor", "servicemonitors", "v1"),
    ("PodMonitor", "podmonitors", "v1"),
    ("Probe", "probes", "v1"),
    ("ScrapeConfig", "scrapeconfigs", "v1alpha1"),
];

/// The definitions of monitors, as far as the API server needs them. They go with their test.
struct Definitions<'c>(&'c Cluster);

impl<'c> Definitions<'c> {
    fn apply(cluster: &'c Cluster) -> Result<Self> {
        let this = Self(cluster);
        for kind in KINDS {
            cluster.apply("default", &Self::document(kind))?;
        }
        let wait = ["wait", "--for=condition=Established", "--timeout=60s", "crd"];
        let names = Self::names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        cluster.kubectl(&[&wait[..], &names].concat())?;
        Ok(this)
    }

    fn names() -> [String; 4] {
        KINDS.map(|(_, plural, _)| format!("{plural}.monitoring.coreos.com"))
    }

    fn document((kind, plural, version): (&str, &str, &str)) -> String {
        let schema = json!({"type": "object", "properties": {"spec":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
            "spec": {
                "group": "monitoring.coreos.com", "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(),
                    "listKind": format!("{kind}List")},
                "versions": [{"name": version, "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}}],
            },
        })
        .to_string()
    }
}

impl Drop for Definitions<'_> {
    fn drop(&mut self) {
        let names = Self::names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let _ = self.0.kubectl(&[&["delete", "crd", "--wait=false"][..], &names].concat());
    }
}

/// The operator's right to watch monitors, revoked until this is dropped. No other test needs it.
struct Revoked<'c> {
    cluster: &'c Cluster,
    since: Instant,
    rules: Value,
}

impl<'c> Revoked<'c> {
    const ROLE: &'static str = "millrace-operator-millrace-system";

    fn begin(cluster: &'c Cluster) -> Result<Self> {
        let rules = cluster.get("default", "clusterrole", Self::ROLE)?["rules"].clone();
        let mut left = rules.as_array().context("a role has rules")?.clone();
        left.retain(|rule| rule["apiGroups"][0] != "monitoring.coreos.com");
        let this = Self { cluster, since: Instant::now(), rules };
        this.write(&json!(left))?;
        Ok(this)
    }

    fn write(&self, rules: &Value) -> Result<()> {
        let patch = json!([{"op": "replace", "path": "/rules", "value": rules}]).to_string();
        let args = ["patch", "clusterrole", Self::ROLE, "--type=json", "-p", &patch];
        self.cluster.kubectl(&args).map(drop)
    }

    /// Restores the right, once each watch has been refused.
    fn end_after_refusal(self) {
        thread::sleep(WATCH_LIMIT.saturating_sub(self.since.elapsed()));
    }
}

impl Drop for Revoked<'_> {
    fn drop(&mut self) {
        let _ = self.write(&self.rules);
    }
}

/// The monitor of an application's Services.
fn monitor(cluster: &Cluster, namespace: &str, app: &str) -> Result<()> {
    let endpoint = json!({"port": "metrics", "interval": format!("{}s", INTERVAL.as_secs()),
        "scrapeTimeout": "5s"});
    let monitor = json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
        "metadata": {"name": app},
        "spec": {"selector": {"matchLabels": {"app": app}}, "endpoints": [endpoint]},
    });
    cluster.apply(namespace, &monitor.to_string())
}

/// A Service of an application for each target, whose endpoints are this machine's.
fn serve(cluster: &Cluster, namespace: &str, app: &str, targets: &Targets) -> Result<()> {
    let labels = json!({"app": app});
    for address in &targets.addresses {
        let (ip, port) = address.split_once(':').context("an address has a port")?;
        let port: u16 = port.parse()?;
        let name = format!("{app}-{port}");
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
    Ok(())
}

fn edges(pods: u32) -> Value {
    let found = json!({"serviceMonitors": {}, "podMonitors": {}, "probes": {}, "scrapeConfigs": {},
        "annotations": {}, "intervalSeconds": INTERVAL.as_secs()});
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

/// Waits until what was scraped up to now is stored, and judges it from then on.
fn judge_stored(stack: &Stack, pipeline: &Pipeline<'_>, since: u64) {
    let until = unix_millis();
    let stored = wait::until("what was scraped to be stored", LIMIT, || {
        let times = scraped(stack, pipeline, since)?;
        let is_new = |times: &Vec<u64>| {
            times.last().is_some_and(|last| last + 2 * INTERVAL.as_millis() as u64 >= until)
        };
        ensure!(times.len() == PODS && times.values().all(is_new), "{times:?}");
        Ok(times)
    })
    .unwrap();
    judge(&stored, until);
}

/// Scenario: a pool of one pod that scrapes what a ServiceMonitor and annotations name: eight
/// Services' endpoints and two pods; it is scaled to three pods, and back to one. While there are
/// three, the operator may not watch monitors, until its watches have been refused; in the end there
/// is another monitor. Guarantee: all is found and up, and both monitors are followed; each pod has some targets, and each target
/// one pod at a time: none is scraped twice in an interval or misses more than one; tables have no
/// sample twice, and the labels that prometheus-operator's rules give.
#[test]
fn what_is_found_in_the_cluster_is_scraped_by_a_pool_that_is_scaled() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let _definitions = Definitions::apply(&cluster).unwrap();
    let targets = Targets::start(HOST_IP.into(), SERVICES).unwrap();
    let wish = Wish {
        signal: "metrics",
        gateway: Some(gateway()),
        edges: Some(edges(1)),
        ..Wish::usual(&stack)
    };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "found", wish).unwrap();
    let namespace = pipeline.namespace.name.clone();
    serve(&cluster, &namespace, "numbers", &targets).unwrap();
    monitor(&cluster, &namespace, "numbers").unwrap();
    pipeline.ready().unwrap();
    let wait_for_targets = |what: &str, (monitors, found): (usize, usize)| {
        wait::until(what, FOUND_LIMIT + LIMIT, || {
            let pool = cluster.get(&namespace, "edgepool", POOL)?;
            let targets = &pool["status"]["targets"];
            ensure!(targets["up"] == found && targets["assigned"] == found, "{targets}");
            ensure!(
                targets["monitors"] == monitors
                    && targets["invalidMonitors"].as_u64().is_none_or(|it| it == 0),
                "{targets}"
            );
            Ok(())
        })
    };
    wait_for_targets("all to be found and up", (1, FOUND)).unwrap();
    shared(&cluster, &namespace, (FOUND, 1)).unwrap();
    let (begun, begun_millis) = (Instant::now(), unix_millis());
    let mut revoked = Some(Revoked::begin(&cluster).unwrap());
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
        if let Some(revoked) = revoked.take() {
            revoked.end_after_refusal();
            wait_for_targets("all to be up next to a refused watch", (1, FOUND)).unwrap();
        }
    }
    targets.judge(begun);
    judge_stored(&stack, &pipeline, begun_millis);
    let late = Targets::start(HOST_IP.into(), 1).unwrap();
    serve(&cluster, &namespace, "late", &late).unwrap();
    monitor(&cluster, &namespace, "late").unwrap();
    wait_for_targets("a later monitor to be followed too", (2, FOUND + 1)).unwrap();
    let twice = "SELECT count() - uniqExact(ResourceAttributes['service.instance.id'], \
                 TimeUnix) FROM DATABASE.otel_metrics_gauge WHERE MetricName = 'up'";
    assert_eq!(pipeline.query(&stack, twice).unwrap().trim(), "0", "no sample is there twice");
    let labeled = "SELECT uniqExact(Attributes['service']) FROM DATABASE.otel_metrics_gauge \
                   WHERE MetricName = 'up' AND startsWith(ServiceName, 'numbers-') \
                   AND Attributes['endpoint'] = 'metrics'";
    let labeled = pipeline.query(&stack, labeled).unwrap();
    assert_eq!(labeled.trim(), SERVICES.to_string(), "labels of prometheus-operator's rules");
}
