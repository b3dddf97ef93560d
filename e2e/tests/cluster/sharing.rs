//! Scrape targets of a pool that is scaled, on a real cluster: who asks them, and how often.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{NAME, Pipeline, Wish, resources};
use millrace_e2e::wait;
use millrace_stack::Stack;
use millrace_stack::node::HOST_IP;
use serde_json::{Value, json};

/// Targets, and the time between two scrapes of one.
const TARGETS: usize = 18;
const INTERVAL: Duration = Duration::from_secs(15);
/// Pods start, are given targets, and balance.
const LIMIT: Duration = Duration::from_secs(180);
/// Four scrapes of each target with so many pods.
const STAYS: Duration = Duration::from_secs(60);
/// A busy machine scrapes late.
const SLACK: Duration = Duration::from_secs(4);
const POOL: &str = "p-scraper";

/// When a target was asked, and by which pod's address.
type Asked = Arc<Mutex<Vec<(Instant, IpAddr)>>>;

/// Targets that note who asks. Their threads end with them.
struct Targets {
    addresses: Vec<String>,
    asked: Vec<Asked>,
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Targets {
    fn start(host: IpAddr) -> Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let mut targets =
            Self { addresses: Vec::new(), asked: Vec::new(), ends, threads: Vec::new() };
        for _ in 0..TARGETS {
            let listener = TcpListener::bind((host, 0)).context("cannot listen for scrapes")?;
            let (asked, ends) = (Asked::default(), targets.ends.clone());
            targets.addresses.push(listener.local_addr()?.to_string());
            targets.asked.push(asked.clone());
            targets.threads.push(thread::spawn(move || {
                for stream in listener.incoming() {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    let _ = stream.map(|stream| answer(stream, &asked));
                }
            }));
        }
        Ok(targets)
    }

    /// Which pods asked each target since then, one after the other.
    fn asked_by(&self, since: Instant) -> Vec<Vec<IpAddr>> {
        let by = |asked: &Asked| {
            let asked = asked.lock().unwrap();
            let by = asked.iter().filter(|(at, _)| *at >= since).map(|(_, by)| *by);
            let mut by: Vec<IpAddr> = by.collect();
            by.dedup();
            by
        };
        self.asked.iter().map(by).collect()
    }

    /// No target was asked twice in an interval, or missed more than one.
    fn judge(&self, since: Instant) {
        for (asked, address) in self.asked.iter().zip(&self.addresses) {
            let asked = asked.lock().unwrap();
            let times: Vec<Instant> =
                asked.iter().map(|(at, _)| *at).filter(|at| *at >= since).collect();
            for pair in times.windows(2) {
                let gap = pair[1].duration_since(pair[0]);
                assert!(gap > INTERVAL - SLACK, "{address} was asked twice within {gap:?}");
                assert!(gap < INTERVAL * 2 + SLACK, "{address} was not asked for {gap:?}");
            }
            let last = times.last().map_or(Duration::MAX, Instant::elapsed);
            assert!(last < INTERVAL * 2 + SLACK, "{address} was not asked for {last:?}");
        }
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for address in &self.addresses {
            // Wakes its thread.
            let _ = TcpStream::connect(address);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Notes the scrape and answers with one series.
fn answer(mut stream: TcpStream, asked: &Asked) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let by = stream.peer_addr()?.ip();
    let mut head = Vec::new();
    let mut some = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut some)?;
        ensure!(read > 0 && head.len() < 65_536, "no request");
        head.extend_from_slice(&some[..read]);
    }
    asked.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), by));
    let body = "# TYPE requests counter\nrequests_total 1\n";
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}

fn edges(targets: &Targets, pods: u32) -> Value {
    let jobs = json!([{"name": "numbers", "targets": targets.addresses,
        "intervalSeconds": INTERVAL.as_secs(), "timeoutSeconds": 5}]);
    json!([{"name": "scraper", "replicas": pods, "resources": resources(),
        "receivers": {"prometheus": {"jobs": jobs}}}])
}

/// Waits until so many pods have shares, and each a part of what it should.
fn shared(cluster: &Cluster, namespace: &str, pods: usize) -> Result<()> {
    let least = TARGETS / pods - 2;
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
        ensure!(all == TARGETS && even == pods, "{counts:?}");
        let live = cluster.edge_pods(namespace, POOL)?.len();
        ensure!(live == pods, "{live} pods");
        Ok(())
    })
}

/// Scenario: a pool of one pod scrapes 18 targets; it is scaled to three pods, and back to one.
/// Guarantee: all pods ask some, each target is asked by one pod at a time: nobody asks one twice in
/// an interval, and none misses more than one interval; the status says that all are up; tables have
/// no sample twice.
#[test]
fn a_pool_that_scrapes_is_scaled_from_one_pod_to_three_and_back() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let targets = Targets::start(HOST_IP.into()).unwrap();
    let wish = Wish {
        signal: "metrics",
        gateways: Some(1),
        edges: Some(edges(&targets, 1)),
        ..Wish::usual(&stack)
    };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "sharing", wish).unwrap();
    let namespace = pipeline.namespace.name.clone();
    pipeline.ready().unwrap();
    shared(&cluster, &namespace, 1).unwrap();
    let begun = Instant::now();
    for pods in [3, 1] {
        pipeline.change(|wish| wish.edges = Some(edges(&targets, pods))).unwrap();
        shared(&cluster, &namespace, pods as usize).unwrap();
        let since = Instant::now();
        thread::sleep(STAYS);
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
        let told = &pool["status"]["targets"];
        ensure!(told["up"] == TARGETS && told["shared"] == TARGETS, "{told}");
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
