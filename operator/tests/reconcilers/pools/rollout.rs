//! How a gateway pool's reconciler rolls a change out, against an API server in memory and a
//! stand-in for the StatefulSet's controller that honours the partition.

mod interrupted;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::pods::PodSample;
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL as POOL, GATEWAY_SET as SET, gateway_pool};

pub(crate) const PODS: &str = "/api/v1/namespaces/telemetry/pods/prod-gateway-";
const TRY: &str = "/api/v1/namespaces/telemetry/pods/prod-gateway-try-";
const BASELINE: &str = "millrace.dev/rollout-baseline";

/// Three pods and what becomes of those with another image.
pub(crate) struct Cluster {
    pub(crate) world: World,
    /// What the container of a pod with this image says instead of being ready.
    pub(crate) spoil: fn(&str) -> Option<Value>,
    /// The pod whose node is lost: nothing becomes of it, and the controller waits for it.
    pub(crate) lost: Option<i64>,
    /// Whether admission refuses pods with this image.
    refuses: fn(&str) -> bool,
    /// The pod that a quota refuses.
    full: Option<i64>,
    /// What becomes of a pod that tries this image.
    tried: fn(&str) -> Value,
    /// Processor seconds for a million records in pods with this image.
    cost: fn(&str) -> f64,
    /// What nodes make of an image's tag now.
    build: &'static str,
    at: u64,
}

impl Cluster {
    pub(crate) async fn settled(replicas: u32) -> Self {
        let world = World::new();
        let pool = gateway_pool(json!({
            "replicas": replicas,
            "collector": {"version": "1.0.0"},
            "rollout": {"canary": {"pods": 1, "analysisSeconds": 60}},
        }));
        world.server.put(POOL, pool);
        let tried = |_: &str| json!({"phase": "Succeeded"});
        let mut cluster = Self {
            world,
            spoil: |_| None,
            lost: None,
            refuses: |_| false,
            full: None,
            tried,
            cost: |_| 5.0,
            build: "aa",
            at: 0,
        };
        cluster.play(30).await;
        assert!(cluster.world.is_ready(POOL), "{:?}", cluster.world.condition(POOL, "Ready"));
        cluster.world.server.take_writes();
        cluster.world.server.take_event_reasons();
        cluster
    }

    /// One whose Kafka asks for a password.
    async fn settled_with_a_password() -> Self {
        let mut cluster = Self::settled(3).await;
        cluster.rotate("first");
        let login = json!({"type": "ScramSha512",
                "usernameSecret": {"name": "kafka-user", "key": "username"},
                "passwordSecret": {"name": "kafka-user", "key": "password"}});
        cluster.world.server.edit(POOL, |pool| {
            pool["spec"]["kafka"]["authentication"] = login;
            pool["spec"]["rollout"] = json!({});
        });
        assert_eq!(*cluster.play(60).await.last().unwrap(), "Stable");
        cluster.play(10).await;
        cluster.world.server.take_writes();
        cluster
    }

    /// Another password.
    fn rotate(&self, password: &str) {
        let encoded = |text: &str| k8s_openapi::ByteString(text.into());
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {},
            "data": {"username": encoded("ingest"), "password": encoded(password)}});
        for name in ["kafka-user", "clickhouse-user"] {
            let path = format!("/api/v1/namespaces/telemetry/secrets/{name}");
            self.world.server.put(&path, secret.clone());
        }
    }

    /// Which Secrets all pods have, by their digest; they have the same.
    fn secrets(&self) -> String {
        let mut digests: Vec<Value> = (0..3)
            .map(|ordinal| self.world.server.get(&format!("{PODS}{ordinal}")).unwrap())
            .map(|pod| pod["metadata"]["annotations"]["millrace.dev/secrets-digest"].clone())
            .collect();
        digests.dedup();
        assert_eq!(digests.len(), 1, "{digests:?}");
        digests[0].as_str().unwrap().to_owned()
    }

    /// Reconciles every five seconds, the StatefulSet's controller in between; gives the stages.
    pub(crate) async fn play(&mut self, seconds: i64) -> Vec<String> {
        let mut stages: Vec<String> = Vec::new();
        for _ in 0..seconds / 5 {
            let _ = self.world.reconcile::<GatewayPools>(POOL).await;
            self.turn();
            self.world.pass(5);
            let stage = self.told()["stage"].as_str().unwrap_or("").to_owned();
            if stages.last() != Some(&stage) {
                stages.push(stage);
            }
        }
        stages
    }

    /// What the kubelet does with pods that try a change.
    fn finish_tries(&self) {
        let server = &self.world.server;
        for (path, pod) in server.select(|path| path.starts_with(TRY)) {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
            if pod["status"]["phase"].is_null() || pod["status"]["phase"] == "Pending" {
                let status = (self.tried)(image);
                let now = self.world.context.clock.now().to_string();
                server.edit(&path, |pod| {
                    pod["status"] = status;
                    let made = &mut pod["metadata"]["creationTimestamp"];
                    if made.is_null() {
                        *made = now.into();
                    }
                });
            }
        }
    }

    /// What the StatefulSet's controller and the kubelet do; and what pods say of themselves.
    pub(crate) fn turn(&mut self) {
        self.at += 1;
        let server = &self.world.server;
        self.finish_tries();
        let Some(set) = server.get(SET) else { return };
        let template = &set["spec"]["template"];
        let revision = revision(template);
        let image = template["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        let replicas = set["spec"]["replicas"].as_i64().unwrap();
        let strategy = &set["spec"]["updateStrategy"]["rollingUpdate"];
        let partition = strategy["partition"].as_i64().unwrap_or(0);
        let now = self.world.context.clock.now().to_string();
        for ordinal in (0..replicas).rev() {
            if self.lost == Some(ordinal) {
                break;
            }
            let path = format!("{PODS}{ordinal}");
            let old = server.get(&path);
            let is_new =
                |pod: &Value| pod["metadata"]["labels"]["controller-revision-hash"] == revision;
            if old.is_none() && self.full == Some(ordinal) {
                continue;
            }
            if old.is_none() || (ordinal >= partition && !old.as_ref().is_some_and(is_new)) {
                if (self.refuses)(&image) {
                    if old.is_some() {
                        server.delete(&path);
                    }
                    break;
                }
                let spoiled = (self.spoil)(&image);
                let ready = if spoiled.is_none() { "True" } else { "False" };
                let container = spoiled.unwrap_or_else(|| json!({}));
                let mut labels = template["metadata"]["labels"].clone();
                labels["controller-revision-hash"] = revision.clone().into();
                let mut status = json!({
                    "podIP": format!("10.0.{}.{}", ordinal / 250, ordinal % 250 + 1),
                    "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": now}],
                    "containerStatuses": [{"name": "collector", "ready": ready == "True",
                        "image": image, "restartCount": 0,
                        "imageID": format!("docker.io/c@sha256:{}", self.build)}],
                });
                let fields = status["containerStatuses"][0].as_object_mut().unwrap();
                fields.extend(container.as_object().unwrap().clone());
                server.put(
                    &path,
                    json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {"labels": labels, "creationTimestamp": now,
                        "annotations": template["metadata"]["annotations"]},
                    "spec": {"containers": [{"name": "collector", "image": image}]},
                    "status": status}),
                );
                self.world.set_pod(&format!("prod-gateway-{ordinal}"), None);
                // One at a time: the next one waits until this one is ready.
                if ready == "False" {
                    break;
                }
            }
        }
        self.report(&set, &revision, replicas);
    }

    fn report(&self, set: &Value, revision: &str, replicas: i64) {
        let server = &self.world.server;
        let pods: Vec<Value> =
            (0..replicas).filter_map(|it| server.get(&format!("{PODS}{it}"))).collect();
        let ready = |pod: &&Value| pod["status"]["conditions"][0]["status"] == "True";
        let newest =
            |pod: &&Value| pod["metadata"]["labels"]["controller-revision-hash"] == revision;
        let updated = pods.iter().filter(newest).count();
        let available = pods.iter().filter(ready).count();
        let whole = updated == pods.len() && available == pods.len();
        let before = set["status"]["currentRevision"].clone();
        let current = if whole || before.is_null() { json!(revision) } else { before };
        server.edit(SET, |set| {
            set["status"] = json!({
                "observedGeneration": set["metadata"]["generation"], "replicas": pods.len(),
                "updatedReplicas": updated, "readyReplicas": available,
                "availableReplicas": available, "updateRevision": revision,
                "currentRevision": current});
        });
        for (ordinal, pod) in pods.iter().enumerate() {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
            let records = self.at * 1_000_000;
            let sample = PodSample {
                records_in: records,
                records_out: records,
                cpu_seconds: (self.cost)(image) * self.at as f64,
                resident_bytes: Some(200 << 20),
                ..PodSample::default()
            };
            self.world.set_pod(&format!("prod-gateway-{ordinal}"), Some(sample));
        }
    }

    pub(crate) fn told(&self) -> Value {
        self.world.server.get(POOL).unwrap()["status"]["rollout"].clone()
    }

    pub(crate) fn wants(&self, version: &str) {
        let version = version.to_owned();
        self.world.server.edit(POOL, |it| it["spec"]["collector"]["version"] = version.into());
    }

    pub(crate) fn says(&self, word: Option<&str>) {
        self.world.server.edit(POOL, |pool| {
            pool["spec"]["rolloutAction"] = match word.unwrap_or_default() {
                "pause" => "Pause".into(),
                "abort" => "Abort".into(),
                _ => Value::Null,
            };
        });
    }

    /// The image of each pod.
    pub(crate) fn images(&self) -> Vec<String> {
        let paths = self.world.server.paths();
        let pods = paths.iter().filter(|path| path.starts_with(PODS) && !path.starts_with(TRY));
        let image = |path: &String| {
            let pod = self.world.server.get(path).unwrap();
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
            image.rsplit(':').next().unwrap().to_owned()
        };
        pods.map(image).collect()
    }

    /// Writes to all but the status, whose lag is dated anew every five minutes.
    fn children_written(&self) -> Vec<String> {
        let writes = self.world.server.take_writes().into_iter().map(|write| write.path);
        writes.filter(|path| !path.ends_with("/status")).collect()
    }

    fn tries(&self) -> usize {
        self.world.server.paths().iter().filter(|path| path.starts_with(TRY)).count()
    }

    fn config_maps(&self) -> usize {
        self.world.server.paths().iter().filter(|path| path.contains("/configmaps/")).count()
    }

    pub(crate) fn ready(&self) -> (String, String) {
        let (status, reason, _) = self.world.condition(POOL, "Ready").unwrap();
        (status, reason)
    }
}

fn revision(template: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    template.to_string().hash(&mut hasher);
    format!("{:x}", hasher.finish())
}

pub(crate) fn pull_fails(image: &str) -> Option<Value> {
    let waiting =
        json!({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such"}}});
    image.contains("bad").then_some(waiting)
}

pub(crate) fn all(image: &str) -> Vec<String> {
    vec![image.to_owned(); 3]
}

/// Scenario: another version that is as good. Guarantee: one pod first and watched, then two, then
/// all; the old template is kept meanwhile and let go after it; not Ready before its end; then a
/// converged pool that writes nothing.
#[tokio::test]
async fn a_good_canary_is_promoted() {
    let mut cluster = Cluster::settled(3).await;
    cluster.wants("2.0.0");
    assert_eq!(cluster.play(40).await, ["Waiting", "Canary", "Analyzing"]);
    assert_eq!(cluster.images(), ["1.0.0-system", "1.0.0-system", "2.0.0-system"]);
    assert_eq!(cluster.ready().0, "False");
    let set = cluster.world.server.get(SET).unwrap();
    assert!(set["metadata"]["annotations"][BASELINE].as_str().unwrap().contains("1.0.0-system"));
    assert_eq!(cluster.play(300).await, ["Analyzing", "Promoting", "Stable"]);
    assert_eq!(cluster.images(), all("2.0.0-system"));
    assert_eq!(cluster.ready(), ("True".into(), "Reconciled".into()));
    let set = cluster.world.server.get(SET).unwrap();
    assert_eq!(set["metadata"]["annotations"][BASELINE], Value::Null);
    let events = cluster.world.server.take_event_reasons();
    for reason in ["RolloutStarted", "RolloutAnalyzing", "RolloutPromoting", "RolloutCompleted"] {
        assert!(events.contains(&reason.to_owned()), "{reason} in {events:?}");
    }
    cluster.world.server.take_writes();
    cluster.play(120).await;
    assert_eq!(cluster.world.server.take_writes(), []);
}

/// Scenario: another version for pools of more pods than a page lists, in name order: those with
/// the highest numbers, which get it first, aren't on the first page. Guarantee: the canary is
/// seen; then, without one, all pods get another and it comes to its end. Slow: each of three pools
/// is reconciled 22 times, the largest with 1,000 pods to list and change.
#[tokio::test]
async fn pools_of_any_size_are_rolled_out_to_their_end() {
    for replicas in [101, 190, 1_000] {
        let mut cluster = Cluster::settled(replicas).await;
        cluster.wants("2.0.0");
        assert_eq!(cluster.play(40).await, ["Waiting", "Canary", "Analyzing"], "{replicas}");
        cluster.world.server.edit(POOL, |pool| pool["spec"]["rollout"] = json!({}));
        cluster.wants("3.0.0");
        assert_eq!(cluster.play(40).await, ["Waiting", "Promoting", "Stable"], "{replicas}");
        assert!(cluster.images().iter().all(|image| image == "3.0.0-system"));
        assert_eq!(cluster.ready().0, "True", "{replicas}");
    }
}

/// Scenario: a version whose image can't be pulled, then a good one. Guarantee: the pod is back in
/// the old version within three minutes, no other was touched, the pool says RolledBack and is
/// stalled, and the bad version is not tried again; the good one is. Slow: the pool is reconciled
/// every five seconds of over half an hour.
#[tokio::test]
async fn a_bad_image_is_rolled_back() {
    let mut cluster = Cluster::settled(3).await;
    cluster.spoil = pull_fails;
    cluster.wants("2.0.0-bad");
    let stages = cluster.play(180).await;
    assert_eq!(stages, ["Waiting", "Canary", "RollingBack", "RolledBack"]);
    assert_eq!(cluster.images(), all("1.0.0-system"));
    assert_eq!(cluster.ready(), ("False".into(), "RolledBack".into()));
    let (stalled, reason, _) = cluster.world.condition(POOL, "Stalled").unwrap();
    assert_eq!((stalled.as_str(), reason.as_str()), ("True", "RolledBack"));
    assert_eq!(cluster.told()["reason"], "ImagePullFailed");
    assert!(cluster.world.server.take_event_reasons().contains(&"RolledBack".to_owned()));
    cluster.world.server.take_writes();
    assert_eq!(cluster.play(1800).await, ["RolledBack"]);
    assert_eq!(cluster.children_written(), Vec::<String>::new());
    cluster.wants("3.0.0");
    assert_eq!(*cluster.play(300).await.last().unwrap(), "Stable");
    assert_eq!(cluster.images(), all("3.0.0-system"));
}

/// Scenario: a Secret is rotated when a change was taken back, while it is taken back, while it is
/// held before its beginning, and while it is tried. Guarantee: it reaches all pods, which run the
/// old unit, at once; what was taken back isn't tried again.
#[tokio::test]
async fn rotated_secrets_reach_pods_of_the_old_unit() {
    for at in ["RolledBack", "RollingBack", "Paused", "Waiting"] {
        let mut cluster = Cluster::settled_with_a_password().await;
        let before = cluster.secrets();
        cluster.spoil = pull_fails;
        cluster.tried = |_| json!({"phase": "Succeeded"});
        match at {
            "Paused" => cluster.says(Some("pause")),
            "Waiting" => cluster.tried = |_| json!({"phase": "Pending"}),
            _ => {}
        }
        cluster.wants("2.0.0-bad");
        while cluster.play(5).await != [at] {}
        cluster.play(5).await;
        cluster.rotate("second");
        cluster.world.server.take_writes();
        let end = if at == "RollingBack" { "RolledBack" } else { at };
        assert_eq!(*cluster.play(60).await.last().unwrap(), end);
        assert_ne!(cluster.secrets(), before, "{at}");
        assert_eq!(cluster.images(), all("1.0.0-system"), "{at}");
        let tries = cluster.children_written();
        assert!(!tries.iter().any(|path| path.starts_with(TRY)), "{at}: {tries:?}");
        cluster.world.server.take_writes();
        cluster.play(60).await;
        assert_eq!(cluster.children_written(), Vec::<String>::new(), "{at}");
    }
}

/// Scenario: a change that needs another Secret besides, which its image refuses for what is in it;
/// then that is mended. Guarantee: no pod is replaced for a Secret that it doesn't have; the change
/// is tried again once the Secret is another one.
#[tokio::test]
async fn a_change_refused_for_its_secret_is_tried_again_with_another() {
    let mut cluster = Cluster::settled_with_a_password().await;
    let before = cluster.world.server.get(SET).unwrap()["spec"].clone();
    cluster.tried = |_| {
        json!({"phase": "Failed", "containerStatuses": [{"name": "collector", "ready": false,
            "image": "x", "imageID": "", "restartCount": 0, "state": {"terminated": {
                "exitCode": 64, "message": "collector.yaml: password: not a text\n"}}}]})
    };
    cluster.world.server.edit(POOL, |pool| {
        pool["spec"]["clickhouse"]["authentication"] = json!({"type": "Password",
 "usernameSecret": {"name": "clickhouse-user", "key": "username"},
 "passwordSecret": {"name": "clickhouse-user", "key": "password"}});
    });
    assert_eq!(cluster.play(60).await, ["Waiting", "RolledBack"]);
    assert_eq!(cluster.world.server.get(SET).unwrap()["spec"], before);
    cluster.tried = |_| json!({"phase": "Succeeded"});
    cluster.rotate("second");
    assert_eq!(cluster.play(60).await, ["Waiting", "Promoting", "Stable"]);
}

/// Scenario: the same without a canary: pods one after another. Guarantee: the same.
#[tokio::test]
async fn a_bad_image_is_rolled_back_without_a_canary_too() {
    let mut cluster = Cluster::settled(3).await;
    cluster.world.server.edit(POOL, |pool| pool["spec"]["rollout"] = json!({}));
    cluster.spoil = pull_fails;
    cluster.wants("2.0.0-bad");
    assert_eq!(cluster.play(180).await, ["Waiting", "Promoting", "RollingBack", "RolledBack"]);
    assert_eq!(cluster.images(), all("1.0.0-system"));
}

/// Scenario: a version that takes twice the processor time. Guarantee: rolled back with the reason
/// and both figures, from its first pod.
#[tokio::test]
async fn a_worse_canary_is_rolled_back_with_the_reason() {
    let mut cluster = Cluster::settled(3).await;
    cluster.cost = |image| if image.contains("2.0.0") { 10.0 } else { 5.0 };
    cluster.wants("2.0.0");
    assert_eq!(
        cluster.play(180).await,
        ["Waiting", "Canary", "Analyzing", "RollingBack", "RolledBack"]
    );
    let told = cluster.told();
    assert_eq!(
        (&told["reason"], &told["report"]["verdict"]),
        (&json!("CanarySlower"), &json!("CanarySlower"))
    );
    let rate = |side: &str| told["report"][side]["recordsPerCpuSecond"].as_i64().unwrap();
    assert_eq!((rate("before"), rate("after")), (200_000, 100_000));
    assert_eq!(cluster.images(), all("1.0.0-system"));
}

/// Scenario: a configuration that the collector of the new version refuses. Guarantee: taken back
/// at the first look at the ended pod, with the collector's words; the old configuration is there.
#[tokio::test]
async fn a_configuration_that_is_refused_is_told_in_the_collectors_words() {
    let mut cluster = Cluster::settled(3).await;
    cluster.spoil = |image| {
        let ended = json!({"restartCount": 1, "lastState": {"terminated": {"exitCode": 64,
            "reason": "Error", "message": "collector.yaml: exporters.x: unknown field\n"}}});
        image.contains("0.9").then_some(ended)
    };
    cluster.wants("0.9.0");
    cluster.world.server.edit(POOL, |pool| pool["spec"]["drainSeconds"] = 30.into());
    assert_eq!(cluster.play(30).await.last().unwrap(), "RolledBack");
    let told = cluster.told();
    assert_eq!(told["reason"], "ConfigurationRejected");
    assert!(told["message"].as_str().unwrap().contains("exporters.x: unknown field"), "{told}");
    let map = told["before"]["configMap"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/telemetry/configmaps/{map}");
    assert!(cluster.world.server.get(&path).is_some());
    cluster.wants("1.0.0");
    assert_eq!(*cluster.play(300).await.last().unwrap(), "Stable");
    assert_eq!(cluster.config_maps(), 1, "the old configuration is pruned at the end");
}

/// Scenario: another configuration, with an image whose `validate` refuses it; then the spec that
/// ran. Guarantee: told in the collector's words; the StatefulSet's spec was never changed, no pod
/// of the pool was, and the pod that tried it is gone; it isn't tried again.
#[tokio::test]
async fn a_configuration_is_tried_with_its_own_image_before_any_pod_changes() {
    let mut cluster = Cluster::settled(1).await;
    let before = cluster.world.server.get(SET).unwrap()["spec"].clone();
    cluster.tried = |_| {
        json!({"phase": "Failed", "containerStatuses": [{"name": "collector", "ready": false,
            "image": "x", "imageID": "", "restartCount": 0, "state": {"terminated": {
                "exitCode": 64, "message": "collector.yaml: exporters.x: unknown field\n"}}}]})
    };
    cluster.wants("0.9.0");
    cluster.world.server.edit(POOL, |pool| pool["spec"]["drainSeconds"] = 30.into());
    assert_eq!(cluster.play(20).await, ["Waiting", "RolledBack"]);
    let told = cluster.told();
    assert_eq!(told["reason"], "ConfigurationRejected");
    assert!(told["message"].as_str().unwrap().contains("exporters.x: unknown field"), "{told}");
    assert_eq!(cluster.ready(), ("False".to_owned(), "RolledBack".to_owned()));
    cluster.play(300).await;
    let written = cluster.children_written();
    let spec = cluster.world.server.get(SET).unwrap()["spec"].clone();
    assert_eq!(spec, before, "only what is gone back to was noted in its annotations");
    let tries = written.iter().filter(|path| path.starts_with(TRY)).count();
    assert_eq!(tries, 2, "one was made and removed: {written:?}");
    assert_eq!(cluster.tries(), 0);
    assert_eq!(cluster.images(), all("1.0.0-system")[..1]);
    cluster.wants("1.0.0");
    cluster.world.server.edit(POOL, |pool| pool["spec"]["drainSeconds"] = 60.into());
    assert_eq!(*cluster.play(60).await.last().unwrap(), "Stable");
    assert_eq!(cluster.ready().0, "True");
    assert_eq!(cluster.config_maps(), 1);
}

/// Scenario: an image that the pod which tries it can't pull either; one of which that pod's node
/// never tells; and a namespace where no pod may be made for it. Guarantee: the first is given up
/// within three minutes with no pod changed; the others are tried by the first pods of the pool.
#[tokio::test]
async fn what_a_try_can_not_tell_the_first_pods_do() {
    let mut cluster = Cluster::settled(3).await;
    cluster.spoil = pull_fails;
    cluster.tried = |image| {
        let pulls = json!([{"name": "collector", "ready": false, "image": "x", "imageID": "",
            "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]);
        let statuses = if image.contains("2.0.0") { pulls } else { Value::Null };
        json!({"phase": "Pending", "containerStatuses": statuses})
    };
    cluster.wants("2.0.0-bad");
    assert_eq!(cluster.play(90).await, ["Waiting", "RolledBack"]);
    assert_eq!(cluster.told()["reason"], "ImagePullFailed");
    assert_eq!(cluster.images(), all("1.0.0-system"));
    assert_eq!(cluster.tries(), 0);
    cluster.wants("3.0.0");
    let stages = cluster.play(500).await;
    assert_eq!(stages, ["Waiting", "Canary", "Analyzing", "Promoting", "Stable"]);
    assert_eq!(cluster.tries(), 0);
    let fault = |method: &http::Method, _: &str| (method == http::Method::POST).then_some(403);
    cluster.world.server.set_fault(Some(Box::new(fault)));
    cluster.wants("4.0.0");
    let stages = cluster.play(300).await;
    assert_eq!(stages, ["Waiting", "Canary", "Analyzing", "Promoting", "Stable"]);
    assert_eq!(cluster.images(), all("4.0.0-system"));
}

/// Scenario: paused while judged, resumed; another one aborted. Guarantee: no pod moves while it is
/// paused; it ends after it; an aborted one goes back and stays. Slow: the pool is reconciled every
/// five seconds of almost half an hour.
#[tokio::test]
async fn a_rollout_is_paused_resumed_and_aborted() {
    let mut cluster = Cluster::settled(3).await;
    cluster.wants("2.0.0");
    cluster.play(40).await;
    cluster.says(Some("pause"));
    assert_eq!(cluster.play(600).await, ["Paused"]);
    assert_eq!(cluster.images(), ["1.0.0-system", "1.0.0-system", "2.0.0-system"]);
    assert_eq!(cluster.ready(), ("False".into(), "RolloutPaused".into()));
    cluster.says(Some("resume"));
    assert_eq!(*cluster.play(300).await.last().unwrap(), "Stable");
    assert!(cluster.world.server.take_event_reasons().contains(&"RolloutResumed".to_owned()));
    cluster.wants("3.0.0");
    cluster.play(40).await;
    cluster.says(Some("abort"));
    assert_eq!(cluster.play(60).await, ["RollingBack", "Aborted"]);
    cluster.says(None);
    assert_eq!(cluster.play(600).await, ["Aborted"]);
    assert_eq!(cluster.images(), all("2.0.0-system"));
    assert_eq!(cluster.ready(), ("False".into(), "RolloutAborted".into()));
}

/// Scenario: another allocator, in a pool of three and in a pool of one. Guarantee: rolled out with
/// a report of both sides that stays in the status. Slow: two pools are reconciled every five
/// seconds of half an hour.
#[tokio::test]
async fn another_allocator_is_rolled_out_and_reported() {
    for replicas in [3, 1] {
        let mut cluster = Cluster::settled(replicas).await;
        cluster.play(900).await;
        cluster.cost = |image| if image.ends_with("jemalloc") { 4.0 } else { 5.0 };
        let change = |pool: &mut Value| pool["spec"]["collector"]["allocator"] = "jemalloc".into();
        cluster.world.server.edit(POOL, change);
        assert_eq!(*cluster.play(400).await.last().unwrap(), "Stable");
        cluster.play(600).await;
        let told = cluster.told();
        assert_eq!(told["before"]["allocator"], "system");
        assert_eq!(told["after"]["allocator"], "jemalloc");
        assert_eq!(told["report"]["verdict"], "Passed");
        let rate = |side: &str| told["report"][side]["recordsPerCpuSecond"].as_i64().unwrap();
        assert_eq!((rate("before"), rate("after")), (200_000, 250_000), "{replicas}");
        assert!(cluster.images().iter().all(|image| image == "1.0.0-jemalloc"));
    }
}

/// Scenario: the tag that pods run is moved, and one pod is made anew; then another version is asked
/// for. Guarantee: the builds that pods run stand in the status, a warning tells of the second one,
/// and no pod is replaced for it; the old unit keeps its builds.
#[tokio::test]
async fn a_tag_that_was_moved_under_running_pods_is_told() {
    let mut cluster = Cluster::settled(3).await;
    cluster.play(10).await;
    assert_eq!(cluster.told()["after"]["imageDigests"], json!(["sha256:aa"]));
    cluster.world.server.take_event_reasons();
    cluster.build = "bb";
    cluster.world.server.delete(&format!("{PODS}1"));
    cluster.world.server.take_writes();
    assert_eq!(cluster.play(60).await, ["Stable"]);
    assert_eq!(cluster.told()["after"]["imageDigests"], json!(["sha256:aa", "sha256:bb"]));
    let events = cluster.world.server.take_event_reasons();
    assert_eq!(events.iter().filter(|it| *it == "ImageTagMoved").count(), 1, "{events:?}");
    assert_eq!(cluster.children_written(), Vec::<String>::new());
    cluster.wants("2.0.0");
    assert_eq!(*cluster.play(300).await.last().unwrap(), "Stable");
    assert_eq!(cluster.told()["after"]["imageDigests"], json!(["sha256:bb"]));
    let before = cluster.told()["before"]["imageDigests"].clone();
    assert_eq!(before, json!(["sha256:aa", "sha256:bb"]));
}

/// Scenario: the operator is restarted at every look of a rollout, good and bad. Guarantee: it ends
/// as it would have.
#[tokio::test]
async fn a_restarted_operator_goes_on() {
    for (version, end) in [("2.0.0", "Stable"), ("2.0.0-bad", "RolledBack")] {
        let mut cluster = Cluster::settled(3).await;
        cluster.spoil = pull_fails;
        cluster.wants(version);
        for _ in 0..120 {
            cluster.play(5).await;
            cluster.world.restart("0.1.0");
        }
        assert_eq!(cluster.told()["stage"], end);
        let image = if end == "Stable" { "2.0.0-system" } else { "1.0.0-system" };
        assert_eq!(cluster.images(), all(image));
    }
}

/// Scenario: the status can't be written for the first half minute in which a bad image is in the
/// template. Guarantee: the old template is not lost; it is gone back to.
#[tokio::test]
async fn a_status_that_is_not_written_loses_no_way_back() {
    let mut cluster = Cluster::settled(3).await;
    cluster.spoil = pull_fails;
    cluster.wants("2.0.0-bad");
    assert_eq!(cluster.play(10).await, ["Waiting"]);
    let fault = |_: &http::Method, path: &str| path.ends_with("/status").then_some(500);
    cluster.world.server.set_fault(Some(Box::new(fault)));
    cluster.play(30).await;
    assert!(cluster.images().contains(&"2.0.0-bad-system".to_owned()));
    cluster.world.server.set_fault(None);
    assert_eq!(*cluster.play(180).await.last().unwrap(), "RolledBack");
    assert_eq!(cluster.images(), all("1.0.0-system"));
}

/// Scenario: another version is asked for while one is judged, then the first again. Guarantee: the
/// newest wins each time.
#[tokio::test]
async fn an_edit_during_a_rollout_wins() {
    let mut cluster = Cluster::settled(3).await;
    cluster.wants("2.0.0");
    cluster.play(80).await;
    cluster.wants("3.0.0");
    let stages = cluster.play(300).await;
    assert_eq!(stages, ["Waiting", "Canary", "Analyzing", "Promoting", "Stable"]);
    assert_eq!(cluster.images(), all("3.0.0-system"));
    assert_eq!(cluster.told()["before"]["image"], "millrace/collector:1.0.0-system");
    cluster.wants("4.0.0");
    cluster.play(40).await;
    cluster.wants("3.0.0");
    assert_eq!(*cluster.play(60).await.last().unwrap(), "Stable");
    assert_eq!(cluster.images(), all("3.0.0-system"));
}

/// Scenario: the operator is upgraded to another release, for a pool with and one without a version.
/// Guarantee: nothing is written.
#[tokio::test]
async fn an_operator_upgrade_alone_restarts_nothing() {
    for version in [json!("1.0.0"), Value::Null] {
        let mut cluster = Cluster::settled(3).await;
        cluster.world.server.edit(POOL, |it| it["spec"]["collector"]["version"] = version.clone());
        cluster.play(30).await;
        cluster.world.server.take_writes();
        cluster.world.restart("9.9.9");
        cluster.play(600).await;
        assert_eq!(cluster.children_written(), Vec::<String>::new());
        assert_eq!(cluster.images(), all("1.0.0-system"));
    }
}

/// Scenario: admission refuses the pods of another version: the first pod is deleted and never made
/// again; with automatic rollback and without. Guarantee: after 150 s the pool says so; no other
/// pod is touched; with rollback all pods are back.
#[tokio::test]
async fn a_change_whose_pods_are_refused_is_rolled_back() {
    for rolls_back in [true, false] {
        let mut cluster = Cluster::settled(3).await;
        cluster.world.server.edit(POOL, |pool| {
            pool["spec"]["rollout"]["autoRollback"] = rolls_back.into();
        });
        cluster.refuses = |image| image.contains("2.0.0");
        cluster.wants("2.0.0");
        cluster.play(120).await;
        assert_eq!(cluster.images(), ["1.0.0-system"; 2]);
        cluster.play(120).await;
        assert_eq!(cluster.told()["reason"], "PodCreationFailed", "{:?}", cluster.told());
        let pods = if rolls_back { 3 } else { 2 };
        assert_eq!(cluster.images(), vec!["1.0.0-system"; pods]);
        let reason = if rolls_back { "RolledBack" } else { "PodCreationFailed" };
        assert_eq!(cluster.ready(), ("False".into(), reason.into()));
    }
}

/// Scenario: a pool whose pods have labels and annotations that admission decides by, and another
/// version. Guarantee: the trial pod has them too, and is not taken for one of the pool's.
#[tokio::test]
async fn a_trial_pod_has_labels_and_annotations_of_the_pools_pods() {
    let mut cluster = Cluster::settled(1).await;
    cluster.world.server.edit(POOL, |pool| {
        pool["spec"]["podTemplate"]["metadata"] = json!({"labels": {"team": "observability"},
            "annotations": {"example.com/exempt": "yes"}});
    });
    cluster.wants("2.0.0");
    for _ in 0..3 {
        let _ = cluster.world.reconcile::<GatewayPools>(POOL).await;
    }
    let tries = cluster.world.server.select(|path| path.starts_with(TRY));
    let metadata = &tries[0].1["metadata"];
    assert_eq!(metadata["labels"]["team"], "observability");
    assert_eq!(metadata["annotations"]["example.com/exempt"], "yes");
    assert_eq!(metadata["labels"]["app.kubernetes.io/name"], "millrace-preflight");
    cluster.play(10).await;
}

/// Scenario: a quota refuses one pod: from before a change; from before, with an operator that
/// restarts during the change; a pod that is added during the change. Guarantee: the pool reports
/// the pod before a change too; nothing is rolled back; the other pods have the new version. Slow:
/// three pools are reconciled every few seconds of a quarter of an hour.
#[tokio::test]
async fn a_pod_that_did_not_exist_when_a_change_began_rolls_nothing_back() {
    for case in ["before", "restart", "added"] {
        let mut cluster = Cluster::settled(4).await;
        cluster.world.server.edit(POOL, |pool| {
            pool["spec"]["rollout"] = json!({});
            pool["spec"]["replicas"] = 4.into();
        });
        cluster.play(20).await;
        cluster.full = Some(if case == "added" { 4 } else { 1 });
        if case != "added" {
            cluster.world.server.delete(&format!("{PODS}1"));
            cluster.play(200).await;
            let (stalled, reason, _) = cluster.world.condition(POOL, "Stalled").unwrap();
            assert_eq!((stalled.as_str(), reason.as_str()), ("True", "PodCreationFailed"));
            let text = cluster.world.server.get(POOL).unwrap()["status"]["conditions"].to_string();
            assert!(text.contains("pod prod-gateway-1 was not created"), "{text}");
        }
        cluster.wants("2.0.0");
        // Until some pods have it.
        while !cluster.images().iter().any(|image| image.contains("2.0.0")) {
            cluster.play(5).await;
        }
        match case {
            "restart" => cluster.world.restart("9.9.9"),
            "added" => {
                cluster.world.server.edit(POOL, |pool| pool["spec"]["replicas"] = 5.into());
            }
            _ => {}
        }
        let stages = cluster.play(600).await;
        let is_back = |stage: &String| stage.starts_with("Roll");
        assert!(!stages.iter().any(is_back), "{case}: {stages:?} {:?}", cluster.told());
        let pods = if case == "added" { 4 } else { 3 };
        assert_eq!(cluster.images(), vec!["2.0.0-system"; pods], "{case}");
        let (stalled, reason, _) = cluster.world.condition(POOL, "Stalled").unwrap();
        assert_eq!((stalled.as_str(), reason.as_str()), ("True", "PodCreationFailed"), "{case}");
        cluster.full = None;
        cluster.play(60).await;
        assert!(cluster.world.is_ready(POOL), "{case}: {:?}", cluster.told());
    }
}

/// Scenario: admission refuses a version's pods; the change is paused and, minutes later, resumed.
/// Guarantee: 150 s after that it is rolled back, and not at once.
#[tokio::test]
async fn a_refused_pod_is_found_after_a_pause() {
    let mut cluster = Cluster::settled(3).await;
    cluster.refuses = |image| image.contains("2.0.0");
    cluster.wants("2.0.0");
    cluster.play(60).await;
    cluster.says(Some("pause"));
    cluster.play(300).await;
    assert_eq!(cluster.told()["stage"], "Paused");
    cluster.says(None);
    cluster.play(100).await;
    assert_eq!(cluster.told()["stage"], "Canary", "{:?}", cluster.told());
    cluster.play(100).await;
    assert_eq!(cluster.told()["reason"], "PodCreationFailed", "{:?}", cluster.told());
    assert_eq!(cluster.images(), ["1.0.0-system"; 3]);
}
