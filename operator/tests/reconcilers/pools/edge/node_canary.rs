//! How a change reaches a pool of nodes by a few of them first, against an API server in memory and
//! a stand-in for the DaemonSet's controller that honours `OnDelete`.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::pods::{NodeLogsSample, PodSample};
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;

const POOL: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/edgepools/prod";
const SET: &str = "/apis/apps/v1/namespaces/telemetry/daemonsets/prod-edge";
const PODS: &str = "/api/v1/namespaces/telemetry/pods/prod-edge-";
const BASELINE: &str = "millrace.dev/rollout-baseline";

/// Nodes with a pod each, and what becomes of pods with another image.
struct Nodes {
    world: World,
    nodes: usize,
    /// Whether pods with this image come up.
    is_fine: fn(&str) -> bool,
    /// What a pod with this image says after so many seconds.
    says: fn(&str, u64) -> PodSample,
    /// The node that doesn't answer: nothing becomes of its pod.
    lost: Option<usize>,
    /// Whether admission refuses pods with this image.
    refuses: fn(&str) -> bool,
    /// The node whose pod a quota refuses.
    full: Option<usize>,
    /// Whether admission rewrites images of pods to a mirror's.
    rewrites: bool,
    made: u64,
    seconds: u64,
}

/// A pod that reads 1 MB and 10,000 records a second.
fn reads_well(_: &str, seconds: u64) -> PodSample {
    let node_logs = NodeLogsSample {
        behind_bytes: Some(1 << 20),
        accepted_bytes: Some((seconds + 1) * 1_000_000),
        confirmed_bytes: Some(seconds * 1_000_000),
        ..NodeLogsSample::default()
    };
    PodSample {
        records_in: seconds * 10_000,
        records_out: seconds * 10_000,
        cpu_seconds: seconds as f64,
        resident_bytes: Some(30 << 20),
        node_logs,
        ..PodSample::default()
    }
}

impl Nodes {
    async fn settled(nodes: usize, canary: Value) -> Self {
        let world = World::new();
        let spec = json!({
            "kafka": {"bootstrapServers": ["kafka:9092"]}, "signals": {"logs": {}},
            "mode": "DaemonSet", "receivers": {"containers": {}},
            "collector": {"version": "1.0.0"}, "rollout": {"canary": canary},
        });
        world.server.put(
            POOL,
            json!({"apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool", "metadata": {},
                "spec": spec}),
        );
        let mut all = Self {
            world,
            nodes,
            is_fine: |_| true,
            says: reads_well,
            lost: None,
            refuses: |_| false,
            full: None,
            rewrites: false,
            made: 0,
            seconds: 0,
        };
        all.play(60).await;
        assert!(all.world.is_ready(POOL), "{:?}", all.world.condition(POOL, "Ready"));
        all.world.server.take_writes();
        all.world.server.take_event_reasons();
        all
    }

    /// Reconciles every five seconds, the DaemonSet's controller in between; gives the stages.
    async fn play(&mut self, seconds: u64) -> Vec<String> {
        let mut stages: Vec<String> = Vec::new();
        for _ in 0..seconds / 5 {
            let _ = self.world.reconcile::<EdgePools>(POOL).await;
            let stage = self.told()["stage"].as_str().unwrap_or("").to_owned();
            if stages.last() != Some(&stage) {
                stages.push(stage);
            }
            self.world.finish_tries();
            self.turn();
            self.world.pass(5);
            self.seconds += 5;
        }
        stages
    }

    /// The pods of all nodes, each with its path, by node.
    fn pods(&self) -> Vec<(String, Value)> {
        let ours = |path: &str| path.starts_with(PODS) && !path.contains("-try-");
        let mut pods = self.world.server.select(ours);
        pods.sort_by_key(|(_, pod)| pod["spec"]["nodeName"].to_string());
        pods
    }

    /// The version that each node's pod runs, if it has one.
    fn versions(&self) -> Vec<String> {
        let version = |pod: &Value| {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
            image.rsplit(':').next().unwrap().replace("-system", "")
        };
        self.pods().iter().map(|(_, pod)| version(pod)).collect()
    }

    fn of(&self, version: &str) -> usize {
        self.versions().iter().filter(|it| *it == version).count()
    }

    /// What the DaemonSet's controller and the kubelet do; and what pods say of themselves.
    fn turn(&mut self) {
        let Some(set) = self.world.server.get(SET) else { return };
        let template = set["spec"]["template"].clone();
        let image = template["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        let revision = revision(&template);
        let is_new =
            |pod: &Value| pod["metadata"]["labels"]["controller-revision-hash"] == revision;
        let is_ready = |pod: &Value| pod["status"]["conditions"][0]["status"] == "True";
        let lost = self.lost.map(|node| format!("node-{node}"));
        let is_lost = |node: &str| lost.as_deref() == Some(node);
        let mut pods = self.pods();
        if set["spec"]["updateStrategy"]["type"] == "RollingUpdate" {
            let away = self.nodes - pods.iter().filter(|(_, pod)| is_ready(pod)).count();
            let mut room = self.nodes.div_ceil(10).saturating_sub(away);
            pods.retain(|(path, pod)| {
                let node = pod["spec"]["nodeName"].as_str().unwrap();
                let is_free = !is_ready(pod);
                let is_replaced = !is_new(pod) && !is_lost(node) && (is_free || room > 0);
                if is_replaced {
                    room -= usize::from(!is_free);
                    self.world.server.delete(path);
                }
                !is_replaced
            });
        }
        let node_of =
            |(_, pod): &(String, Value)| pod["spec"]["nodeName"].as_str().map(str::to_owned);
        let nodes_with_pod: BTreeSet<String> = pods.iter().filter_map(node_of).collect();
        let made_before = self.made;
        for number in 0..self.nodes {
            let node = format!("node-{number}");
            if nodes_with_pod.contains(&node) {
                continue;
            }
            if (self.refuses)(&image) || self.full == Some(number) {
                continue;
            }
            self.made += 1;
            self.make(&template, &revision, &node, (self.is_fine)(&image));
        }
        if self.made > made_before {
            pods = self.pods();
        }
        for (path, pod) in &pods {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
            let sample = (self.says)(image, self.seconds);
            let name = path.rsplit('/').next().unwrap();
            self.world.set_pod(name, is_ready(pod).then_some(sample));
        }
        let count = |is: &dyn Fn(&Value) -> bool| pods.iter().filter(|(_, pod)| is(pod)).count();
        let status = json!({"observedGeneration": set["metadata"]["generation"],
            "desiredNumberScheduled": self.nodes, "currentNumberScheduled": pods.len(),
            "updatedNumberScheduled": count(&is_new), "numberReady": count(&is_ready),
            "numberAvailable": count(&is_ready), "numberMisscheduled": 0});
        self.world.server.edit(SET, |set| set["status"] = status);
    }

    fn make(&self, template: &Value, revision: &str, node: &str, is_fine: bool) {
        let now = self.world.context.clock.now().to_string();
        let mut labels = template["metadata"]["labels"].clone();
        labels["controller-revision-hash"] = revision.into();
        let ready = if is_fine { "True" } else { "False" };
        let mut container = json!({"name": "collector", "ready": is_fine, "restartCount": 0,
            "image": "x", "imageID": ""});
        if !is_fine {
            container["restartCount"] = 2.into();
            container["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        }
        let mut spec = template["spec"].clone();
        spec["nodeName"] = node.into();
        if self.rewrites {
            let image = &mut spec["containers"][0]["image"];
            *image = format!("mirror.example/{}", image.as_str().unwrap()).into();
        }
        let path = format!("{PODS}{:05}", self.made);
        self.world.server.put(
            &path,
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"labels": labels, "creationTimestamp": now,
                    "annotations": template["metadata"]["annotations"]},
                "spec": spec,
                "status": {"podIP": format!("10.0.0.{}", self.made), "containerStatuses": [container],
                    "conditions": [
                        {"type": "Ready", "status": ready, "lastTransitionTime": now},
                        {"type": "ContainersReady", "status": ready}]}}),
        );
    }

    fn told(&self) -> Value {
        self.world.server.get(POOL).unwrap()["status"]["pendingChange"].clone()
    }

    fn wants(&self, version: &str) {
        self.world.server.edit(POOL, |it| it["spec"]["collector"]["version"] = version.into());
    }

    fn says_of_rollout(&self, word: &str) {
        self.world.server.edit(POOL, |pool| {
            pool["spec"]["rolloutAction"] = match word {
                "pause" => "Pause".into(),
                "abort" => "Abort".into(),
                _ => Value::Null,
            };
        });
    }

    fn strategy(&self) -> Value {
        self.world.server.get(SET).unwrap()["spec"]["updateStrategy"]["type"].clone()
    }

    fn ready(&self) -> (String, String) {
        let (status, reason, _) = self.world.condition(POOL, "Ready").unwrap();
        (status, reason)
    }
}

fn revision(template: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    template.to_string().hash(&mut hasher);
    format!("{:x}", hasher.finish())
}

fn canary(pods: u32) -> Value {
    json!({"pods": pods, "analysisSeconds": 60})
}

/// Scenario: another version that is as good, in a pool of twenty nodes with two canaries.
/// Guarantee: no third node has it before the two were watched for their time; then all get it, in
/// tenths; not Ready before the end, told with the figures; a converged pool writes nothing.
#[tokio::test]
async fn a_change_goes_to_a_few_nodes_first_and_then_to_all() {
    let mut nodes = Nodes::settled(20, canary(2)).await;
    nodes.wants("2.0.0");
    assert_eq!(nodes.play(40).await, ["Validating", "Canary", "Analyzing"]);
    assert_eq!((nodes.of("1.0.0"), nodes.of("2.0.0")), (18, 2));
    assert_eq!(nodes.strategy(), "OnDelete");
    assert_eq!(nodes.ready(), ("False".into(), "PodsNotReady".into()));
    let set = nodes.world.server.get(SET).unwrap();
    assert!(set["metadata"]["annotations"][BASELINE].as_str().unwrap().contains("1.0.0-system"));
    nodes.play(30).await;
    assert_eq!(nodes.of("2.0.0"), 2);
    assert_eq!(nodes.play(40).await, ["Analyzing", "RollingOut"]);
    let text = nodes.told()["message"].as_str().unwrap().to_owned();
    assert!(text.contains("10000 records per CPU-second") && text.contains("before: "), "{text}");
    assert_eq!(nodes.play(120).await, ["RollingOut", ""]);
    assert_eq!(nodes.of("2.0.0"), 20);
    assert_eq!((nodes.ready().0.as_str(), nodes.strategy()), ("True", "RollingUpdate".into()));
    let events = nodes.world.server.take_event_reasons();
    for reason in ["RolloutStarted", "RolloutAnalyzing", "RolloutPromoting", "RolloutCompleted"] {
        assert!(events.contains(&reason.to_owned()), "{reason} in {events:?}");
    }
    let set = nodes.world.server.get(SET).unwrap();
    assert_eq!(set["metadata"]["annotations"][BASELINE], Value::Null);
    nodes.world.server.take_writes();
    nodes.play(60).await;
    let writes = nodes.world.server.take_writes().into_iter().map(|write| write.path);
    // Figures of nodes are dated anew.
    let children: Vec<String> = writes.filter(|path| !path.ends_with("/status")).collect();
    assert_eq!(children, [""; 0]);
}

/// What a bad reader does with its node's files.
fn reads_badly(image: &str, seconds: u64, how: fn(&mut NodeLogsSample, u64)) -> PodSample {
    let mut sample = reads_well(image, seconds);
    if image.contains("2.0.0") {
        how(&mut sample.node_logs, seconds);
    }
    sample
}

/// Scenario: a version whose pods are up, and read what they never send, fall behind, lose lines,
/// read nothing, or drop all by a rule. Guarantee: no other node gets it, both canaries return to what ran, the pool
/// says why, and it is not tried again. Slow: five pools of ten nodes are reconciled every five
/// seconds of about a quarter of an hour.
#[tokio::test]
async fn nodes_that_read_worse_are_brought_back_with_the_reason() {
    type Says = fn(&str, u64) -> PodSample;
    let cases: [(&str, Says, u64); 5] = [
        (
            "CanaryRecordsUnaccounted",
            |image, at| reads_badly(image, at, |it, _| it.confirmed_bytes = Some(0)),
            150,
        ),
        (
            "CanaryFallsBehind",
            |image, at| reads_badly(image, at, |it, at| it.behind_bytes = Some(at * 500_000)),
            150,
        ),
        (
            "CanaryLosesLogs",
            |image, at| reads_badly(image, at, |it, at| it.lost_bytes = at * 100_000),
            150,
        ),
        (
            "CanaryReadsNothing",
            |image, at| {
                let all = reads_well(image, at);
                let is_new = image.contains("2.0.0");
                let node_logs =
                    NodeLogsSample { behind_bytes: Some(0), ..NodeLogsSample::default() };
                if is_new { PodSample { node_logs, ..PodSample::default() } } else { all }
            },
            300,
        ),
        (
            "CanaryDropsAll",
            |image, at| {
                let all = reads_well(image, at);
                let records_dropped = if image.contains("2.0.0") { all.records_in } else { 0 };
                let records_out = all.records_in - records_dropped;
                PodSample { records_dropped, records_out, ..all }
            },
            150,
        ),
    ];
    for (reason, says, seconds) in cases {
        let mut nodes = Nodes::settled(10, canary(2)).await;
        nodes.says = says;
        nodes.wants("2.0.0");
        let stages = nodes.play(seconds).await;
        assert_eq!(stages, ["Validating", "Canary", "Analyzing", "RolledBack"], "{reason}");
        assert_eq!(nodes.told()["reason"], reason);
        assert_eq!(nodes.of("1.0.0"), 10, "{reason}");
        assert_eq!(nodes.ready(), ("False".into(), "RolledBack".into()));
        nodes.world.server.take_writes();
        nodes.play(600).await;
        assert_eq!(nodes.of("1.0.0"), 10);
        nodes.wants("1.0.0");
        nodes.play(10).await;
        assert_eq!(nodes.ready().0, "True");
    }
}

/// Scenario: a version whose pods crash. Guarantee: only the first nodes ever had it.
#[tokio::test]
async fn a_version_that_crashes_reaches_the_first_nodes_alone() {
    let mut nodes = Nodes::settled(30, canary(3)).await;
    nodes.is_fine = |image| !image.contains("2.0.0");
    nodes.wants("2.0.0");
    assert_eq!(nodes.play(60).await, ["Validating", "Canary", "RolledBack"]);
    assert_eq!(nodes.told()["reason"], "PodCrashing");
    nodes.play(60).await;
    assert_eq!((nodes.of("1.0.0"), nodes.made), (30, 36));
}

/// Scenario: the operator ends at each of its first writes of a change to the first nodes, or the
/// API server refuses there. Guarantee: it ends as if it had not been, and never more nodes than
/// are to be first have it while it is watched. Slow: ten pools of ten nodes are reconciled every
/// five seconds of seven minutes.
#[tokio::test]
async fn an_operator_that_ends_anywhere_goes_on_with_the_first_nodes() {
    for cut in 0..10 {
        let mut nodes = Nodes::settled(10, canary(2)).await;
        nodes.wants("2.0.0");
        let mut seen = 0;
        nodes.world.server.set_fault(Some(Box::new(move |method, path| {
            if method == http::Method::GET || path.contains("/events") {
                return None;
            }
            seen += 1;
            (seen == cut + 1).then_some(500)
        })));
        for _ in 0..15 {
            nodes.play(5).await;
            nodes.world.restart("0.2.0");
            assert!(nodes.of("2.0.0") <= 2, "cut {cut}: {:?}", nodes.versions());
        }
        nodes.play(300).await;
        assert_eq!((nodes.of("2.0.0"), nodes.ready().0.as_str()), (10, "True"), "cut {cut}");
    }
}

/// Scenario: held while the first nodes are watched; resumed; then a change that is aborted there.
/// Guarantee: held, no further node gets it for any time; resumed, it is watched anew; aborted, all
/// return. Slow: a pool of ten nodes is reconciled every five seconds of over 20 minutes.
#[tokio::test]
async fn the_first_nodes_can_be_held_resumed_and_taken_back() {
    let mut nodes = Nodes::settled(10, canary(1)).await;
    nodes.wants("2.0.0");
    nodes.play(40).await;
    nodes.says_of_rollout("pause");
    nodes.play(900).await;
    assert_eq!((nodes.of("2.0.0"), nodes.ready().1), (1, "RolloutPaused".into()));
    nodes.says_of_rollout("resume");
    nodes.play(50).await;
    assert_eq!((nodes.of("2.0.0"), nodes.told()["stage"].clone()), (1, "Analyzing".into()));
    nodes.play(120).await;
    assert_eq!(nodes.of("2.0.0"), 10);
    nodes.wants("3.0.0");
    nodes.play(40).await;
    assert_eq!(nodes.of("3.0.0"), 1);
    nodes.says_of_rollout("abort");
    nodes.play(60).await;
    assert_eq!((nodes.of("2.0.0"), nodes.ready().1), (10, "RolloutAborted".into()));
}

/// Scenario: the spec changes again while the first nodes have a change. Guarantee: the other
/// change goes to the same nodes first; what is gone back to is still what all ran.
#[tokio::test]
async fn another_change_begins_at_the_same_nodes() {
    let mut nodes = Nodes::settled(10, canary(2)).await;
    nodes.wants("2.0.0");
    nodes.play(40).await;
    nodes.wants("3.0.0");
    nodes.play(40).await;
    assert_eq!((nodes.of("1.0.0"), nodes.of("3.0.0")), (8, 2), "{:?}", nodes.versions());
    nodes.wants("1.0.0");
    nodes.play(60).await;
    assert_eq!((nodes.of("1.0.0"), nodes.ready().0.as_str()), (10, "True"));
}

/// Scenario: fewer nodes than are to be first. Guarantee: all get it, are compared with their own
/// past, and return when they perform worse. Slow: two pools are reconciled every five seconds of a
/// quarter of an hour.
#[tokio::test]
async fn a_pool_of_few_nodes_is_compared_with_its_past() {
    for (is_worse, version) in [(false, "2.0.0"), (true, "1.0.0")] {
        let mut nodes = Nodes::settled(2, canary(3)).await;
        nodes.play(700).await;
        if is_worse {
            nodes.says = |image, at| {
                let well = reads_well(image, at);
                let cost = if image.contains("2.0.0") { 3.0 } else { 1.0 };
                PodSample { cpu_seconds: well.cpu_seconds * cost, ..well }
            };
        }
        nodes.wants("2.0.0");
        nodes.play(200).await;
        assert_eq!(nodes.of(version), 2, "{:?}", nodes.told());
        let reason = nodes.told()["reason"].clone();
        assert_eq!(reason, if is_worse { json!("CanarySlower") } else { Value::Null });
    }
}

/// Scenario: the node of a first pod is lost while that is watched. Guarantee: nothing is taken
/// back; another node takes its place, and the change goes out, but for that node.
#[tokio::test]
async fn another_node_takes_the_place_of_one_that_is_lost() {
    let mut nodes = Nodes::settled(20, canary(1)).await;
    nodes.wants("2.0.0");
    nodes.play(40).await;
    let new = nodes.versions().iter().position(|it| it == "2.0.0").unwrap();
    nodes.lost = Some(new);
    let (path, _) = nodes.pods()[new].clone();
    let long_ago = nodes.world.context.clock.now() - jiff::SignedDuration::from_secs(300);
    nodes.world.server.edit(&path, |pod| {
        pod["status"]["conditions"] = json!([
            {"type": "Ready", "status": "False", "lastTransitionTime": long_ago.to_string()},
            {"type": "ContainersReady", "status": "True"}]);
    });
    nodes.play(20).await;
    assert_eq!(nodes.of("2.0.0"), 2);
    nodes.play(200).await;
    assert_eq!(nodes.told()["stage"], "RollingOut");
    assert_eq!(nodes.of("2.0.0"), 20);
    assert_eq!(nodes.ready(), ("False".into(), "PodsNotReady".into()));
}

/// Scenario: a pool that finds no node; one whose nodes are all lost before any pod could be
/// replaced. Guarantee: the first has a change at once; the second waits for its nodes, says so, and
/// takes nothing back.
#[tokio::test]
async fn without_nodes_a_change_waits_for_nobody() {
    let mut nodes = Nodes::settled(0, canary(1)).await;
    nodes.wants("2.0.0");
    nodes.play(60).await;
    let image = "millrace/collector:2.0.0-system";
    let template = nodes.world.server.get(SET).unwrap()["spec"]["template"].clone();
    assert_eq!(template["spec"]["containers"][0]["image"], image);
    assert_eq!((nodes.told(), nodes.ready().0.as_str()), (Value::Null, "True"));

    let mut nodes = Nodes::settled(1, canary(1)).await;
    nodes.lost = Some(0);
    let (path, _) = nodes.pods()[0].clone();
    let long_ago = nodes.world.context.clock.now() - jiff::SignedDuration::from_secs(300);
    nodes.world.server.edit(&path, |pod| {
        pod["status"]["conditions"] = json!([
            {"type": "Ready", "status": "False", "lastTransitionTime": long_ago.to_string()},
            {"type": "ContainersReady", "status": "True"}]);
    });
    nodes.wants("2.0.0");
    nodes.play(1_200).await;
    assert_eq!((nodes.told()["stage"].clone(), nodes.of("1.0.0")), ("Canary".into(), 1));
    let (stalled, ..) = nodes.world.condition(POOL, "Stalled").unwrap();
    assert_eq!((nodes.ready().1.as_str(), stalled.as_str()), ("PodsNotReady", "True"));
}

/// Scenario: the operator has no right to delete pods; then it has. Guarantee: no node changes and
/// the pool says what is refused; then the change continues automatically.
#[tokio::test]
async fn without_the_right_to_delete_pods_no_node_changes() {
    let mut nodes = Nodes::settled(10, canary(2)).await;
    let fault = |method: &http::Method, path: &str| {
        let is_ours = path.starts_with(PODS) && !path.contains("-try-");
        (*method == http::Method::DELETE && is_ours).then_some(403)
    };
    nodes.world.server.set_fault(Some(Box::new(fault)));
    nodes.wants("2.0.0");
    nodes.play(120).await;
    assert_eq!(nodes.of("1.0.0"), 10);
    let status = nodes.world.server.get(POOL).unwrap()["status"].clone();
    assert!(status["conditions"].to_string().contains("delete Pod"), "{status}");
    assert_eq!(nodes.world.condition(POOL, "Stalled").unwrap().0, "True");
    nodes.world.server.set_fault(None);
    nodes.play(40).await;
    assert_eq!(nodes.of("2.0.0"), 2);
}

/// Scenario: admission refuses the pods of another version, with canaries and without. Guarantee:
/// no pod is deleted but those that were to be first, or that the DaemonSet's controller replaces;
/// after 150 s the change is rolled back with the reason, and all nodes have what ran.
#[tokio::test]
async fn a_change_whose_pods_are_refused_is_rolled_back() {
    for (settings, gone) in [(canary(2), 2), (Value::Null, 1)] {
        let mut nodes = Nodes::settled(10, settings).await;
        nodes.refuses = |image| image.contains("2.0.0");
        nodes.wants("2.0.0");
        nodes.play(150).await;
        assert_eq!(nodes.of("1.0.0"), 10 - gone);
        nodes.play(60).await;
        assert_eq!(nodes.told()["stage"], "RolledBack");
        assert_eq!(nodes.told()["reason"], "PodCreationFailed", "{:?}", nodes.told());
        nodes.play(30).await;
        assert_eq!(nodes.of("1.0.0"), 10);
        assert_eq!(nodes.ready(), ("False".into(), "RolledBack".into()));
    }
}

/// Scenario: admission rewrites the images of pods to a mirror's, and another version is asked for:
/// a good one, then one whose pods crash. Guarantee: two canaries and no further pod are replaced
/// before they are judged; all get the good one; the bad one is rolled back. Slow: a pool of twenty
/// nodes is reconciled every five seconds of eight minutes.
#[tokio::test]
async fn pods_whose_images_admission_rewrites_are_known_by_what_they_were_made_for() {
    let mut nodes = Nodes::settled(20, canary(2)).await;
    nodes.rewrites = true;
    nodes.wants("2.0.0");
    assert_eq!(nodes.play(40).await, ["Validating", "Canary", "Analyzing"]);
    assert_eq!((nodes.of("1.0.0"), nodes.of("2.0.0")), (18, 2));
    assert_eq!(nodes.play(200).await.last().unwrap(), "");
    assert_eq!(nodes.of("2.0.0"), 20);
    nodes.is_fine = |image| !image.contains("3.0.0");
    nodes.wants("3.0.0");
    nodes.play(120).await;
    assert_eq!(nodes.told()["stage"], "RolledBack", "{:?}", nodes.told());
    nodes.play(60).await;
    assert_eq!(nodes.of("2.0.0"), 20);
}

/// The pod of a node.
fn pod_of(nodes: &Nodes, number: usize) -> String {
    let node = format!("node-{number}");
    let pods = nodes.pods();
    pods.iter().find(|(_, pod)| pod["spec"]["nodeName"] == node.as_str()).unwrap().0.clone()
}

/// Scenario: a quota refuses one node's pod, long before another version is requested; with
/// canaries and without; then the operator restarts in the middle of the change. Guarantee: the
/// pool reports the absent pod before, and during the change; nothing is rolled back and all other
/// nodes get the version. Slow: three pools of thirty nodes are reconciled every five seconds of a
/// quarter of an hour.
#[tokio::test]
async fn a_pod_that_was_absent_before_a_change_rolls_nothing_back() {
    for (settings, restarts) in [(canary(2), false), (Value::Null, false), (Value::Null, true)] {
        let mut nodes = Nodes::settled(30, settings).await;
        nodes.full = Some(7);
        let pod = pod_of(&nodes, 7);
        nodes.world.server.delete(&pod);
        nodes.play(60).await;
        assert_ne!(nodes.world.condition(POOL, "Stalled").unwrap().0, "True", "not for long yet");
        nodes.play(120).await;
        let (stalled, reason, _) = nodes.world.condition(POOL, "Stalled").unwrap();
        assert_eq!((stalled.as_str(), reason.as_str()), ("True", "PodCreationFailed"));
        nodes.wants("2.0.0");
        let mut stages = nodes.play(20).await;
        if restarts {
            nodes.world.restart("9.9.9");
        }
        stages.extend(nodes.play(600).await);
        assert!(!stages.contains(&"RolledBack".to_owned()), "{stages:?} {:?}", nodes.told());
        assert_eq!(nodes.of("2.0.0"), 29, "{stages:?}");
        assert_eq!(nodes.world.condition(POOL, "Stalled").unwrap().1, "PodCreationFailed");
        nodes.full = None;
        nodes.play(30).await;
        assert_eq!((nodes.of("2.0.0"), nodes.ready().0.as_str()), (30, "True"));
    }
}

/// Scenario: one pod of forty is not made again after half of the nodes have another version; then
/// a quarter isn't. Guarantee: one in ten or fewer is reported and rolls nothing back; more do.
/// Slow: a pool of forty nodes is reconciled every five seconds of a quarter of an hour.
#[tokio::test]
async fn a_few_refused_pods_of_many_are_reported_and_roll_nothing_back() {
    let mut nodes = Nodes::settled(40, Value::Null).await;
    nodes.wants("2.0.0");
    while nodes.of("2.0.0") < 20 {
        nodes.play(5).await;
    }
    let number = (0..40).find(|number| {
        let pod = nodes.world.server.get(&pod_of(&nodes, *number)).unwrap();
        pod["spec"]["containers"][0]["image"].as_str().unwrap().contains("1.0.0")
    });
    nodes.full = number;
    nodes.play(300).await;
    assert_eq!(nodes.of("2.0.0"), 39);
    assert_eq!(nodes.told()["stage"], "RollingOut", "{:?}", nodes.told());
    let (stalled, reason, _) = nodes.world.condition(POOL, "Stalled").unwrap();
    assert_eq!((stalled.as_str(), reason.as_str()), ("True", "PodCreationFailed"));
    nodes.refuses = |_| true;
    for number in (0..40).filter(|it| nodes.full != Some(*it)).take(10) {
        nodes.world.server.delete(&pod_of(&nodes, number));
    }
    nodes.play(160).await;
    assert_eq!(nodes.told()["stage"], "RolledBack", "{:?}", nodes.told());
    assert_eq!(nodes.told()["reason"], "PodCreationFailed");
}

/// Scenario: admission refuses a version's pods; the change is paused and, minutes later, resumed.
/// Without automatic rollback the pool is only watched. Guarantee: 150 s after it is resumed the
/// change is rolled back, not at once; without automatic rollback the pool reports the refusal.
/// Slow: three pools of ten nodes are reconciled every five seconds of about ten minutes.
#[tokio::test]
async fn refused_pods_are_found_after_a_pause_and_reported_without_rollback() {
    for settings in [canary(2), Value::Null] {
        let mut nodes = Nodes::settled(10, settings).await;
        nodes.refuses = |image| image.contains("2.0.0");
        nodes.wants("2.0.0");
        nodes.play(60).await;
        nodes.says_of_rollout("pause");
        nodes.play(300).await;
        nodes.says_of_rollout("");
        nodes.play(100).await;
        assert_ne!(nodes.told()["stage"], "RolledBack", "{:?}", nodes.told());
        nodes.play(100).await;
        assert_eq!(nodes.told()["reason"], "PodCreationFailed", "{:?}", nodes.told());
        assert_eq!(nodes.told()["stage"], "RolledBack");
    }
    let mut nodes = Nodes::settled(10, Value::Null).await;
    let stays = |pool: &mut Value| pool["spec"]["rollout"] = json!({"autoRollback": false});
    nodes.world.server.edit(POOL, stays);
    nodes.refuses = |image| image.contains("2.0.0");
    nodes.wants("2.0.0");
    nodes.play(300).await;
    assert_eq!(nodes.told()["stage"], "RollingOut", "{:?}", nodes.told());
    assert_eq!(nodes.world.condition(POOL, "Stalled").unwrap().1, "PodCreationFailed");
}
