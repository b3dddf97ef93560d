//! Records of pods that come and go are labeled, through an API server that is away for a minute.
//!
//! The watch, the table and the rules are the product's; the API server and the clients are models.
//! It doesn't prove how soon a real cluster publishes the address of a new pod: a container that
//! sends before that gets no labels.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millrace_pipeline::budget::Budget;
use millrace_pipeline::telemetry::Telemetry;
use millrace_pods::{ApiEndpoint, WatchedPods, start_pods};
use millrace_processing::enrich::{FindPod, PodKey, PodMetadataConfig, RequestOrigin};
use millrace_processing::{Config, Counts, Outcome, RuleSet, Scratch};
use millrace_wire::Signal;
use millrace_wire::protobuf::put_bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::api::server::PATIENCE;

const PODS: usize = 50;
/// How long records are sent, in seconds, and when the API server is away.
const SECONDS: u64 = 180;
const AWAY: std::ops::Range<u64> = 60..120;
/// The first record of a pod follows its address after this many seconds, as containers start after
/// their pod's network is set up.
const STARTUP: u64 = 1;
/// While the API server is away no pod is made. This is how long it takes after that until the
/// first record of a new pod: the scheduler and the kubelet find the server again, too.
const RECOVERY: u64 = 6;
/// The records that a pod sends in a second: 10^6 in all.
const RECORDS: usize = 180;

/// A pod of the model.
#[derive(Clone, Debug)]
struct Pod {
    number: u64,
    address: Ipv4Addr,
    sends_from: u64,
    ends_at: u64,
}

impl Pod {
    fn uid(&self) -> String {
        format!("uid-{:06}", self.number)
    }

    fn object(&self, version: u64, is_terminating: bool) -> Value {
        let deleted_at = is_terminating.then_some("2026-01-01T00:00:00Z");
        json!({
            "metadata": {"name": format!("cart-{}", self.number), "namespace": "shop",
                         "uid": self.uid(), "resourceVersion": version.to_string(),
                         "deletionTimestamp": deleted_at},
            "spec": {"nodeName": "n1", "containers": [{"image": "cart:1"}]},
            "status": {"phase": "Running", "podIP": self.address.to_string()}})
    }
}

/// What the API server knows.
#[derive(Default)]
struct Cluster {
    version: u64,
    pods: BTreeMap<u64, Value>,
    /// The changes since the server's last start, from the version before the first of them.
    changes: Vec<String>,
    first_version: u64,
}

impl Cluster {
    fn change(&mut self, kind: &str, pod: &Pod, is_terminating: bool) {
        self.version += 1;
        let object = pod.object(self.version, is_terminating);
        self.changes.push(format!("{}\n", json!({"type": kind, "object": object})));
        match kind {
            "DELETED" => self.pods.remove(&pod.number),
            _ => self.pods.insert(pod.number, object),
        };
    }

    /// The history is lost with the server's memory.
    fn forget_changes(&mut self) {
        self.changes.clear();
        self.first_version = self.version;
    }

    /// Returns the events of a new watch and the position of the next change; `None` if the version
    /// is too old.
    fn begin_watch(&self, version: u64) -> Option<(Vec<String>, usize)> {
        if version > 0 {
            let position = usize::try_from(version.checked_sub(self.first_version)?).unwrap();
            return Some((Vec::new(), position));
        }
        let added = |object| format!("{}\n", json!({"type": "ADDED", "object": object}));
        let metadata = json!({"resourceVersion": self.version.to_string()});
        let bookmark = json!({"type": "BOOKMARK", "object": {"metadata": metadata}});
        let events = self.pods.values().map(added).chain([format!("{bookmark}\n")]);
        Some((events.collect(), self.changes.len()))
    }
}

/// An API server that can go away.
struct Server {
    address: SocketAddr,
    cluster: Arc<Mutex<Cluster>>,
    changed: watch::Sender<()>,
    task: Option<JoinHandle<()>>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cluster, changed) = (Arc::<Mutex<Cluster>>::default(), watch::Sender::new(()));
        let mut server = Self { address, cluster, changed, task: None };
        server.listen(listener);
        server
    }

    fn listen(&mut self, listener: TcpListener) {
        let (cluster, changed) = (Arc::clone(&self.cluster), self.changed.subscribe());
        self.task = Some(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve_watch(stream, Arc::clone(&cluster), changed.clone()));
            }
        }));
    }

    /// Closes all connections, and refuses new ones.
    async fn go_away(&mut self) {
        let task = self.task.take().unwrap();
        task.abort();
        let _ = task.await;
    }

    async fn come_back(&mut self) {
        self.cluster.lock().unwrap().forget_changes();
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.listen(listener);
    }

    fn change(&self, kind: &str, pod: &Pod, is_terminating: bool) {
        self.cluster.lock().unwrap().change(kind, pod, is_terminating);
        self.changed.send_replace(());
    }
}

async fn serve_watch(
    mut stream: TcpStream,
    cluster: Arc<Mutex<Cluster>>,
    mut changed: watch::Receiver<()>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let version = head.split_once("&resourceVersion=").unwrap().1;
    let version = version.split('&').next().unwrap().parse().unwrap();
    let begun = cluster.lock().unwrap().begin_watch(version);
    let Some((mut events, mut position)) = begun else {
        let _ = stream.write_all(b"HTTP/1.1 410 X\r\ncontent-length: 0\r\n\r\n").await;
        return;
    };
    let mut text = "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
    loop {
        for event in std::mem::take(&mut events) {
            text.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
        }
        if stream.write_all(std::mem::take(&mut text).as_bytes()).await.is_err() {
            return;
        }
        if changed.changed().await.is_err() {
            return;
        }
        let cluster = cluster.lock().unwrap();
        events = cluster.changes[position..].to_vec();
        position = cluster.changes.len();
    }
}

/// The records of all pods, and what became of them.
struct Clients {
    rules: RuleSet,
    request: Vec<u8>,
    scratch: Scratch,
    sent: usize,
    labeled: usize,
    wrong: Vec<String>,
}

impl Clients {
    fn new() -> Self {
        let steps = json!([{"name": "pods", "enrich": {"podMetadata": {}}}]);
        let steps: Config = serde_json::from_value(steps).unwrap();
        let rules = RuleSet::compile(&steps).unwrap();
        let (mut body, mut record, mut scope) = (Vec::new(), Vec::new(), Vec::new());
        put_bytes(&mut body, 0x0a, b"a log line of a pod");
        put_bytes(&mut record, 0x2a, &body);
        (0..RECORDS).for_each(|_| put_bytes(&mut scope, 0x12, &record));
        let (mut group, mut request) = (Vec::new(), Vec::new());
        put_bytes(&mut group, 0x12, &scope);
        put_bytes(&mut request, 0x0a, &group);
        let scratch = Scratch::default();
        Self { rules, request, scratch, sent: 0, labeled: 0, wrong: Vec::new() }
    }

    /// Sends one request of a pod.
    fn send(&mut self, pod: &Pod, pods: &dyn FindPod) {
        let origin = RequestOrigin { client: Some(IpAddr::V4(pod.address)), pods: Some(pods) };
        let (input, mut counts) = ((Signal::Logs, self.request.as_slice()), Counts::default());
        let (scratch, limit) = (&mut self.scratch, 1 << 20);
        let outcome =
            self.rules.run_from(origin, input, limit, scratch, &mut counts, &mut Vec::new());
        self.sent += RECORDS;
        let Outcome::Changed(labeled) = outcome.unwrap() else { return };
        let uid = pod.uid();
        if labeled.windows(uid.len()).any(|bytes| bytes == uid.as_bytes()) {
            self.labeled += RECORDS;
        } else {
            self.wrong.push(uid);
        }
    }
}

/// The cluster's life, second by second.
struct Life {
    server: Server,
    pods: Vec<Pod>,
    made: u64,
    random: u64,
}

impl Life {
    async fn start() -> Self {
        let server = Server::start().await;
        let mut life = Self { server, pods: Vec::new(), made: 0, random: 0x9e37_79b9_7f4a_7c15 };
        for slot in 0..PODS {
            let address = Ipv4Addr::new(10, 0, 0, u8::try_from(slot).unwrap());
            let pod = life.make_pod(address, 0, 0);
            life.pods.push(pod);
        }
        life
    }

    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn make_pod(&mut self, address: Ipv4Addr, now: u64, startup: u64) -> Pod {
        self.made += 1;
        let lives = 10 + self.next_random() % 50;
        let sends_from = now + startup;
        let pod = Pod { number: self.made, address, sends_from, ends_at: sends_from + lives };
        self.server.change("ADDED", &pod, false);
        pod
    }

    /// Replaces pods that have ended by pods with their addresses. The end of the former is
    /// published before the start of the latter, or after it.
    fn replace_ended(&mut self, now: u64, startup: u64) {
        for index in 0..self.pods.len() {
            let ended = self.pods[index].clone();
            if ended.ends_at > now {
                continue;
            }
            let is_late = self.next_random().is_multiple_of(2);
            self.server.change(if is_late { "MODIFIED" } else { "DELETED" }, &ended, true);
            self.pods[index] = self.make_pod(ended.address, now, startup);
            if is_late {
                self.server.change("DELETED", &ended, true);
            }
        }
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Lets a second pass for the watch, whatever it waits for.
async fn pass_second() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(1)).await;
    tokio::time::resume();
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Scenario: 50 pods send 10^6 records; each ends after 10 to 60 s and is replaced by one with its
/// address; the API server is away for a minute, in which pods end but none is made, and comes back
/// without the history of changes. Guarantee: 99.99 % of the records get the metadata of their pod,
/// and none that of another.
#[tokio::test]
async fn records_of_pods_that_come_and_go_are_labeled_through_an_outage_of_the_api_server() {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "token").unwrap();
    let mut life = Life::start().await;
    let url = format!("http://{}", life.server.address);
    let budget = Budget::new(1 << 30);
    let telemetry = Telemetry::new(budget.clone(), "0", "system").unwrap();
    let identities = Some(PodMetadataConfig::default());
    let watched = WatchedPods { node: String::new(), logs: None, identities };
    let endpoint = ApiEndpoint { url, token_file, ca_file: None };
    let table = start_pods(endpoint, watched, &budget, &telemetry).unwrap().identities.unwrap();
    let is_known = |pod: &Pod| table.find_pod(PodKey::Uid(&pod.uid())).is_ok();
    until("the first list", || life.pods.iter().all(is_known)).await;
    let (mut clients, mut back_at) = (Clients::new(), tokio::time::Instant::now());
    for now in 0..SECONDS {
        if now == AWAY.start {
            life.server.go_away().await;
        }
        if now == AWAY.end {
            life.server.come_back().await;
            back_at = tokio::time::Instant::now();
        }
        if !AWAY.contains(&now) {
            let recovered = AWAY.end + RECOVERY;
            let is_late = (AWAY.end..recovered).contains(&now);
            life.replace_ended(now, if is_late { recovered - now } else { STARTUP });
        }
        pass_second().await;
        if !(AWAY.start..AWAY.end + RECOVERY).contains(&now) {
            // The second has passed for the watch, which may need more of this machine's time.
            until("the new pods", || life.pods.iter().all(is_known)).await;
        }
        if now == AWAY.end + RECOVERY {
            let seconds = back_at.elapsed().as_secs();
            assert!(seconds < 2 * RECOVERY, "the watch is back only after {seconds} s");
        }
        for pod in life.pods.iter().filter(|pod| (pod.sends_from..pod.ends_at).contains(&now)) {
            clients.send(pod, &*table);
        }
    }
    let Clients { sent, labeled, wrong, .. } = clients;
    assert!(wrong.is_empty(), "labeled as another pod: {wrong:?}");
    assert!(sent >= 1_000_000 && life.made > 200, "{sent} records of {} pods", life.made);
    assert!(labeled as f64 >= sent as f64 * 0.9999, "{labeled} of {sent}");
}
