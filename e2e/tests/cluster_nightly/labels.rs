//! Labels of new pods on a real cluster: pods that come and go send records through an edge with
//! `enrich`, by the address of their connections, while the API server is away for a minute.

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{EDGE, Pipeline, Wish, edge_endpoint, resources};
use millrace_e2e::{binaries, wait};
use millrace_stack::image::{ImageName, ImageSpec};
use millrace_stack::{Component, Stack};
use serde_json::{Value, json};

/// Pods in all: so many at a time, in so many waves.
const WAVES: u64 = 5;
const PODS_OF_WAVE: u64 = 10;
const PODS: u64 = WAVES * PODS_OF_WAVE;
/// Records in all, and of each pod.
const RECORDS: u64 = 1_000_000;
const RECORDS_OF_POD: u64 = RECORDS / PODS;
/// The wave that sends while the API server is away, with pods before and after it.
const WAVE_ALONE: u64 = 2;
/// How long the API server is away.
const AWAY: Duration = Duration::from_secs(60);
/// Records per second of a pod: 20 s for each.
const RATE: u64 = RECORDS_OF_POD / 20;
/// The same of half of [`WAVE_ALONE`], which end after 40 s, while the API server is away.
const RATE_ENDS_ALONE: u64 = RECORDS_OF_POD / 40;
/// Of the other half, which end after 100 s, when it has returned.
const RATE_OUTLASTS: u64 = RECORDS_OF_POD / 100;
/// From a pod's first container to its first record. The kubelet reports an address in about a
/// second, and an edge may notice the API server's return 10 s late (docs/processing.md).
const KNOWN_AFTER_SECONDS: &str = "12";
/// Of 10,000 records, those that have labels.
const LABELED_MIN_OF_10_000: u64 = 9_999;
/// For a wave to start, to send and to end on a busy machine, after the API server's return too.
const LIMIT: Duration = Duration::from_secs(300);
/// The label of the pods that send, which records get, and its value.
const LABEL: &str = "purpose";
const SENDER: &str = "labels";

/// The API server while it is away. It returns with this guard, also if the test fails.
struct ApiServerAway<'s>(&'s Stack);

impl<'s> ApiServerAway<'s> {
    fn begin(stack: &'s Stack) -> Result<Self> {
        let away = Self(stack);
        stack.stop(Component::ApiServer)?;
        Ok(away)
    }

    fn end(self) -> Result<()> {
        Ok(self.0.start(Component::ApiServer)?)
    }
}

impl Drop for ApiServerAway<'_> {
    fn drop(&mut self) {
        // Does nothing if it runs.
        let _ = self.0.start(Component::ApiServer);
    }
}

/// Puts an image of the load generator into the cluster and returns its name.
fn load_sender_image(stack: &Stack) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let archive = folder.path().join("loadgen.tar");
    let name = ImageName::new("millrace/loadgen:labels")?;
    let spec = ImageSpec::new(name.clone(), &binaries::path("millrace-loadgen")?)?;
    spec.stripped().write(&archive)?;
    stack.load_image(&archive)?;
    Ok(name.to_string())
}

/// A pod that sends its share of the records. Its first container is the time that a program takes
/// to start: records before a pod's address is in its status can't be labeled by anybody.
fn sender_pod(image: &str, endpoint: &str, wave: u64, index: u64) -> Value {
    let number = wave * PODS_OF_WAVE + index;
    let rate = match (wave, index % 2) {
        (WAVE_ALONE, 0) => RATE_ENDS_ALONE,
        (WAVE_ALONE, _) => RATE_OUTLASTS,
        _ => RATE,
    };
    let [seed, rate, count] = [number + 1, rate, RECORDS_OF_POD].map(|it| it.to_string());
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("sender-{number}"),
            "labels": {LABEL: SENDER, "wave": wave.to_string()},
        },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "restartPolicy": "Never",
            "initContainers": [{
                "name": "start", "image": image, "imagePullPolicy": "Never",
                "command": ["/node/sleep", KNOWN_AFTER_SECONDS],
                "volumeMounts": [{"name": "node", "mountPath": "/node", "readOnly": true}],
            }],
            "containers": [{
                "name": "send", "image": image, "imagePullPolicy": "Never",
                "args": ["send", "--endpoint", endpoint, "--signal", "logs",
                    "--compression", "gzip", "--seed", seed, "--count", count,
                    "--rate", rate, "--records-per-resource", "50",
                    "--resources-per-request", "2", "--connections", "1", "--in-flight", "2"],
            }],
            "volumes": [{"name": "node", "hostPath": {"path": "/usr/bin"}}],
        },
    })
}

/// What is stored of all senders.
#[derive(Debug)]
struct Stored {
    rows: u64,
    /// Of these, with the label of a pod that sends.
    labeled: u64,
    /// Senders, as their records name them.
    senders: u64,
    /// Pods that the labels name, and pairs of both: as many as senders if none got another's.
    pods: u64,
    pairs: u64,
}

impl Stored {
    /// Each load's services begin with `loadgen-` and eight digits of the load.
    fn query(stack: &Stack, pipeline: &Pipeline<'_>) -> Result<Self> {
        let sql = format!(
            "WITH substring(ServiceName, 1, 16) AS sender, \
             ResourceAttributes['k8s.pod.uid'] AS pod, \
             ResourceAttributes['k8s.pod.label.{LABEL}'] = '{SENDER}' AS is_labeled \
             SELECT count(), countIf(is_labeled), uniqExact(sender), uniqExactIf(pod, is_labeled), \
             uniqExactIf((sender, pod), is_labeled) FROM DATABASE.otel_logs"
        );
        let text = pipeline.query(stack, &sql)?;
        let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
        let [rows, labeled, senders, pods, pairs] = numbers?[..] else {
            bail!("not five numbers: {text}");
        };
        Ok(Self { rows, labeled, senders, pods, pairs })
    }
}

/// Waits until all senders so far have records in the table.
fn wait_until_all_send(stack: &Stack, pipeline: &Pipeline<'_>, senders: u64) {
    wait::until("all pods to send", LIMIT, || {
        let stored = Stored::query(stack, pipeline)?;
        ensure!(stored.senders == senders, "{stored:?}");
        Ok(())
    })
    .unwrap();
}

/// Waits until a wave has sent everything, and deletes its pods.
fn end_wave(cluster: &Cluster, namespace: &str, wave: u64) {
    let selector = format!("{LABEL}={SENDER},wave={wave}");
    wait::until(&format!("wave {wave} to end"), LIMIT, || {
        let pods = cluster.list(namespace, "pods", &selector)?;
        let phases: Vec<&str> =
            pods.iter().filter_map(|pod| pod["status"]["phase"].as_str()).collect();
        assert!(!phases.contains(&"Failed"), "a pod didn't send everything: {phases:?}");
        let ended = phases.iter().filter(|phase| **phase == "Succeeded").count() as u64;
        ensure!(ended == PODS_OF_WAVE, "{phases:?}");
        Ok(())
    })
    .unwrap();
    let delete = ["-n", namespace, "delete", "pods", "-l", &selector, "--wait=false"];
    cluster.kubectl(&delete).unwrap();
}

/// Scenario: 50 pods, ten at a time, send 20,000 log records each and end. While the third ten send,
/// the API server is away for a minute, in which half of them end. Their records name other pods.
/// Guarantee: 99.99 % of all records are in the table with the label, and each of these names the
/// pod that sent it.
///
/// Not claimed: labels on what a pod sends before the kubelet has reported its address, or a new pod
/// within 10 s of the API server's return. So each pod begins with [`KNOWN_AFTER_SECONDS`] without
/// records. No pod can be made while the API server is away, so those of that time are older.
///
/// Slow: five waves of 12 s until pods are known and 20 s of records, one of which takes 100 s.
#[test]
fn records_of_pods_that_come_and_go_are_labeled_through_an_api_server_that_is_away() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let image = load_sender_image(&stack).unwrap();
    let enrich = json!({"name": "pods", "enrich": {"podMetadata": {"labels": [LABEL]}}});
    let clients = json!({"name": "clients", "replicas": 1, "resources": resources(),
        "processing": [enrich]});
    let wish = Wish {
        signal: "logs",
        level: "privileged",
        edges: Some(json!([clients])),
        gateways: Some(1),
        ..Wish::usual(&stack)
    };
    let pipeline = Pipeline::apply(&stack, &cluster, "labels", wish).unwrap();
    let namespace = &*pipeline.namespace.name;
    pipeline.ready().unwrap();
    let endpoint = edge_endpoint(&cluster, namespace, EDGE).unwrap();
    for wave in 0..WAVES {
        let pods: Vec<Value> =
            (0..PODS_OF_WAVE).map(|index| sender_pod(&image, &endpoint, wave, index)).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": pods});
        cluster.apply(namespace, &list.to_string()).unwrap();
        if wave == WAVE_ALONE {
            wait_until_all_send(&stack, &pipeline, (wave + 1) * PODS_OF_WAVE);
            let away = ApiServerAway::begin(&stack).unwrap();
            thread::sleep(AWAY);
            away.end().unwrap();
        } else {
            end_wave(&cluster, namespace, wave);
        }
    }
    end_wave(&cluster, namespace, WAVE_ALONE);
    let stored = wait::until("all records to be stored", LIMIT, || {
        let stored = Stored::query(&stack, &pipeline)?;
        ensure!(stored.rows >= RECORDS, "{stored:?}");
        Ok(stored)
    })
    .unwrap();
    println!("{} of {} records without labels", stored.rows - stored.labeled, stored.rows);
    assert!(stored.labeled * 10_000 >= stored.rows * LABELED_MIN_OF_10_000, "{stored:?}");
    assert_eq!([stored.senders, stored.pods, stored.pairs], [PODS; 3], "{stored:?}");
    pipeline.ready().unwrap();
}
