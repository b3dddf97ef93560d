//! Log files of a real node: a pod writes numbered lines, the real kubelet rotates and compresses
//! them, and an edge pool on the node, beside one for clients, reads them into ClickHouse.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use millrace_e2e::cluster::{Cluster, condition_of};
use millrace_e2e::pipeline::{EDGE, Pipeline, Wish};
use millrace_e2e::wait;
use millrace_stack::Stack;
use millrace_stack::numbered::{self, Numbered, POD, Stored};
use serde_json::{Value, json};

/// Lines that the pod writes, in bursts: half a minute, some 20 MB, 10 rotations at the stack's
/// size.
const LINES: u64 = 80_000;
const BURST: u64 = 1_000;
const WRITER: Numbered = Numbered { lines: LINES, burst: BURST, pause_seconds: "0.3" };
/// For the last line to be stored once all are written.
const LIMIT: Duration = Duration::from_secs(120);
/// What may be sent again after a kill (docs/files.md): 8 requests in flight and the one being
/// filled, 1 MiB each, and what was confirmed since positions were last written, a second's. A
/// record of these lines takes more than 200 bytes, and 4 bursts are written within a second.
const REPEATS_MAX: u64 = 9 * (1 << 20) / 200 + 4 * BURST;
/// Lines that may be there without the pod's label: a file waits a second for it, at three starts,
/// and the API server of a busy machine may take longer once.
const UNLABELED_MAX: u64 = LINES / 10;

/// A pod that numbers its lines until it has to leave, and says last how many it wrote.
const LEAVER: &str = "leaver";
/// Steps that it writes at least before it is told to: several of the reader's turns.
const STEPS: u64 = 2_000;

/// The EdgePool on nodes.
const ON_NODES: &str = "p-nodes";

/// The pod of the edge pool on nodes.
fn agent(cluster: &Cluster, namespace: &str) -> Result<Value> {
    let mut pods = cluster.edge_pods(namespace, ON_NODES)?;
    ensure!(pods.len() == 1, "{} pods", pods.len());
    Ok(pods.remove(0))
}

/// Log files of the writer that the kubelet keeps: the one being written and rotated ones.
fn kept(cluster: &Cluster, namespace: &str) -> Vec<String> {
    let list = numbered::list_files(namespace);
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    cluster.kubectl(&list).unwrap().split_whitespace().map(str::to_owned).collect()
}

/// Makes the pod that leaves, with what the other writer's has.
fn leaver(namespace: &str, image: &str) -> String {
    let script = "trap 'echo last $i; exit 0' TERM; i=0; \
                  while :; do echo step $i; i=$((i+1)); \
                  [ $((i % 100)) -ne 0 ] || /node/sleep 0.1; done";
    let mut pod = WRITER.pod(namespace, image);
    pod["metadata"]["name"] = LEAVER.into();
    pod["spec"]["terminationGracePeriodSeconds"] = 10.into();
    pod["spec"]["containers"][0]["command"] = json!(["/node/dash", "-c", script]);
    pod.to_string()
}

/// What is stored of it: different steps, the number behind the highest, what it said last (0 while
/// that isn't there).
fn steps(stack: &Stack, pipeline: &Pipeline<'_>) -> Result<[u64; 3]> {
    let sql = format!(
        "SELECT uniqExactIf(Body, startsWith(Body, 'step ')), \
         maxIf(toUInt64OrZero(substring(Body, 6)) + 1, startsWith(Body, 'step ')), \
         maxIf(toUInt64OrZero(substring(Body, 6)), startsWith(Body, 'last ')) \
         FROM DATABASE.otel_logs \
         WHERE ResourceAttributes['k8s.pod.name'] = '{LEAVER}'"
    );
    let text = pipeline.query(stack, &sql)?;
    let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    numbers?.try_into().map_err(|_| anyhow::anyhow!("not three numbers: {text}"))
}

/// Evicts a pod that writes, as a node that is drained does; the kubelet deletes its files with it.
/// All that it wrote has to be stored.
fn evicted_in_mid_line(stack: &Stack, cluster: &Cluster, pipeline: &Pipeline<'_>, image: &str) {
    let namespace = pipeline.namespace.name.as_str();
    cluster.apply(namespace, &leaver(namespace, image)).unwrap();
    wait::until("a pod's first steps to be stored", LIMIT, || {
        let [different, ..] = steps(stack, pipeline)?;
        ensure!(different >= STEPS, "{different} steps");
        Ok(())
    })
    .unwrap();
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": LEAVER, "namespace": namespace}});
    let path = format!("/api/v1/namespaces/{namespace}/pods/{LEAVER}/eviction");
    let create = ["create", "--raw", &path, "-f", "-"];
    let spoken = cluster.call(&create, &eviction.to_string()).unwrap();
    assert!(spoken.ok, "{}", spoken.err);
    // A partition's rows may come before another's that were written earlier, so the last line says
    // only how many there have to be.
    wait::until("all lines of a pod to be stored", LIMIT, || {
        let [different, steps, said] = steps(stack, pipeline)?;
        // The signal comes before or after the number goes up.
        let is_whole = different == steps && (steps == said || steps == said + 1);
        ensure!(said > 0 && is_whole, "{different} of {steps} steps; {said} were written");
        Ok(())
    })
    .unwrap();
}

fn reached(stack: &Stack, pipeline: &Pipeline<'_>, uid: &str, lines: u64) -> Stored {
    let query = numbered::query("DATABASE", &pipeline.namespace.name, uid);
    wait::until(&format!("{lines} lines to be stored"), LIMIT, || {
        let text = pipeline.query(stack, &query)?;
        let now = Stored::read(&text).with_context(|| format!("not three numbers: {text}"))?;
        ensure!(now.different >= lines, "{now:?}");
        Ok(now)
    })
    .unwrap()
}

/// The line that a chooser's pod writes.
fn chosen_lines(stack: &Stack, pipeline: &Pipeline<'_>) -> Result<String> {
    let sql = "SELECT arrayStringConcat(arraySort(groupArray(Body)), ' ') FROM DATABASE.otel_logs \
               WHERE startsWith(Body, 'of-')";
    Ok(pipeline.query(stack, sql)?.trim().to_owned())
}

/// Scenario: a pool reads the namespaces with a label; a pod in one that has it and one in another
/// write a line each. The other gets the label, and its pod had written before. Guarantee: first the
/// one line alone is stored, and within [`LIMIT`] of the label the other, from its beginning.
#[test]
fn namespaces_are_read_once_they_have_the_label() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let level = "privileged";
    let one = cluster.namespace_enforcing(level, "one").unwrap();
    let other = cluster.namespace_enforcing(level, "other").unwrap();
    // Labels are the cluster's: pools of other tests that run now read neither by it.
    let label = format!("millrace.dev/test={}", one.name);
    let put = |namespace: &str| cluster.kubectl(&["label", "namespace", namespace, &label]);
    put(&one.name).unwrap();
    let selector = json!({"matchLabels": {"millrace.dev/test": one.name}});
    let nodes = json!({"name": "nodes", "mode": "DaemonSet",
        "receivers": {"containers": {"startAt": "Beginning", "namespaceSelector": selector}}});
    let wish = Wish {
        signal: "logs",
        level: "privileged",
        edges: Some(json!([nodes])),
        gateways: Some(1),
        ..Wish::usual(&stack)
    };
    let pipeline = Pipeline::apply(&stack, &cluster, "by-label", wish).unwrap();
    pipeline.ready().unwrap();
    let reader = agent(&cluster, &pipeline.namespace.name).unwrap();
    let image = reader["spec"]["containers"][0]["image"].as_str().unwrap();
    for (namespace, name) in [(&other, "other"), (&one, "one")] {
        let mut pod = WRITER.pod(&namespace.name, image);
        let script = format!("echo of-{name}; exec /node/sleep 600");
        pod["spec"]["containers"][0]["command"] = json!(["/node/dash", "-c", script]);
        pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap().pop();
        pod["spec"]["volumes"].as_array_mut().unwrap().pop();
        cluster.apply(&namespace.name, &pod.to_string()).unwrap();
    }
    let until = |expected: &str| {
        wait::until(&format!("{expected} to be stored"), LIMIT, || {
            let came = chosen_lines(&stack, &pipeline)?;
            ensure!(came == expected, "{came}");
            Ok(())
        })
        .unwrap();
    };
    wait::until("the other pod to have written", LIMIT, || {
        let said = cluster.kubectl(&["-n", &other.name, "logs", POD])?;
        ensure!(said.contains("of-other"), "{said}");
        Ok(())
    })
    .unwrap();
    until("of-one");
    put(&other.name).unwrap();
    until("of-one of-other");
}

/// Scenario: a pod writes numbered lines that the kubelet rotates every few seconds; meanwhile the
/// reading pod is killed, and later replaced by another allocator's. Guarantee: every line is in
/// the table, unaltered, with its pod's name, namespace and container, and with its label and node
/// but for those of a second after a start; repeats stay within what docs/files.md states. The pool
/// says that its node is read. Another pod, evicted while it writes, has every line in the table. In
/// the end the pool on nodes is taken out: it goes with its pods, and that for clients stays.
#[test]
fn lines_rotated_by_the_kubelet_outlive_a_kill_and_a_rollout() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let clients = json!({"name": "clients", "replicas": 1});
    let nodes = json!({"name": "nodes", "mode": "DaemonSet",
        "receivers": {"containers": {"startAt": "Beginning"}}});
    let wish = Wish {
        signal: "logs",
        level: "privileged",
        edges: Some(json!([clients, nodes])),
        gateways: Some(1),
        ..Wish::usual(&stack)
    };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "files", wish).unwrap();
    let namespace = pipeline.namespace.name.clone();
    pipeline.ready().unwrap();
    let first = agent(&cluster, &namespace).unwrap();
    let image = first["spec"]["containers"][0]["image"].as_str().unwrap();
    cluster.apply(&namespace, &WRITER.pod(&namespace, image).to_string()).unwrap();
    let writer = cluster.get(&namespace, "pod", POD).unwrap();
    let uid = writer["metadata"]["uid"].as_str().unwrap();

    reached(&stack, &pipeline, uid, LINES / 8);
    let killed = first["metadata"]["name"].as_str().unwrap();
    let kill = ["-n", &namespace, "delete", "pod", killed, "--grace-period=0", "--force"];
    cluster.kubectl(&kill).unwrap();
    reached(&stack, &pipeline, uid, LINES / 3);
    pipeline.change(|wish| wish.allocator = "mimalloc").unwrap();
    let Stored { different, labeled, rows } = reached(&stack, &pipeline, uid, LINES);

    assert_eq!(different, LINES);
    assert!(labeled >= LINES - UNLABELED_MAX, "{labeled} of {LINES} lines with the pod's label");
    let kept = kept(&cluster, &namespace);
    assert!(kept.len() > 2, "it was not rotated twice: {kept:?}");
    assert!(kept.iter().any(|file| file.ends_with(".gz")), "nothing was compressed: {kept:?}");
    println!("{} of {LINES} lines twice", rows - different);
    assert!(rows - different <= REPEATS_MAX, "{rows} rows of {LINES} lines");
    wait::until("the other allocator's pod", LIMIT, || {
        let now = agent(&cluster, &namespace)?;
        let image = now["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        ensure!(image.ends_with("-mimalloc"), "{image}");
        Ok(())
    })
    .unwrap();
    pipeline.ready().unwrap();
    wait::until("the pool to say that its node is read", LIMIT, || {
        let pool = cluster.get(&namespace, "edgepool", ON_NODES)?;
        let status = &pool["status"];
        let nodes = &status["nodes"];
        ensure!(nodes["reading"] == 1 && nodes["unreachable"] == 0, "{status}");
        // Other pods' logs may have gone unread while the pod was away.
        let lost = condition_of(&pool, "LogsLost");
        ensure!(!lost.is_null() && lost["status"] != "Unknown", "{status}");
        Ok(())
    })
    .unwrap();

    evicted_in_mid_line(&stack, &cluster, &pipeline, image);

    pipeline.change(|wish| wish.edges = Some(json!([clients]))).unwrap();
    wait::until("the pool on nodes to go", LIMIT, || {
        let left = cluster.edge_pods(&namespace, ON_NODES)?.len();
        ensure!(left == 0 && cluster.get(&namespace, "edgepool", ON_NODES).is_err(), "{left} pods");
        Ok(())
    })
    .unwrap();
    pipeline.ready().unwrap();
    assert_eq!(cluster.edge_pods(&namespace, EDGE).unwrap().len(), 1);
}
