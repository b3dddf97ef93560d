//! Scrape targets of a pool that is scaled, on a real cluster: who asks them, and how often.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use millrace_e2e::cluster::{Cluster, OPERATOR_NAMESPACE};
use millrace_e2e::pipeline::{NAME, OURS, Pipeline, Wish, resources};
use millrace_e2e::wait;
use millrace_stack::Stack;
use millrace_stack::node::HOST_IP;
use serde_json::{Value, json};

use crate::cluster::network::Blocked;
use crate::cluster::receivers::targets::{INTERVAL, Targets};

const TARGETS: usize = 18;
/// Pods start, are given targets, and balance.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);
/// Four scrapes of each target with so many pods.
const STAYS: Duration = Duration::from_secs(60);
/// Part of it in which the operator can't reach the pods: twice what a pod may be silent (20 s).
const UNREACHABLE: Duration = Duration::from_secs(40);
/// The pods' port for it.
const ADMIN_PORT: u16 = 9464;
/// The edge pool that scrapes.
pub(crate) const POOL: &str = "p-scraper";

fn edges(targets: &Targets, pods: u32) -> Value {
    let jobs = json!([{"name": "numbers", "targets": targets.addresses,
        "intervalSeconds": INTERVAL.as_secs(), "timeoutSeconds": 5}]);
    json!([{"name": "scraper", "replicas": pods, "resources": resources(),
        "receivers": {"prometheus": {"jobs": jobs}}}])
}

/// Waits until so many pods have shares of so many targets, and each a part of what it should.
pub(crate) fn shared(
    cluster: &Cluster,
    namespace: &str,
    (targets, pods): (usize, usize),
) -> Result<()> {
    shared_at_least(cluster, namespace, (targets, pods), targets / pods - 2)
}

/// The same, with a minimum for each pod.
fn shared_at_least(
    cluster: &Cluster,
    namespace: &str,
    (targets, pods): (usize, usize),
    least: usize,
) -> Result<()> {
    wait::until("targets to be shared out", LIMIT, || {
        let selector = format!("millrace.dev/scrape-share-pool={POOL}");
        let maps = cluster.list(namespace, "configmaps", &selector)?;
        let mut counts = BTreeMap::new();
        for map in &maps {
            let share: Value = serde_json::from_str(map["data"]["share"].as_str().unwrap_or(""))?;
            let count = share["targets"].as_object().map_or(0, serde_json::Map::len);
            counts.insert(map["metadata"]["name"].as_str().unwrap_or("").to_owned(), count);
        }
        let all: usize = counts.values().sum();
        let even = counts.values().filter(|count| **count >= least).count();
        ensure!(all == targets && even == pods, "{counts:?}");
        let live = cluster.edge_pods(namespace, POOL)?.len();
        ensure!(live == pods, "{live} pods");
        Ok(())
    })
}

/// Addresses of pods.
fn addresses(pods: &[Value]) -> Vec<String> {
    pods.iter().filter_map(|pod| pod["status"]["podIP"].as_str().map(str::to_owned)).collect()
}

/// Drops the operator's requests to the pool's pods, and to the gateway, for longer than a pod may be
/// silent. It then queries the cluster's metrics API about the gateway, which it sizes.
fn pass_unreachable(stack: &Stack, cluster: &Cluster, namespace: &str) -> Result<()> {
    let operator = "app.kubernetes.io/name=millrace";
    let operator = addresses(&cluster.list(OPERATOR_NAMESPACE, "pods", operator)?);
    let pods = addresses(&cluster.list(namespace, "pods", OURS)?);
    let blocked = Blocked::between(stack, &operator[0], &pods, ADMIN_PORT)?;
    thread::sleep(UNREACHABLE);
    ensure!(blocked.packets()? > 0, "the operator sent the pods nothing");
    Ok(())
}

/// Scenario: a pool of one pod scrapes 18 targets; it is scaled to three pods, and back to one. While
/// there are three, a network policy keeps the operator from them for 40 s. Guarantee: all pods ask some, each target is asked by one pod at a time: nobody asks one twice in
/// an interval, and none misses more than one interval; the status says that all are up; tables have
/// no sample twice.
#[test]
fn a_pool_that_scrapes_is_scaled_from_one_pod_to_three_and_back() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let targets = Targets::start(HOST_IP.into(), TARGETS).unwrap();
    let wish = Wish { signal: "metrics", edges: Some(edges(&targets, 1)), ..Wish::usual(&stack) };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "sharing", wish).unwrap();
    let namespace = pipeline.namespace.name.clone();
    pipeline.ready().unwrap();
    shared(&cluster, &namespace, (TARGETS, 1)).unwrap();
    let begun = Instant::now();
    for pods in [3, 1] {
        pipeline.change(|wish| wish.edges = Some(edges(&targets, pods))).unwrap();
        shared(&cluster, &namespace, (TARGETS, pods as usize)).unwrap();
        // A target that is being handed over needs both pods' reports.
        shared_at_least(&cluster, &namespace, (TARGETS, pods as usize), TARGETS / pods as usize)
            .unwrap();
        let since = Instant::now();
        if pods > 1 {
            pass_unreachable(&stack, &cluster, &namespace).unwrap();
        }
        thread::sleep(STAYS.saturating_sub(since.elapsed()));
        let by = targets.asked_by(since);
        // The last targets may still move for balance: to another pod, and not back.
        let is_one_by_one = |pods: &Vec<IpAddr>| {
            !pods.is_empty() && pods.iter().collect::<BTreeSet<_>>().len() == pods.len()
        };
        assert!(by.iter().all(is_one_by_one), "one pod at a time asks each: {by:?}");
        let asking: BTreeSet<&IpAddr> = by.iter().flatten().collect();
        assert_eq!(asking.len(), pods as usize, "all pods ask some: {by:?}");
    }
    targets.judge(begun);
    wait::until("the status to say that all are up", LIMIT, || {
        let pool = cluster.get(&namespace, "edgepool", POOL)?;
        let targets = &pool["status"]["targets"];
        ensure!(targets["up"] == TARGETS && targets["assigned"] == TARGETS, "{targets}");
        Ok(())
    })
    .unwrap();
    let twice = "SELECT count() - uniqExact(ResourceAttributes['service.instance.id'], \
                 TimeUnix) FROM DATABASE.otel_metrics_gauge WHERE MetricName = 'up'";
    assert_eq!(pipeline.query(&stack, twice).unwrap().trim(), "0", "no sample is there twice");
    let some = "SELECT count() FROM DATABASE.otel_metrics_gauge WHERE MetricName = 'up'";
    let rows: usize = pipeline.query(&stack, some).unwrap().trim().parse().unwrap();
    assert!(rows >= TARGETS * 8, "{rows} rows of {NAME}");
}
